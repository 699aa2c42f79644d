/* offload.c - activations that wait in the host's memory from forward to backward (plan: offload_layers).
 *
 * As Transformer Engine's CPU offloading does it (its double buffer): what a layer keeps is copied to the host while
 * the next layer is computed, and comes back while the layer behind it goes backward. Copies take turns on the device's
 * copy stream. When links are slower than compute, compute waits.
 *
 * Not modelled: that the bandwidth of the host's memory is shared by the GPUs of a node.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lowering/footprint.h"

static uint32_t first_unit(const struct mq_low *low, uint32_t stage)
{
	return low->num.unit_of[low->num.stage_op[low->num.stage_first[stage]]];
}

static void plan_stage(struct mq_low *low, uint32_t stage)
{
	uint32_t room = low->num.stage_first[stage + 1] - low->num.stage_first[stage];
	uint32_t devices = low->prog.schedule->n_devices, first = first_unit(low, stage), n;
	uint32_t units = low->num.unit_of[low->num.stage_op[low->num.stage_first[stage + 1] - 1]] - first + 1;
	double *leaves_B = mq_arena_array(&low->scratch, (size_t)units * devices, double);
	struct mq_op_use *use = mq_arena_array(&low->scratch, room, struct mq_op_use);

	for (uint32_t d = 0; d < devices; d++) {
		mq_footprint_of(low, stage, low->prog.schedule->device[d], use, &n);
		for (uint32_t i = 0; i < n; i++)
			if (use[i].away)
				leaves_B[(low->num.unit_of[use[i].op] - first) * devices + d] +=
					use[i].kept_B + use[i].first_entry_B;
	}
	low->offload.leaves_B[stage] = leaves_B;
}

void mq_offload_plan(struct mq_low *low)
{
	low->offload.leaves_B = mq_arena_array(&low->scratch, low->num.n_stages, double *);
	if (!low->plan->offload_layers || low->train->infer || low->num.explicit_backward)
		return;
	for (uint32_t s = 0; s < low->num.n_stages; s++)
		if (low->num.stage_first[s] != low->num.stage_first[s + 1])
			plan_stage(low, s);
}

/* Copies of what a unit keeps; *copied [devices] are their tasks. Nothing where it keeps nothing away. */
static void copy_unit(struct mq_low *low, uint32_t stage, uint32_t unit, bool to_host)
{
	const double *leaves_B = low->offload.leaves_B[stage];
	uint32_t devices = low->prog.schedule->n_devices, first = first_unit(low, stage);

	for (uint32_t d = 0; d < devices; d++) {
		struct mq_task task = { .device = d,
					.kind = MQ_TASK_COPY,
					.to_host = to_host,
					.stream = MQ_STREAM_COPY,
					.dtype = (uint8_t)low->train->dtype,
					.comm = MQ_NONE,
					.peer = MQ_NONE,
					.op = MQ_NONE,
					.micro_batch = MQ_NONE,
					.phase = to_host ? MQ_FORWARD : MQ_BACKWARD };
		struct mq_ids after = { 0 };

		low->emit.copied[d] = MQ_NONE;
		task.bytes = leaves_B[(unit - first) * devices + d];
		if (!(task.bytes > 0))
			continue;
		uint32_t sealed = mq_emit_seal(low, d);
		mq_ids_add(low, &after, sealed == MQ_NONE ? MQ_DEP_STREAM(MQ_STREAM_COMPUTE) : sealed);
		low->emit.copied[d] = mq_emit(low, &task, &after);
	}
}

/* The next compute task of each device waits for its newest copy. */
static void await_copies(struct mq_low *low)
{
	for (uint32_t d = 0; d < low->prog.schedule->n_devices; d++) {
		if (low->emit.copied[d] == MQ_NONE)
			continue;
		mq_emit_seal(low, d);
		mq_ids_add(low, &low->emit.pending[d], low->emit.copied[d]);
		low->emit.copied[d] = MQ_NONE;
	}
}

void mq_offload_leave(struct mq_low *low, uint32_t stage, uint32_t unit)
{
	uint32_t last =
		unit == MQ_NONE ? low->num.unit_of[low->num.stage_op[low->num.stage_first[stage + 1] - 1]] : unit - 1;

	if (!low->offload.leaves_B[stage] || unit == first_unit(low, stage))
		return;
	await_copies(low);
	copy_unit(low, stage, last, true);
}

void mq_offload_return(struct mq_low *low, uint32_t stage, uint32_t unit)
{
	bool first_of_pass = unit == low->num.unit_of[low->num.stage_op[low->num.stage_first[stage + 1] - 1]];

	if (!low->offload.leaves_B[stage])
		return;
	if (first_of_pass)
		copy_unit(low, stage, unit, false);
	await_copies(low);
	if (unit > first_unit(low, stage))
		copy_unit(low, stage, unit - 1, false);
}

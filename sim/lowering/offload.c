/* offload.c - offloads activations to host memory between forward and backward (plan: offload_layers).
 *
 * As in Transformer Engine's CPU offloading (cpu_offload.py, DefaultOffloadSynchronizer), a layer's saved activations
 * are copied to the host during the next layers' compute. The first N of L layers are offloaded, layer i before layer
 * L - N + i begins, so L - N are on the device at the end of a pass, or two if nearly all are offloaded. Backward, the
 * copy of layer i starts with layer L - N + i - 1. Copies are serialized on the device's copy stream. If links are
 * slower than compute, compute waits.
 *
 * Not modelled: sharing of host memory bandwidth by the GPUs of a node.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lowering/footprint.h"

static uint32_t first_unit(const struct mq_low *low, uint32_t stage)
{
	return low->num.unit_of[low->num.stage_op[low->num.stage_first[stage]]];
}

static uint32_t last_unit(const struct mq_low *low, uint32_t stage)
{
	return low->num.unit_of[low->num.stage_op[low->num.stage_first[stage + 1] - 1]];
}

static void plan_stage(struct mq_low *low, uint32_t stage)
{
	uint32_t room = low->num.stage_first[stage + 1] - low->num.stage_first[stage];
	uint32_t devices = low->prog.schedule->n_devices, first = first_unit(low, stage), n;
	uint32_t units = last_unit(low, stage) - first + 1;
	double *leaves_B = mq_arena_array(&low->scratch, (size_t)units * devices, double);
	uint32_t layers = 0, unit = MQ_NONE;
	struct mq_op_use *use = mq_arena_array(&low->scratch, room, struct mq_op_use);

	for (uint32_t d = 0; d < devices; d++) {
		mq_footprint_of(low, stage, low->prog.schedule->device[d], use, &n);
		for (uint32_t i = 0; i < n; i++)
			if (use[i].away)
				leaves_B[(low->num.unit_of[use[i].op] - first) * devices + d] +=
					use[i].kept_B + use[i].first_entry_B;
	}
	for (uint32_t i = low->num.stage_first[stage]; i < low->num.stage_first[stage + 1]; i++) {
		uint32_t op = low->num.stage_op[i];

		layers += low->model->op[op].layer != MQ_NONE && low->num.unit_of[op] != unit;
		unit = low->num.unit_of[op];
	}
	low->offload[stage].window = layers > low->plan->offload_layers + 2 ? layers - low->plan->offload_layers : 2;
	low->offload[stage].copied = mq_arena_array(&low->scratch, (size_t)units * devices, uint32_t);
	low->offload[stage].leaves_B = leaves_B;
}

void mq_offload_plan(struct mq_low *low)
{
	low->offload = mq_arena_array(&low->scratch, low->num.n_stages, struct mq_offload);
	if (!low->plan->offload_layers || low->train->infer || low->num.explicit_backward)
		return;
	for (uint32_t s = 0; s < low->num.n_stages; s++)
		if (low->num.stage_first[s] != low->num.stage_first[s + 1])
			plan_stage(low, s);
}

/* Emits the copies of a unit's offloaded activations, if any. */
static void copy_unit(struct mq_low *low, uint32_t stage, uint32_t unit, bool to_host)
{
	uint32_t devices = low->prog.schedule->n_devices, row = (unit - first_unit(low, stage)) * devices;

	for (uint32_t d = 0; d < devices; d++) {
		struct mq_task task =
			mq_task_of(MQ_TASK_COPY, d, MQ_STREAM_COPY, MQ_NONE, to_host ? MQ_FORWARD : MQ_BACKWARD);
		struct mq_ids after = { 0 };

		low->offload[stage].copied[row + d] = MQ_NONE;
		task.to_host = to_host;
		task.dtype = (uint8_t)low->train->dtype;
		task.bytes = low->offload[stage].leaves_B[row + d];
		if (!(task.bytes > 0))
			continue;
		uint32_t sealed = mq_emit_seal(low, d);
		mq_ids_add(low, &after, sealed == MQ_NONE ? MQ_DEP_STREAM(MQ_STREAM_COMPUTE) : sealed);
		low->offload[stage].copied[row + d] = mq_emit(low, &task, &after);
	}
}

/* Makes the next compute task of each device wait for its copy of the unit's activations. */
static void await_unit(struct mq_low *low, uint32_t stage, uint32_t unit)
{
	uint32_t devices = low->prog.schedule->n_devices, row = (unit - first_unit(low, stage)) * devices;

	for (uint32_t d = 0; d < devices; d++) {
		if (low->offload[stage].copied[row + d] == MQ_NONE)
			continue;
		mq_emit_seal(low, d);
		mq_ids_add(low, &low->emit.pending[d], low->offload[stage].copied[row + d]);
	}
}

void mq_offload_leave(struct mq_low *low, uint32_t stage, uint32_t unit)
{
	uint32_t next = unit == MQ_NONE ? last_unit(low, stage) + 1 : unit, first = first_unit(low, stage);

	if (!low->offload[stage].leaves_B || next == first)
		return;
	if (next >= first + low->offload[stage].window)
		await_unit(low, stage, next - low->offload[stage].window);
	copy_unit(low, stage, next - 1, true);
}

void mq_offload_return(struct mq_low *low, uint32_t stage, uint32_t unit)
{
	uint32_t first = first_unit(low, stage), ahead;

	if (!low->offload[stage].leaves_B)
		return;
	ahead = low->offload[stage].window - 1;
	for (uint32_t i = 0; unit == last_unit(low, stage) && i < ahead && unit - i >= first; i++)
		copy_unit(low, stage, unit - i, false);
	await_unit(low, stage, unit);
	if (unit >= first + ahead)
		copy_unit(low, stage, unit - ahead, false);
}

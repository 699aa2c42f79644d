/* sync.c - synchronizes gradients, optimizer state and parameters.
 *
 * Ranks with the same parameters but different samples (batch split) or tokens (sequence, spatial split) must reduce
 * gradients. Parameters with the same group are reduced in buckets, in the order in which the backward pass completes
 * them:
 *
 *   allreduce  one all-reduce per bucket in the last micro-batch
 *   zero1      reduce-scatter there, every rank updates its shard, all-gather of the new parameters
 *              (Rajbhandari et al. 2020), after that or, bucket by bucket, overlapped with the next step's
 *              first forward passes (Megatron core's --overlap-param-gather): a step then begins with the
 *              gathers of the previous one. They are issued back to back; Megatron core issues those of a
 *              chunk with the chunk before the last one
 *   zero2      the reduce-scatter in every micro-batch: no rank keeps whole gradients
 *   zero3      parameters too are sharded: gathered per layer before its forward and its backward, one
 *              layer ahead of compute (FSDP, Zhao et al. 2023); gradients reduced as in zero2
 *   ps         reduce to a server rank (buckets in turn), which updates and broadcasts
 *   duplicate  sufficient factors: activations and output gradients are gathered instead, each rank computes
 *              the whole gradient (Xie et al. 2016); only for GEMMs, others all-reduce
 *
 * With a ZeRO group smaller than the data-parallel group, a subgroup of neighbours holds the shards and the subgroups
 * all-reduce them (hybrid sharding).
 *
 * Software may gather and reduce once a step under pipeline stages (`zero_once_per_step`, PyTorch's pipelining over
 * FSDP2): parameters stay whole from their gather at the step's end, and gradients until the last micro-batch.
 *
 * ZeRO++ (Wang et al. 2023): fewer bits on the wire (`zero_quantized_weights_B`, `zero_quantized_gradients_B`), with
 * quantization kernels, and a second copy of the parameters among neighbours for backward's gathers
 * (`zero_hpz_partition_size`). Its all-to-alls in place of a reduce-scatter move the same bytes, and count as one.
 *
 * With overlap, the reduction of a bucket starts as soon as its last gradient is complete; else after the last
 * backward. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "lowering/program.h"

/* Elements of an op's parameters on a device of a config. */
static double params_on(const struct mq_low *low, uint32_t op, const struct mq_config *c)
{
	double split[MQ_N_DIMS];

	for (int d = 0; d < MQ_N_DIMS; d++)
		split[d] = c->split[d];
	return mq_op_param_shard(&low->model->op[op], split);
}

/* Elements of them that are trained. */
static double trained_on(const struct mq_low *low, uint32_t op, const struct mq_config *c)
{
	return mq_op_trained(&low->model->op[op]) ? params_on(low, op, c) : 0;
}

/* Bytes of an op's parameters on a device of a config in ZeRO-3's gathers. */
static double gather_B(const struct mq_low *low, uint32_t op, const struct mq_config *c)
{
	double each = mq_op_param_B(&low->model->op[op], low->train), few = low->software->zero_quantized_weights_B;

	return params_on(low, op, c) * (few > 0 ? fmin(few, each) : each);
}

/* ---- buckets ------------------------------------------------------------------------------------------ */

/* For each config the first with the same group of position 0, which identifies its groups: under one mesh all have the
 * same form. */
static uint32_t *number_groups(struct mq_low *low)
{
	struct mq_index *seen = mq_index_new(&low->scratch);
	uint32_t *number = mq_arena_array(&low->scratch, low->plan->n_configs, uint32_t);

	for (uint32_t i = 0; i < low->plan->n_configs; i++) {
		const struct mq_config *c = &low->plan->config[i];
		uint32_t n = mq_mesh_group_size(c, mq_grad_mask), *group = mq_arena_array(&low->scratch, n, uint32_t);
		bool found;

		mq_mesh_group(c, mq_grad_mask, 0, group);
		number[i] = mq_index_put(seen, group, n * sizeof(*group), i, &found);
	}
	return number;
}

static bool fits(struct mq_low *low, const uint32_t *group, const struct mq_bucket *b, const struct mq_bucket *more)
{
	double limit = low->plan->bucket_B / mq_dtype_size(low->train->grad_dtype);

	return b->sync == more->sync && b->n == more->n &&
	       low->num.devset_of[b->config] == low->num.devset_of[more->config] &&
	       (b->sync != MQ_SYNC_ZERO3 || b->unit == more->unit) && group[b->config] == group[more->config] &&
	       (!(limit > 0) || b->elems + more->elems <= limit);
}

/* Bytes of `elems` parameters of an op in the gathers of ZeRO-1 and 2: weights stored in fp8 alone are sent in fp8. */
static double published_B(const struct mq_low *low, uint32_t op, double elems)
{
	const struct mq_op *o = &low->model->op[op];
	bool fp8 = low->software->fp8_params && mq_operand_dtype(mq_op_gemm_dtype(o, low->train), MQ_BF16) == MQ_FP8;
	double weights =
		fp8 ? elems * fmin(1, o->k * o->n * fmax(o->count, 1) / o->param) : 0; /* the rest are biases */

	return (elems - weights) * mq_dtype_size(low->train->dtype) + weights * mq_dtype_size(MQ_FP8);
}

void mq_buckets_plan(struct mq_low *low)
{
	const uint32_t *group = number_groups(low);

	low->buckets.first = mq_arena_array(&low->scratch, low->num.n_stages + 1, uint32_t);
	low->buckets.after = mq_arena_none(&low->scratch, low->model->n_ops);
	for (uint32_t stage = 0; stage < low->num.n_stages && !low->train->infer; stage++) {
		uint32_t first = low->buckets.n;

		for (uint32_t i = low->num.stage_first[stage + 1]; i-- > low->num.stage_first[stage];) {
			uint32_t op = low->num.stage_op[i], config = low->plan->config_of[op];
			const struct mq_config *c = &low->plan->config[config];

			bool gathered = c->sync == MQ_SYNC_ZERO3 && low->model->op[op].param > 0;

			if ((!gathered && !mq_op_trained(&low->model->op[op])) || mq_duplicates(low, op) > 1)
				continue;
			struct mq_bucket b = {
				.stage = stage,
				.unit = low->num.unit_of[op],
				.config = config,
				.n = mq_mesh_group_size(c, mq_grad_mask),
				.last_op = op,
				.elems = trained_on(low, op, c),
				.gather_B = gather_B(low, op, c),
				.sync = c->sync,
				.late = mq_low_deferred(low, op) > 0,
			};
			if (b.n == 1)
				continue;
			b.shard = mq_shard_size(low, b.sync, b.n);
			b.param_B = published_B(low, op, b.elems);
			uint32_t k = low->buckets.n;
			while (k > first && !fits(low, group, &low->buckets.bucket[k - 1], &b))
				k--;
			if (k > first) {
				low->buckets.bucket[k - 1].elems += b.elems;
				low->buckets.bucket[k - 1].gather_B += b.gather_B;
				low->buckets.bucket[k - 1].param_B += b.param_B;
				low->buckets.bucket[k - 1].last_op = op;
				low->buckets.bucket[k - 1].late |= b.late;
			} else {
				MQ_PUSH(&low->scratch, low->buckets.bucket, low->buckets.n, low->buckets.room, b);
			}
		}
		for (uint32_t k = first; k < low->buckets.n; k++)
			low->buckets.after[low->buckets.bucket[k].last_op] = k;
		low->buckets.first[stage + 1] = low->buckets.n;
	}
}

/* ---- one collective of a bucket over all its groups ----------------------------------------------------- */

struct bucket_call {
	enum mq_coll_kind kind;
	uint32_t stride, size; /* blocks of `size` neighbours (stride 1) or every stride-th member */
	double bytes;
	enum mq_dtype dtype;
	enum mq_phase phase;
	uint32_t root;
	bool seal;               /* wait for all compute so far, in this template or before it */
	bool after_sends;        /* and for the last message to another stage */
	bool awaited;            /* the next compute task waits for it */
	const uint32_t *wait_of; /* [schedule devices] another task to wait for, or NULL */
};

static struct bucket_call gathering(const struct mq_low *low, const struct mq_bucket *b, double bytes,
				    enum mq_phase phase)
{
	return (struct bucket_call){ .kind = MQ_COLL_ALL_GATHER,
				     .stride = 1,
				     .size = b->shard,
				     .bytes = bytes,
				     .dtype = low->train->dtype,
				     .phase = phase };
}

/* The last compute task of the device, in this template or before it. */
static uint32_t computed(struct mq_low *low, uint32_t device)
{
	uint32_t task = mq_emit_seal(low, device);

	return task == MQ_NONE ? MQ_DEP_STREAM(MQ_STREAM_COMPUTE) : task;
}

static void call_group(struct mq_low *low, const struct mq_bucket *b, const struct bucket_call *bc,
		       const struct mq_group *group)
{
	const struct mq_seats *seats = mq_low_seats(low, &low->plan->config[b->config]);
	uint32_t *done = mq_arena_array(&low->scratch, group->n_seats, uint32_t);
	struct mq_ids *after = mq_arena_array(&low->scratch, group->n_seats, struct mq_ids);
	static const uint8_t sends[] = { MQ_STREAM_SEND, MQ_STREAM_SEND_BACK, MQ_STREAM_SEND_2, MQ_STREAM_SEND_BACK_2 };

	for (uint32_t i = 0; i < group->n_seats; i++) {
		uint32_t device = seats->device[group->seat[i]];

		if (bc->seal)
			mq_ids_add(low, &after[i], computed(low, device));
		if (bc->wait_of)
			mq_ids_add(low, &after[i], bc->wait_of[device]);
		for (uint32_t k = 0; bc->after_sends && k < 4; k++)
			mq_ids_add(low, &after[i], MQ_DEP_STREAM(sends[k]));
	}
	struct mq_coll_call call = { .kind = bc->kind,
				     .stream = MQ_STREAM_GRAD,
				     .seats = seats,
				     .bytes = bc->bytes,
				     .dtype = bc->dtype,
				     .op = b->last_op,
				     .phase = bc->phase,
				     .root = bc->root };
	mq_emit_collective(low, &call, group, after, done);
	for (uint32_t i = 0; bc->awaited && i < group->n_seats; i++)
		mq_ids_add(low, &low->emit.pending[seats->device[group->seat[i]]], done[i]);
}

static void call_bucket(struct mq_low *low, const struct mq_bucket *b, const struct bucket_call *bc)
{
	const struct mq_groups *groups =
		mq_groups_of(low, &(struct mq_group_request){ .config = &low->plan->config[b->config],
							      .mask = mq_grad_mask,
							      .stride = bc->stride,
							      .size = bc->size,
							      .by_first = true,
							      .purpose = "dp" });

	for (uint32_t k = 0; k < groups->n; k++)
		call_group(low, b, bc, &groups->group[k]);
}

static bool every_micro_batch(const struct mq_low *low, const struct mq_bucket *b)
{
	return (b->sync == MQ_SYNC_ZERO2 || b->sync == MQ_SYNC_ZERO3) && !mq_once(low);
}

/* Emits the reduction of one bucket, for any kind of sync. Without overlap it starts after the pipeline's drain:
 * frameworks wait for their last message first. */
static void reduce(struct mq_low *low, uint32_t index)
{
	const struct mq_bucket *b = &low->buckets.bucket[index];
	bool whole = low->software->zero1_allreduce && b->sync == MQ_SYNC_ZERO1;
	struct bucket_call bc = { .kind = MQ_COLL_ALL_REDUCE,
				  .stride = 1,
				  .size = b->n,
				  .bytes = b->elems * mq_dtype_size(low->train->grad_dtype),
				  .dtype = low->train->grad_dtype,
				  .phase = MQ_BACKWARD,
				  .seal = true,
				  .after_sends = !low->plan->overlap_grads && !every_micro_batch(low, b) };

	if (!(b->elems > 0))
		return;
	if (b->sync == MQ_SYNC_ZERO3 && low->software->zero_quantized_gradients_B > 0)
		bc.bytes = b->elems * low->software->zero_quantized_gradients_B;
	if (b->sync == MQ_SYNC_PS) {
		bc.kind = MQ_COLL_REDUCE;
		bc.root = index % b->n;
	} else if (b->shard > 1 && !whole) {
		bc.kind = MQ_COLL_REDUCE_SCATTER;
		bc.size = b->shard;
	}
	call_bucket(low, b, &bc);
	if (!whole && b->shard > 1 && b->shard < b->n) { /* subgroups all-reduce their shards */
		bc.kind = MQ_COLL_ALL_REDUCE;
		bc.bytes /= b->shard;
		bc.stride = b->shard;
		bc.size = b->n / b->shard;
		bc.seal = false; /* the order of the stream suffices */
		call_bucket(low, b, &bc);
	}
}

void mq_sync_after(struct mq_low *low, uint32_t op, bool last)
{
	uint32_t i = low->buckets.after[op];

	if (i != MQ_NONE && (every_micro_batch(low, &low->buckets.bucket[i]) ||
			     (last && low->plan->overlap_grads && !low->buckets.bucket[i].late)))
		reduce(low, i);
}

void mq_sync_gather(struct mq_low *low, uint32_t stage, uint32_t unit, enum mq_phase phase)
{
	bool any = false;

	for (uint32_t i = low->buckets.first[stage]; i < low->buckets.first[stage + 1] && !mq_once(low); i++) {
		const struct mq_bucket *b = &low->buckets.bucket[i];

		if (b->unit != unit || b->sync != MQ_SYNC_ZERO3)
			continue;
		any = true;
		/* It may start after the unit before the last one: one unit ahead. */
		struct bucket_call bc = gathering(low, b, b->gather_B, phase);
		bc.size = phase == MQ_BACKWARD ? mq_secondary(low, b->shard) : b->shard;
		bc.awaited = true;
		bc.wait_of = low->emit.unit_end;
		call_bucket(low, b, &bc);
	}
	for (uint32_t d = 0; any && d < low->prog.schedule->n_devices; d++)
		low->emit.unit_end[d] = mq_emit_seal(low, d);
}

static void swap_pending(struct mq_low *low)
{
	for (uint32_t d = 0; d < low->prog.schedule->n_devices; d++) {
		struct mq_ids pending = low->emit.pending[d];

		low->emit.pending[d] = low->emit.gathered[d];
		low->emit.gathered[d] = pending;
	}
}

void mq_sync_gather_ahead(struct mq_low *low, uint32_t stage, uint32_t unit)
{
	/* At most two units' parameters exist at a time: it waits for the unit that has just ended. */
	for (uint32_t d = 0; d < low->prog.schedule->n_devices; d++)
		low->emit.unit_end[d] = low->emit.last_compute[d];
	swap_pending(low);
	mq_sync_gather(low, stage, unit, MQ_BACKWARD);
	swap_pending(low);
}

void mq_sync_gathered(struct mq_low *low)
{
	for (uint32_t d = 0; d < low->prog.schedule->n_devices; d++) {
		mq_ids_join(low, &low->emit.pending[d], &low->emit.gathered[d]);
		low->emit.gathered[d].n = 0;
	}
}

/* ---- after the last micro-batch ------------------------------------------------------------------------- */

/* Sums the gradients of ops that share parameters across stages (input embedding and head). Each stage emits the calls
 * of its own ranks. */
static void reduce_tied(struct mq_low *low, uint32_t stage, uint32_t op)
{
	uint32_t owner = low->model->op[op].tied;
	const struct mq_config *a, *b;

	if (owner == MQ_NONE || low->num.stage_of[owner] == low->num.stage_of[op] || low->model->op[owner].frozen)
		return;
	a = mq_low_config(low, owner);
	b = mq_low_config(low, op);
	if (a->n_devices != b->n_devices)
		return;
	const struct mq_seats *seats = mq_low_seats(low, low->num.stage_of[op] == stage ? b : a);
	for (uint32_t s = 0; s < seats->n; s++) {
		uint32_t p = seats->position[s], member[2] = { a->device[p], b->device[p] };

		if (member[0] == member[1])
			continue;
		struct mq_coll_call call = {
			.kind = MQ_COLL_ALL_REDUCE,
			.stream = MQ_STREAM_GRAD,
			.seats = seats,
			.bytes = params_on(low, owner, a) * mq_dtype_size(low->train->grad_dtype),
			.dtype = low->train->grad_dtype,
			.op = op,
			.phase = MQ_BACKWARD,
		};
		struct mq_group pair = { .comm = mq_comm_of(low, member, 2, "embedding", false),
					 .n_seats = 1,
					 .seat = &s };
		struct mq_ids after = { 0 };
		uint32_t done;

		mq_ids_add(low, &after, computed(low, seats->device[s]));
		mq_emit_collective(low, &call, &pair, &after, &done);
	}
}

/* The optimizer step of every op of the stage, and quantized copies of frozen weights: one compute task per device. */
static void update(struct mq_low *low, uint32_t stage)
{
	for (uint32_t i = low->num.stage_first[stage]; i < low->num.stage_first[stage + 1]; i++) {
		uint32_t op = low->num.stage_op[i], config = low->plan->config_of[op];
		const struct mq_config *c = &low->plan->config[config];
		double shard = mq_shard_of(low, op);

		if (!(low->model->op[op].param > 0 &&
		      (mq_op_trained(&low->model->op[op]) || low->software->save_quantized_operands)))
			continue;
		if (c->sync == MQ_SYNC_PS) /* buckets go to servers in turn */
			shard = mq_mesh_group_size(c, mq_grad_mask);
		const struct mq_seats *seats = mq_low_seats(low, c);
		struct mq_piece piece = { .op = op,
					  .config = config,
					  .phase = MQ_UPDATE,
					  .samples = 1,
					  .host = low->plan->offload_optimizer,
					  .scale = 1 / shard };

		for (uint32_t s = 0; s < seats->n; s++)
			mq_emit_compute(low, seats->device[s], &piece, NULL);
	}
}

/* Offloaded optimizer state (Ren et al. 2021, ZeRO-Offload): copies gradients to the host, runs the step there, copies
 * parameters back; each rank handles its shard. */
static void copy_shards(struct mq_low *low, uint32_t stage, enum mq_dtype dtype, bool down)
{
	double *bytes = mq_arena_array(&low->scratch, low->prog.schedule->n_devices, double);

	for (uint32_t i = low->num.stage_first[stage]; i < low->num.stage_first[stage + 1]; i++) {
		uint32_t op = low->num.stage_op[i];
		const struct mq_config *c = mq_low_config(low, op);
		const struct mq_seats *seats = mq_low_seats(low, c);
		double own = trained_on(low, op, c) / mq_shard_of(low, op);
		for (uint32_t s = 0; s < seats->n; s++)
			bytes[seats->device[s]] += own * mq_dtype_size(dtype);
	}
	for (uint32_t d = 0; d < low->prog.schedule->n_devices; d++) {
		struct mq_task task = mq_task_of(MQ_TASK_COPY, d, MQ_STREAM_COPY, MQ_NONE, MQ_UPDATE);
		struct mq_ids after = { 0 };

		if (!(bytes[d] > 0))
			continue;
		task.to_host = down;
		task.dtype = (uint8_t)dtype;
		task.bytes = bytes[d];
		if (down) {
			after = low->emit.pending[d];
			low->emit.pending[d] = (struct mq_ids){ 0 };
		} else {
			mq_ids_add(low, &after, mq_emit_seal(low, d));
		}
		low->emit.copied[d] = mq_emit(low, &task, &after);
		if (down)
			mq_ids_add(low, &low->emit.pending[d], low->emit.copied[d]);
	}
}

/* Bytes of all buckets whose shards have the same owners as this one's: they are sent in one call. *first: this is the
 * first of them, and makes the call. */
static double owners_B(struct mq_low *low, uint32_t index, bool *first)
{
	const struct mq_bucket *b = &low->buckets.bucket[index];
	double bytes = 0;

	*first = true;
	for (uint32_t i = low->buckets.first[b->stage]; i < low->buckets.first[b->stage + 1]; i++) {
		const struct mq_bucket *o = &low->buckets.bucket[i];

		if (o->sync != b->sync || o->n != b->n || o->shard != b->shard ||
		    low->num.devset_of[o->config] != low->num.devset_of[b->config])
			continue;
		*first &= i >= index;
		bytes += o->param_B;
	}
	return bytes;
}

/* Every owner in turn broadcasts its updated shard to its group. */
static void broadcast_shards(struct mq_low *low, uint32_t index, struct bucket_call *bc)
{
	bool first;
	double bytes = owners_B(low, index, &first);

	if (!first)
		return;
	bc->kind = MQ_COLL_BROADCAST;
	bc->bytes = bytes / bc->size;
	for (bc->root = 0; bc->root < bc->size; bc->root++)
		call_bucket(low, &low->buckets.bucket[index], bc);
}

/* Does the gathering of the stage's new parameters overlap its first forward pass? */
static bool gathers_late(const struct mq_low *low, uint32_t stage)
{
	bool first_chunk = low->plan->virtual > 1 && mq_low_stage(low, mq_low_rank(low, stage), 0) == stage;

	return low->plan->overlap_param_gather && low->train->optimizer != MQ_OPTIMIZER_NONE &&
	       !(low->software->overlap_param_gather_with_optimizer_step && first_chunk);
}

bool mq_sync_gathers_first(const struct mq_low *low, uint32_t stage)
{
	for (uint32_t i = low->buckets.first[stage]; i < low->buckets.first[stage + 1] && gathers_late(low, stage); i++)
		if (mq_gathers_new(low->buckets.bucket[i].sync))
			return true;
	return false;
}

void mq_sync_before(struct mq_low *low, uint32_t op)
{
	uint32_t i = low->buckets.after[op];
	const struct mq_bucket *b = i == MQ_NONE ? NULL : &low->buckets.bucket[i];

	if (!b || !mq_gathers_new(b->sync))
		return;
	struct bucket_call bc = gathering(low, b, b->param_B, MQ_FORWARD);
	bc.awaited = true;
	call_bucket(low, b, &bc);
}

static void publish(struct mq_low *low, uint32_t stage)
{
	for (uint32_t i = low->buckets.first[stage]; i < low->buckets.first[stage + 1]; i++) {
		const struct mq_bucket *b = &low->buckets.bucket[i];
		struct bucket_call bc = gathering(low, b, b->param_B, MQ_UPDATE);

		bc.seal = true;
		bc.wait_of = low->emit.copied;
		if (b->sync == MQ_SYNC_PS) {
			bc.kind = MQ_COLL_BROADCAST;
			bc.size = b->n;
			bc.root = i % b->n;
		} else if (mq_gathers_new(b->sync) ? gathers_late(low, stage) :
						     !(b->sync == MQ_SYNC_ZERO3 && mq_once(low))) {
			continue;
		} else if (low->plan->broadcast_params && b->sync != MQ_SYNC_ZERO3) {
			broadcast_shards(low, i, &bc);
			continue;
		}
		call_bucket(low, b, &bc);
	}
}

void mq_sync_reduce(struct mq_low *low, uint32_t stage)
{
	for (uint32_t i = low->buckets.first[stage]; i < low->buckets.first[stage + 1]; i++)
		if (low->buckets.bucket[i].late ||
		    (!every_micro_batch(low, &low->buckets.bucket[i]) && !low->plan->overlap_grads))
			reduce(low, i);
	for (uint32_t op = 0; op < low->model->n_ops; op++)
		if (low->model->op[op].tied != MQ_NONE &&
		    (low->num.stage_of[op] == stage || low->num.stage_of[low->model->op[op].tied] == stage))
			reduce_tied(low, stage, op);
}

static void step(struct mq_low *low, uint32_t stage)
{
	for (uint32_t d = 0; d < low->prog.schedule->n_devices; d++) { /* later tasks wait for every reduction */
		low->emit.copied[d] = MQ_NONE;
		mq_ids_add(low, &low->emit.pending[d], MQ_DEP_STREAM(MQ_STREAM_GRAD));
		if (low->plan->offload_optimizer)
			mq_ids_add(low, &low->emit.pending[d], MQ_DEP_STREAM(MQ_STREAM_COMPUTE));
	}
	if (low->plan->offload_optimizer)
		copy_shards(low, stage, low->train->grad_dtype, true);
	update(low, stage);
	if (low->plan->offload_optimizer)
		copy_shards(low, stage, low->train->dtype, false);
	publish(low, stage);
}

void mq_pass_post(struct mq_low *low, uint32_t stage)
{
	mq_template_begin(low, stage, MQ_PASS_POST);
	if (low->train->optimizer != MQ_OPTIMIZER_NONE)
		step(low, stage);
	mq_template_end(low);
}

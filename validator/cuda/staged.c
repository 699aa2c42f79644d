/* staged.c - transfers between this GPU and ranks of other executors, through pinned host memory and the wire.
 *
 * A message is copied part by part, two at a time, between the GPU and the wire's rings, which are pinned for that. A
 * collective of a group with CPUs is copied to pinned memory, run there as the wire's ring, and copied back. Copies
 * have their own streams, so that no kernel or NCCL call delays them.
 *
 * The host drives this: a transfer begins when its stream has reached it, and tasks after it in its stream, or
 * depending on it, are enqueued when it has ended. A program that waits for data from a CPU does the same, so the time
 * to enqueue is part of the measured step. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cuda/parts.h"

enum { WAITING, MOVING, COPYING_IN, EXCHANGING, COPYING_OUT };

/* ---- tasks ----------------------------------------------------------------------------- */

static bool is_message(const struct mq_task *t)
{
	return t->kind == MQ_TASK_SEND || t->kind == MQ_TASK_RECV;
}

static enum mq_status check_collective(const struct mq_schedule *s, uint32_t id, struct mq_err *err)
{
	const struct mq_task *t = &s->task[id];

	if (t->algo != MQ_ALGO_AUTO || t->proto != MQ_PROTO_AUTO)
		return mq_bad(
			err,
			"%s (task %u): the plan asks for NCCL's %s %s in a group that holds CPUs, where NCCL does "
			"not run: leave algo and proto to auto, or keep CPUs out of the group",
			mq_coll_name(t->coll), id, mq_algo_name(t->algo), mq_proto_name(t->proto));
	if (mq_coll_adds(t->coll) && t->dtype != MQ_FP32 && t->dtype != MQ_TF32 && t->dtype != MQ_FP64)
		return mq_bad(
			err,
			"%s (task %u) of a group that holds CPUs is added by CPUs, in fp32 and fp64: it asks for %s; "
			"lower the plan with --dtype fp32",
			mq_coll_name(t->coll), id, mq_dtype_name(t->dtype));
	return MQ_OK;
}

static size_t part_of(const struct mq_schedule *s, const struct mq_task *t)
{
	return mq_wire_coll_part_B((enum mq_dtype)t->dtype, t->bytes, s->comm[t->comm].n);
}

/* Assigns buffers: collectives of one group on one stream run at the same time, so each needs its own. */
static void place_collectives(struct cuda *c, struct cuda_script *script)
{
	const struct mq_schedule *s = script->schedule;

	for (int l = 0; l < MQ_N_STREAMS; l++) {
		uint32_t group = 0;
		size_t at = 0;

		for (uint32_t i = 0; i < script->lane[l].n; i++) {
			uint32_t id = script->lane[l].task[i];
			const struct mq_task *t = &s->task[id];

			if (!script->staged[id] || is_message(t))
				continue;
			if (!t->group || t->group != group)
				at = 0;
			group = t->group;
			script->place[id] = at;
			at += part_of(s, t) * s->comm[t->comm].n;
			c->stage.lane_B[l] = at > c->stage.lane_B[l] ? at : c->stage.lane_B[l];
		}
	}
}

enum mq_status cuda_staged_build(struct cuda *c, struct cuda_script *script, struct mq_err *err)
{
	const struct mq_schedule *s = script->schedule;
	struct mq_arena *arena = c->session->arena;

	script->staged = mq_arena_array(arena, s->n_tasks, uint8_t);
	script->place = mq_arena_array(arena, s->n_tasks, size_t);
	for (uint32_t i = 0; i < script->n_local; i++) {
		uint32_t id = script->local[i];
		const struct mq_task *t = &s->task[id];

		if (is_message(t))
			script->staged[id] = !mq_replay_own(c->session, c->ranks->rank, 1, &t->peer);
		else if (t->kind == MQ_TASK_COLLECTIVE)
			script->staged[id] =
				!mq_replay_own(c->session, c->ranks->rank, s->comm[t->comm].n, s->comm[t->comm].rank);
		if (script->staged[id] && !is_message(t))
			MQ_TRY(check_collective(s, id, err));
		script->n_staged += script->staged[id];
	}
	place_collectives(c, script);
	if (script->n_staged > c->stage.room)
		c->stage.room = script->n_staged;
	return MQ_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum mq_status pin_rings(struct cuda *c, struct mq_err *err)
{
	for (uint32_t peer = 0; peer < c->ranks->size; peer++)
		for (int to = 0; to < 2 && peer != c->ranks->rank; to++) {
			size_t bytes;
			void *ring = mq_wire_memory(c->session->wire, peer, to, &bytes);

			CUDA_TRY(c, cudaHostRegister(ring, bytes, cudaHostRegisterDefault));
		}
	return MQ_OK;
}

enum mq_status cuda_staged_open(struct cuda *c, struct mq_err *err)
{
	struct cuda_stage *g = &c->stage;
	size_t total = 0;

	if (!g->room)
		return MQ_OK;
	MQ_TRY(pin_rings(c, err));
	for (int l = 0; l < MQ_N_STREAMS; l++) {
		g->lane_at[l] = total;
		total += g->lane_B[l];
	}
	if (total) {
		CUDA_TRY(c, cudaMallocHost((void **)&g->in, total));
		CUDA_TRY(c, cudaMallocHost((void **)&g->out, total));
		memset(g->in, 0, total);
		memset(g->out, 0, total);
	}
	CUDA_TRY(c, cudaStreamCreateWithFlags(&g->down, cudaStreamNonBlocking));
	CUDA_TRY(c, cudaStreamCreateWithFlags(&g->up, cudaStreamNonBlocking));
	g->task = mq_arena_array(c->session->arena, g->room, struct cuda_staged);
	for (uint32_t i = 0; i < g->room; i++)
		for (int k = 0; k < CUDA_PARTS; k++)
			CUDA_TRY(c, cudaEventCreate(&g->task[i].copied[k]));
	return MQ_OK;
}

void cuda_staged_close(struct cuda *c)
{
	struct cuda_stage *g = &c->stage;

	for (uint32_t i = 0; g->task && i < g->room; i++)
		for (int k = 0; k < CUDA_PARTS; k++)
			CUDA_DROP(c, cudaEventDestroy, g->task[i].copied[k]);
	CUDA_DROP(c, cudaStreamDestroy, g->down);
	CUDA_DROP(c, cudaStreamDestroy, g->up);
	CUDA_DROP(c, cudaFreeHost, g->in);
	CUDA_DROP(c, cudaFreeHost, g->out);
	for (uint32_t peer = 0; g->room && peer < c->ranks->size; peer++)
		for (int to = 0; to < 2 && peer != c->ranks->rank; to++) {
			size_t bytes;

			c->kit.cudaHostUnregister(mq_wire_memory(c->session->wire, peer, to, &bytes));
		}
}

/* ---- running --------------------------------------------------------------------------------- */

void cuda_staged_begin(struct cuda *c, struct cuda_script *script, uint32_t id)
{
	struct cuda_stage *g = &c->stage;
	struct cuda_staged *st = &g->task[g->n++];
	cudaEvent_t keep[CUDA_PARTS];

	memcpy(keep, st->copied, sizeof(keep));
	*st = (struct cuda_staged){ .id = id, .state = WAITING };
	memcpy(st->copied, keep, sizeof(keep));
}

static enum mq_status copy(struct cuda *c, void *to, const void *from, size_t bytes, bool down, cudaEvent_t copied,
			   struct mq_err *err)
{
	cudaStream_t stream = down ? c->stage.down : c->stage.up;

	if (bytes)
		CUDA_TRY(c, cudaMemcpyAsync(to, from, bytes, down ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice,
					    stream));
	CUDA_TRY(c, cudaEventRecord(copied, stream));
	return MQ_OK;
}

static enum mq_status reached(struct cuda *c, cudaEvent_t event, bool *yes, struct mq_err *err)
{
	int state = (int)c->kit.cudaEventQuery(event);

	*yes = state == cudaSuccess;
	return state == cudaSuccess || state == cudaErrorNotReady ? MQ_OK : cuda_failed(c, "a copy", state, err);
}

/* Moves a message with up to two parts in flight: one is copied while the peer writes or reads the other. */
static enum mq_status move_message(struct cuda *c, struct cuda_staged *st, struct mq_err *err)
{
	struct mq_wire *wire = c->session->wire;
	struct mq_transfer *t = &st->transfer;
	bool yes;

	mq_wire_progress(wire);
	while (st->n_parts) {
		MQ_TRY(reached(c, st->copied[st->first], &yes, err));
		if (!yes)
			break;
		mq_wire_advance(wire, t, st->part_B[st->first]);
		st->ahead -= st->part_B[st->first];
		st->first = (st->first + 1) % CUDA_PARTS;
		st->n_parts--;
	}
	while (st->n_parts < CUDA_PARTS && !t->done) {
		uint32_t k = (st->first + st->n_parts) % CUDA_PARTS;
		void *span = mq_wire_span(wire, t, st->ahead, &st->part_B[k]);
		char *device = st->device + t->moved + st->ahead;

		if (!span)
			break;
		MQ_TRY(copy(c, t->send ? span : device, t->send ? (void *)device : span, st->part_B[k], t->send,
			    st->copied[k], err));
		st->ahead += st->part_B[k];
		st->n_parts++;
	}
	st->done = t->done && !st->n_parts;
	return MQ_OK;
}

static void begin_message(struct cuda *c, const struct cuda_script *script, struct cuda_staged *st)
{
	const struct mq_task *t = &script->schedule->task[st->id];
	size_t bytes = (size_t)llround(t->bytes);
	bool send = t->kind == MQ_TASK_SEND;

	st->device = send ? cuda_pool_in(&c->pool, CUDA_WORDS, bytes) : cuda_pool_out(&c->pool, bytes);
	st->transfer = (struct mq_transfer){
		.peer = t->peer, .send = send, .tag = send ? st->id : script->match[st->id], .bytes = bytes
	};
	mq_wire_post(c->session->wire, &st->transfer);
	st->state = MOVING;
}

/* Bytes of a member's input to a collective, and of its output. */
static void amounts(const struct mq_wire_coll *coll, size_t part_B, size_t *in_B, size_t *out_B)
{
	size_t all_B = part_B * coll->n;
	bool root = coll->me == coll->root;

	*in_B = coll->kind == MQ_COLL_ALL_GATHER ? part_B : all_B;
	*out_B = coll->kind == MQ_COLL_REDUCE_SCATTER ? part_B : all_B;
	if (coll->kind == MQ_COLL_BROADCAST && !root)
		*in_B = 0;
	if ((coll->kind == MQ_COLL_BROADCAST && root) || (coll->kind == MQ_COLL_REDUCE && !root))
		*out_B = 0;
}

static enum mq_status begin_collective(struct cuda *c, const struct cuda_script *script, struct cuda_staged *st,
				       struct mq_err *err)
{
	const struct mq_schedule *s = script->schedule;
	const struct mq_task *t = &s->task[st->id];
	size_t at = c->stage.lane_at[t->stream] + script->place[st->id], in_B;

	st->coll = mq_wire_coll_of(s, t, c->ranks->rank, script->call[st->id]);
	st->coll.in = c->stage.in + at;
	st->coll.out = c->stage.out + at;
	amounts(&st->coll, part_of(s, t), &in_B, &st->out_B);
	st->state = COPYING_IN;
	return copy(c, c->stage.in + at, cuda_pool_in(&c->pool, CUDA_WORDS, in_B), in_B, true, st->copied[0], err);
}

static enum mq_status move_collective(struct cuda *c, const struct cuda_script *script, struct cuda_staged *st,
				      struct mq_err *err)
{
	bool yes = false;

	if (st->state == COPYING_IN) {
		MQ_TRY(reached(c, st->copied[0], &yes, err));
		if (yes)
			st->state = EXCHANGING;
	}
	if (st->state == EXCHANGING && mq_wire_coll_run(c->session->wire, &st->coll)) {
		st->state = COPYING_OUT;
		MQ_TRY(copy(c, cuda_pool_out(&c->pool, st->out_B), st->coll.out, st->out_B, false, st->copied[1], err));
	}
	if (st->state == COPYING_OUT)
		MQ_TRY(reached(c, st->copied[1], &st->done, err));
	return MQ_OK;
}

enum mq_status cuda_staged_poll(struct cuda *c, struct cuda_script *script, uint32_t *ended, struct mq_err *err)
{
	struct cuda_stage *g = &c->stage;

	*ended = MQ_NONE;
	for (uint32_t i = 0; i < g->n; i++) {
		struct cuda_staged *st = &g->task[i];
		bool message = is_message(&script->schedule->task[st->id]), yes = true;

		if (st->done)
			continue;
		if (st->state == WAITING) {
			MQ_TRY(reached(c, c->begin[script->slot[st->id]], &yes, err));
			if (!yes)
				continue;
			if (message)
				begin_message(c, script, st);
			else
				MQ_TRY(begin_collective(c, script, st, err));
		}
		MQ_TRY(message ? move_message(c, st, err) : move_collective(c, script, st, err));
		if (st->done) {
			*ended = st->id;
			return MQ_OK;
		}
	}
	return MQ_OK;
}

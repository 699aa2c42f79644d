/* calls.c - NCCL calls for the sends, receives and collectives of a schedule, and a check of their results.
 *
 * Before anything is timed, the check runs every kind of call of the schedules on every communicator, out of place and
 * in place, on small integers, and compares each element with its expected value: sums of small integers are exact in
 * fp32 in any order. The same code enqueues the timed calls. (nccl-tests checks its results that way.)
 *
 * Calls that only move data use bytes for any type; reductions need a type that NCCL can add.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cuda/parts.h"

/* ---- calls ----------------------------------------------------------------------------------- */

static bool type_of(const struct mq_task *t, ncclDataType_t *type)
{
	static const ncclDataType_t added[MQ_N_DTYPES] = { [MQ_FP16] = ncclFloat16,
							   [MQ_BF16] = ncclBfloat16,
							   [MQ_FP64] = ncclFloat64,
							   [MQ_FP32] = ncclFloat32,
							   [MQ_TF32] = ncclFloat32 /* as it is stored */ };

	*type = t->dtype < MQ_N_DTYPES ? added[t->dtype] : ncclInt8;
	return *type != ncclInt8 || (mq_dtype_size((enum mq_dtype)t->dtype) == 1 && !mq_coll_adds(t->coll));
}

enum mq_status cuda_call_check(const struct mq_schedule *s, uint32_t task, struct mq_err *err)
{
	const struct mq_task *t = &s->task[task];
	ncclDataType_t type;

	if (t->kind != MQ_TASK_COLLECTIVE || type_of(t, &type))
		return MQ_OK;
	return mq_bad(
		err,
		"%s (task %u): executor cuda has no NCCL type that %s %s; lower the plan with gradients in bf16 or "
		"fp32",
		mq_coll_name(t->coll), task, mq_coll_adds(t->coll) ? "adds" : "moves", mq_dtype_name(t->dtype));
}

/* Elements of the whole vector and of a member's part of it. */
static void counts_of(const struct mq_task *t, uint32_t n, size_t *all, size_t *part)
{
	*all = (size_t)ceil(t->bytes / mq_dtype_size((enum mq_dtype)t->dtype));
	*part = (*all + n - 1) / n;
}

size_t cuda_call_B(const struct mq_task *t, const struct cuda_comm *comm)
{
	size_t all, part;

	if (t->kind != MQ_TASK_COLLECTIVE)
		return (size_t)llround(t->bytes);
	counts_of(t, comm->n, &all, &part);
	return part * comm->n * (size_t)mq_dtype_size((enum mq_dtype)t->dtype);
}

static int all_to_all(const struct mq_toolkit *k, const struct cuda_comm *comm, const struct cuda_operands *data,
		      size_t part_B, cudaStream_t stream)
{
	int bad = (int)k->ncclGroupStart();

	for (uint32_t i = 0; i < comm->n && !bad; i++) {
		bad = (int)k->ncclSend((const char *)data->in + i * part_B, part_B, ncclInt8, (int)i, comm->comm,
				       stream);
		if (!bad)
			bad = (int)k->ncclRecv((char *)data->out + i * part_B, part_B, ncclInt8, (int)i, comm->comm,
					       stream);
	}
	int ended = (int)k->ncclGroupEnd();
	return bad ? bad : ended;
}

static int collective(const struct mq_toolkit *k, const struct mq_task *t, const struct cuda_comm *comm,
		      const struct cuda_operands *data, cudaStream_t stream)
{
	ncclDataType_t type = ncclInt8;
	size_t all, part, size = (size_t)mq_dtype_size((enum mq_dtype)t->dtype);

	type_of(t, &type);
	counts_of(t, comm->n, &all, &part);
	switch ((enum mq_coll_kind)t->coll) {
	case MQ_COLL_ALL_REDUCE:
		return (int)k->ncclAllReduce(data->in, data->out, all, type, ncclSum, comm->comm, stream);
	case MQ_COLL_ALL_GATHER:
		return (int)k->ncclAllGather(data->in, data->out, part, type, comm->comm, stream);
	case MQ_COLL_REDUCE_SCATTER:
		return (int)k->ncclReduceScatter(data->in, data->out, part, type, ncclSum, comm->comm, stream);
	case MQ_COLL_BROADCAST:
		return (int)k->ncclBroadcast(data->in, data->out, all, type, (int)t->root, comm->comm, stream);
	case MQ_COLL_REDUCE:
		return (int)k->ncclReduce(data->in, data->out, all, type, ncclSum, (int)t->root, comm->comm, stream);
	case MQ_COLL_ALL_TO_ALL:
		return all_to_all(k, comm, data, part * size, stream);
	case MQ_N_COLL_KINDS:
		break;
	}
	mq_assert(!"a collective that was checked");
	return ncclSuccess;
}

int cuda_call_enqueue(struct cuda *c, const struct mq_task *t, const struct cuda_comm *comm,
		      const struct cuda_operands *data, cudaStream_t stream)
{
	size_t bytes = cuda_call_B(t, comm);

	/* In a pair's communicator the sender is 0. */
	if (t->kind == MQ_TASK_SEND)
		return (int)c->kit.ncclSend(data->in, bytes, ncclInt8, 1, comm->comm, stream);
	if (t->kind == MQ_TASK_RECV)
		return (int)c->kit.ncclRecv(data->out, bytes, ncclInt8, 0, comm->comm, stream);
	return collective(&c->kit, t, comm, data, stream);
}

/* ---- the check ------------------------------------------------------------------------------- */

enum { PART = 16 }; /* elements of a member's part */

struct proof {
	struct cuda *c;
	struct cuda_comm *comm;
	uint32_t me, n; /* index in the communicator, number of members */
	bool in_place;
	float *device, *host; /* [2][n * PART] in and out */
};

/* Element i of the input of the member at a place. */
static float held(uint32_t place, size_t i)
{
	return (float)(1 + (7 * place + 3 * i) % 13);
}

/* Element i of a call's result; NaN: this member gets none. */
static float expected(const struct proof *p, const struct mq_task *t, size_t i)
{
	size_t at = t->coll == MQ_COLL_REDUCE_SCATTER ? p->me * PART + i : i;
	float sum = 0;

	if (t->kind == MQ_TASK_SEND)
		return NAN;
	if (t->kind == MQ_TASK_RECV)
		return held(0, i);
	for (uint32_t place = 0; place < p->n; place++)
		sum += held(place, at);
	switch ((enum mq_coll_kind)t->coll) {
	case MQ_COLL_ALL_REDUCE:
		return sum;
	case MQ_COLL_ALL_GATHER:
		return held((uint32_t)(i / PART), i % PART);
	case MQ_COLL_REDUCE_SCATTER:
		return i < PART ? sum : NAN;
	case MQ_COLL_BROADCAST:
		return held(t->root, i);
	case MQ_COLL_REDUCE:
		return p->me == t->root ? sum : NAN;
	case MQ_COLL_ALL_TO_ALL:
		return held((uint32_t)(i / PART), p->me * PART + i % PART);
	case MQ_N_COLL_KINDS:
		break;
	}
	return NAN;
}

/* Addresses of a call's operands; in place, a part lies within the whole. */
static struct cuda_operands operands_of(const struct proof *p, const struct mq_task *t)
{
	size_t whole = (size_t)p->n * PART, mine = (size_t)p->me * PART;

	if (!p->in_place)
		return (struct cuda_operands){ p->device, p->device + whole };
	if (t->coll == MQ_COLL_ALL_GATHER)
		return (struct cuda_operands){ p->device + mine, p->device };
	if (t->coll == MQ_COLL_REDUCE_SCATTER)
		return (struct cuda_operands){ p->device, p->device + mine };
	return (struct cuda_operands){ p->device, p->device };
}

static enum mq_status prove_call(struct proof *p, const struct mq_task *t, struct mq_err *err)
{
	struct cuda *c = p->c;
	const char *name = t->kind == MQ_TASK_COLLECTIVE ? mq_coll_name(t->coll) : mq_task_kind_name(t->kind);
	size_t whole = (size_t)p->n * PART, bytes = whole * sizeof(float);
	struct cuda_operands data = operands_of(p, t);
	bool late;

	for (size_t i = 0; i < whole; i++) {
		p->host[i] = held(p->me, i);
		p->host[whole + i] = -1;
	}
	CUDA_TRY(c, cudaMemcpy(p->device, p->host, 2 * bytes, cudaMemcpyHostToDevice));
	if (p->in_place && t->coll == MQ_COLL_ALL_GATHER) /* a part at its own place */
		CUDA_TRY(c, cudaMemcpy(p->device + (size_t)p->me * PART, p->host, PART * sizeof(float),
				       cudaMemcpyHostToDevice));
	cuda_watch_begin(c);
	int result = cuda_call_enqueue(c, t, p->comm, &data, c->stream[0]);
	MQ_TRY(cuda_watch_end(c, p->comm, result, name, err));
	MQ_TRY(cuda_wait(c, c->stream[0], cuda_now(c) + c->deadline_s, name, &late, err));
	if (late)
		return mq_fail(err, MQ_ETIME, "rank %u: %s made no progress for %.3g s", c->ranks->rank, name,
			       c->deadline_s);
	size_t out = (size_t)((float *)data.out - p->device), room = whole;
	if (t->coll == MQ_COLL_REDUCE_SCATTER && t->kind == MQ_TASK_COLLECTIVE)
		room = PART;
	CUDA_TRY(c, cudaMemcpy(p->host, (float *)p->device + out, room * sizeof(float), cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < room; i++) {
		float want = expected(p, t, i);

		if (!isnan(want) && p->host[i] != want)
			return mq_fail(
				err, MQ_ENODEV,
				"rank %u: %s%s of %u ranks (first: rank %u) gave %g as element %zu instead of %g: "
				"NCCL or a link returns wrong data, and its times mean nothing",
				c->ranks->rank, name, p->in_place ? " in place" : "", p->n, p->comm->rank[0],
				(double)p->host[i], i, (double)want);
	}
	return MQ_OK;
}

static enum mq_status prove_comm(struct proof *p, struct mq_err *err)
{
	struct mq_task t = { .kind = MQ_TASK_COLLECTIVE,
			     .dtype = MQ_FP32,
			     .root = p->n - 1,
			     .bytes = (double)(p->n * PART * sizeof(float)) };

	if (p->comm->channel) {
		t.kind = p->me ? MQ_TASK_RECV : MQ_TASK_SEND;
		return prove_call(p, &t, err);
	}
	for (int coll = 0; coll < MQ_N_COLL_KINDS; coll++) {
		t.coll = (uint8_t)coll;
		if (!(p->comm->kinds & 1u << coll))
			continue;
		p->in_place = false;
		MQ_TRY(prove_call(p, &t, err));
		p->in_place = coll != MQ_COLL_ALL_TO_ALL;
		if (p->in_place)
			MQ_TRY(prove_call(p, &t, err));
	}
	return MQ_OK;
}

enum mq_status cuda_calls_prove(struct cuda *c, struct mq_err *err)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < c->n_comms; i++)
		most = c->comms[i].n > most ? c->comms[i].n : most;
	if (!most)
		return MQ_OK;
	size_t floats = 2 * (size_t)most * PART;
	struct proof p = { .c = c, .host = mq_arena_array(c->session->arena, floats, float) };
	CUDA_TRY(c, cudaMalloc((void **)&p.device, floats * sizeof(float)));
	for (uint32_t i = 0; i < c->n_comms; i++) {
		p.comm = &c->comms[i];
		p.n = p.comm->n;
		p.in_place = false;
		for (p.me = 0; p.me < p.n && p.comm->rank[p.me] != c->ranks->rank;)
			p.me++;
		if (p.comm->comm)
			MQ_TRY(prove_comm(&p, err));
	}
	CUDA_TRY(c, cudaFree(p.device));
	return MQ_OK;
}

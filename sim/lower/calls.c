/*
 * calls.c - the time of hosts that launch a pass.
 *
 * A host launches the kernels, collectives and messages of its device in order and does not wait for them, so it runs
 * ahead: a pass takes the longer of what the host needs for all of it and what the device's kernels and collectives
 * take together, not the sum of such maxima over the runs of kernels between two collectives. Where the host needs
 * more, the compute tasks of the pass lose time in proportion to what they take. Where it waits for its device in the
 * middle of a pass, it starts anew: a pass is one stretch, or several.
 *
 * Not modelled: collectives that run beside kernels (their time counts as the device's, so that a little of the
 * host's is hidden too well), and hosts that are a whole pass ahead or behind, and their waits where the
 * backward pass sends tokens to experts once more (recomputation).
 */
#include <math.h>

#include "core/collective/collective.h"
#include "core/cost.h"
#include "lower/program.h"

struct paced { /* a compute task and what its kernels take */
	uint32_t task;
	struct mq_cost_parts parts;
};

/* A stretch of a pass on one device, seconds. */
struct pace {
	double kernels_s;  /* of the device */
	double launches_s; /* of the host, for kernels */
	double calls_s;    /* of the host, for all else */
	bool waits;        /* the host waits for each kernel */
	uint32_t n;
	struct paced *paced; /* [n] */
};

static double busy_s(const struct mq_cost_parts *p)
{
	return p->arithmetic_s + p->memory_s;
}

static const struct mq_device_calib *calib_of(const struct mq_low *low, uint32_t device)
{
	uint32_t calib = low->q.cluster->device[low->prog.schedule->device[device]].calib;

	return calib == MQ_NONE ? NULL : &low->q.calib->device[calib];
}

/* What pieces take without delays; remembered by content. */
static struct mq_cost_parts parts_of(struct mq_low *low, const struct mq_piece *piece, uint32_t n, uint32_t device)
{
	const char *type = low->prog.schedule->device_type[device];
	size_t tail = strlen(type), size = n * sizeof(*piece);
	struct mq_arena_mark mark = mq_arena_mark(&low->scratch);
	unsigned char *key = mq_arena_alloc(&low->scratch, size + tail);
	bool found;

	memcpy(key, piece, size);
	memcpy(key + size, type, tail);
	uint32_t id = mq_index_put(low->paces.parts_index, key, size + tail, low->paces.n_parts, &found);
	mq_arena_rewind(&low->scratch, mark);
	if (!found) {
		mark = mq_arena_mark(low->arena);
		struct mq_work w = mq_work_of(low, piece, n, type, &(struct mq_delay){ 0 });
		struct mq_cost_parts parts = mq_cost_parts(calib_of(low, device), &w);

		mq_arena_rewind(low->arena, mark);
		MQ_PUSH(low->arena, low->paces.parts, low->paces.n_parts, low->paces.parts_room, parts);
	}
	return low->paces.parts[id];
}

static uint32_t members_of(const struct mq_low *low, const struct mq_task *t)
{
	return low->prog.member ? low->prog.member[t->comm].n : low->prog.schedule->comm[t->comm].n;
}

/* A collective alone; 0 where it has no way, which the executor says. */
static double expand(struct mq_low *low, const struct mq_task *t)
{
	const struct mq_schedule *s = low->prog.schedule;
	uint32_t n = members_of(low, t);
	uint32_t *rank = mq_arena_array(&low->scratch, n, uint32_t);
	struct mq_coll_flows flows = { 0 };
	struct mq_err err = MQ_ERR_INIT;

	for (uint32_t i = 0; i < n; i++)
		rank[i] = low->prog.member ? low->prog.member[t->comm].rank[i] : s->device[s->comm[t->comm].rank[i]];
	struct mq_coll_request rq = mq_coll_request_of(t, n, rank);
	if (mq_collective_expand(low->q.cluster, low->q.calib, &rq, &low->scratch, &flows, &err) != MQ_OK)
		return 0;
	return flows.alone_s;
}

static double alone_s(struct mq_low *low, const struct mq_task *t)
{
	struct {
		double bytes;
		uint32_t comm, coll, dtype, spare;
	} key = { t->bytes, t->comm, t->coll, t->dtype, 0 };
	bool found;
	uint32_t id = mq_index_put(low->paces.call_index, &key, sizeof(key), low->paces.n_calls, &found);

	if (!found) {
		struct mq_arena_mark mark = mq_arena_mark(&low->scratch);
		double seconds = expand(low, t);

		mq_arena_rewind(&low->scratch, mark);
		MQ_PUSH(low->arena, low->paces.call_s, low->paces.n_calls, low->paces.calls_room, seconds);
	}
	return low->paces.call_s[id];
}

/* Agreeing on a collective first (check_us): on gradients hosts do so in a few calls a step, which is left out. */
static double check_s(const struct mq_low *low, const struct mq_task *t)
{
	if (t->kind != MQ_TASK_COLLECTIVE || t->stream == MQ_STREAM_GRAD)
		return 0;
	return low->software->check_us * 1e-6 * members_of(low, t);
}

/* Without room of a fixed size for each expert hosts wait for the numbers of tokens that visit theirs before they send
 * them (dropless mixtures: Megatron core's token dispatchers, DeepEP). */
static bool waits_for_tokens(const struct mq_low *low, const struct mq_task *t)
{
	return t->kind == MQ_TASK_COLLECTIVE && t->coll == MQ_COLL_ALL_TO_ALL && t->phase == MQ_FORWARD &&
	       !strcmp(low->prog.schedule->comm[t->comm].purpose, "ep") &&
	       low->model->op[t->op].kind != MQ_OP_COMBINE && !low->train->experts.pad;
}

/* Task `id` of the device of the stretch joins it. */
static void launch(struct mq_low *low, struct pace *p, const struct mq_piece *pieces, uint32_t id)
{
	const struct mq_ttask *t = &low->emit.t->task[id];
	const struct mq_device_calib *calib = calib_of(low, t->task.device);

	if (t->task.kind == MQ_TASK_COPY)
		return;
	if (t->task.kind != MQ_TASK_COMPUTE) {
		p->calls_s += low->software->call_launches * low->software->host * calib->host_launch_s +
			      check_s(low, &t->task);
		return;
	}
	struct mq_cost_parts parts = parts_of(low, pieces + t->piece_first, t->n_pieces, t->task.device);
	p->kernels_s += busy_s(&parts);
	p->launches_s += parts.host_s;
	p->waits = parts.waits;
	p->paced[p->n++] = (struct paced){ id, parts };
}

/* Collectives inside the layers of tasks [first, end) of a device. */
static double comm_s(struct mq_low *low, uint32_t device, uint32_t first, uint32_t end)
{
	double sum = 0;

	for (uint32_t i = first; i < end; i++) {
		const struct mq_task *t = &low->emit.t->task[i].task;

		if (t->device == device && t->kind == MQ_TASK_COLLECTIVE && t->stream != MQ_STREAM_GRAD)
			sum += alone_s(low, t);
	}
	return sum;
}

/* Where the host waits for each kernel its calls come on top. */
static void add_calls(struct mq_low *low, const struct pace *p)
{
	for (uint32_t i = 0; i < p->n; i++) {
		double own_s = busy_s(&p->paced[i].parts) + p->paced[i].parts.host_s;

		low->emit.t->task[p->paced[i].task].delay.call_s = p->calls_s * own_s / (p->kernels_s + p->launches_s);
	}
}

/* The tasks of `p` are those of the device among [first, end). */
static void spread(struct mq_low *low, const struct pace *p, uint32_t device, uint32_t first, uint32_t end)
{
	double host_s = p->launches_s + p->calls_s, lost_s = 0;

	/* one run of kernels and nothing else: the cost model's own rule */
	if (p->kernels_s <= 0 || (p->n == 1 && p->calls_s <= 0))
		return;
	if (p->waits) {
		add_calls(low, p);
		return;
	}
	if (host_s > p->kernels_s)
		lost_s = fmax(0, host_s - p->kernels_s - comm_s(low, device, first, end));
	for (uint32_t i = 0; i < p->n; i++) {
		double busy = busy_s(&p->paced[i].parts), launches_s = p->paced[i].parts.host_s;
		double takes_s = busy + lost_s * busy / p->kernels_s;

		if (takes_s != fmax(busy, launches_s))
			low->emit.t->task[p->paced[i].task].delay.call_s = takes_s - launches_s;
	}
}

void mq_calls_spread(struct mq_low *low, const struct mq_piece *pieces, uint32_t device)
{
	struct mq_arena_mark mark = mq_arena_mark(&low->scratch);
	const struct mq_device_calib *calib = calib_of(low, device);
	uint32_t n = low->emit.t->n_tasks, first = 0;
	struct pace p = { .paced = mq_arena_array(&low->scratch, n, struct paced) };

	for (uint32_t i = 0; i < n && calib && calib->kind != MQ_CPU; i++) {
		const struct mq_task *t = &low->emit.t->task[i].task;
		bool after = low->software->call_waits && t->kind == MQ_TASK_COLLECTIVE && t->stream != MQ_STREAM_GRAD;
		bool before = p.n && waits_for_tokens(low, t);

		if (t->device != device)
			continue;
		if (!before)
			launch(low, &p, pieces, i);
		if (before || after) {
			spread(low, &p, device, first, i + !before);
			p = (struct pace){ .paced = p.paced };
			first = i + !before;
		}
		if (before)
			launch(low, &p, pieces, i);
	}
	spread(low, &p, device, first, n);
	mq_arena_rewind(&low->scratch, mark);
}

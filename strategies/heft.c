/* heft.c - heterogeneous earliest finish time (Topcuoglu, Hariri, Wu, IEEE TPDS 2002), for placement.
 *
 * rank(i) = mean time of i + max over successors j of (mean transfer i-j + rank(j)); tasks by descending rank; each
 * goes to the device with enough memory where it finishes first, into a gap between earlier tasks if one is wide
 * enough. Tasks are ops, or ops that must share a device. O(tasks x (degree + gaps) x devices). Proposes one plan; its
 * makespan is the engine's objective.
 *
 * Not modelled: contention on links, memory freed during the step. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/engine.h"
#include "lib/tasks.h"

struct slot {
	double begin, end;
};

struct lanes {
	uint32_t *n, *room;
	struct slot **slot; /* [devices] sorted by time */
};

/* Indices into t->order, by descending upward rank. */
static uint32_t *rank_tasks(const struct mq_tasks *t, struct mq_arena *arena)
{
	double *rank = mq_arena_array(arena, t->n, double), *less = mq_arena_array(arena, t->n, double);

	for (uint32_t i = t->n; i-- > 0;) {
		uint32_t v = t->order[i];

		for (uint32_t k = t->out_first[v]; k < t->out_first[v + 1]; k++) {
			const struct mq_task_edge *e = &t->edge[t->out[k]];

			rank[v] = fmax(rank[v], mq_tasks_mean_move(t, e->bytes) + rank[e->dst]);
		}
		rank[v] += mq_tasks_mean_time(t, v);
		less[i] = -rank[v];
	}
	return mq_arena_order(arena, less, t->n);
}

/* Earliest start of a task of `length` seconds on a device, not before `ready`. */
static double earliest(const struct lanes *l, uint32_t device, double ready, double length)
{
	double begin = ready;

	for (uint32_t i = 0; i < l->n[device]; i++) {
		const struct slot *s = &l->slot[device][i];

		if (begin + length <= s->begin)
			return begin;
		begin = fmax(begin, s->end);
	}
	return begin;
}

/* Places every task; MQ_ENOPLAN: a task fits no device. */
static enum mq_status place(struct mq_list_engine *e, const struct mq_problem *problem, struct mq_arena *arena,
			    struct mq_schedule_state *now, struct mq_err *err)
{
	const struct mq_tasks *t = &e->tasks;
	struct lanes lanes = { mq_arena_array(arena, t->n_devices, uint32_t),
			       mq_arena_array(arena, t->n_devices, uint32_t),
			       mq_arena_array(arena, t->n_devices, struct slot *) };

	mq_schedule_begin(t, arena, now);
	const uint32_t *place = rank_tasks(t, arena);

	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t v = t->order[place[i]], best = MQ_NONE;
		double least = INFINITY, begin = 0;

		for (uint32_t d = 0; d < t->n_devices; d++) {
			double length = t->time[(size_t)v * t->n_devices + d];

			if (!isfinite(length) || now->used[d] + t->memory[v] > t->limit[d])
				continue;
			double from = earliest(&lanes, d, mq_schedule_ready(t, now, v, d, false), length);

			if (from + length < least)
				least = from + length, best = d, begin = from;
		}
		if (best == MQ_NONE)
			return mq_fail(err, MQ_ENOPLAN,
				       "engine 'heft': op group %u of %u (%.3g B) fits no device: %u groups are placed",
				       v, t->n, t->memory[v], i);
		struct slot slot = { begin, least }, *busy;

		MQ_PUSH(arena, lanes.slot[best], lanes.n[best], lanes.room[best], slot);
		busy = lanes.slot[best];
		for (uint32_t k = lanes.n[best] - 1; k > 0 && busy[k - 1].begin > begin; k--) {
			busy[k] = busy[k - 1];
			busy[k - 1] = slot;
		}
		now->device_of[v] = best;
		now->finish[v] = least;
		now->used[best] += t->memory[v];
		now->makespan = fmax(now->makespan, least);
	}
	return MQ_OK;
}

MQ_LIST_START("heft", place)

MQ_ENGINE(heft) = {
	MQ_ENGINE_HEAD("heft"),
	.summary = "list scheduling by upward rank, earliest finish with insertion",
	.paper = "Topcuoglu, Hariri, Wu, IEEE TPDS 2002",
	MQ_LIST_ENGINE,
};

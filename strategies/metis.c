/* metis.c - k-way partitioning of the operator graph (Karypis and Kumar, SIAM J. Sci. Comput. 1998; the METIS library),
 * the graph-partitioner baseline of the placement papers.
 *
 * Vertex weights are mean times of op groups over the devices, edge weights bytes; parts are sized by device speed.
 * Minimizes the cut under balance and ignores order, so a low cut may still make a long step. If the parts do not fit
 * their devices, memory becomes a second balanced weight; if the simulator finds every plan too large, it tries more
 * micro-batches. Proposes one plan per imbalance tolerance.
 *
 * link: -lmetis
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/engine.h"
#include "lib/partition.h"

struct metis {
	uint32_t seed;
	struct mq_tasks tasks;
	uint32_t round, too_large;
};

static const struct mq_opt opts[] = { MQ_U32(struct metis, seed, 1, 0, 1e9, "of METIS's own random choices"), MQ_END };

static const double tolerance[] = { 1.03, 1.1, 1.5, 5 };

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct metis *s = state;

	return mq_tasks_make(problem, "metis", &s->tasks, err);
}

/* Each device's share of the speed on this graph and of the memory (equal if unknown). */
static void device_shares(const struct mq_tasks *t, double *speed, double *memory)
{
	double whole = 0, room = 0;

	for (uint32_t d = 0; d < t->n_devices; d++) {
		double sum = 0;

		for (uint32_t v = 0; v < t->n; v++) /* an op that the device cannot run counts as slow */
			sum += fmin(t->time[(size_t)v * t->n_devices + d], 10 * mq_tasks_mean_time(t, v));
		speed[d] = 1 / fmax(sum, 1e-300);
		whole += speed[d];
		room += t->limit[d];
	}
	for (uint32_t d = 0; d < t->n_devices; d++) {
		speed[d] /= whole;
		memory[d] = isfinite(room) ? t->limit[d] / room : 1.0 / t->n_devices;
	}
}

/* Moves ops that their device cannot run to the fastest device for them. */
static void repair(const struct mq_tasks *t, uint32_t *choice)
{
	for (uint32_t v = 0; v < t->n; v++) {
		const double *time = t->time + (size_t)v * t->n_devices;

		if (isfinite(time[choice[v]]))
			continue;
		for (uint32_t d = 0; d < t->n_devices; d++)
			if (time[d] < time[choice[v]])
				choice[v] = d;
	}
}

/* Partitions by time, or by time and memory. False: METIS refused. */
static bool cut_graph(const struct metis *s, bool memory, double balance, struct mq_arena *arena, uint32_t *choice,
		      double *cut)
{
	const struct mq_tasks *t = &s->tasks;
	double *by_speed = mq_arena_array(arena, t->n_devices, double);
	double *by_memory = mq_arena_array(arena, t->n_devices, double);
	struct mq_partition how = { .parts = t->n_devices,
				    .seed = s->seed,
				    .tolerance = balance,
				    .share = by_speed,
				    .memory_share = memory ? by_memory : NULL,
				    .memory_tolerance = 5 };
	double held = 0, room = 0;

	for (uint32_t v = 0; v < t->n; v++)
		held += t->memory[v];
	for (uint32_t d = 0; d < t->n_devices; d++)
		room += t->limit[d];
	how.memory_tolerance = fmin(5, fmax(1.001, 0.95 * room / fmax(held, 1)));
	device_shares(t, by_speed, by_memory);
	if (!mq_partition_tasks(t, &how, arena, choice, cut))
		return false;
	repair(t, choice);
	return true;
}

static bool fits(const struct mq_tasks *t, const uint32_t *choice, struct mq_arena *arena)
{
	double *used = mq_arena_array(arena, t->n_devices, double);
	bool fine = true;

	for (uint32_t v = 0; v < t->n; v++)
		used[choice[v]] += t->memory[v];
	for (uint32_t d = 0; d < t->n_devices; d++)
		fine = fine && used[d] <= t->limit[d];
	return fine;
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct metis *s = state;
	const struct mq_tasks *t = &s->tasks;
	uint32_t *choice = mq_arena_array(arena, t->n, uint32_t);
	const uint32_t n_rounds = sizeof(tolerance) / sizeof(*tolerance);
	double cut = 0;

	if (s->round == n_rounds) {
		if (s->too_large < n_rounds || !mq_tasks_finer(problem, &s->tasks))
			return MQ_DONE;
		s->round = s->too_large = 0;
	}
	double balance = tolerance[s->round++];

	if (!cut_graph(s, false, balance, arena, choice, &cut) ||
	    (!fits(t, choice, arena) && !cut_graph(s, true, balance, arena, choice, &cut)))
		return mq_fail(err, MQ_EBUG, "engine 'metis': the library refused a graph of %u vertices", t->n);
	placements_plan(&t->space, choice, problem, arena, plan);
	plan->engine_objective = cut;
	plan->engine_unit = "share of all bytes cut";
	return MQ_OK;
}

static void observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		    const struct mq_result *result)
{
	struct metis *s = state;

	s->too_large += result->verdict == MQ_VERDICT_OOM;
}

MQ_ENGINE(metis) = {
	MQ_ENGINE_HEAD("metis"),
	.summary = "k-way graph partitioning of the ops (METIS): least cut, balanced compute",
	.paper = "Karypis and Kumar, SIAM J. Sci. Comput. 1998",
	MQ_ENGINE_OWN(struct metis),
	.lacks = MQ_LACKS_ALL,
	.observe = observe,
};

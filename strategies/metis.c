/*
 * metis.c - k-way partitioning of the operator graph (Karypis and Kumar, SIAM J. Sci. Comput. 1998;
 * the METIS library), the graph-partitioner baseline of the placement papers.
 *
 * Vertices weigh the time of an op group on the mean device, edges the bytes that cross; parts are
 * sized by the speed of the devices. Minimises the cut under balance, so it often loses against
 * planners that know about order: a low cut may make a long step. Memory is not respected by the
 * partitioner: a plan that does not fit says so. One plan per imbalance tolerance is proposed.
 *
 * link: -lmetis
 */
#include <math.h>
#include <metis.h>

#include "core/engine.h"
#include "lib/tasks.h"

struct metis {
	uint32_t seed;
	struct mq_tasks tasks;
	uint32_t round;
};

static const struct mq_opt opts[] = {
        MQ_U32(struct metis, seed, 1, 0, 1e9, "of METIS's own random choices"), MQ_END};

static const double tolerance[] = {1.03, 1.1, 1.5, 5};

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct metis *s = state;

	return mq_tasks_make(problem, "metis", &s->tasks, err);
}

struct graph {
	idx_t *first, *to, *edge_weight, *weight;
	real_t *share;
};

/* Undirected adjacency; weights are whole numbers: times in 1/1e6 of the total, bytes in 1/1e6 of
 * all. */
static void build(const struct mq_tasks *t, struct mq_arena *arena, struct graph *g)
{
	double time = 0, bytes = 0, speed = 0;
	idx_t *at = mq_arena_array(arena, t->n + 1, idx_t);

	g->first = mq_arena_array(arena, t->n + 1, idx_t);
	g->to = mq_arena_array(arena, 2 * t->n_edges, idx_t);
	g->edge_weight = mq_arena_array(arena, 2 * t->n_edges, idx_t);
	g->weight = mq_arena_array(arena, t->n, idx_t);
	g->share = mq_arena_array(arena, t->n_devices, real_t);
	for (uint32_t v = 0; v < t->n; v++)
		time += mq_tasks_mean_time(t, v);
	for (uint32_t e = 0; e < t->n_edges; e++) {
		bytes += t->edge[e].bytes;
		g->first[t->edge[e].src + 1]++;
		g->first[t->edge[e].dst + 1]++;
	}
	for (uint32_t v = 0; v < t->n; v++) {
		g->first[v + 1] += g->first[v];
		at[v] = g->first[v];
		g->weight[v] = 1 + (idx_t)(1e6 * mq_tasks_mean_time(t, v) / fmax(time, 1e-300));
	}
	for (uint32_t e = 0; e < t->n_edges; e++) {
		idx_t weight = 1 + (idx_t)(1e6 * t->edge[e].bytes / fmax(bytes, 1e-300));

		for (int side = 0; side < 2; side++) {
			uint32_t a = side ? t->edge[e].dst : t->edge[e].src;
			uint32_t b = side ? t->edge[e].src : t->edge[e].dst;

			g->to[at[a]] = (idx_t)b;
			g->edge_weight[at[a]++] = weight;
		}
	}
	for (uint32_t d = 0; d < t->n_devices; d++) {
		double sum = 0;

		for (uint32_t v = 0; v < t->n; v++) /* an op that it cannot run counts as slow */
			sum += fmin(t->time[(size_t)v * t->n_devices + d],
			            10 * mq_tasks_mean_time(t, v));
		g->share[d] = (real_t)(1 / fmax(sum, 1e-300));
		speed += (double)g->share[d];
	}
	for (uint32_t d = 0; d < t->n_devices; d++)
		g->share[d] = (real_t)((double)g->share[d] / speed);
}

/* A part may hold an op that its device cannot run: that op goes to the fastest device for it. */
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

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
                              struct mq_plan *plan, struct mq_err *err)
{
	struct metis *s = state;
	const struct mq_tasks *t = &s->tasks;
	struct graph g;
	idx_t options[METIS_NOPTIONS], n = (idx_t)t->n, constraints = 1,
	                               parts = (idx_t)t->n_devices, cut = 0;
	uint32_t *choice = mq_arena_array(arena, t->n, uint32_t);
	idx_t *part = mq_arena_array(arena, t->n, idx_t);

	if (s->round == sizeof(tolerance) / sizeof(*tolerance))
		return MQ_DONE;
	real_t balance = (real_t)tolerance[s->round++];

	build(t, arena, &g);
	METIS_SetDefaultOptions(options);
	options[METIS_OPTION_SEED] = (idx_t)s->seed;
	options[METIS_OPTION_NUMBERING] = 0;
	if (parts > 1 &&
	    METIS_PartGraphKway(&n, &constraints, g.first, g.to, g.weight, NULL, g.edge_weight,
	                        &parts, g.share, &balance, options, &cut, part) != METIS_OK)
		return mq_fail(err, MQ_EBUG,
		               "engine 'metis': the library refused a graph of %u vertices", t->n);
	for (uint32_t v = 0; v < t->n; v++)
		choice[v] = (uint32_t)part[v];
	repair(t, choice);
	placements_plan(&t->space, choice, problem, arena, plan);
	plan->engine_objective = (double)cut / 1e6;
	plan->engine_unit = "share of all bytes cut";
	return MQ_OK;
}

MQ_ENGINE(metis) = {
        MQ_ENGINE_HEAD("metis"),
        .summary = "k-way graph partitioning of the ops (METIS): least cut, balanced compute",
        .paper = "Karypis and Kumar, SIAM J. Sci. Comput. 1998",
        .opts = opts,
        .state_size = sizeof(struct metis),
        .heuristic = true,
        .start = start,
        .propose = propose,
};

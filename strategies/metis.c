/*
 * metis.c - k-way partitioning of the operator graph (Karypis and Kumar, SIAM J. Sci. Comput. 1998;
 * the METIS library), the graph-partitioner baseline of the placement papers.
 *
 * Vertices weigh the time of an op group on the mean device, edges the bytes that cross; parts are
 * sized by the speed of the devices. Minimises the cut under balance, so it often loses against
 * planners that know about order: a low cut may make a long step. Where the parts do not fit their
 * devices, memory becomes a second weight to balance; where the simulator finds every plan too large,
 * smaller micro-batches are tried. One plan per imbalance tolerance is proposed.
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
	uint32_t round, too_large;
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
	idx_t *first, *to, *edge_weight;
	idx_t *weight; /* [n * 2] time, memory */
	real_t *share; /* [devices * 2] speed, memory, of all */
	double spare;  /* memory of all devices over that of all tasks */
};

/* Undirected adjacency; weights are whole numbers: times in 1/1e6 of the total, bytes in 1/1e6 of
 * all. */
static void build(const struct mq_tasks *t, struct mq_arena *arena, struct graph *g)
{
	double time = 0, bytes = 0, speed = 0, held = 0, room = 0;
	idx_t *at = mq_arena_array(arena, t->n + 1, idx_t);

	g->first = mq_arena_array(arena, t->n + 1, idx_t);
	g->to = mq_arena_array(arena, 2 * t->n_edges, idx_t);
	g->edge_weight = mq_arena_array(arena, 2 * t->n_edges, idx_t);
	g->weight = mq_arena_array(arena, 2 * t->n, idx_t);
	g->share = mq_arena_array(arena, 2 * t->n_devices, real_t);
	for (uint32_t v = 0; v < t->n; v++) {
		time += mq_tasks_mean_time(t, v);
		held += t->memory[v];
	}
	for (uint32_t d = 0; d < t->n_devices; d++)
		room += t->limit[d];
	g->spare = room / fmax(held, 1);
	for (uint32_t e = 0; e < t->n_edges; e++) {
		bytes += t->edge[e].bytes;
		g->first[t->edge[e].src + 1]++;
		g->first[t->edge[e].dst + 1]++;
	}
	for (uint32_t v = 0; v < t->n; v++) {
		g->first[v + 1] += g->first[v];
		at[v] = g->first[v];
		g->weight[2 * v] = 1 + (idx_t)(1e6 * mq_tasks_mean_time(t, v) / fmax(time, 1e-300));
		g->weight[2 * v + 1] = 1 + (idx_t)(1e6 * t->memory[v] / fmax(held, 1));
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
		g->share[2 * d] = (real_t)(1 / fmax(sum, 1e-300));
		g->share[2 * d + 1] = (real_t)(isfinite(room) ? t->limit[d] / room : 1.0 / t->n_devices);
		speed += (double)g->share[2 * d];
	}
	for (uint32_t d = 0; d < t->n_devices; d++)
		g->share[2 * d] = (real_t)((double)g->share[2 * d] / speed);
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

/* Partitions by time, or by time and memory. False: the library refused. */
static bool cut_graph(const struct metis *s, const struct graph *g, bool memory, double balance,
                      struct mq_arena *arena, uint32_t *choice, double *cut)
{
	const struct mq_tasks *t = &s->tasks;
	idx_t options[METIS_NOPTIONS], n = (idx_t)t->n, weights = memory ? 2 : 1;
	idx_t parts = (idx_t)t->n_devices, edges = 0;
	idx_t *part = mq_arena_array(arena, t->n, idx_t);
	idx_t *weight = mq_arena_array(arena, 2 * t->n, idx_t);
	real_t *share = mq_arena_array(arena, 2 * t->n_devices, real_t);
	real_t most[2] = {(real_t)balance, (real_t)fmin(5, fmax(1.001, 0.95 * g->spare))};

	for (uint32_t v = 0; v < t->n; v++)
		for (idx_t k = 0; k < weights; k++)
			weight[(idx_t)v * weights + k] = g->weight[2 * v + (uint32_t)k];
	for (uint32_t d = 0; d < t->n_devices; d++)
		for (idx_t k = 0; k < weights; k++)
			share[(idx_t)d * weights + k] = g->share[2 * d + (uint32_t)k];
	METIS_SetDefaultOptions(options);
	options[METIS_OPTION_SEED] = (idx_t)s->seed;
	options[METIS_OPTION_NUMBERING] = 0;
	if (parts > 1 &&
	    METIS_PartGraphKway(&n, &weights, g->first, g->to, weight, NULL, g->edge_weight, &parts,
	                        share, most, options, &edges, part) != METIS_OK)
		return false;
	for (uint32_t v = 0; v < t->n; v++)
		choice[v] = (uint32_t)part[v];
	repair(t, choice);
	*cut = (double)edges / 1e6;
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
	struct graph g;
	uint32_t *choice = mq_arena_array(arena, t->n, uint32_t);
	const uint32_t n_rounds = sizeof(tolerance) / sizeof(*tolerance);
	double cut = 0;

	if (s->round == n_rounds) {
		if (s->too_large < n_rounds || !mq_tasks_finer(problem, &s->tasks))
			return MQ_DONE;
		s->round = s->too_large = 0;
	}
	double balance = tolerance[s->round++];

	build(t, arena, &g);
	if (!cut_graph(s, &g, false, balance, arena, choice, &cut) ||
	    (!fits(t, choice, arena) && !cut_graph(s, &g, true, balance, arena, choice, &cut)))
		return mq_fail(err, MQ_EBUG,
		               "engine 'metis': the library refused a graph of %u vertices", t->n);
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
        .opts = opts,
        .state_size = sizeof(struct metis),
        .heuristic = true,
        .lacks = MQ_LACKS_ALL,
        .start = start,
        .propose = propose,
        .observe = observe,
};

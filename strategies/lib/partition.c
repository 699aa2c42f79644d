/* partition.c - see partition.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/partition.h"

#include <fcntl.h>
#include <math.h>
#include <metis.h>
#include <stdio.h>
#include <unistd.h>

struct graph {
	idx_t *first, *to, *edge_weight;
	idx_t *weight; /* [n * weights] time, memory */
};

/* Undirected graph; integer weights: millionths of the total time, memory and bytes, plus 1. */
static void build(const struct mq_tasks *t, idx_t weights, struct mq_arena *arena, struct graph *g)
{
	double time = 0, bytes = 0, held = 0;
	idx_t *at = mq_arena_array(arena, t->n + 1, idx_t);

	g->first = mq_arena_array(arena, t->n + 1, idx_t);
	g->to = mq_arena_array(arena, 2 * t->n_edges, idx_t);
	g->edge_weight = mq_arena_array(arena, 2 * t->n_edges, idx_t);
	g->weight = mq_arena_array(arena, (size_t)weights * t->n, idx_t);
	for (uint32_t v = 0; v < t->n; v++) {
		time += mq_tasks_mean_time(t, v);
		held += t->memory[v];
	}
	for (uint32_t e = 0; e < t->n_edges; e++) {
		bytes += t->edge[e].bytes;
		g->first[t->edge[e].src + 1]++;
		g->first[t->edge[e].dst + 1]++;
	}
	for (uint32_t v = 0; v < t->n; v++) {
		g->first[v + 1] += g->first[v];
		at[v] = g->first[v];
		g->weight[v * weights] = 1 + (idx_t)(1e6 * mq_tasks_mean_time(t, v) / fmax(time, 1e-300));
		if (weights > 1)
			g->weight[v * weights + 1] = 1 + (idx_t)(1e6 * t->memory[v] / fmax(held, 1));
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
}

bool mq_partition_tasks(const struct mq_tasks *t, const struct mq_partition *how, struct mq_arena *arena,
			uint32_t *part_of, double *cut_share)
{
	struct graph g;
	idx_t options[METIS_NOPTIONS], n = (idx_t)t->n, weights = how->memory_share ? 2 : 1;
	idx_t parts = (idx_t)how->parts, cut = 0, *part = mq_arena_array(arena, t->n, idx_t);
	real_t *share = mq_arena_array(arena, (size_t)weights * how->parts, real_t);
	real_t most[2] = { (real_t)how->tolerance, (real_t)how->memory_tolerance };

	build(t, weights, arena, &g);
	for (idx_t k = 0; k < parts; k++) {
		share[k * weights] = (real_t)(how->share ? how->share[k] : 1.0 / how->parts);
		if (weights > 1)
			share[k * weights + 1] = (real_t)how->memory_share[k];
	}
	METIS_SetDefaultOptions(options);
	options[METIS_OPTION_SEED] = (idx_t)how->seed;
	options[METIS_OPTION_NUMBERING] = 0;
	/* METIS prints internal messages ("Cannot bisect a graph with 0 vertices!") on standard output, which belongs
	 * to the result: it is redirected to /dev/null while METIS runs. */
	fflush(stdout);
	int nothing = open("/dev/null", O_WRONLY), saved = dup(STDOUT_FILENO), status = METIS_OK;

	if (nothing >= 0 && saved >= 0)
		dup2(nothing, STDOUT_FILENO);
	if (nothing >= 0)
		close(nothing);
	if (parts > 1)
		status = METIS_PartGraphKway(&n, &weights, g.first, g.to, g.weight, NULL, g.edge_weight, &parts, share,
					     most, options, &cut, part);
	fflush(stdout);
	if (saved >= 0) {
		dup2(saved, STDOUT_FILENO);
		close(saved);
	}
	if (status != METIS_OK)
		return false;
	for (uint32_t v = 0; v < t->n; v++)
		part_of[v] = (uint32_t)part[v];
	if (cut_share)
		*cut_share = (double)cut / 1e6;
	return true;
}

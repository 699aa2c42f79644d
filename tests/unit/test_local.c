/*
 * test_local.c - local search for max-load: its loads, its end, and never below the optimum.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "local_search/local.h"
#include "place_load.h"

enum { MAX_NODES = 7 };

struct graph {
	struct mq_place place;
	struct mq_place_type type[2];
	struct mq_place_edge edge[MAX_NODES * MAX_NODES];
	double time[2 * MAX_NODES], size[MAX_NODES], out_cost[MAX_NODES];
};

static void random_graph(struct mq_rng *rng, struct graph *g)
{
	uint32_t n = 1 + mq_rng_below(rng, MAX_NODES);

	*g = (struct graph){ .place = { .n_nodes = n, .n_types = 2 } };
	g->type[0] = (struct mq_place_type){ 1 + mq_rng_below(rng, 2), (double)INFINITY, true };
	g->type[1] = (struct mq_place_type){ mq_rng_below(rng, 2), (double)INFINITY, false };
	for (uint32_t v = 0; v < n; v++) {
		g->time[2 * v] = mq_rng_below(rng, 50);
		g->time[2 * v + 1] = mq_rng_below(rng, 100);
		g->out_cost[v] = mq_rng_below(rng, 20);
		for (uint32_t u = 0; u < v; u++)
			if (mq_rng_below(rng, 3) == 0)
				g->edge[g->place.n_edges++] = (struct mq_place_edge){ u, v };
	}
	g->place.type = g->type;
	g->place.edge = g->edge;
	g->place.time = g->time;
	g->place.size = g->size;
	g->place.out_cost = g->out_cost;
}

/* Max-load of an assignment to devices: the types' devices in turn. */
static double judge(const struct mq_place *p, const uint32_t *device, uint32_t n_devices, struct mq_arena *arena)
{
	double worst = 0;

	for (uint32_t d = 0; d < n_devices; d++) {
		bool in[MAX_NODES], any = false;

		for (uint32_t v = 0; v < p->n_nodes; v++)
			any |= in[v] = device[v] == d;
		if (any)
			worst = fmax(worst, place_load(p, in, d < p->type[0].count ? 0 : 1, 1, arena));
	}
	return worst;
}

static double optimum(const struct mq_place *p, uint32_t n_devices, struct mq_arena *arena)
{
	uint32_t device[MAX_NODES] = { 0 };
	double best = INFINITY;

	for (;;) {
		uint32_t v = 0;

		best = fmin(best, judge(p, device, n_devices, arena));
		while (v < p->n_nodes && ++device[v] == n_devices)
			device[v++] = 0;
		if (v == p->n_nodes)
			return best;
	}
}

/* No single move of a node gains: the loads that the search keeps are the true ones. */
static void assert_local_optimum(const struct mq_place *p, uint32_t *device, uint32_t n_devices, double load,
				 struct mq_arena *arena)
{
	for (uint32_t v = 0; v < p->n_nodes; v++) {
		uint32_t old = device[v];

		for (uint32_t d = 0; d < n_devices; d++) {
			device[v] = d;
			assert_true(judge(p, device, n_devices, arena) >= load * (1 - 1e-6));
		}
		device[v] = old;
	}
}

static void ends_in_local_optima(void **state)
{
	struct mq_rng rng;
	int best_found = 0;

	mq_rng_seed(&rng, 77);
	for (int round = 0; round < 200; round++) {
		struct mq_arena arena = MQ_ARENA_INIT;
		struct graph g;
		struct mq_local_result r;
		struct mq_err err = MQ_ERR_INIT;
		uint32_t device[MAX_NODES] = { 0 };

		random_graph(&rng, &g);
		uint32_t n_devices = g.type[0].count + g.type[1].count;
		double best = optimum(&g.place, n_devices, &arena);

		assert_int_equal(mq_local_search(&g.place, &rng, &arena, &r, &err), MQ_OK);
		for (uint32_t s = 0; s < r.placement.n_stages; s++)
			for (uint32_t i = 0; i < r.placement.stage[s].n_nodes; i++)
				device[r.placement.stage[s].node[i]] =
					(r.placement.stage[s].type ? g.type[0].count : 0) + r.placement.stage[s].device;
		double load = judge(&g.place, device, n_devices, &arena);

		assert_true(fabs(load - r.placement.max_load) <= 1e-9 * fmax(1, load));
		assert_true(load >= best - 1e-9);
		assert_local_optimum(&g.place, device, n_devices, load, &arena);
		best_found += load <= best + 1e-9;
		mq_arena_fini(&arena);
	}
	print_message("optimum reached from %d of 200 single starts\n", best_found);
	assert_true(best_found > 60);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(ends_in_local_optima) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

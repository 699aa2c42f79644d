/*
 * test_ip.c - integer programs for placement: equal to brute force on small random graphs.
 *
 * MQ_TEST_ROUNDS=N sets the number of graphs (default 12); 1000 takes some minutes.
 *
 * link: igraph jansson
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "maquette/rng.h"
#include "lib/place/ideal.h"
#include "ip/place_ip.h"
#include "ip/place_latency.h"
#include "lib/place/model.h"
#include "place_load.h"
#include "placement_data.h"
#include "sanitized.h"

enum { MAX_NODES = 10, MAX_SLOTS = 4 };

struct graph {
	struct mq_place place;
	struct mq_place_type type[2];
	struct mq_place_edge edge[MAX_NODES * MAX_NODES];
	double time[2 * MAX_NODES], size[MAX_NODES], out_cost[MAX_NODES];
	uint32_t color[MAX_NODES];
	bool backward[MAX_NODES];
};

/* A pure inference graph: no backward nodes. */
static void random_graph(struct mq_rng *rng, uint32_t max_nodes, struct graph *g)
{
	uint32_t n = 1 + mq_rng_below(rng, max_nodes);

	*g = (struct graph){ .place = { .n_nodes = n, .n_types = 2 } };
	g->type[0] = (struct mq_place_type){ 1 + mq_rng_below(rng, 3), 30 + mq_rng_below(rng, 60), true };
	g->type[1] = (struct mq_place_type){ mq_rng_below(rng, 2), (double)INFINITY, false };
	for (uint32_t v = 0; v < n; v++) {
		g->time[2 * v] = mq_rng_below(rng, 12) ? mq_rng_below(rng, 50) : (double)INFINITY;
		g->time[2 * v + 1] = mq_rng_below(rng, 200);
		g->size[v] = mq_rng_below(rng, 20);
		g->out_cost[v] = mq_rng_below(rng, 20);
		g->color[v] = mq_rng_below(rng, 4) ? MQ_NONE : mq_rng_below(rng, 4);
		for (uint32_t u = 0; u < v; u++)
			if (mq_rng_below(rng, 3) == 0)
				g->edge[g->place.n_edges++] = (struct mq_place_edge){ u, v };
	}
	g->place.type = g->type;
	g->place.edge = g->edge;
	g->place.time = g->time;
	g->place.size = g->size;
	g->place.out_cost = g->out_cost;
	g->place.color = g->color;
}

struct brute {
	const struct mq_place *place;
	struct mq_units u; /* of the kind that the program uses */
	struct mq_arena *arena;
	enum mq_place_objective objective;
	bool contiguous;
	uint32_t n_slots, type[MAX_SLOTS], slot_of[MAX_NODES];
	double best;
};

/* No path leaves the slot's set and comes back. Items: units, or nodes for the latency. */
static bool convex(const struct brute *b, uint32_t slot)
{
	bool nodes = b->objective == MQ_PLACE_LATENCY;
	uint32_t n = nodes ? b->place->n_nodes : b->u.n;
	bool path[MAX_NODES][MAX_NODES] = { { false } };

	for (uint32_t e = 0; nodes && e < b->place->n_edges; e++)
		path[b->place->edge[e].src][b->place->edge[e].dst] = true;
	for (uint32_t v = 0; !nodes && v < n; v++)
		for (uint32_t i = b->u.pred_first[v]; i < b->u.pred_first[v + 1]; i++)
			path[b->u.pred[i]][v] = true;
	for (uint32_t k = 0; k < n; k++)
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t j = 0; j < n; j++)
				path[i][j] |= path[i][k] && path[k][j];
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < n; k++)
			for (uint32_t j = 0; j < n; j++) {
				uint32_t a = nodes ? b->u.of_node[i] : i, c = nodes ? b->u.of_node[k] : k;
				uint32_t d = nodes ? b->u.of_node[j] : j;

				if (path[i][k] && path[k][j] && b->slot_of[a] == slot && b->slot_of[c] != slot &&
				    b->slot_of[d] == slot)
					return false;
			}
	return true;
}

static double judge(struct brute *b)
{
	struct mq_place_stage stage[MAX_SLOTS];
	struct mq_placement split = { 0, 0, stage };
	uint32_t node[MAX_SLOTS][MAX_NODES];
	bool in[MAX_NODES];

	for (uint32_t s = 0; s < b->n_slots; s++) {
		struct mq_place_stage *one = &stage[split.n_stages];
		bool own = b->place->type[b->type[s]].own_memory;

		*one = (struct mq_place_stage){ .type = b->type[s], .replicas = 1, .device = s, .node = node[s] };
		for (uint32_t v = 0; v < b->place->n_nodes; v++) {
			in[v] = b->slot_of[b->u.of_node[v]] == s;
			if (in[v])
				one->node[one->n_nodes++] = v;
		}
		if (!one->n_nodes)
			continue;
		one->load = place_load(b->place, in, one->type, 1, b->arena);
		split.max_load = fmax(split.max_load, one->load);
		split.n_stages++;
		if ((b->contiguous || (b->objective == MQ_PLACE_LATENCY && own)) && !convex(b, s))
			return INFINITY;
	}
	if (b->objective == MQ_PLACE_MAX_LOAD || isinf(split.max_load))
		return split.max_load;
	if (b->objective == MQ_PLACE_PHASES)
		return mq_place_phases(b->place, &split, b->arena);
	return mq_place_latency(b->place, &split, b->arena);
}

static void assign(struct brute *b, uint32_t unit)
{
	if (unit == b->u.n) {
		b->best = fmin(b->best, judge(b));
		return;
	}
	for (uint32_t s = 0; s < b->n_slots; s++) {
		b->slot_of[unit] = s;
		assign(b, unit + 1);
	}
}

static double brute_force(struct graph *g, enum mq_place_objective objective, bool contiguous, struct mq_arena *arena)
{
	struct mq_err err = MQ_ERR_INIT;
	struct brute b = { .place = &g->place,
			   .arena = arena,
			   .objective = objective,
			   .contiguous = contiguous && objective != MQ_PLACE_LATENCY,
			   .best = INFINITY };

	assert_int_equal(mq_units_make(&g->place, b.contiguous ? MQ_UNITS_CYCLES : MQ_UNITS_COLORS, arena, &b.u, &err),
			 MQ_OK);
	for (uint32_t t = 0; t < 2; t++)
		for (uint32_t d = 0; d < g->type[t].count; d++)
			b.type[b.n_slots++] = t;
	assign(&b, 0);
	return b.best;
}

static void compare(struct graph *g, enum mq_place_objective objective, bool contiguous, bool warm)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_ideal_options dpl = { .linearize = true };
	struct mq_ideal_result line;
	struct mq_place_ip_result r;
	struct mq_place_ip_options o = { .objective = objective, .contiguous = contiguous, .seconds = INFINITY };
	double best = brute_force(g, objective, contiguous, &arena);

	assert_int_equal(mq_ideal_solve(&g->place, &dpl, &arena, &line, &err), MQ_OK);
	if (warm && line.placement.n_stages)
		o.start = &line.placement;
	enum mq_status status = mq_place_ip(&g->place, &o, &arena, &r, &err);

	if (status != MQ_OK)
		fail_msg("%s", err.text);
	if (isinf(best)) {
		assert_true(r.infeasible && isinf(r.value));
	} else {
		assert_true(r.optimal);
		if (fabs(r.value - best) > 1e-6 * fmax(1, best))
			fail_msg("%u nodes, objective %d contiguous %d: brute force %.9g, program "
				 "%.9g",
				 g->place.n_nodes, objective, contiguous, best, r.value);
		assert_true(r.bound <= best * (1 + 1e-6) + 1e-6);
	}
	mq_arena_fini(&arena);
}

static int rounds(void)
{
	const char *text = getenv("MQ_TEST_ROUNDS");

	return text ? atoi(text) : 12;
}

static void have_cbc(void)
{
	if (system("command -v cbc >/dev/null 2>&1") != 0) {
		print_message("skipped: the program cbc is not installed (package coinor-cbc)\n");
		skip();
	}
}

static void max_load_equals_brute_force(void **state)
{
	struct mq_rng rng;

	have_cbc();
	mq_rng_seed(&rng, 5);
	for (int i = 0; i < rounds(); i++) {
		struct graph g;

		random_graph(&rng, i < 8 ? 7 : MAX_NODES, &g);
		compare(&g, MQ_PLACE_MAX_LOAD, i % 2, i % 3 == 0);
	}
}

/* The backward pass of such a graph is what comes last in it. */
static void phases_equal_brute_force(void **state)
{
	struct mq_rng rng;
	uint32_t differ = 0;

	have_cbc();
	mq_rng_seed(&rng, 8);
	for (int i = 0; i < rounds(); i++) {
		struct mq_arena arena = MQ_ARENA_INIT;
		struct graph g;

		random_graph(&rng, i < 8 ? 7 : MAX_NODES, &g);
		for (uint32_t v = (g.place.n_nodes + 1) / 2; v < g.place.n_nodes; v++)
			g.backward[v] = true;
		g.place.backward = g.backward;
		compare(&g, MQ_PLACE_PHASES, i % 2, i % 3 == 0);
		differ += brute_force(&g, MQ_PLACE_PHASES, i % 2, &arena) >
			  brute_force(&g, MQ_PLACE_MAX_LOAD, i % 2, &arena);
		mq_arena_fini(&arena);
	}
	assert_true(differ > 0); /* the sum of two maxima is no less than the maximum of sums, and often more */
}

/* Three devices hold a forward op of 6, 5 and 1 and a backward op of 1, 5 and 6: apart they add up to 12. */
static void phases_by_hand(void **state)
{
	static const double time[] = { 6, 5, 1, 1, 5, 6 }, none[6] = { 0 };
	static const bool backward[] = { false, false, false, true, true, true };
	static const struct mq_place_type type = { 3, 1, true };
	static const struct mq_place p = { .n_nodes = 6,
					   .n_types = 1,
					   .type = &type,
					   .time = time,
					   .size = none,
					   .out_cost = none,
					   .backward = backward };
	uint32_t node[3][2] = { { 0, 3 }, { 1, 4 }, { 2, 5 } };
	struct mq_place_stage stage[3];
	struct mq_placement placement = { .n_stages = 3, .stage = stage };
	struct mq_arena arena = MQ_ARENA_INIT;

	for (uint32_t s = 0; s < 3; s++)
		stage[s] = (struct mq_place_stage){ .replicas = 1, .device = s, .n_nodes = 2, .node = node[s] };
	assert_true(mq_place_phases(&p, &placement, &arena) == 12);
	mq_arena_fini(&arena);
}

static void latency_equals_brute_force(void **state)
{
	struct mq_rng rng;

	have_cbc();
	mq_rng_seed(&rng, 6);
	for (int i = 0; i < rounds(); i++) {
		struct graph g;

		random_graph(&rng, 6, &g);
		compare(&g, MQ_PLACE_LATENCY, true, i % 3 == 0);
	}
}

/* The bound of the paths and the line of sets have the optimum between them. */
static void latency_lies_between(void **state)
{
	struct mq_rng rng;
	uint32_t met = 0, all = 0;

	mq_rng_seed(&rng, 9);
	for (int i = 0; i < 150; i++) {
		struct mq_arena arena = MQ_ARENA_INIT;
		struct mq_err err = MQ_ERR_INIT;
		struct mq_placement line;
		struct graph g;
		double bound;

		random_graph(&rng, 6, &g);
		double best = brute_force(&g, MQ_PLACE_LATENCY, false, &arena);

		assert_int_equal(mq_place_latency_bound(&g.place, 1, &arena, &bound, &err), MQ_OK);
		assert_int_equal(mq_place_line(&g.place, 50, &rng, &arena, &line, &err), MQ_OK);
		if (bound > best)
			fail_msg("graph %d: bound %.12g above the optimum %.12g", i, bound, best);
		if (line.n_stages) {
			double value = mq_place_latency(&g.place, &line, &arena);

			if (value < best * (1 - 1e-12))
				fail_msg("graph %d: %.12g below the optimum %.12g", i, value, best);
			met += value <= bound * (1 + 1e-6) + 1e-9;
			all++;
		}
		mq_arena_fini(&arena);
	}
	print_message("bound and line meet in %u of %u graphs\n", met, all);
	assert_true(met > all / 4);
}

/* The public graphs: within a few percent of a lower bound, two of them at it. */
static void public_latencies(void **state)
{
	static const struct {
		const char *file;
		double gap;
	} graph[] = { { "LayerGraphs/bert24_inference", 1e-6 },
		      { "LayerGraphs/resnet50_inference", 1e-6 },
		      { "LayerGraphs/gnmt_inference", 0.04 },
		      { "OperatorGraphs/bert_l-3_inference", 0.03 } };

	for (size_t i = 0; i < (SANITIZED ? 2 : sizeof(graph) / sizeof(*graph)); i++) {
		struct mq_arena arena = MQ_ARENA_INIT;
		struct mq_err err = MQ_ERR_INIT;
		struct placement_graph g;
		struct mq_placement line;
		struct mq_rng rng;
		char path[512];
		double bound;

		snprintf(path, sizeof(path), PLACEMENT_FOLDER "/latency-inputs/%s.json", graph[i].file);
		if (!placement_load(path, &arena, &g)) {
			print_message("skipped: no %s\n", path);
			skip();
		}
		mq_rng_seed(&rng, 1);
		assert_int_equal(mq_place_latency_bound(&g.place, 1, &arena, &bound, &err), MQ_OK);
		assert_int_equal(mq_place_line(&g.place, 1000, &rng, &arena, &line, &err), MQ_OK);
		double value = mq_place_latency(&g.place, &line, &arena);

		print_message("%s: %.9g, bound %.9g\n", graph[i].file, value, bound);
		assert_in_range(1e9 * bound / value, 1e9 * (1 - graph[i].gap), 1e9);
		mq_arena_fini(&arena);
	}
}

/* min -x - 2y, x + y <= 1.5, both binary: x or y, not both. */
static void tiny_program(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_mip mip = { .arena = &arena };
	struct mq_mip_options o = { .seconds = 10 };
	struct mq_mip_result r;
	struct mq_err err = MQ_ERR_INIT;

	have_cbc();
	uint32_t x = mq_mip_column(&mip, -1, 0, 1, true), y = mq_mip_column(&mip, -2, 0, 1, true);
	uint32_t row = mq_mip_row(&mip, 'L', 1.5);

	mq_mip_add(&mip, row, x, 1);
	mq_mip_add(&mip, row, y, 1);
	assert_int_equal(mq_mip_solve(&mip, &o, &arena, &r, &err), MQ_OK);
	assert_int_equal(r.verdict, MQ_MIP_OPTIMAL);
	assert_true(fabs(r.objective + 2) < 1e-9 && r.value[x] < 0.5 && r.value[y] > 0.5);
	assert_true(fabs(r.bound + 2) < 1e-6);
	uint32_t more = mq_mip_row(&mip, 'G', 2); /* x + y >= 2: nothing is left */

	mq_mip_add(&mip, more, x, 1);
	mq_mip_add(&mip, more, y, 1);
	assert_int_equal(mq_mip_solve(&mip, &o, &arena, &r, &err), MQ_OK);
	assert_int_equal(r.verdict, MQ_MIP_INFEASIBLE);
	assert_null(r.value);
	mq_arena_fini(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tiny_program),
		cmocka_unit_test(max_load_equals_brute_force),
		cmocka_unit_test(phases_by_hand),
		cmocka_unit_test(phases_equal_brute_force),
		cmocka_unit_test(latency_equals_brute_force),
		cmocka_unit_test(latency_lies_between),
		cmocka_unit_test(public_latencies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

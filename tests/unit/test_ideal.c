/*
 * test_ideal.c - contiguous placement: against brute force, and against the public graphs.
 *
 * link: jansson
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/csv.h"
#include "maquette/rng.h"
#include "lib/place/ideal.h"
#include "lib/place/model.h"
#include "place_load.h"
#include "placement_data.h"
#include "sanitized.h"

enum { MAX_NODES = 8 };

/* ---- random graphs ----------------------------------------------------------------------------
 */

struct small {
	struct mq_place place;
	struct mq_place_type type[2];
	struct mq_place_edge edge[MAX_NODES * MAX_NODES];
	double time[2 * MAX_NODES], size[MAX_NODES], out_cost[MAX_NODES], sync[MAX_NODES];
	uint32_t color[MAX_NODES];
	bool backward[MAX_NODES];
};

static void random_small(struct mq_rng *rng, struct small *s)
{
	uint32_t n = 1 + mq_rng_below(rng, MAX_NODES), n_forward = 1 + mq_rng_below(rng, n);

	*s = (struct small){ .place = { .n_nodes = n, .n_types = 2 } };
	s->type[0] = (struct mq_place_type){ 1 + mq_rng_below(rng, 3), 20 + mq_rng_below(rng, 40), true };
	s->type[1] = (struct mq_place_type){ mq_rng_below(rng, 3), INFINITY, mq_rng_below(rng, 4) == 0 };
	for (uint32_t v = 0; v < n; v++) {
		s->time[2 * v] = mq_rng_below(rng, 12) == 0 ? INFINITY : mq_rng_below(rng, 50);
		s->time[2 * v + 1] = mq_rng_below(rng, 200);
		s->size[v] = mq_rng_below(rng, 20);
		s->out_cost[v] = mq_rng_below(rng, 20);
		s->sync[v] = mq_rng_below(rng, 20);
		s->color[v] = mq_rng_below(rng, 3) ? mq_rng_below(rng, 6) : MQ_NONE;
		s->backward[v] = v >= n_forward;
		for (uint32_t u = 0; u < v; u++)
			if (mq_rng_below(rng, 3) == 0)
				s->edge[s->place.n_edges++] = (struct mq_place_edge){ u, v };
	}
	s->place.type = s->type;
	s->place.edge = s->edge;
	s->place.time = s->time;
	s->place.size = s->size;
	s->place.out_cost = s->out_cost;
	s->place.color = s->color;
	s->place.backward = s->backward;
	s->place.sync = s->sync;
}

struct brute {
	const struct mq_place *place;
	const struct mq_units *u;
	struct mq_arena *arena;
	uint32_t max_replicas, set_of[MAX_NODES];
	double best;
};

/* Is the partition into sets a chain: no cycle among them? */
static bool contiguous(const struct brute *b, uint32_t n_sets)
{
	bool before[MAX_NODES][MAX_NODES] = { { false } };

	for (uint32_t v = 0; v < b->u->n; v++)
		for (uint32_t i = b->u->pred_first[v]; i < b->u->pred_first[v + 1]; i++)
			before[b->set_of[b->u->pred[i]]][b->set_of[v]] = true;
	for (uint32_t k = 0; k < n_sets; k++)
		for (uint32_t i = 0; i < n_sets; i++)
			for (uint32_t j = 0; j < n_sets; j++)
				before[i][j] |= before[i][k] && before[k][j];
	for (uint32_t i = 0; i < n_sets; i++)
		for (uint32_t j = 0; j < i; j++)
			if (before[i][j] && before[j][i])
				return false;
	return true;
}

/* Best choice of type and replicas for sets `set`.. with what is left of the devices. */
static void choose_devices(struct brute *b, uint32_t set, uint32_t n_sets, const uint32_t left[2], double load)
{
	bool in[MAX_NODES];

	if (load >= b->best)
		return;
	if (set == n_sets) {
		b->best = load;
		return;
	}
	for (uint32_t v = 0; v < b->place->n_nodes; v++)
		in[v] = b->set_of[b->u->of_node[v]] == set;
	for (uint32_t t = 0; t < 2; t++) {
		for (uint32_t r = 1; r <= b->max_replicas && r <= left[t]; r++) {
			uint32_t rest[2] = { left[0], left[1] };

			rest[t] -= r;
			choose_devices(b, set + 1, n_sets, rest, fmax(load, place_load(b->place, in, t, r, b->arena)));
		}
	}
}

/* Set partitions of the units in restricted-growth order. */
static void partitions(struct brute *b, uint32_t unit, uint32_t n_sets)
{
	uint32_t left[2] = { b->place->type[0].count, b->place->type[1].count };

	if (unit == b->u->n) {
		if (contiguous(b, n_sets))
			choose_devices(b, 0, n_sets, left, 0);
		return;
	}
	for (uint32_t s = 0; s <= n_sets && s < left[0] + left[1]; s++) {
		b->set_of[unit] = s;
		partitions(b, unit + 1, s == n_sets ? n_sets + 1 : n_sets);
	}
}

static void check_placement(const struct mq_place *p, const struct mq_ideal_result *r, struct mq_arena *arena)
{
	uint32_t used[2] = { 0, 0 }, seen = 0;
	double load = 0;

	for (uint32_t i = 0; i < r->placement.n_stages; i++) {
		const struct mq_place_stage *stage = &r->placement.stage[i];
		bool *in = mq_arena_array(arena, p->n_nodes, bool);

		for (uint32_t v = 0; v < stage->n_nodes; v++)
			in[stage->node[v]] = true;
		seen += stage->n_nodes;
		used[stage->type] += stage->replicas;
		load = fmax(load, place_load(p, in, stage->type, stage->replicas, arena));
	}
	assert_int_equal(seen, p->n_nodes);
	assert_true(used[0] <= p->type[0].count && used[1] <= p->type[1].count);
	assert_true(fabs(load - r->placement.max_load) <= 1e-9 * fmax(1, load));
}

static void equals_brute_force(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_rng rng;
	int feasible = 0;

	mq_rng_seed(&rng, 11);
	for (int round = 0; round < 400; round++) {
		struct small s;
		struct mq_err err = MQ_ERR_INIT;
		struct mq_units units;
		struct mq_ideal_options o = { .keep_idle = true, .max_replicas = 1 + round % 3 };
		struct mq_ideal_result r;

		random_small(&rng, &s);
		assert_int_equal(mq_units_make(&s.place, MQ_UNITS_CYCLES, &arena, &units, &err), MQ_OK);
		struct brute b = { .place = &s.place,
				   .u = &units,
				   .arena = &arena,
				   .best = INFINITY,
				   .max_replicas = o.max_replicas };

		partitions(&b, 0, 0);
		assert_int_equal(mq_ideal_solve(&s.place, &o, &arena, &r, &err), MQ_OK);
		if (isinf(b.best)) {
			assert_true(isinf(r.placement.max_load));
			continue;
		}
		feasible++;
		if (fabs(b.best - r.placement.max_load) > 1e-9 * fmax(1, b.best))
			fail_msg("round %d: brute force %g, ideals %g", round, b.best, r.placement.max_load);
		assert_true(r.line_load >= b.best * (1 - 1e-12));
		check_placement(&s.place, &r, &arena);
		mq_arena_rewind(&arena, (struct mq_arena_mark){ NULL, 0 });
	}
	assert_true(feasible > 200);
	mq_arena_fini(&arena);
}

/* ---- units ------------------------------------------------------------------------------------
 */

/* Forward 0 -> 1 -> 2, backward 3 (mate of 2) -> 4 (no mate) -> 5 (mate of 0): the orphan 4 must
 * come between the mates of 5 and 3, that is between 0 and 2. */
static void orphans_get_a_place(void **state)
{
	static const struct mq_place_edge edge[] = { { 0, 1 }, { 1, 2 }, { 2, 3 }, { 3, 4 }, { 4, 5 } };
	static const double time[12] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, zero[6] = { 0 };
	static const uint32_t color[] = { 7, 8, 9, 9, MQ_NONE, 7 };
	static const bool backward[] = { false, false, false, true, true, true };
	static const struct mq_place_type type[] = { { 3, 10, true }, { 0, INFINITY, false } };
	struct mq_place p = { .n_nodes = 6,
			      .n_edges = 5,
			      .n_types = 2,
			      .type = type,
			      .time = time,
			      .size = zero,
			      .out_cost = zero,
			      .color = color,
			      .backward = backward,
			      .edge = edge };
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_units u;
	struct mq_err err = MQ_ERR_INIT;

	assert_int_equal(mq_units_make(&p, MQ_UNITS_IDLE, &arena, &u, &err), MQ_OK);
	assert_int_equal(u.n, 4);
	assert_int_equal(u.of_node[0], u.of_node[5]);
	assert_int_equal(u.of_node[2], u.of_node[3]);
	assert_true(u.of_node[0] < u.of_node[4] && u.of_node[4] < u.of_node[2]);
	static const bool wrong[] = { true, false, false, false, false, false };

	p.backward = wrong;
	assert_int_equal(mq_units_make(&p, MQ_UNITS_IDLE, &arena, &u, &err), MQ_EINPUT);
	mq_arena_fini(&arena);
}

static void too_many_ideals_are_refused(void **state)
{
	static double time[40], zero[20];
	static const struct mq_place_type type[] = { { 2, 10, true }, { 0, INFINITY, false } };
	struct mq_place p = { .n_nodes = 20, .n_types = 2, .type = type, .time = time, .size = zero, .out_cost = zero };
	struct mq_ideal_options o = { .max_ideals = 5000 }; /* 20 independent nodes: 2^20 */
	struct mq_ideal_result r;
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;

	assert_int_equal(mq_ideal_solve(&p, &o, &arena, &r, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "more than 5000 ideals"));
	o.linearize = true;
	assert_int_equal(mq_ideal_solve(&p, &o, &arena, &r, &err), MQ_OK);
	assert_int_equal(r.n_ideals, 21);
	mq_arena_fini(&arena);
}

/* ---- public graphs ----------------------------------------------------------------------------
 */

/* By hand: 0 -> 1 -> 2 -> 3 with times 1, 2, 4, 8 and output costs 16 each; {0, 2} on an
 * accelerator must be cut, {1} and {3} on CPUs: 0: 1 + 16; 1: 17 + 2; 2: 19 + 16 (in) + 4 + 16
 * (out) = 55; 3: 63. */
static void latency_cuts_sets(void **state)
{
	static const struct mq_place_edge edge[] = { { 0, 1 }, { 1, 2 }, { 2, 3 } };
	static const double time[] = { 1, 1, 2, 2, 4, 4, 8, 8 }, zero[4] = { 0 };
	static const double out[] = { 16, 16, 16, 16 };
	static const struct mq_place_type type[] = { { 1, 10, true }, { 2, (double)INFINITY, false } };
	struct mq_place p = { .n_nodes = 4,
			      .n_edges = 3,
			      .n_types = 2,
			      .type = type,
			      .time = time,
			      .size = zero,
			      .out_cost = out,
			      .edge = edge };
	uint32_t first[] = { 0, 2 }, second[] = { 1, 3 };
	struct mq_place_stage stage[] = { { .type = 0, .replicas = 1, .n_nodes = 2, .node = first },
					  { .type = 1, .replicas = 1, .n_nodes = 2, .node = second } };
	struct mq_placement split = { 0, 2, stage };
	struct mq_arena arena = MQ_ARENA_INIT;

	assert_true(mq_place_latency(&p, &split, &arena) == 63);
	assert_false(mq_placement_sort(&p, &split, &arena)); /* 0 -> 1 -> 2 goes back and forth */
	uint32_t low[] = { 0, 1 }, high[] = { 2, 3 };

	stage[0].node = high;
	stage[1].node = low;
	assert_true(mq_placement_sort(&p, &split, &arena));
	assert_int_equal(stage[0].type, 1);
	mq_arena_fini(&arena);
}

/* Latency of the dynamic programme's own split, where the table has it. */
static void check_latency(const char *graph, const char *workload, const struct mq_csv *csv,
			  const struct placement_graph *g, const struct mq_placement *split, struct mq_arena *arena)
{
	for (uint32_t row = 0; row < csv->n_rows; row++) {
		double want;

		if (strcmp(mq_csv_text(csv, row, mq_csv_column(csv, "objective")), "latency") ||
		    strcmp(mq_csv_text(csv, row, mq_csv_column(csv, "graph")), graph) ||
		    strcmp(mq_csv_text(csv, row, mq_csv_column(csv, "workload")), workload) ||
		    strcmp(mq_csv_text(csv, row, mq_csv_column(csv, "algorithm")), "split of the max-load DP"))
			continue;
		assert_true(mq_csv_f64(csv, row, mq_csv_column(csv, "value"), NAN, &want));
		double latency = mq_place_latency(&g->place, split, arena);

		print_message("   latency of this split %.3f (table %.3f)\n", latency, want);
		/* Of equal max-loads, one split may be faster than the table's, none slower. */
		assert_true(latency > 0 && latency <= want * (1 + 4e-6));
	}
}

static void check_row(const struct mq_csv *csv, uint32_t row, bool linearize)
{
	const char *graph = mq_csv_text(csv, row, mq_csv_column(csv, "graph"));
	const char *workload = mq_csv_text(csv, row, mq_csv_column(csv, "workload"));
	bool latency = strstr(mq_csv_text(csv, row, mq_csv_column(csv, "objective")), "latency");
	struct mq_arena arena = MQ_ARENA_INIT;
	struct placement_graph g;
	struct mq_ideal_options o = { .linearize = linearize };
	struct mq_ideal_result r;
	struct mq_err err = MQ_ERR_INIT;
	double want, ideals;
	char path[512];

	snprintf(path, sizeof(path), PLACEMENT_FOLDER "/%s-inputs/%s/%s.json", latency ? "latency" : "throughput",
		 graph, workload);
	assert_true(placement_load(path, &arena, &g));
	assert_true(mq_csv_f64(csv, row, mq_csv_column(csv, "value"), NAN, &want));
	assert_true(mq_csv_f64(csv, row, mq_csv_column(csv, "ideals"), NAN, &ideals));
	clock_t start = clock();

	assert_int_equal(mq_ideal_solve(&g.place, &o, &arena, &r, &err), MQ_OK);
	print_message("%s %s %s: %.6f (table %.6f), %u units, %u ideals (%g), %.3g pairs, %.2f s\n", graph, workload,
		      linearize ? "dpl" : "dp", r.placement.max_load, want, r.n_units, r.n_ideals, ideals, r.pairs,
		      (double)(clock() - start) / CLOCKS_PER_SEC);
	/* The table has 6 digits behind the point, or 6 digits in all. */
	assert_true(fabs(r.placement.max_load / want - 1) <= 4e-6);
	if (!isnan(ideals) && !latency)
		assert_true(r.n_ideals == ideals);
	if (latency)
		check_latency(graph, workload, csv, &g, &r.placement, &arena);
	mq_arena_fini(&arena);
}

static void public_optima(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_csv csv;
	struct mq_err err = MQ_ERR_INIT;

	if (access(PLACEMENT_FOLDER "/optima.csv", R_OK) != 0) {
		print_message("skipped: no " PLACEMENT_FOLDER "/optima.csv\n");
		skip();
	}
	assert_int_equal(mq_csv_load(PLACEMENT_FOLDER "/optima.csv", &arena, &csv, &err), MQ_OK);
	for (uint32_t row = 0; row < csv.n_rows; row += SANITIZED ? 4 : 1) {
		const char *algorithm = mq_csv_text(&csv, row, mq_csv_column(&csv, "algorithm"));
		const char *objective = mq_csv_text(&csv, row, mq_csv_column(&csv, "objective"));

		if (strncmp(objective, "max-load", 8) != 0)
			continue;
		if (strncmp(algorithm, "DP", 2) == 0 && algorithm[2] != 'L')
			check_row(&csv, row, false);
		if (strncmp(algorithm, "DPL", 3) == 0)
			check_row(&csv, row, true);
	}
	mq_arena_fini(&arena);
}

/* 36,596 ideals in 20 s and little memory; MQ_TEST_LONG=1 runs it (some 2 s). */
static void inception_is_lean(void **state)
{
	const char *path = PLACEMENT_FOLDER "/throughput-inputs/LayerGraphs/inceptionv3_training.json";
	struct mq_arena arena = MQ_ARENA_INIT;
	struct placement_graph g;
	struct mq_ideal_options o = { 0 };
	struct mq_ideal_result r;
	struct mq_err err = MQ_ERR_INIT;
	clock_t start = clock();

	if (!getenv("MQ_TEST_LONG") || access(path, R_OK) != 0) {
		print_message("skipped: set MQ_TEST_LONG=1, with %s\n", path);
		skip();
	}
	assert_true(placement_load(path, &arena, &g));
	assert_int_equal(mq_ideal_solve(&g.place, &o, &arena, &r, &err), MQ_OK);
	double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;

	print_message("Inception-v3 training: %.6f, linearised %.6f, %u ideals, %.1f s\n", r.placement.max_load,
		      r.line_load, r.n_ideals, seconds);
	assert_int_equal(r.n_ideals, 36596);
	assert_true(r.placement.max_load < r.line_load);
	assert_true(seconds <= 20);
	mq_arena_fini(&arena);
}

static void check_devices(json_t *devices, uint32_t type, const struct placement_graph *g, struct mq_arena *arena,
			  double *most)
{
	for (size_t d = 0; d < json_array_size(devices); d++) {
		json_t *device = json_array_get(devices, d), *nodes = json_object_get(device, "nodes");
		bool *in = mq_arena_array(arena, g->place.n_nodes, bool);
		double want = placement_number(device, "load");

		for (size_t i = 0; i < json_array_size(nodes); i++)
			in[placement_find(g, json_integer_value(json_array_get(nodes, i)))] = true;
		double load = place_load(&g->place, in, type, 1, arena);

		assert_true(fabs(load - want) <= 1e-9 * fmax(1, want));
		*most = fmax(*most, load);
	}
}

static void public_splits(void **state)
{
	static const char *const names[] = {
		"LayerGraphs__bert24_inference",      "LayerGraphs__bert24_training",
		"LayerGraphs__resnet50_inference",    "LayerGraphs__resnet50_training",
		"OperatorGraphs__bert_l-3_inference", "OperatorGraphs__bert_l-3_training"
	};

	if (access(PLACEMENT_FOLDER "/splits", R_OK) != 0) {
		print_message("skipped: no " PLACEMENT_FOLDER "/splits\n");
		skip();
	}
	for (size_t i = 0; i < 2 * sizeof(names) / sizeof(*names); i++) {
		struct mq_arena arena = MQ_ARENA_INIT;
		struct placement_graph g;
		const char *name = names[i / 2], *under = strstr(name, "__");
		char path[512];
		double most = 0;

		snprintf(path, sizeof(path), PLACEMENT_FOLDER "/throughput-inputs/%.*s/%s.json", (int)(under - name),
			 name, under + 2);
		assert_true(placement_load(path, &arena, &g));
		snprintf(path, sizeof(path), PLACEMENT_FOLDER "/splits/%s.%s.json", name,
			 i % 2 ? "dp" : "dp-linearize");
		json_t *split = json_load_file(path, 0, NULL);

		assert_non_null(split);
		check_devices(json_object_get(split, "fpgas"), 0, &g, &arena, &most);
		check_devices(json_object_get(split, "cpus"), 1, &g, &arena, &most);
		assert_true(fabs(most - placement_number(split, "maxLoad")) <= 1e-9 * most);
		json_decref(split);
		mq_arena_fini(&arena);
	}
}

static bool not_now(void *context, double done, const char *what)
{
	return false;
}

/* Stopped before the line is placed: no placement, and none that looks like one. */
static void stopped_early(void **state)
{
	enum { N = 100 };
	static double time[2 * N], zero[N];
	static struct mq_place_edge edge[N - 1];
	static const struct mq_place_type type[] = { { 2, INFINITY, true }, { 0, INFINITY, false } };
	struct mq_place p = { .n_nodes = N,
			      .n_types = 2,
			      .type = type,
			      .n_edges = N - 1,
			      .edge = edge,
			      .time = time,
			      .size = zero,
			      .out_cost = zero };
	struct mq_ideal_options o = { .tick = not_now };
	struct mq_ideal_result r;
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;

	for (uint32_t v = 0; v < N; v++)
		time[2 * v] = time[2 * v + 1] = 1 + v;
	for (uint32_t v = 0; v + 1 < N; v++)
		edge[v] = (struct mq_place_edge){ v, v + 1 };
	assert_int_equal(mq_ideal_solve(&p, &o, &arena, &r, &err), MQ_OK);
	assert_true(r.stopped && isinf(r.placement.max_load) && !r.placement.n_stages);
	mq_arena_fini(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_brute_force),
		cmocka_unit_test(orphans_get_a_place),
		cmocka_unit_test(too_many_ideals_are_refused),
		cmocka_unit_test(latency_cuts_sets),
		cmocka_unit_test(public_splits),
		cmocka_unit_test(public_optima),
		cmocka_unit_test(inception_is_lean),
		cmocka_unit_test(stopped_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

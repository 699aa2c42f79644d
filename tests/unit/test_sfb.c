/*
 * test_sfb.c - the minimum cut against enumeration and against the public cases.
 *
 * link: igraph jansson
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "maquette/rng.h"
#include "costing/costing.h"
#include "lib/sfb_model.h"
#include "lowered.h"

static double enumerate(const struct mq_sfb_problem *p)
{
	double best = INFINITY;
	bool x[16];

	for (uint32_t mask = 0; mask < 1u << p->n_ops; mask++) {
		bool allowed = true;

		for (uint32_t i = 0; i < p->n_ops; i++) {
			x[i] = mask >> i & 1;
			allowed = allowed && !(x[i] && p->forbidden && p->forbidden[i]);
		}
		if (allowed)
			best = fmin(best, mq_sfb_cost(p, x));
	}
	return best;
}

static void equals_enumeration(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_rng rng;
	uint32_t duplicated = 0;

	mq_rng_seed(&rng, 3);
	for (int round = 0; round < 300; round++) {
		uint32_t n = 1 + mq_rng_below(&rng, 10), n_edges = 0;
		double cost[10];
		bool forbidden[10];
		struct mq_sfb_edge edge[100];

		for (uint32_t i = 0; i < n; i++) {
			cost[i] = (double)mq_rng_below(&rng, 1000) - 500;
			forbidden[i] = mq_rng_below(&rng, 6) == 0;
			for (uint32_t j = 0; j < n; j++)
				if (i != j && mq_rng_below(&rng, 4) == 0)
					edge[n_edges++] = (struct mq_sfb_edge){ i, j, (double)mq_rng_below(&rng, 300) };
		}
		struct mq_sfb_problem p = { n, n_edges, cost, forbidden, edge };
		struct mq_sfb_result result;
		struct mq_err err = MQ_ERR_INIT;

		assert_int_equal(mq_sfb_solve(&p, &arena, &result, &err), MQ_OK);
		assert_true(result.optimum == enumerate(&p)); /* whole numbers */
		for (uint32_t i = 0; i < n; i++) {
			assert_false(result.duplicate[i] && forbidden[i]);
			duplicated += result.duplicate[i];
		}
		mq_arena_rewind(&arena, (struct mq_arena_mark){ NULL, 0 });
	}
	assert_true(duplicated > 100);
	mq_arena_fini(&arena);
}

static void public_cases(void **state)
{
	const char *path = "../shared/data/sfb-cases/cases.json";
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_sfb_cases cases;
	struct mq_err err = MQ_ERR_INIT;

	if (access(path, R_OK) != 0) {
		print_message("skipped: no %s\n", path);
		skip();
	}
	json_t *root = json_load_file(path, 0, NULL);

	assert_true(mq_sfb_cases_probe(path));
	assert_int_equal(mq_sfb_cases_load(path, &arena, &cases, &err), MQ_OK);
	assert_int_equal(cases.n, json_array_size(root));
	for (uint32_t i = 0; i < cases.n; i++) {
		json_t *want = json_array_get(root, i), *x = json_object_get(want, "x");
		struct mq_sfb_result result;
		clock_t start = clock();

		assert_int_equal(mq_sfb_solve(&cases.problem[i], &arena, &result, &err), MQ_OK);
		assert_true((double)(clock() - start) / CLOCKS_PER_SEC <= 0.01);
		double optimum = json_number_value(json_object_get(want, "optimum"));

		assert_true(fabs(result.optimum - optimum) <= 1e-6 * fmax(1, fabs(optimum)));
		for (size_t op = 0; op < json_array_size(x); op++)
			assert_int_equal(json_integer_value(json_array_get(x, op)), result.duplicate[op]);
	}
	json_decref(root);
	mq_arena_fini(&arena);
}

/* Two devices on links of 1 TB/s reduce gradients sooner than they compute them twice; with two more on links of
 * 1 GB/s the products of all layers are computed four times. */
static void a_group_has_its_own_cut(void **state)
{
	static const uint32_t rank[] = { 0, 1, 2, 3 };
	struct lowered w;
	struct mq_sfb_result fast, all;
	uint32_t n_products = 0, n_all = 0;

	lowered_open(&w, "gpt:layers=2,hidden=1024,heads=16,vocab=512,seq=32", 4, 4);
	for (uint32_t l = 0; l < 4; l++)
		w.cluster->link[l].bw_Bps = 1e12;
	const struct mq_question q = lowered_question(&w);
	const struct mq_problem problem = { .q = &q, .costs = mq_costs_new(&q, &w.arena), .arena = &w.arena };

	assert_int_equal(mq_sfb_of_group(&problem, &(struct mq_sfb_group){ 2, rank, 1 }, &w.arena, &fast, &w.err),
			 MQ_OK);
	assert_int_equal(mq_sfb_of_group(&problem, &(struct mq_sfb_group){ 4, rank, 1 }, &w.arena, &all, &w.err),
			 MQ_OK);
	for (uint32_t op = 0; op < w.model->n_ops; op++) {
		const struct mq_op *o = &w.model->op[op];
		bool product = o->kind == MQ_OP_GEMM && o->param > 1e6;

		assert_false(fast.duplicate[op]);
		assert_false(all.duplicate[op] && o->kind != MQ_OP_GEMM);
		n_products += product;
		n_all += product && all.duplicate[op];
	}
	assert_int_equal(n_products, 2 * 4); /* queries, keys and values, output, up, down */
	assert_int_equal(n_all, n_products);
	assert_true(fast.optimum == 0 && all.optimum < 0);
	lowered_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_enumeration),
		cmocka_unit_test(public_cases),
		cmocka_unit_test(a_group_has_its_own_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

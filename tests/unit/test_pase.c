/*
 * test_pase.c - variable elimination against brute force, the public tables, and a large instance.
 *
 * link: jansson
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <jansson.h>

#include "maquette/rng.h"
#include "maquette/types.h"
#include "lib/elim.h"
#include "pase/tables.h"

struct instance {
	struct mq_elim_problem problem;
	uint32_t *n_choices;
	const double **cost;
	struct mq_elim_pair *pair;
};

static double *random_table(struct mq_rng *rng, struct mq_arena *arena, size_t n)
{
	double *table = mq_arena_array(arena, n, double);

	for (size_t i = 0; i < n; i++)
		table[i] = (double)mq_rng_below(rng, 1000);
	return table;
}

static struct instance new_instance(struct mq_arena *arena, uint32_t n_vars, uint32_t max_pairs)
{
	struct instance in = { .n_choices = mq_arena_array(arena, n_vars, uint32_t),
			       .cost = mq_arena_array(arena, n_vars, const double *),
			       .pair = mq_arena_array(arena, max_pairs, struct mq_elim_pair) };

	in.problem.n_vars = n_vars;
	in.problem.n_choices = in.n_choices;
	in.problem.cost = in.cost;
	in.problem.pair = in.pair;
	return in;
}

static void add_pair(struct instance *in, struct mq_rng *rng, struct mq_arena *arena, uint32_t a, uint32_t b)
{
	size_t size = (size_t)in->n_choices[a] * in->n_choices[b];

	in->pair[in->problem.n_pairs++] = (struct mq_elim_pair){ a, b, random_table(rng, arena, size) };
}

static struct instance random_instance(struct mq_rng *rng, struct mq_arena *arena)
{
	uint32_t n = 1 + mq_rng_below(rng, 7);
	struct instance in = new_instance(arena, n, 2 * n * n);

	for (uint32_t v = 0; v < n; v++) {
		in.n_choices[v] = 1 + mq_rng_below(rng, 4);
		in.cost[v] = random_table(rng, arena, in.n_choices[v]);
	}
	for (uint32_t a = 0; a < n; a++)
		for (uint32_t b = 0; b < n; b++)
			if (a != b && mq_rng_below(rng, 3) == 0)
				add_pair(&in, rng, arena, a, b);
	return in;
}

static double brute_force(const struct mq_elim_problem *p)
{
	uint32_t choice[8] = { 0 };
	double best = INFINITY;

	for (;;) {
		uint32_t v = 0;

		best = fmin(best, mq_elim_cost(p, choice));
		while (v < p->n_vars && ++choice[v] == p->n_choices[v])
			choice[v++] = 0;
		if (v == p->n_vars)
			return best;
	}
}

static void equals_brute_force(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_rng rng;

	mq_rng_seed(&rng, 7);
	for (int round = 0; round < 600; round++) {
		struct instance in = random_instance(&rng, &arena);
		double best = brute_force(&in.problem);

		for (int order = 0; order < 2; order++) {
			struct mq_elim_result result;
			struct mq_err err = MQ_ERR_INIT;

			in.problem.order = (enum mq_elim_order)order;
			assert_int_equal(mq_elim_solve(&in.problem, &arena, &result, &err), MQ_OK);
			assert_true(result.optimum == best); /* whole numbers: exact */
			assert_true(mq_elim_cost(&in.problem, result.choice) == best);
		}
		mq_arena_rewind(&arena, (struct mq_arena_mark){ NULL, 0 });
	}
	mq_arena_fini(&arena);
}

static void forbidden_choices_are_avoided(void **state)
{
	static const uint32_t n_choices[] = { 2, 2 };
	static const double zero[] = { 0, 0 }, only[] = { INFINITY, 5 };
	static const double pair_cost[] = { 1, 1, INFINITY, 3 };
	static const double *const cost[] = { only, zero };
	static const struct mq_elim_pair pair = { 0, 1, pair_cost };
	struct mq_elim_problem p = { .n_vars = 2, .n_pairs = 1, .n_choices = n_choices, .cost = cost, .pair = &pair };
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_elim_result result;
	struct mq_err err = MQ_ERR_INIT;

	assert_int_equal(mq_elim_solve(&p, &arena, &result, &err), MQ_OK);
	assert_true(result.optimum == 8);
	assert_int_equal(result.choice[0], 1);
	assert_int_equal(result.choice[1], 1);
	p.max_rows = 3; /* the first step needs 4 combinations */
	assert_int_equal(mq_elim_solve(&p, &arena, &result, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "needs 4 combinations"));
	mq_arena_fini(&arena);
}

/* The size of the Transformer at p = 64: about 50 million combinations, in encoder-decoder shape
 * (each layer a small diamond, the decoder also reading the encoder's last layer). */
static struct instance large_instance(struct mq_rng *rng, struct mq_arena *arena)
{
	enum { LAYERS = 12, PER_LAYER = 17, K = 84 };
	uint32_t n = LAYERS * PER_LAYER;
	struct instance in = new_instance(arena, n, 3 * n);

	for (uint32_t v = 0; v < n; v++) {
		in.n_choices[v] = v % 4 == 3 ? 28 : K;
		in.cost[v] = random_table(rng, arena, in.n_choices[v]);
	}
	for (uint32_t v = 1; v < n; v++) {
		add_pair(&in, rng, arena, v - 1, v);
		if (v % 3 == 0 && v + 2 < n)
			add_pair(&in, rng, arena, v, v + 2);
		if (v % PER_LAYER == 8 && v > n / 2)
			add_pair(&in, rng, arena, n / 2 - 1, v);
	}
	return in;
}

static void transformer_sized_in_time(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_elim_result result;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_rng rng;

	mq_rng_seed(&rng, 64);
	struct instance in = large_instance(&rng, &arena);
	clock_t start = clock();

	assert_int_equal(mq_elim_solve(&in.problem, &arena, &result, &err), MQ_OK);
	double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;

	print_message("%u layers, %.3g combinations, %.2f s of CPU\n", in.problem.n_vars, result.rows, seconds);
	assert_true(result.rows >= 50e6);
	assert_true(mq_elim_cost(&in.problem, result.choice) == result.optimum);
	assert_true(seconds <= 5.0);
	mq_arena_fini(&arena);
}

static void check_file(const char *path)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_pase_tables tables;
	struct mq_elim_result result;
	struct mq_err err = MQ_ERR_INIT;
	json_t *root = json_load_file(path, 0, NULL);

	assert_non_null(root);
	double want = json_number_value(json_object_get(root, "best_cost"));

	json_decref(root);
	assert_true(mq_pase_tables_probe(path));
	assert_int_equal(mq_pase_tables_load(path, &arena, &tables, &err), MQ_OK);
	for (uint32_t v = 0; v < tables.problem.n_vars; v++)
		assert_int_not_equal(tables.data_parallel[v], MQ_NONE);
	assert_int_equal(mq_elim_solve(&tables.problem, &arena, &result, &err), MQ_OK);
	double parallel = mq_elim_cost(&tables.problem, tables.data_parallel);

	print_message("%s: %.17g, data-parallel %.3f times that, largest table %g rows\n", path, result.optimum,
		      parallel / result.optimum, result.largest);
	assert_true(fabs(result.optimum - want) <= 1e-12 * want);
	if (strstr(path, "alexnet.p4"))
		assert_true(fabs(parallel / want - 3.897) < 5e-4);
	if (strstr(path, "rnnlm.p4"))
		assert_true(fabs(parallel / want - 1.374) < 5e-4);
	if (strstr(path, "transformer.p4"))
		assert_true(fabs(parallel / want - 1.138) < 5e-4);
	mq_arena_fini(&arena);
}

static void public_tables(void **state)
{
	const char *folder = "../shared/data/pase";
	DIR *dir = opendir(folder);

	if (!dir) {
		print_message("skipped: no %s\n", folder);
		skip();
	}
	for (struct dirent *entry; (entry = readdir(dir));) {
		char path[512];

		if (!strstr(entry->d_name, ".tables.json"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		check_file(path);
	}
	closedir(dir);
}

static void refuse(const char *text, const char *message)
{
	char path[] = "/tmp/maquette-pase-XXXXXX";
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_pase_tables tables;
	struct mq_err err = MQ_ERR_INIT;
	int fd = mkstemp(path);
	FILE *file = fdopen(fd, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(mq_pase_tables_load(path, &arena, &tables, &err), MQ_EINPUT);
	if (!strstr(err.text, message))
		fail_msg("'%s' lacks '%s'", err.text, message);
	remove(path);
	mq_arena_fini(&arena);
}

static void bad_tables_are_refused(void **state)
{
	refuse("{", "}");
	refuse("[]", "Expected object, got array");
	refuse("{\"vertices\": [], \"edges\": []}", "empty");
	refuse("{\"vertices\": [{\"id\": 0, \"configs\": [[1]], \"cost\": []}], \"edges\": []}", "as many costs");
	refuse("{\"vertices\": [{\"id\": 0, \"configs\": [[1]], \"cost\": [1]}], "
	       "\"edges\": [{\"src\": 0, \"dst\": 3, \"cost\": []}]}",
	       "names a vertex");
	refuse("{\"vertices\": [{\"id\": 0, \"configs\": [[1]], \"cost\": [1]}], "
	       "\"edges\": [{\"src\": 0, \"dst\": 4294967296, \"cost\": []}]}",
	       "names a vertex");
	refuse("{\"vertices\": [{\"id\": 0, \"configs\": [[1]], \"cost\": [1]}], "
	       "\"edges\": [{\"src\": 0, \"dst\": 0, \"cost\": [[1]]}]}",
	       "itself");
	refuse("{\"vertices\": [{\"id\": 0, \"configs\": [[1]], \"cost\": [\"x\"]}], \"edges\": "
	       "[]}",
	       "finite number");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_brute_force),        cmocka_unit_test(forbidden_choices_are_avoided),
		cmocka_unit_test(transformer_sized_in_time), cmocka_unit_test(public_tables),
		cmocka_unit_test(bad_tables_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

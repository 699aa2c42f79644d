/*
 * test_piper.c - Piper's dynamic programme: brute force on small chains, and the BERT-32 values.
 *
 * link: jansson
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "maquette/rng.h"
#include "piper/dp.h"
#include "sanitized.h"

enum { MAX_NODES = 5, DEGREES = 2, CHOICES = 2 };

static uint32_t degree[DEGREES] = { 1, 2 };

struct small {
	struct mq_piper p;
	struct mq_piper_node node[MAX_NODES];
	struct mq_piper_edge edge[2 * MAX_NODES];
	uint32_t touching[MAX_NODES][2 * MAX_NODES], n_choices[MAX_NODES][DEGREES];
	struct mq_piper_choice choice[MAX_NODES][DEGREES][CHOICES];
	struct mq_piper_choice *by_degree[MAX_NODES][DEGREES];
	double sync[MAX_NODES][2 * MAX_NODES];
};

/* A chain with some edges that skip a node; one choice per degree, so the knapsack is exact. */
static void random_small(struct mq_rng *rng, struct small *s)
{
	uint32_t n = 1 + mq_rng_below(rng, MAX_NODES);

	*s = (struct small){ .p = { .n_nodes = n,
				    .n_degrees = DEGREES,
				    .degree = degree,
				    .devices = 1 + mq_rng_below(rng, 4),
				    .memory = 10 + mq_rng_below(rng, 40),
				    .bandwidth = 2,
				    .micro_batches = 4 } };
	s->p.node = s->node;
	s->p.edge = s->edge;
	for (uint32_t v = 1; v < n; v++) {
		s->edge[s->p.n_edges++] = (struct mq_piper_edge){ v - 1, v, mq_rng_below(rng, 10) };
		if (v > 1 && mq_rng_below(rng, 2))
			s->edge[s->p.n_edges++] = (struct mq_piper_edge){ v - 2, v, mq_rng_below(rng, 9) };
	}
	for (uint32_t v = 0; v < n; v++) {
		struct mq_piper_node *node = &s->node[v];

		node->name = "layer";
		node->edge = s->touching[v];
		node->n_choices = s->n_choices[v];
		node->choice = s->by_degree[v];
		for (uint32_t e = 0; e < s->p.n_edges; e++) {
			if (s->edge[e].src != v && s->edge[e].dst != v)
				continue;
			s->sync[v][node->n_edges] = mq_rng_below(rng, 3);
			s->touching[v][node->n_edges++] = e;
		}
		for (uint32_t t = 0; t < DEGREES; t++) {
			s->n_choices[v][t] = t == 0 || mq_rng_below(rng, 4) ? 1 : 0;
			s->by_degree[v][t] = s->choice[v][t];
			s->choice[v][t][0] =
				(struct mq_piper_choice){ mq_rng_below(rng, 40) / (1.0 + t), mq_rng_below(rng, 10),
							  mq_rng_below(rng, 4), mq_rng_below(rng, 8), s->sync[v] };
		}
	}
}

struct brute {
	const struct small *s;
	struct mq_arena *arena;
	double best;
};

static bool closed_under_successors(const struct small *s, uint32_t set)
{
	for (uint32_t e = 0; e < s->p.n_edges; e++)
		if (set >> s->edge[e].src & 1 && !(set >> s->edge[e].dst & 1))
			return false;
	return true;
}

/* Stages from the last one back: `done` is what later stages hold. */
static void extend(struct brute *b, uint32_t done, uint32_t devices, uint32_t in_flight, double slowest)
{
	uint32_t all = (1u << b->s->p.n_nodes) - 1;

	if (done == all) {
		b->best = fmin(b->best, slowest);
		return;
	}
	for (uint32_t set = 1; set <= all; set++) {
		uint32_t node[MAX_NODES], choice[MAX_NODES] = { 0 };
		struct mq_piper_stage stage = { .node = node, .choice = choice };

		if (set & done || !closed_under_successors(b->s, set | done))
			continue;
		for (uint32_t v = 0; v < b->s->p.n_nodes; v++)
			if (set >> v & 1)
				node[stage.n_nodes++] = v;
		for (uint32_t t = 0; t < DEGREES; t++) {
			for (uint32_t d = 1; d <= 4; d++) {
				stage.t = degree[t];
				stage.d = d;
				if (4 % d || d * degree[t] > devices || in_flight + d > 4)
					continue;
				double time = mq_piper_stage_time(&b->s->p, &stage, in_flight + d, b->arena);

				if (isfinite(time))
					extend(b, set | done, devices - d * degree[t], in_flight + d,
					       fmax(slowest, time));
			}
		}
	}
}

static void equals_brute_force(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_rng rng;
	int feasible = 0;

	mq_rng_seed(&rng, 21);
	for (int round = 0; round < 300; round++) {
		struct small s;
		struct mq_piper_result r;
		struct mq_err err = MQ_ERR_INIT;

		random_small(&rng, &s);
		struct brute b = { &s, &arena, INFINITY };

		extend(&b, 0, s.p.devices, 0, 0);
		assert_int_equal(mq_piper_solve(&s.p, &arena, &r, &err), MQ_OK);
		if (isinf(b.best) != isinf(r.time) ||
		    (isfinite(b.best) && fabs(b.best - r.time) > 1e-12 * fmax(1, b.best)))
			fail_msg("round %d: brute force %g, solver %g", round, b.best, r.time);
		feasible += isfinite(b.best);
		mq_arena_rewind(&arena, (struct mq_arena_mark){ NULL, 0 });
	}
	assert_true(feasible > 100 && feasible < 300);
	mq_arena_fini(&arena);
}

static void check_bert(struct mq_piper *p, double memory_GiB, uint32_t devices, double want, double equal,
		       struct mq_arena *arena)
{
	struct mq_arena_mark mark = mq_arena_mark(arena);
	struct mq_piper_result r;
	struct mq_err err = MQ_ERR_INIT;
	clock_t start = clock();

	p->memory = memory_GiB * 1073741824.0;
	p->devices = devices;
	assert_int_equal(mq_piper_solve(p, arena, &r, &err), MQ_OK);
	double split = mq_piper_equal_split(p, arena);

	print_message("%g GiB, K = %u: %.10g (want %.10g), equal split %.10g (want %.10g), %u stages, "
		      "%.2f s\n",
		      memory_GiB, devices, r.time, want, split, equal, r.n_stages,
		      (double)(clock() - start) / CLOCKS_PER_SEC);
	if (isinf(want))
		assert_true(isinf(r.time));
	else
		assert_true(fabs(r.time / want - 1) < 1e-6);
	if (isinf(equal))
		assert_true(isinf(split));
	else if (!isnan(equal))
		assert_true(fabs(split / equal - 1) < 1e-5);
	assert_int_equal(r.n_ideals, 43);
	assert_true(r.pairs == 890);
	mq_arena_rewind(arena, mark);
}

static void bert_values(void **state)
{
	const char *path = "../shared/data/piper/bert32a100.json";
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_piper p;
	struct mq_err err = MQ_ERR_INIT;

	if (access(path, R_OK) != 0) {
		print_message("skipped: no %s\n", path);
		skip();
	}
	assert_true(mq_piper_probe(path));
	assert_int_equal(mq_piper_load(path, &arena, &p, &err), MQ_OK);
	p.bandwidth = 25 * 1073741824.0;
	p.micro_batches = 1920;
	check_bert(&p, 8, 8, 0.16585575, 0.230978, &arena);
	check_bert(&p, 2, 8, INFINITY, NAN, &arena);
	if (!SANITIZED) {
		check_bert(&p, 8, 32, 0.04151545, 0.05135109, &arena);
		check_bert(&p, 8, 128, 0.01012088, 0.01291128, &arena);
		check_bert(&p, 8, 512, 0.002561128, 0.003301324, &arena);
		check_bert(&p, 2, 32, 0.0665495, INFINITY, &arena);
		check_bert(&p, 2, 128, 0.01514641, 0.04825731, &arena);
		check_bert(&p, 80, 128, 0.008053243, NAN, &arena);
	}
	mq_arena_fini(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_brute_force),
		cmocka_unit_test(bert_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

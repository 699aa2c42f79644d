/*
 * test_pipedream.c - PipeDream's optimizer: brute force on small chains, and VGG-16 on 16 workers.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "maquette/rng.h"
#include "pipedream/dp.h"

enum { MAX_LAYERS = 5 };

struct chain {
	struct mq_pipedream p;
	struct mq_pipedream_layer layer[MAX_LAYERS];
	uint32_t src[MAX_LAYERS], dst[MAX_LAYERS];
};

static void random_chain(struct mq_rng *rng, struct chain *c)
{
	uint32_t n = 1 + mq_rng_below(rng, MAX_LAYERS);

	*c = (struct chain){ .p = { .n_layers = n,
				    .n_edges = n - 1,
				    .n_levels = 1 + mq_rng_below(rng, 2),
				    .transfers = mq_rng_below(rng, 2) } };
	for (uint32_t v = 0; v < n; v++) {
		c->layer[v] = (struct mq_pipedream_layer){ "layer", 1 + mq_rng_below(rng, 30), mq_rng_below(rng, 30),
							   mq_rng_below(rng, 60) };
		c->src[v] = v;
		c->dst[v] = v + 1;
	}
	c->p.layer = c->layer;
	c->p.src = c->src;
	c->p.dst = c->dst;
	c->p.level[0] = (struct mq_pipedream_level){ 1 + mq_rng_below(rng, 4), 8 };
	c->p.level[1] = (struct mq_pipedream_level){ 1 + mq_rng_below(rng, 3), 2 };
}

/* Layers from .. to - 1 on m machines of a level, by trying every first stage. */
static double brute(const struct chain *c, uint32_t level, uint32_t from, uint32_t to, uint32_t m)
{
	const struct mq_pipedream_level *l = &c->p.level[level];
	uint32_t inner = level ? c->p.level[0].machines : 1;
	double best = INFINITY;

	for (uint32_t cut = from + 1; cut <= to; cut++) {
		for (uint32_t r = 1; r <= m; r++) {
			double work = 0, weights = 0, time;

			if ((cut == to) != (r == m))
				continue; /* all machines are used */
			for (uint32_t v = from; v < cut; v++) {
				work += c->layer[v].time;
				weights += c->layer[v].parameters;
			}
			if (level)
				work = brute(c, 0, from, cut, c->p.level[0].machines);
			time = (work + 4.0 * (r - 1) * weights / (l->bandwidth * r) / inner) / r;
			if (cut < to)
				time = fmax(time, brute(c, level, cut, to, m - r));
			best = fmin(best, time);
		}
	}
	return best;
}

static void equals_brute_force(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_rng rng;

	mq_rng_seed(&rng, 33);
	for (int round = 0; round < 300; round++) {
		struct chain c;
		struct mq_pipedream_result r;
		struct mq_err err = MQ_ERR_INIT;
		uint32_t seen = 0;

		random_chain(&rng, &c);
		c.p.transfers = false;
		uint32_t top = c.p.n_levels - 1;
		double want = brute(&c, top, 0, c.p.n_layers, c.p.level[top].machines);

		assert_int_equal(mq_pipedream_solve(&c.p, &arena, &r, &err), MQ_OK);
		if (fabs(want - r.time) > 1e-9 * want)
			fail_msg("round %d: brute force %g, solver %g", round, want, r.time);
		assert_true(r.time <= r.data_parallel * (1 + 1e-12));
		for (uint32_t s = 0; s < r.n_stages; s++)
			for (uint32_t v = 0; v < r.stage[s].n_layers; v++)
				assert_int_equal(r.stage[s].layer[v], seen++);
		assert_int_equal(seen, c.p.n_layers);
		mq_arena_rewind(&arena, (struct mq_arena_mark){ NULL, 0 });
	}
	mq_arena_fini(&arena);
}

static void vgg16_is_15_1(void **state)
{
	const char *path = "../shared/data/pipedream/vgg16.graph.txt";
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_pipedream p;
	struct mq_pipedream_result r;
	struct mq_err err = MQ_ERR_INIT;

	if (access(path, R_OK) != 0) {
		print_message("skipped: no %s\n", path);
		skip();
	}
	assert_true(mq_pipedream_probe(path));
	assert_int_equal(mq_pipedream_load(path, &arena, &p, &err), MQ_OK);
	assert_int_equal(p.n_layers, 40);
	p.n_levels = 1;
	p.level[0] = (struct mq_pipedream_level){ 16, 3.125e9 };
	for (int transfers = 0; transfers < 2; transfers++) {
		p.transfers = transfers;
		assert_int_equal(mq_pipedream_solve(&p, &arena, &r, &err), MQ_OK);
		print_message("transfers %d: %.6g s, data-parallel %.6g s, %u stages:", transfers, r.time,
			      r.data_parallel, r.n_stages);
		for (uint32_t s = 0; s < r.n_stages; s++)
			print_message(" %u layers x %u", r.stage[s].n_layers, r.stage[s].outer);
		print_message("\n");
		assert_int_equal(r.stage[r.n_stages - 1].outer, 1);
		assert_true(r.n_stages == 2 || !transfers); /* without them, more cuts are free */
		assert_true(r.stage[0].outer == 15 || !transfers);
	}
	p.n_levels = 2;
	p.transfers = false;
	p.level[0] = (struct mq_pipedream_level){ 4, 12e9 };
	p.level[1] = (struct mq_pipedream_level){ 4, 1.25e9 };
	assert_int_equal(mq_pipedream_solve(&p, &arena, &r, &err), MQ_OK);
	print_message("two levels: %.6g s, data-parallel %.6g s, %u stages:", r.time, r.data_parallel, r.n_stages);
	for (uint32_t s = 0; s < r.n_stages; s++)
		print_message(" %u layers x %u x %u", r.stage[s].n_layers, r.stage[s].inner, r.stage[s].outer);
	print_message("\n");
	mq_arena_fini(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_brute_force),
		cmocka_unit_test(vgg16_is_15_1),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

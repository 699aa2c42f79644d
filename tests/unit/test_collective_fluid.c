/*
 * test_collective_fluid.c - flows that share links, and the hand formula of the ring.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "maquette/collective.h"
#include "schedule/fluid.h"
#include "maquette/rng.h"
#include "libraries.h"

#define BW  1e9
#define LAT 1e-6

static struct mq_cluster *flat(struct mq_arena *arena, uint32_t n)
{
	return mq_cluster_flat(arena, n, "test", 1e12, 1e9, BW, LAT);
}

static void near(double got, double expected, double relative)
{
	if (fabs(got - expected) > relative * fabs(expected))
		fail_msg("got %.12g, expected %.12g", got, expected);
}

static double time_of(struct mq_arena *arena, const struct mq_flow *flow, uint32_t n)
{
	static const uint32_t rank[4] = { 0, 1, 2, 3 };
	struct mq_err err = MQ_ERR_INIT;
	double seconds, bound;

	assert_int_equal(mq_flows_time(flat(arena, 4), rank, flow, n, arena, &seconds, &err), MQ_OK);
	assert_int_equal(mq_flows_bound(flat(arena, 4), rank, flow, n, arena, &bound, &err), MQ_OK);
	assert_true(bound <= seconds * (1 + 1e-12));
	return seconds;
}

static void test_shared_links(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	/* 0 sends to 1 and 2 (its port is shared), 3 sends to 2 (so is the port of 2): rates are
	 * 1/2 each. All of 1e9 bytes: 2 s. */
	const struct mq_flow even[] = { { 0, 1, 1e9, INFINITY }, { 0, 2, 1e9, INFINITY }, { 3, 2, 1e9, INFINITY } };
	/* The same with 0 -> 1 capped at 0.2: 0 -> 2 and 3 -> 2 still meet at the port of 2: 0.5
	 * each; 0 -> 1 takes 5 s. */
	const struct mq_flow capped[] = { { 0, 1, 1e9, .2e9 }, { 0, 2, 1e9, INFINITY }, { 3, 2, 1e9, INFINITY } };
	/* 0 -> 1 of 0.5e9 is done at 1 s; then 0 -> 2 has the port, 0.5e9 left at full speed. */
	const struct mq_flow uneven[] = { { 0, 1, .5e9, INFINITY }, { 0, 2, 1e9, INFINITY } };
	/* Into 3 from 0, 1, 2: the first is capped at 0.1, the other two share the rest, 0.45 each.
	 * 0.9e9 bytes each: 2 s, and the capped one 9 s. */
	const struct mq_flow into[] = { { 0, 3, .9e9, .1e9 }, { 1, 3, .9e9, INFINITY }, { 2, 3, .9e9, INFINITY } };

	near(time_of(&arena, even, 3), 2, 1e-12);
	near(time_of(&arena, capped, 3), 5, 1e-12);
	near(time_of(&arena, capped + 1, 2), 2, 1e-12);
	near(time_of(&arena, uneven, 2), 1.5, 1e-12);
	near(time_of(&arena, into, 3), 9, 1e-12);
	near(time_of(&arena, into, 0) + 1, 1, 0);
	mq_arena_fini(&arena);
}

static void test_three_levels(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	/* Ports: out of 0: a, b, c; out of 1: d; into 2: a, d; into 3: b, c ... levels: out of 0
	 * fills at 1/3 each; into 2 then leaves 2/3 for d. d: 1e9 bytes in 1.5 s; a, b, c: 1e9 in 3
	 * s. When d is done nothing speeds up. */
	const struct mq_flow flow[] = {
		{ 0, 2, 1e9, INFINITY }, { 0, 3, 1e9, INFINITY }, { 0, 1, 1e9, INFINITY }, { 1, 2, 1e9, INFINITY }
	};

	near(time_of(&arena, flow, 4), 3, 1e-12);
	near(time_of(&arena, flow + 2, 2), 1, 1e-12);
	mq_arena_fini(&arena);
}

static void test_usable_share(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_cluster *cluster = flat(&arena, 2);
	const struct mq_flow flow = { 0, 1, 1e9, INFINITY };
	const uint32_t rank[] = { 0, 1 };
	struct mq_err err = MQ_ERR_INIT;
	double seconds;

	for (uint32_t i = 0; i < cluster->n_links; i++)
		cluster->link[i].share = .8;
	assert_int_equal(mq_flows_time(cluster, rank, &flow, 1, &arena, &seconds, &err), MQ_OK);
	near(seconds, 1.25, 1e-12);
	mq_arena_fini(&arena);
}

static void test_bad_flows(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	const struct mq_flow negative = { 0, 1, -1, INFINITY }, stuck = { 0, 1, 1, 0 };
	const uint32_t rank[] = { 0, 1 };
	struct mq_err err = MQ_ERR_INIT;
	double seconds;

	assert_int_equal(mq_flows_time(flat(&arena, 2), rank, &negative, 1, &arena, &seconds, &err), MQ_EINPUT);
	assert_int_equal(mq_flows_time(flat(&arena, 2), rank, &stuck, 1, &arena, &seconds, &err), MQ_EINPUT);
	mq_arena_fini(&arena);
}

/* 2(n-1)(S/n/bw + lat), lat = a route's latency = two links. */
static void test_ring_formula(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_calib *calib = bare_calib(&arena);
	struct mq_err err = MQ_ERR_INIT;
	uint32_t rank[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };

	for (uint32_t n = 2; n <= 8; n++) {
		const struct mq_coll_request request = {
			.kind = MQ_COLL_ALL_REDUCE,
			.n = n,
			.rank = rank,
			.bytes = 2.385e6,
			.dtype = MQ_FP32,
			.algo = MQ_ALGO_RING,
			.proto = MQ_PROTO_SIMPLE,
		};
		struct mq_coll_flows flows;

		assert_int_equal(mq_collective_expand(flat(&arena, 8), calib, &request, &arena, &flows, &err), MQ_OK);
		assert_int_equal(flows.n_flows, n);
		near(flows.alone_s, 2.0 * (n - 1) * (2.385e6 / n / BW + 2 * LAT), 1e-9);
	}
	mq_arena_fini(&arena);
}

/* Equal flows as one of their weight: na and nb of them, each through a port of its own, all through a trunk,
 * and those of b through another too. */
static void test_weights(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_rng rng;

	(void)state;
	mq_rng_seed(&rng, 11);
	for (int i = 0; i < 200; i++) {
		uint32_t na = 1 + mq_rng_below(&rng, 5), nb = 1 + mq_rng_below(&rng, 5), n = na + nb;
		double port[2] = { mq_rng_unit(&rng) + 0.1, mq_rng_unit(&rng) + 0.1 };
		double trunk[2] = { n * mq_rng_unit(&rng) + 0.1, nb * mq_rng_unit(&rng) + 0.1 };
		double cap = mq_rng_below(&rng, 2) ? (double)INFINITY : mq_rng_unit(&rng) + 0.05;
		/* One by one: ports 0 .. n-1, trunks n and n+1. */
		struct mq_fluid all = { .n_flows = n, .n_links = n + 2 };
		all.first = mq_arena_array(&arena, n + 1, uint32_t);
		all.link = mq_arena_array(&arena, 3 * n, uint32_t);
		all.cap_Bps = mq_arena_array(&arena, n, double);
		all.rate_Bps = mq_arena_array(&arena, n, double);
		all.bw_Bps = mq_arena_array(&arena, n + 2, double);
		uint32_t *running = mq_arena_array(&arena, n, uint32_t), at = 0;
		for (uint32_t f = 0; f < n; f++) {
			running[f] = f;
			all.link[at++] = f;
			all.link[at++] = n;
			if (f >= na)
				all.link[at++] = n + 1;
			all.first[f + 1] = at;
			all.cap_Bps[f] = f < na ? cap : (double)INFINITY;
			all.bw_Bps[f] = port[f >= na];
		}
		all.bw_Bps[n] = trunk[0];
		all.bw_Bps[n + 1] = trunk[1];
		mq_fluid_begin(&all, &arena);
		mq_fluid_rates(&all, running, n);
		/* As two flows: ports 0 and 1, trunks 2 and 3. */
		uint32_t first[] = { 0, 2, 5 }, link[] = { 0, 2, 1, 2, 3 }, both[] = { 0, 1 };
		double weight[] = { 1, na, 1, nb, nb }, caps[] = { cap, INFINITY }, rate[2];
		double bw[] = { port[0], port[1], trunk[0], trunk[1] };
		struct mq_fluid two = { .n_flows = 2,
					.n_links = 4,
					.first = first,
					.link = link,
					.weight = weight,
					.cap_Bps = caps,
					.rate_Bps = rate,
					.bw_Bps = bw };
		mq_fluid_begin(&two, &arena);
		mq_fluid_rates(&two, both, 2);
		for (uint32_t f = 0; f < n; f++)
			near(all.rate_Bps[f], rate[f >= na], 1e-12);
	}
	mq_arena_fini(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared_links), cmocka_unit_test(test_three_levels),
		cmocka_unit_test(test_usable_share), cmocka_unit_test(test_bad_flows),
		cmocka_unit_test(test_ring_formula), cmocka_unit_test(test_weights),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_collective_fluid.c - flows that share links, and the hand formula of the ring.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/collective.h"

#define BW 1e9
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

	assert_int_equal(mq_flows_time(flat(arena, 4), rank, flow, n, arena, &seconds, &err),
			 MQ_OK);
	assert_int_equal(mq_flows_bound(flat(arena, 4), rank, flow, n, arena, &bound, &err), MQ_OK);
	assert_true(bound <= seconds * (1 + 1e-12));
	return seconds;
}

static void test_shared_links(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	/* 0 sends to 1 and 2 (its port is shared), 3 sends to 2 (so is the port of 2): rates are
	 * 1/2 each. All of 1e9 bytes: 2 s. */
	const struct mq_flow even[] = { { 0, 1, 1e9, INFINITY }, { 0, 2, 1e9, INFINITY },
					{ 3, 2, 1e9, INFINITY } };
	/* The same with 0 -> 1 capped at 0.2: 0 -> 2 and 3 -> 2 still meet at the port of 2: 0.5
	 * each; 0 -> 1 takes 5 s. */
	const struct mq_flow capped[] = { { 0, 1, 1e9, .2e9 }, { 0, 2, 1e9, INFINITY },
					  { 3, 2, 1e9, INFINITY } };
	/* 0 -> 1 of 0.5e9 is done at 1 s; then 0 -> 2 has the port, 0.5e9 left at full speed. */
	const struct mq_flow uneven[] = { { 0, 1, .5e9, INFINITY }, { 0, 2, 1e9, INFINITY } };
	/* Into 3 from 0, 1, 2: the first is capped at 0.1, the other two share the rest, 0.45 each.
	 * 0.9e9 bytes each: 2 s, and the capped one 9 s. */
	const struct mq_flow into[] = { { 0, 3, .9e9, .1e9 }, { 1, 3, .9e9, INFINITY },
					{ 2, 3, .9e9, INFINITY } };

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
	const struct mq_flow flow[] = { { 0, 2, 1e9, INFINITY }, { 0, 3, 1e9, INFINITY },
					{ 0, 1, 1e9, INFINITY }, { 1, 2, 1e9, INFINITY } };

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

	assert_int_equal(mq_flows_time(flat(&arena, 2), rank, &negative, 1, &arena, &seconds, &err),
			 MQ_EINPUT);
	assert_int_equal(mq_flows_time(flat(&arena, 2), rank, &stuck, 1, &arena, &seconds, &err),
			 MQ_EINPUT);
	mq_arena_fini(&arena);
}

/* 2(n-1)(S/n/bw + lat), lat = a route's latency = two links. */
static void test_ring_formula(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_calib *calib = mq_calib_new(&arena);
	struct mq_err err = MQ_ERR_INIT;
	uint32_t rank[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };

	for (uint32_t n = 2; n <= 8; n++) {
		const struct mq_coll_request request = {
			.kind = MQ_COLL_ALL_REDUCE, .n = n, .rank = rank, .bytes = 2.385e6,
			.dtype = MQ_FP32, .algo = MQ_ALGO_RING, .proto = MQ_PROTO_SIMPLE,
		};
		struct mq_coll_flows flows;

		assert_int_equal(mq_collective_expand(flat(&arena, 8), calib, &request, &arena,
						      &flows, &err), MQ_OK);
		assert_int_equal(flows.n_flows, n);
		near(flows.alone_s, 2.0 * (n - 1) * (2.385e6 / n / BW + 2 * LAT), 1e-9);
	}
	mq_arena_fini(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared_links), cmocka_unit_test(test_three_levels),
		cmocka_unit_test(test_usable_share), cmocka_unit_test(test_bad_flows),
		cmocka_unit_test(test_ring_formula),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

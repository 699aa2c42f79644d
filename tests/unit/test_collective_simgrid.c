/*
 * test_collective_simgrid.c - the fluid solver against SimGrid itself, on random sets of flows that
 * share ports and a backbone under caps of their own.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/mailbox.h>

#include "maquette/collective.h"
#include "maquette/rng.h"
#include "executors/simgrid/flow.h"
#include "simulated.h"

enum { N = 6, MOST = 20, ROUNDS = 40 };

struct end {
	sg_mailbox_t mailbox;
	const struct mq_flow *flow; /* of a sender; NULL: a receiver */
};

static void play(int argc, char **argv)
{
	const struct end *end = sg_actor_self_get_data();

	(void)argc;
	(void)argv;
	if (end->flow)
		mq_flow_start(end->mailbox, end->flow->bytes, end->flow->rate_Bps);
	else
		mq_flow_receive(&end->mailbox, 1);
}

static void start(struct simulated *t, uint32_t rank, struct end *end, sg_actor_t *actor)
{
	*actor = sg_actor_init("end", mq_platform_host(t->cluster, rank));
	sg_actor_set_data(*actor, end);
	sg_actor_ref(*actor);
	sg_actor_start_(*actor, play, 0, NULL);
}

/* Simulated time until the last of the flows has come. */
static double simulate(struct simulated *t, const struct mq_flow *flow, uint32_t n)
{
	struct end end[2 * MOST];
	sg_actor_t actor[2 * MOST];
	double begin = simgrid_get_clock();

	for (uint32_t i = 0; i < n; i++) {
		char name[32];

		snprintf(name, sizeof(name), "flow%u", i);
		end[2 * i] = (struct end){ sg_mailbox_by_name(name), &flow[i] };
		end[2 * i + 1] = (struct end){ sg_mailbox_by_name(name), NULL };
		start(t, flow[i].src, &end[2 * i], &actor[2 * i]);
		start(t, flow[i].dst, &end[2 * i + 1], &actor[2 * i + 1]);
	}
	for (uint32_t i = 0; i < 2 * n; i++) {
		sg_actor_join(actor[i], -1);
		sg_actor_unref(actor[i]);
	}
	return simgrid_get_clock() - begin;
}

static void random_flows(struct simulated *t)
{
	const uint32_t rank[N] = { 0, 1, 2, 3, 4, 5 };
	struct mq_rng rng;

	mq_rng_seed(&rng, 7);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct mq_flow flow[MOST];
		uint32_t n = 1 + mq_rng_below(&rng, MOST);
		struct mq_err err = MQ_ERR_INIT;
		double seconds = NAN;

		for (uint32_t i = 0; i < n; i++) {
			flow[i].src = mq_rng_below(&rng, N);
			flow[i].dst = (flow[i].src + 1 + mq_rng_below(&rng, N - 1)) % N;
			flow[i].bytes = 1e6 + floor(1e8 * mq_rng_unit(&rng));
			flow[i].rate_Bps = mq_rng_unit(&rng) < .5 ? (double)INFINITY : 1e8 + 9e8 * mq_rng_unit(&rng);
		}
		EXPECT(t, mq_flows_time(t->cluster, rank, flow, n, &t->arena, &seconds, &err) == MQ_OK);
		EXPECT_NEAR(t, seconds, simulate(t, flow, n), 1e-9);
	}
}

static void test_ports(void **state)
{
	const struct simulated_platform ports = { .n = N, .bw_Bps = 1e9 };

	assert_true(simulated_run(&ports, random_flows));
}

static void test_backbone(void **state)
{
	const struct simulated_platform backbone = { .n = N, .bw_Bps = 1e9, .lat_s = 1e-6, .backbone_Bps = 2.385e9 };

	assert_true(simulated_run(&backbone, random_flows));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_ports), cmocka_unit_test(test_backbone) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

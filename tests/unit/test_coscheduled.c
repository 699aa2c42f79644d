/*
 * test_coscheduled.c - several jobs at once: closed forms of two jobs that share one link, jobs that share
 * nothing, steps that follow each other; a part of a cluster.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "judge/coscheduled.h"
#include "schedules.h"
#include "simulated.h"
#include "libraries.h"

/* Device 2 `job` computes for c_s and then sends B bytes to its neighbour. */
static struct mq_schedule *hand_job(struct mq_arena *arena, const struct mq_cluster *cluster, uint32_t job, double c_s,
				    double B)
{
	struct mq_schedule *s = hand_new(arena, cluster);

	s->n_devices = 2;
	for (uint32_t d = 0; d < 2; d++) {
		s->device[d] = 2 * job + d;
		s->device_name[d] = cluster->device[2 * job + d].name;
	}
	uint32_t work = hand_work(s, c_s), compute = hand_compute(s, 0, work);

	hand_send(s, 0, 1, B);
	hand_dep(s, compute);
	hand_recv(s, 1, 0, B);
	return s;
}

static const double bus_Bps = 1e10;

struct pair {
	double c_s[2], B[2], begin_s;
	uint32_t steps;
};

static struct mq_coscheduled run_pair(struct simulated *s, const struct pair *p)
{
	struct mq_exec_request request = { .cluster = s->cluster, .calib = s->calib, .timeout_s = INFINITY };
	struct mq_coscheduled_step step[2] = {
		{ hand_job(&s->arena, s->cluster, 0, p->c_s[0], p->B[0]), 0 },
		{ hand_job(&s->arena, s->cluster, 1, p->c_s[1], p->B[1]), p->begin_s },
	};
	struct mq_coscheduled out = { 0 };
	struct mq_err err = MQ_ERR_INIT;

	if (mq_coscheduled_run(&request, mq_execute_simgrid, step, 2, p->steps, &s->arena, &out, &err) != MQ_OK) {
		fprintf(stderr, "%s\n", err.text);
		s->failures++;
		out.job = mq_arena_array(&s->arena, 2, struct mq_coscheduled_score);
	}
	return out;
}

/* In step with each other, both send at the same time: each gets half of the bus, so a step takes B / bus
 * longer than alone, whatever the latency. */
static void in_step(struct simulated *s)
{
	const struct pair p = { { 0.3, 0.3 }, { 1e9, 1e9 }, 0, 6 };
	struct mq_coscheduled t = run_pair(s, &p);

	for (int j = 0; j < 2; j++) {
		EXPECT_NEAR(s, t.job[j].alone_s, 0.4, 1e-3); /* and a latency */
		EXPECT_NEAR(s, t.job[j].together_s - t.job[j].alone_s, 0.1, 1e-9);
		EXPECT_NEAR(s, t.job[j].longest_s, t.job[j].shortest_s, 1e-9);
		EXPECT(s, t.job[j].steps >= 6);
	}
	EXPECT(s, t.n_links == 1);
	for (uint32_t l = 0; l < t.n_links; l++) {
		EXPECT(s, !strcmp(s->cluster->link[t.link[l]].name, "nvswitch"));
		EXPECT(s, t.link_B[2 * l] == 1e9 && t.link_B[2 * l + 1] == 1e9);
	}
}

/* Half a step later the other computes while one sends: nobody is slowed. */
static void out_of_step(struct simulated *s)
{
	const struct pair p = { { 0.3, 0.3 }, { 1e9, 1e9 }, 0.2, 6 };
	struct mq_coscheduled t = run_pair(s, &p);

	for (int j = 0; j < 2; j++)
		EXPECT_NEAR(s, t.job[j].together_s, t.job[j].alone_s, 1e-9);
}

/* The second job does nothing but send: the first always gets half, and the second what is left: in each
 * step of the first, c at full rate and 2 B / bus at half. Steps of the second are small, so that the ends
 * of the window do not matter. */
static void against_a_sender(struct simulated *s)
{
	const struct pair p = { { 0.3, 0 }, { 1e9, 1e8 }, 0, 10 };
	struct mq_coscheduled t = run_pair(s, &p);

	EXPECT_NEAR(s, t.job[0].together_s, 0.5, 1e-3);
	EXPECT_NEAR(s, t.job[1].alone_s, 0.01, 1e-3);
	EXPECT_NEAR(s, t.job[1].together_s / t.job[1].alone_s, 0.5 / 0.4, 0.01);
	EXPECT_NEAR(s, t.job[1].shortest_s, 0.01, 1e-3);
	EXPECT_NEAR(s, t.job[1].longest_s, 0.02, 1e-3);
	EXPECT(s, t.job[1].steps > 200);
}

/* Nothing shared: not a digit changes, whatever the periods. */
static void apart(struct simulated *s)
{
	const struct pair p = { { 0.3, 0.0371 }, { 1e9, 3e8 }, 0.013, 20 };
	struct mq_coscheduled t = run_pair(s, &p);

	for (int j = 0; j < 2; j++) {
		EXPECT_NEAR(s, t.job[j].together_s, t.job[j].alone_s, 1e-12);
		EXPECT(s, t.job[j].steps >= 20);
	}
	EXPECT(s, t.n_links == 0);
}

static void refused(struct simulated *s)
{
	struct mq_exec_request request = { .cluster = s->cluster, .calib = s->calib, .timeout_s = INFINITY };
	struct mq_schedule *job = hand_job(&s->arena, s->cluster, 0, 0.1, 1e6);
	const struct mq_coscheduled_step same[2] = { { job, 0 }, { job, 0 } };
	struct mq_coscheduled_step far[2] = { { job, 0 }, { NULL, 0 } };
	struct mq_coscheduled out;
	struct mq_err err = MQ_ERR_INIT;

	EXPECT(s, mq_coscheduled_run(&request, mq_execute_simgrid, same, 2, 3, &s->arena, &out, &err) == MQ_EINPUT);
	EXPECT(s, strstr(err.text, "device 0 ('d0') is in two jobs") != NULL);
	far[1].schedule = hand_job(&s->arena, s->cluster, 1, 2e5, 1e6);
	EXPECT(s, mq_coscheduled_run(&request, mq_execute_simgrid, far, 2, 3, &s->arena, &out, &err) == MQ_EINPUT);
	EXPECT(s, strstr(err.text, "fewer steps") != NULL);
}

static const struct simulated_platform shared = { 4, 1e12, 1e-6, 1e10 };
static const struct simulated_platform separate = { 4, 1e10, 1e-6, 0 };

static void test_in_step(void **state)
{
	assert_true(shared.backbone_Bps == bus_Bps);
	assert_true(simulated_run(&shared, in_step));
}
static void test_out_of_step(void **state)
{
	assert_true(simulated_run(&shared, out_of_step));
}
static void test_sender(void **state)
{
	assert_true(simulated_run(&shared, against_a_sender));
}
static void test_apart(void **state)
{
	assert_true(simulated_run(&separate, apart));
}
static void test_refused(void **state)
{
	assert_true(simulated_run(&separate, refused));
}

/* Two rounds on two devices that never talk: the second begins when the slower has ended the first. */
static void test_rounds(void **state)
{
	static const uint32_t of[] = { 0, 0, 1, 1 }, before[] = { MQ_NONE, 0 };
	static const struct mq_rounds rounds = { 2, of, before };
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_cluster *cluster = mq_cluster_flat(&arena, 2, "T", 1e12, 16e9, 1e9, 1e-6);
	struct mq_calib *calib = bare_calib(&arena);
	struct mq_schedule *s = hand_new(&arena, cluster);
	struct mq_exec_request request = {
		.view.schedule = s, .cluster = cluster, .calib = calib, .timeout_s = INFINITY
	};
	struct mq_err err = MQ_ERR_INIT;
	struct mq_timeline timeline;
	enum mq_verdict verdict;

	mq_calib_add_ideal(calib, "T", 1e12, 1e12, 16e9);
	assert_int_equal(mq_calib_bind(calib, cluster, &err), MQ_OK);
	uint32_t one = hand_work(s, 1), two = hand_work(s, 2);
	hand_compute(s, 0, one);
	hand_compute(s, 1, two);
	hand_compute(s, 0, two);
	hand_compute(s, 1, one);
	assert_int_equal(mq_execute_analytic(&request, &arena, &timeline, &verdict, &err), MQ_OK);
	assert_true(timeline.step_time_s == 3); /* without rounds: each device for itself */
	request.view.rounds = &rounds;
	assert_int_equal(mq_execute_analytic(&request, &arena, &timeline, &verdict, &err), MQ_OK);
	assert_int_equal(verdict, MQ_VERDICT_OK);
	assert_true(timeline.step_time_s == 4);
	assert_true(timeline.start_s[2] == 2 && timeline.start_s[3] == 2);
	mq_arena_fini(&arena);
}

/* Devices 5, 1 and 6 of two machines of four: machines numbered anew, links those of the whole. */
static void test_part(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_cluster *whole = mq_cluster_flat(&arena, 8, "T", 1e12, 16e9, 1e9, 1e-6), *part;
	const struct mq_route *route;
	struct mq_err err = MQ_ERR_INIT;
	uint32_t *rank, n;

	whole->n_nodes = 2;
	for (uint32_t i = 0; i < 8; i++) {
		whole->device[i].node = i / 4;
		whole->device[i].local = i % 4;
	}
	assert_int_equal(mq_cluster_ranks(whole, "5,1,6-6", &arena, &rank, &n, &err), MQ_OK);
	assert_int_equal(mq_cluster_part(whole, rank, n, &arena, &part, &err), MQ_OK);
	assert_int_equal(part->n_devices, 3);
	assert_int_equal(part->n_nodes, 2);
	assert_string_equal(part->device[0].name, "d5");
	assert_int_equal(part->device[0].node, 0);
	assert_int_equal(part->device[1].node, 1);
	assert_int_equal(part->device[2].node, 0);
	assert_int_equal(part->device[2].local, 1);
	assert_int_equal(mq_cluster_find(part, "d1"), 1);
	assert_int_equal(mq_cluster_find(part, "d0"), MQ_NONE);
	assert_int_equal(mq_cluster_route(part, 0, 1, &route, &err), MQ_OK);
	assert_int_equal(route->link[0], 2 * 5);
	assert_int_equal(route->link[1], 2 * 1 + 1);
	assert_int_equal(mq_cluster_check(part, &err), MQ_OK);
	static const char *const bad[] = { "", "3-", "4-2", "0,,1", "x", "0-8", "1 2", "99999999999999999999" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(mq_cluster_ranks(whole, bad[i], &arena, &rank, &n, &err), MQ_EINPUT);
	assert_int_equal(mq_cluster_ranks(whole, "0,1,0", &arena, &rank, &n, &err), MQ_OK);
	assert_int_equal(mq_cluster_part(whole, rank, n, &arena, &part, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "device 0 is given twice"));
	mq_arena_fini(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_step), cmocka_unit_test(test_out_of_step), cmocka_unit_test(test_sender),
		cmocka_unit_test(test_apart),   cmocka_unit_test(test_refused),     cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

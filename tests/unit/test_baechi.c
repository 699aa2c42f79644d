/*
 * test_baechi.c - list schedules with hand-computed times: channels, caching, memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "maquette/types.h"
#include "lib/baechi.h"

enum { N = 4, DEVICES = 2 };

/* 0 -> 1, 0 -> 2, {1, 2} -> 3; every transfer takes 3 s whatever its size. */
struct diamond {
	struct mq_tasks t;
	double time[N * DEVICES], memory[N], limit[DEVICES], latency[4], slope[4];
	struct mq_task_edge edge[4];
	uint32_t in_first[N + 1], in[4], out_first[N + 1], out[4], order[N];
};

static void make(struct diamond *d)
{
	static const double time[N] = { 2, 10, 8, 1 };

	*d = (struct diamond){ .t = { .n = N, .n_edges = 4, .n_devices = DEVICES, .messages = 1 },
			       .memory = { 1, 1, 1, 1 },
			       .limit = { 100, 100 },
			       .latency = { 0, 3, 3, 0 },
			       .edge = { { 0, 1, 1 }, { 0, 2, 1 }, { 1, 3, 1 }, { 2, 3, 1 } },
			       .in_first = { 0, 0, 1, 2, 4 },
			       .in = { 0, 1, 2, 3 },
			       .out_first = { 0, 2, 3, 4, 4 },
			       .out = { 0, 1, 2, 3 },
			       .order = { 0, 1, 2, 3 } };
	for (uint32_t v = 0; v < N; v++)
		d->time[2 * v] = d->time[2 * v + 1] = time[v];
	d->t.time = d->time;
	d->t.memory = d->memory;
	d->t.limit = d->limit;
	d->t.latency = d->latency;
	d->t.slope = d->slope;
	d->t.edge = d->edge;
	d->t.in_first = d->in_first;
	d->t.in = d->in;
	d->t.out_first = d->out_first;
	d->t.out = d->out;
	d->t.order = d->order;
}

/* ETF: 0 on a [0, 2]; 1 on a [2, 12]; 2 on b after the transfer [5, 13]; 3 starts at 15 on b (1
 * arrives at 15) or at 16 on a (2 arrives at 16): b, done at 16. */
static void etf_by_hand(void **state)
{
	struct diamond d;
	struct mq_schedule_state s;
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;

	make(&d);
	assert_int_equal(mq_baechi_etf(&d.t, NULL, &arena, &s, &err), MQ_OK);
	assert_int_equal(s.device_of[0], 0);
	assert_int_equal(s.device_of[1], 0);
	assert_int_equal(s.device_of[2], 1);
	assert_int_equal(s.device_of[3], 1);
	assert_true(s.finish[2] == 13 && s.finish[3] == 16 && s.makespan == 16);
	mq_arena_fini(&arena);
}

/* SCT: 2 is the favourite child of 0, so device a waits for it: 1 goes to b [5, 15], 2 to a [2,
 * 10]. */
static void favourite_children_follow(void **state)
{
	static const uint32_t favourite[N] = { 2, MQ_NONE, MQ_NONE, MQ_NONE };
	struct diamond d;
	struct mq_schedule_state s;
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;

	make(&d);
	assert_int_equal(mq_baechi_etf(&d.t, favourite, &arena, &s, &err), MQ_OK);
	assert_int_equal(s.device_of[2], 0);
	assert_int_equal(s.device_of[1], 1);
	assert_true(s.finish[2] == 10 && s.finish[1] == 15);
	mq_arena_fini(&arena);
}

static void memory_is_obeyed(void **state)
{
	struct diamond d;
	struct mq_schedule_state s;
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;

	make(&d);
	/* Cap 4 / 2 + 1 = 3: the fourth op goes to the second device. */
	assert_int_equal(mq_baechi_topo(&d.t, &arena, &s, &err), MQ_OK);
	assert_int_equal(s.device_of[2], 0);
	assert_int_equal(s.device_of[3], 1);
	d.limit[0] = 2;
	assert_int_equal(mq_baechi_etf(&d.t, NULL, &arena, &s, &err), MQ_OK);
	assert_true(s.used[0] <= 2 && s.used[1] <= 100);
	d.limit[1] = 1;
	assert_int_equal(mq_baechi_etf(&d.t, NULL, &arena, &s, &err), MQ_ENOPLAN);
	assert_non_null(strstr(err.text, "1 of 4"));
	assert_int_equal(mq_baechi_topo(&d.t, &arena, &s, &err), MQ_ENOPLAN);
	mq_arena_fini(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(etf_by_hand),
		cmocka_unit_test(favourite_children_follow),
		cmocka_unit_test(memory_is_obeyed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

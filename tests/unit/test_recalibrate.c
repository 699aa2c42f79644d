/*
 * test_recalibrate.c - corrections of calls between ranks: of latency and bandwidth each by itself, against what was
 * planted.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "fit/fit.h"
#include "schedules.h"
#include "libraries.h"

enum { RANKS = 4, SIZES = 24 };

struct world {
	struct mq_arena arena, scratch; /* a cluster keeps routes in its own */
	struct mq_cluster *cluster;
	struct mq_calib *calib;
	struct mq_schedule *schedule;
	struct mq_observed observed[SIZES];
	struct mq_recalibration r;
	struct mq_err err;
};

/* An all-reduce of 8 to 8^9 bytes takes latency_s + S / bw_Bps. */
static void set_calls(struct mq_link_calib *link, double latency_s, double bw_Bps)
{
	for (int k = 0; k < MQ_CALL_KNOTS; k++)
		link->call_s[MQ_COLL_ALL_REDUCE][k] = latency_s + pow(8, k + 1) / bw_Bps;
}

/* What 10 us and 50 GB/s are said of was measured as latency_s and bw_Bps, in calls of `least` bytes and doubles. */
static void set_up(struct world *w, double latency_s, double bw_Bps, double least, double growth)
{
	*w = (struct world){ .arena = MQ_ARENA_INIT };
	w->cluster = mq_cluster_flat(&w->arena, RANKS, "ideal", 1e12, 1e12, 1e13, 0);
	w->calib = bare_calib(&w->arena);
	w->r.device = mq_calib_add_ideal(w->calib, "ideal", 1e12, 1e12, 1e12);
	w->calib->link = mq_arena_array(&w->arena, 1, struct mq_link_calib);
	w->calib->n_links = 1;
	w->r.link = &w->calib->link[0];
	*w->r.link =
		(struct mq_link_calib){ .name = "other", .bw_share = 1, .latency_scale = 1, .measured_ranks = RANKS };
	set_calls(w->r.link, 10e-6, 50e9);
	assert_int_equal(mq_calib_bind(w->calib, w->cluster, &w->err), MQ_OK);
	w->schedule = hand_new(&w->arena, w->cluster);
	uint32_t comm = hand_comm(w->schedule, 0, 1, RANKS);
	for (int i = 0; i < SIZES; i++, least *= growth) {
		double t = latency_s + least / bw_Bps;
		uint32_t task = hand_collective(w->schedule, 0, comm, MQ_COLL_ALL_REDUCE, least);

		w->observed[i] = (struct mq_observed){ .schedule = w->schedule, .task = task, .time = { t, t, t, 5 } };
	}
}

static void tear_down(struct world *w)
{
	mq_arena_fini(&w->scratch);
	mq_arena_fini(&w->arena);
}

/* The factor on a speed of that name; NaN: it was left alone. */
static double factor(struct world *w, const char *name)
{
	assert_int_equal(mq_recalibrate(&w->r, w->calib, w->cluster, w->observed, SIZES, &w->scratch, &w->err), MQ_OK);
	for (uint32_t i = 0; i < w->r.n_fitted; i++)
		if (strstr(w->r.param[i].name, name))
			return *w->r.param[i].value;
	return NAN;
}

static void near(double got, double want)
{
	if (!(fabs(got / want - 1) < 5e-3))
		fail_msg("%g instead of %g", got, want);
}

/* Sizes from 8 bytes to 64 MB: each is told by its end of them, whatever the other is. */
static void apart(void **state)
{
	static const struct {
		double latency_s, bw_Bps;
	} planted[] = { { 30e-6, 50e9 }, { 10e-6, 20e9 }, { 25e-6, 125e9 }, { 4e-6, 10e9 }, { 10e-6, 50e9 } };
	struct world w;

	for (size_t i = 0; i < sizeof(planted) / sizeof(planted[0]); i++) {
		set_up(&w, planted[i].latency_s, planted[i].bw_Bps, 8, 2);
		near(factor(&w, "latency"), 10e-6 / planted[i].latency_s);
		/* What was written into the entry predicts what was measured: affine, so the knots say it all. */
		for (int k = 0; k < MQ_CALL_KNOTS; k++)
			near(w.r.link->call_s[MQ_COLL_ALL_REDUCE][k],
			     planted[i].latency_s + pow(8, k + 1) / planted[i].bw_Bps);
		tear_down(&w);
		set_up(&w, planted[i].latency_s, planted[i].bw_Bps, 8, 2);
		near(factor(&w, "bandwidth"), planted[i].bw_Bps / 50e9);
		tear_down(&w);
	}
}

/* Calls of a few bytes tell of the latency alone, calls of one size not of which of the two it is. */
static void told_by_little(void **state)
{
	struct world w;

	set_up(&w, 30e-6, 5e9, 8, 1.01);
	near(factor(&w, "latency"), 1 / 3.);
	tear_down(&w);
	set_up(&w, 30e-6, 5e9, 8, 1.01);
	assert_true(isnan(factor(&w, "bandwidth")));
	tear_down(&w);
	set_up(&w, 10e-6, 20e9, 64 << 20, 1);
	factor(&w, "bandwidth");
	assert_int_equal(w.r.n_fitted, 1);
	tear_down(&w);
}

/* Where a call keeps the core, a rank may come late to most of them: the quarter that waited least tells. */
static void beside_waiting(void **state)
{
	struct world w;

	for (int which = 0; which < 2; which++) {
		set_up(&w, 20e-6, 25e9, which ? 1 << 20 : 8, which ? 1.01 : 1.3);
		w.r.device->serial_comm = true;
		for (int i = 0; i < SIZES; i++)
			w.observed[i].time.median *= i % 2 ? 1 : 3;
		near(factor(&w, which ? "bandwidth" : "latency"), .5);
		assert_int_equal(w.r.n_fitted, 1);
		tear_down(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(apart),
		cmocka_unit_test(told_by_little),
		cmocka_unit_test(beside_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

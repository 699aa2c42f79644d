/*
 * test_fit.c - statistics, the join of schedules with samples, robust fits, logs, probes: against
 * values worked out by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/measured.h"
#include "maquette/cost.h"
#include "costing/predict.h"
#include "fit/fit.h"
#include "libraries.h"

#define NEAR(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

static void medians(void **state)
{
	double v[15], two[] = { 5, 1 };

	for (int i = 0; i < 15; i++)
		v[i] = 15 - i;
	/* 15/2 -+ 1.96 sqrt(15)/2 = 3.7, 11.3: the 4th and 13th of the sorted values */
	struct mq_median m = mq_median_of(v, 15);
	assert_true(m.median == 8 && m.low == 4 && m.high == 13 && m.n == 15);
	v[14] = 17.5; /* the longest, sorted: a mean of 8.1667 */
	assert_true(fabs(mq_median_of(v, 15).mean - 122.5 / 15) < 1e-12 && m.mean == 8);
	m = mq_median_of(two, 2);
	assert_true(m.median == 3 && m.low == 1 && m.high == 5);
	assert_true(isnan(mq_median_of(v, 0).median));
}

static void ranks(void **state)
{
	double a[] = { 1, 2, 3, 4 }, b[] = { 1, 2, 4, 3 }, down[] = { 4, 3, 2, 1 }, tied[] = { 1, 1, 2, 2 };

	NEAR(mq_kendall(a, b, 4), 4.0 / 6, 1e-12);
	NEAR(mq_kendall(a, down, 4), -1, 1e-12);
	/* 4 of 6 pairs differ in b, all agree: 4 / sqrt(6 * 4) */
	NEAR(mq_kendall(a, tied, 4), 4 / sqrt(24), 1e-12);
	assert_true(isnan(mq_kendall(a, b, 1)));
	NEAR(mq_regret((double[]){ 1, 2, 3 }, (double[]){ 3, 2.5, 2 }, 3), 1.5, 1e-12);
	NEAR(mq_regret((double[]){ 3, 2, 1 }, (double[]){ 3, 2.5, 2 }, 3), 1, 1e-12);
}

/* Two values each: {1, 3} resampled has a median of 1, 2, 2 or 3, {2, 2} always of 2: least in three cases of four, for
 * which a tie counts. Alone it is always the least. */
static void least(void **state)
{
	struct mq_arena a = MQ_ARENA_INIT;
	const double wide[] = { 1, 3 }, narrow[] = { 2, 2 }, *value[] = { wide, narrow };
	const uint32_t count[] = { 2, 2 };
	struct mq_rng rng;

	mq_rng_seed(&rng, 1);
	NEAR(mq_probability_least(value, count, 2, 0, 20000, &rng, &a), .75, .02);
	NEAR(mq_probability_least(value, count, 2, 1, 20000, &rng, &a), .75, .02);
	assert_true(mq_probability_least(value, count, 1, 0, 10, &rng, &a) == 1);
	mq_arena_fini(&a);
	(void)state;
}

static void errors(void **state)
{
	struct mq_arena a = MQ_ARENA_INIT;
	double predicted[] = { 1.1, 0.8, 1.0 }, measured[] = { 1, 1, 1 };
	struct mq_errors s = mq_errors_against(predicted, measured, 3, &a);

	NEAR(s.median, .1, 1e-12);
	NEAR(s.mean, .1, 1e-12);
	NEAR(s.bias, -.1 / 3, 1e-12);
	NEAR(s.p90, .18, 1e-12); /* between .1 and .2, 80 % of the way */
	mq_arena_fini(&a);
}

/* ---- fits ------------------------------------------------------------------------------------ */

struct affine {
	double a, b;
	uint32_t n;
	double size[40];
};

static void predict_affine(void *context, double *predicted)
{
	const struct affine *c = context;

	for (uint32_t i = 0; i < c->n; i++)
		predicted[i] = c->a + c->size[i] / c->b;
}

static void make_affine(struct affine *c, double *measured)
{
	struct mq_rng rng;

	mq_rng_seed(&rng, 7);
	c->n = 40;
	for (uint32_t i = 0; i < c->n; i++) {
		c->size[i] = pow(2, 3 + i * .6);
		measured[i] = (12e-6 + c->size[i] / 150e9) * exp(.01 * mq_rng_normal(&rng));
		if (i % 9 == 4)
			measured[i] *= 3; /* a disturbed sample */
	}
}

static void planted_parameters(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct affine c;
	double measured[40], draws[2 * 60];
	struct mq_rng rng;

	make_affine(&c, measured);
	c.a = 1e-6;
	c.b = 1e9;
	struct mq_fit_param param[2] = { { "a", &c.a, 1e-9, 1, 0, 0 }, { "b", &c.b, 1e3, 1e15, 0, 0 } };
	struct mq_fit fit = { .n_obs = 40,
			      .n_params = 2,
			      .measured = measured,
			      .param = param,
			      .predict = predict_affine,
			      .context = &c };
	assert_int_equal(mq_fit_solve(&fit, &arena, &err), MQ_OK);
	NEAR(c.a / 12e-6, 1, .02);
	NEAR(c.b / 150e9, 1, .02);
	mq_rng_seed(&rng, 1);
	assert_int_equal(mq_fit_bootstrap(&fit, 60, &rng, &arena, draws, &err), MQ_OK);
	assert_true(param[0].low <= 12e-6 * 1.005 && param[0].high >= 12e-6 * .995);
	assert_true(param[0].low < param[0].high && param[0].high / param[0].low < 1.1);
	NEAR(c.a / 12e-6, 1, .02); /* restored */
	fit.n_obs = 1;
	assert_int_equal(mq_fit_solve(&fit, &arena, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "1 measurements cannot fix 2 parameters"));
	mq_arena_fini(&arena);
}

static void measured_calls(void **state)
{
	struct mq_link_calib link = { .measured_ranks = 2 };
	double latency, busy;

	assert_false(mq_call_measured(&link, MQ_COLL_ALL_REDUCE, 2, 64, &latency, &busy));
	for (int k = 0; k < MQ_CALL_KNOTS; k++)
		link.call_s[MQ_COLL_ALL_REDUCE][k] = 1e-6 * (k + 1);
	assert_false(mq_call_measured(NULL, MQ_COLL_ALL_REDUCE, 2, 64, &latency, &busy));
	assert_true(mq_call_measured(&link, MQ_COLL_ALL_REDUCE, 2, 4, &latency, &busy));
	NEAR(latency + busy, 1e-6, 1e-18);
	mq_call_measured(&link, MQ_COLL_ALL_REDUCE, 2, 36, &latency, &busy); /* half way from 8 to 64 */
	NEAR(latency + busy, 1.5e-6, 1e-18);
	mq_call_measured(&link, MQ_COLL_ALL_REDUCE, 2, 16777216 * 8.0, &latency, &busy);
	NEAR(latency + busy, 9e-6, 1e-18);
	mq_call_measured(&link, MQ_COLL_ALL_REDUCE, 2, 16777216 * 15.0, &latency, &busy);
	NEAR(latency + busy, 10e-6, 1e-18); /* the last slope goes on */
	/* four ranks: three times the steps, (3/4)/(1/2) the bytes per edge */
	mq_call_measured(&link, MQ_COLL_ALL_REDUCE, 4, 64, &latency, &busy);
	NEAR(latency, 3e-6, 1e-18);
	NEAR(busy, 1.5e-6, 1e-18);
}

/* ---- samples --------------------------------------------------------------------------------- */

/* Two devices, an all-reduce each (tasks 0 and 1) and a computation on device 0 (task 2). */
static struct mq_schedule *small_schedule(struct mq_arena *a)
{
	static const char *const name[] = { "d0", "d1" };
	struct mq_schedule *s = mq_arena_array(a, 1, struct mq_schedule);

	s->arena = a;
	s->model = "small";
	s->n_devices = 2;
	s->device = mq_arena_array(a, 2, uint32_t);
	s->device[1] = 1;
	s->device_name = s->device_type = mq_arena_array(a, 2, const char *);
	memcpy(s->device_name, name, sizeof(name));
	s->n_comms = s->n_works = 1;
	s->comm = mq_arena_array(a, 1, struct mq_comm);
	s->comm[0] = (struct mq_comm){ .n = 2, .rank = s->device, .purpose = "dp" };
	s->work = mq_arena_array(a, 1, struct mq_work);
	s->work[0].n_kernels = 1;
	s->work[0].kernel = mq_arena_array(a, 1, struct mq_kernel);
	s->n_tasks = 3;
	s->task = mq_arena_array(a, 3, struct mq_task);
	for (uint32_t i = 0; i < 3; i++)
		s->task[i] = (struct mq_task){ .device = i == 1,
					       .kind = i == 2 ? MQ_TASK_COMPUTE : MQ_TASK_COLLECTIVE,
					       .stream = i == 2 ? MQ_STREAM_COMPUTE : MQ_STREAM_COMM,
					       .op = MQ_NONE,
					       .peer = MQ_NONE,
					       .bytes = 8,
					       .work = i == 2 ? 0 : MQ_NONE,
					       .comm = i == 2 ? MQ_NONE : 0 };
	return s;
}

static void join(void **state)
{
	struct mq_arena a = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	char path[] = "/tmp/mq-fit-XXXXXX";
	struct mq_measured m = { .schedule = small_schedule(&a) };
	struct mq_observations o = { 0 };
	uint32_t dropped;
	bool weak;
	int fd = mkstemp(path);
	FILE *f = fdopen(fd, "w");

	fputs("task,start_s,finish_s,sample,switches\n", f);
	for (int s = 0; s < 5; s++)
		/* device 1 arrives at .2 and the call ends at .5 + s/100: .3 + s/100 from the last
		 * arrival */
		fprintf(f, "0,0.1,%g,%d,0\n1,0.2,0.45,%d,0\n2,0.5,%d,%d,%d\n", .5 + s / 100., s, s, s == 4 ? 100 : 1, s,
			s == 4);
	fclose(f);
	assert_int_equal(mq_measured_add(&m, path, &a, &err), MQ_OK);
	assert_int_equal(m.n_samples, 5);
	assert_memory_equal(m.disturbed, ((bool[]){ 0, 0, 0, 0, 1 }), 5);
	assert_int_equal(mq_measured_calls(&m, &a, &o, &err), MQ_OK);
	assert_int_equal(o.n, 2);
	NEAR(o.call[0].time.median, .32, 1e-9);
	assert_int_equal(o.call[0].n_dropped, 0);
	NEAR(o.call[1].time.median, .5, 1e-9);
	assert_int_equal(o.call[1].n_dropped, 1); /* the preempted one, of 99.5 s */
	NEAR(mq_measured_step(&m, &a, &dropped, &weak).median, 1, 1e-9);
	assert_int_equal(dropped, 1);
	assert_false(weak);
	/* A second launch adds to the same schedule; a timeline of another one does not fit. */
	assert_int_equal(mq_measured_add(&m, path, &a, &err), MQ_OK);
	assert_int_equal(m.n_samples, 10);
	f = fopen(path, "w");
	fputs("task,start_s,finish_s,sample\n7,0,1,0\n1,0,1,0\n2,0,1,0\n", f);
	fclose(f);
	assert_int_equal(mq_measured_add(&m, path, &a, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "task 7 is not in the schedule"));
	unlink(path);
	mq_arena_fini(&a);
}

/* Switches disturb by the time they take: a hundredth of the step, and only where it is not known
 * how long they were, each. */
static void time_lost(void **state)
{
	struct mq_arena a = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	char path[] = "/tmp/mq-fit-XXXXXX";
	struct mq_measured m = { .schedule = small_schedule(&a) };
	struct mq_observations o = { 0 };
	FILE *f = fdopen(mkstemp(path), "w");

	/* Task 2 takes .5 s of a step of 1 s: 3 ms are below a hundredth of either, 7 ms above that
	 * of the task, 40 ms above both; 40 ms without a switch are a library that slept. */
	static const struct {
		double lost_s;
		int switches;
	} sample[] = { { .003, 9 }, { .007, 1 }, { .04, 1 }, { .04, 0 } };
	fputs("task,start_s,finish_s,sample,switches,lost_s\n", f);
	for (int s = 0; s < 4; s++)
		fprintf(f, "0,0.1,0.5,%d,0,0\n1,0.2,0.45,%d,0,0\n2,0.5,1,%d,%d,%g\n", s, s, s, sample[s].switches,
			sample[s].lost_s);
	fclose(f);
	assert_int_equal(mq_measured_add(&m, path, &a, &err), MQ_OK);
	assert_memory_equal(m.disturbed, ((bool[]){ 0, 0, 1, 0 }), 4);
	assert_int_equal(mq_measured_calls(&m, &a, &o, &err), MQ_OK);
	assert_int_equal(o.call[1].n_dropped, 2);
	unlink(path);
	mq_arena_fini(&a);
}

/* ---- probes and plans ------------------------------------------------------------------------ */

static void probes(void **state)
{
	struct mq_arena a = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	static const char *const name[] = { "d0", "d1", "d2", "d3" }, *const type[] = { "t", "t", "t", "t" };
	struct mq_probe_request r = { .n_devices = 4,
				      .device_name = name,
				      .device_type = type,
				      .n_dtypes = 2,
				      .dtype = { MQ_FP32, MQ_FP64 },
				      .speed_flops = 1e11,
				      .largest_B = 1 << 24,
				      .seed = 3 };

	for (uint32_t p = 0; p < MQ_N_PROBES; p++) {
		struct mq_schedule *s = mq_probe_build(&r, p, &a);

		assert_non_null(s);
		assert_int_equal(mq_schedule_check(s, NULL, &err), MQ_OK);
		assert_true(s->n_tasks > 10);
		uint32_t largest = 0; /* each kind of call on all, on half, and a message: sent and received */
		for (uint32_t i = 0; i < s->n_tasks && s->n_comms; i++)
			largest += s->task[i].kind != MQ_TASK_COMPUTE && s->task[i].bytes == r.largest_B;
		assert_true(strcmp(mq_probe_name[p], "comm") || largest == MQ_N_COLL_KINDS * (4 + 2) + 2);
	}
	r.n_devices = 1;
	assert_null(mq_probe_build(&r, 3, &a)); /* nobody to talk to */
	assert_non_null(mq_probe_build(&r, 0, &a));
	mq_arena_fini(&a);
}

static void probability(void **state)
{
	double fa[] = { 1, 1, 1.2, .9 }, fb[] = { 1, 1, 1, 1 };

	/* 1.0, 1.0, 1.2, 0.9 against 1.1: less in three of four */
	NEAR(mq_probability_less(1, fa, 1.1, fb, 4), .75, 1e-12);
	NEAR(mq_probability_less(1, fb, 1, fb, 4), .5, 1e-12);
}

/* All the work of a schedule, one after another, on the first device. */
static double run_serially(void *context, const struct mq_schedule *schedule, const struct mq_cluster *cluster,
			   const struct mq_calib *calib)
{
	double s = 0;

	for (uint32_t i = 0; i < schedule->n_tasks; i++) {
		const struct mq_task *t = &schedule->task[i];
		struct mq_device_calib d = mq_predict_device(cluster, calib, schedule, t->device);

		s += t->kind == MQ_TASK_COMPUTE ? mq_cost_work(&d, &schedule->work[t->work]) : 0;
	}
	return s;
}

static void write_fit(const char *path, const char *fitted, const char *draws)
{
	FILE *f = fopen(path, "w");

	fprintf(f,
		"{\"kind\":\"device\",\"name\":\"C\",\"fit\":[{\"group\":\"memory\",\"sigma\":0,"
		"\"valid_from\":1,\"valid_to\":1e9,\"parameters\":[\"elementwise_bw_share\"],"
		"%s\"draws\":[%s]}]}",
		fitted, draws);
	fclose(f);
}

/* Draws are relative to what was fitted: an interval stays around its prediction when a speed is
 * overridden, and a later file's record replaces an earlier one's. */
static void intervals(void **state)
{
	struct mq_arena a = MQ_ARENA_INIT, scratch = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_schedule *s = small_schedule(&a);
	struct mq_calib *calib = bare_calib(&a);
	struct mq_cluster cluster = { .device = mq_arena_array(&a, 2, struct mq_device) };
	struct mq_uncertainty u = { 0 };
	struct mq_interval_request r = { .cluster = &cluster,
					 .calib = calib,
					 .uncertainty = &u,
					 .n_draws = 4,
					 .run = run_serially,
					 .context = &scratch };
	struct mq_interval slow, fast;
	char path[] = "/tmp/mq-fit-XXXXXX";

	close(mkstemp(path));
	mq_calib_add_ideal(calib, "C", 1e12, 1e10, 1e9);
	s->work[0].kernel[0] = (struct mq_kernel){ .kind = MQ_KERNEL_MEMORY, .bytes = 1e6, .launches = 1 };
	write_fit(path, "", "\"0.1\"");
	assert_int_equal(mq_uncertainty_load(&u, path, &a, &err), MQ_OK);
	write_fit(path, "\"fitted\":[0.5],", "\"0.4\",\"0.5\",\"0.5\",\"0.625\"");
	assert_int_equal(mq_uncertainty_load(&u, path, &a, &err), MQ_OK);
	assert_int_equal(u.n, 1);
	calib->device[0].elementwise_bw_share = .5;
	assert_int_equal(mq_interval_of(&r, s, &a, &slow, &err), MQ_OK);
	NEAR(slow.factor[0], 1.25, 1e-9);
	NEAR(slow.factor[3], .8, 1e-9);
	assert_true(slow.low < 1 && slow.high > 1);
	calib->device[0].elementwise_bw_share = .25; /* not what was fitted: same factors */
	assert_int_equal(mq_interval_of(&r, s, &a, &fast, &err), MQ_OK);
	for (int d = 0; d < 4; d++)
		NEAR(fast.factor[d], slow.factor[d], 1e-9);
	/* Files that do not say what was fitted: around the median of the draws. */
	write_fit(path, "", "\"0.8\",\"1\",\"1\",\"1.25\"");
	assert_int_equal(mq_uncertainty_load(&u, path, &a, &err), MQ_OK);
	assert_int_equal(mq_interval_of(&r, s, &a, &fast, &err), MQ_OK);
	NEAR(fast.factor[0], 1.25, 1e-9);
	/* One work on two devices whose limits slow them unlike: each task is priced at its device's clock. */
	s->work[0].kernel[0] = (struct mq_kernel){ .kind = MQ_KERNEL_GEMM,
						   .dtype = MQ_FP32,
						   .m = 512,
						   .n = 512,
						   .k = 512,
						   .count = 1,
						   .flop = 2.7e8,
						   .launches = 1 };
	s->task[1].kind = MQ_TASK_COMPUTE;
	s->task[1].work = 0;
	s->clock = (double[]){ .5, .8 };
	assert_int_equal(mq_interval_of(&r, s, &a, &fast, &err), MQ_OK);
	for (int d = 0; d < 4; d++)
		NEAR(fast.factor[d], 1, 1e-9);
	unlink(path);
	mq_arena_fini(&scratch);
	mq_arena_fini(&a);
}

/* Products timed by a host that launches one each 30 us: the fit finds the kernels behind that, and a third of
 * the timings that are off by half do not draw it away. */
static void gemm_fit(void **state)
{
	enum { DEVICES = 2, SHAPES = 80, N = DEVICES * SHAPES };
	static const double m[] = { 16, 64, 256, 1024, 4096 }, nk[] = { 512, 1536, 4096, 11008 };
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_device_calib truth[DEVICES], start[DEVICES];
	struct mq_gemm_sample sample[N];
	struct mq_err err = MQ_ERR_INIT;

	for (uint32_t d = 0; d < DEVICES; d++) {
		truth[d] = *mq_calib_add_ideal(bare_calib(&arena), "gpu", 100e12 * (1 + d), 1e12 * (1 + 2 * d), 16e9);
		truth[d].sm_count = 80 + 40 * d;
		truth[d].gemm_eff = d ? .8 : .7;
		truth[d].gemm_kt = 60;
		truth[d].gemm_a0 = 10;
		truth[d].gemm_q = .3;
		truth[d].gemm_bw_share = d ? .9 : .8;
		truth[d].gemm_corner = 4;
		truth[d].gemm_t0_s = 8e-6;
		truth[d].host_launch_s = d ? 0 : 30e-6;
		start[d] = truth[d];
		start[d].gemm_eff = .5;
		start[d].gemm_kt = 20;
		start[d].gemm_t0_s = 20e-6;
		start[d].gemm_bw_share = 1;
	}
	for (uint32_t i = 0; i < N; i++) {
		uint32_t shape = i % SHAPES;

		sample[i] = (struct mq_gemm_sample){ .dtype = MQ_FP16,
						     .m = m[shape % 5],
						     .n = nk[shape / 5 % 4],
						     .k = nk[shape / 20],
						     .device = i / SHAPES };
		sample[i].time_s = mq_gemm_loop_s(&truth[i / SHAPES], &sample[i]);
	}
	assert_true(sample[0].time_s == 30e-6 && sample[79].time_s > 1e-3);
	for (uint32_t i = 0; i < N; i += 3)
		sample[i].time_s *= 1.5;
	assert_int_equal(mq_fit_gemm(sample, N, MQ_NONE, start, DEVICES, &err), MQ_OK);
	for (uint32_t i = 0; i < N; i++)
		NEAR(mq_gemm_loop_s(&start[i / SHAPES], &sample[i]) / mq_gemm_loop_s(&truth[i / SHAPES], &sample[i]), 1,
		     .05);
	assert_true(start[0].gemm_kt == start[1].gemm_kt && start[0].gemm_q == start[1].gemm_q);
	assert_true(start[0].gemm_eff != start[1].gemm_eff);
	mq_arena_fini(&arena);
	(void)state;
}

/* A device whose memory is twice as slow as its calibration says and whose launches take three times as long, and which
 * loses .25 of its speed beside communication: each is found by itself. Tasks of 1 to 40 MB in 1 to 40 kernels. */
static void corrected_apart(void **state)
{
	enum { TASKS = 40 };
	struct mq_arena a = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_calib *calib = bare_calib(&a);
	struct mq_device device = { .calib = 0 };
	struct mq_cluster cluster = { .device = &device, .n_devices = 1 };
	struct mq_schedule s = { .n_devices = 1 };
	const char *type = "C";
	uint32_t zero = 0;
	struct mq_task task[TASKS] = { { 0 } };
	struct mq_work work[TASKS] = { { 0 } };
	struct mq_kernel kernel[TASKS] = { { 0 } };
	struct mq_observed o[TASKS];

	mq_calib_add_ideal(calib, type, 1e12, 1e10, 1e9);
	struct mq_device_calib *d = &calib->device[0];
	d->launch_s = 1e-5;
	d->overlap_compute = 0;
	s.device = &zero;
	s.device_type = &type;
	s.task = task;
	s.work = work;
	s.n_tasks = s.n_works = TASKS;
	for (uint32_t i = 0; i < TASKS; i++) {
		double bytes = 1e6 * (1 + i), launches = 1 + i * 7 % 40;
		double alone = 2 * bytes / 1e10 + 3 * launches * 1e-5, beside = i % 3 ? 0 : .5;

		kernel[i] = (struct mq_kernel){ .kind = MQ_KERNEL_MEMORY, .bytes = bytes, .launches = launches };
		work[i] = (struct mq_work){ .n_kernels = 1, .kernel = &kernel[i] };
		task[i] = (struct mq_task){ .kind = MQ_TASK_COMPUTE, .work = i, .comm = MQ_NONE };
		/* alone = T - .5 T .25 */
		o[i] = (struct mq_observed){
			.schedule = &s, .task = i, .overlapped = beside, .time.median = alone / (1 - .25 * beside)
		};
		o[i].imitated = i % 7 == 3; /* whatever these say */
		if (o[i].imitated)
			o[i].time.median *= 100;
	}
	struct mq_recalibration r = { .device = d };
	assert_int_equal(mq_recalibrate(&r, calib, &cluster, o, TASKS, &a, &err), MQ_OK);
	assert_int_equal(r.n_fitted, 3);
	NEAR(d->elementwise_bw_share, .5, 1e-3);
	NEAR(d->launch_s, 3e-5, 1e-3);
	NEAR(d->overlap_compute, .25, 1e-2);
	/* Where all kernels are of one kind of task, launches cannot be told from the rest: only one scale is fitted. */
	d->elementwise_bw_share = 1;
	for (uint32_t i = 0; i < TASKS; i++) {
		kernel[i].bytes = 1e6;
		kernel[i].launches = 1;
		o[i].overlapped = 0;
		o[i].time.median = 1;
	}
	assert_int_equal(mq_recalibrate(&r, calib, &cluster, o, TASKS, &a, &err), MQ_OK);
	assert_int_equal(r.n_fitted, 1);
	mq_arena_fini(&a);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(medians),        cmocka_unit_test(ranks),
					    cmocka_unit_test(errors),         cmocka_unit_test(planted_parameters),
					    cmocka_unit_test(measured_calls), cmocka_unit_test(join),
					    cmocka_unit_test(time_lost),      cmocka_unit_test(gemm_fit),
					    cmocka_unit_test(probes),         cmocka_unit_test(corrected_apart),
					    cmocka_unit_test(least),          cmocka_unit_test(probability),
					    cmocka_unit_test(intervals) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

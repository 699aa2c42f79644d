/* What kernels draw, and the clock that a board's limit leaves (kernels/power.c). Values by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "costing/costing.h"
#include "maquette/cost.h"
#include "maquette/rng.h"
#include "lowered.h"

static struct mq_arena arena = MQ_ARENA_INIT;

/* 1e12 operations and bytes a second; 600 W, of which 100 idle; a GEMM at full rate draws 1,000 W beyond that. */
static struct mq_device_calib board(void)
{
	struct mq_device_calib d = *mq_calib_add_ideal(bare_calib(&arena), "board", 1e12, 1e12, 1e9);

	d.power_W = 600;
	d.power_idle = 1.0 / 6;
	d.flop_J = 1e-9;
	d.flop_fp8 = .5;
	d.memory_J = 2e-10;
	d.power_s = .05;
	return d;
}

static struct mq_kernel gemm(enum mq_dtype dtype)
{
	return (struct mq_kernel){ .kind = MQ_KERNEL_GEMM,
				   .dtype = (uint8_t)dtype,
				   .m = 1e4,
				   .n = 1e3,
				   .k = 1e3,
				   .count = 1,
				   .flop = 2e10,
				   .launches = 1 };
}

static double clock_of(const struct mq_device_calib *d, struct mq_kernel k, double limit_W)
{
	const struct mq_work work = { .n_kernels = 1, .kernel = &k };
	struct mq_draw draw = { 0 };

	mq_power_add(d, &work, 1, &draw);
	return mq_power_clock(d, limit_W, &draw);
}

static void near(double x, double y)
{
	if (!(fabs(x - y) <= 1e-6 * fabs(y)))
		fail_msg("%.12g instead of %.12g", x, y);
}

static void clocks_of_gemms(void **state)
{
	struct mq_device_calib d = board();

	near(clock_of(&d, gemm(MQ_FP16), NAN), pow(.5, 1 / 2.2)); /* 500 of 1,000 W */
	near(clock_of(&d, gemm(MQ_FP32), NAN), pow(.5, 1 / 2.2)); /* as much at its own rate */
	near(clock_of(&d, gemm(MQ_FP16), 350), pow(.25, 1 / 2.2));
	assert_true(clock_of(&d, gemm(MQ_FP8), NAN) == 1); /* just so */
	assert_true(clock_of(&d, gemm(MQ_FP8), 599) < 1);
	assert_true(clock_of(&d, gemm(MQ_FP16), 1e4) == 1);
	struct mq_kernel moves = gemm(MQ_FP16);
	moves.bytes = 1e10; /* 2 J in 20 ms: 100 W that no clock saves */
	double x = clock_of(&d, moves, NAN);
	near(1000 * pow(x, 2.2) + 100 * x, 500);
	d.flop_fp8 = 2;
	near(clock_of(&d, gemm(MQ_FP8), NAN), pow(500. / 2000, 1 / 2.2));
	d.flop_J = 0;
	assert_true(clock_of(&d, gemm(MQ_FP16), 1) == 1); /* nobody knows what it draws */
	d = board();
	d.peak_flops[MQ_BF16] = 0; /* Volta and Turing have none */
	near(clock_of(&d, gemm(MQ_FP16), NAN), pow(.5, 1 / 2.2));
	d = board();
	d.power_W = NAN;
	assert_true(clock_of(&d, gemm(MQ_FP16), NAN) == 1);
}

static void memory_keeps_its_clock(void **state)
{
	struct mq_device_calib d = board(), slow = d;
	struct mq_kernel k = { .kind = MQ_KERNEL_MEMORY, .bytes = 1e9, .launches = 1 };

	d.memory_J = 1e-9;
	assert_true(clock_of(&d, k, 300) == 1);
	slow.clock = .5;
	assert_true(mq_cost_kernel(&slow, &k) == mq_cost_kernel(&d, &k));
	k = gemm(MQ_FP16);
	near(mq_cost_kernel(&slow, &k), 2 * mq_cost_kernel(&d, &k));
	/* Beside a sweep of the same length: 1,000 x^1.2 + 200 W = 500 (1 / x + 1). */
	double call = mq_cost_kernel(&d, &k);
	d.memory_J = 200 / (d.mem_bw_Bps * d.elementwise_bw_share);
	const struct mq_draw sweep = { .other_s = call, .other_J = call * mq_power_sweep_W(&d) };
	double x = call / mq_power_loop_s(&d, &k, &sweep, 0, INFINITY);
	near(1000 * pow(x, 1.2) + 200, 500 * (1 / x + 1));
}

/* 20 ms a call at full clock and 1,000 W; at once 840 of 600 with the idle 100 are the most, 740. Their mean is at 500
 * after .05 ln (740 / 240) s, 2.5 calls; from then on each takes 1 / clock. A limit of 800 leaves the first calls alone. */
static void loops(void **state)
{
	struct mq_device_calib d = board();
	struct mq_kernel k = gemm(MQ_FP16);
	const struct mq_draw none = { 0 };
	double call = .02 / pow(.74, 1 / 2.2), slow = .02 / pow(.5, 1 / 2.2), first = .05 * log(740. / 240) / call;

	near(mq_power_loop_s(&d, &k, &none, 0, 1), call);
	near(mq_power_loop_s(&d, &k, &none, 0, 3), (first * call + (3 - first) * slow) / 3);
	near(mq_power_loop_s(&d, &k, &none, 3, 9), slow);
	near(mq_power_loop_s(&d, &k, &none, 0, INFINITY), slow);
	d.power_W = 800;
	d.power_idle = .125;
	near(mq_power_loop_s(&d, &k, &none, 0, 1), .02);
	d.flop_J = 0;
	near(mq_power_loop_s(&d, &k, &none, 0, INFINITY), .02);
}

/* Whatever is mixed: never above the limit, at it where the clock is below the full one, and a higher limit is no
 * slower. */
static void limits_are_kept(void **state)
{
	struct mq_device_calib d = board();
	struct mq_rng rng;

	mq_rng_seed(&rng, 7);
	for (int i = 0; i < 2000; i++) {
		const struct mq_draw p = { .clocked_s = mq_rng_unit(&rng) + .01,
					   .other_s = mq_rng_unit(&rng),
					   .clocked_J = 2000 * mq_rng_unit(&rng),
					   .other_J = 200 * mq_rng_unit(&rng) };
		double limit = 150 + 900 * mq_rng_unit(&rng), x = mq_power_clock(&d, limit, &p);
		double W = (p.clocked_J * pow(x, 1.2) + p.other_J) / (p.clocked_s / x + p.other_s);

		assert_true(x > 0 && x <= 1);
		assert_true(W <= (limit - 100) * (1 + 1e-9) || x < .1001);
		assert_true(x == 1 || x < .1001 || W >= (limit - 100) * (1 - 1e-9));
		assert_true(mq_power_clock(&d, limit * 1.1, &p) >= x);
	}
}

static double seconds_at(const struct mq_draw *p, double x)
{
	return p->clocked_s / x + p->other_s + fmax(p->wait_s - p->waiting_s * (1 / x - 1), 0);
}

/* A slower host leaves room for clocks, and yet never makes a step faster: kernels at a low clock take of its waits. */
static void waits_are_no_gain(void **state)
{
	struct mq_device_calib d = board();
	struct mq_kernel k = { .kind = MQ_KERNEL_GEMM,
			       .dtype = MQ_BF16,
			       .m = 512,
			       .n = 512,
			       .k = 512,
			       .count = 1,
			       .launches = 1,
			       .flop = 2. * 512 * 512 * 512 };
	struct mq_work work = { .n_kernels = 1, .kernel = &k, .host = 1 };
	struct mq_draw draw = { 0 };
	struct mq_rng rng;

	d.host_launch_s = 3 * mq_cost_kernel(&d, &k);
	mq_power_add(&d, &work, 2, &draw);
	near(draw.wait_s, 2 * (d.host_launch_s - mq_cost_kernel(&d, &k)));
	near(draw.waiting_s, draw.clocked_s);
	work.waits = true; /* in turn with its kernels: no clock takes of that */
	draw = (struct mq_draw){ 0 };
	mq_power_add(&d, &work, 1, &draw);
	assert_true(draw.wait_s == 0);
	near(draw.clocked_s + draw.other_s, d.host_launch_s + mq_cost_kernel(&d, &k));

	mq_rng_seed(&rng, 8);
	for (int i = 0; i < 1000; i++) {
		struct mq_draw p = { .clocked_s = mq_rng_unit(&rng) + .01,
				     .other_s = mq_rng_unit(&rng),
				     .clocked_J = 2000 * mq_rng_unit(&rng),
				     .other_J = 200 * mq_rng_unit(&rng) };
		double last_s = 0, last = 0;

		p.waiting_s = p.clocked_s * mq_rng_unit(&rng);
		for (; p.wait_s < 1; p.wait_s += .125) {
			double x = mq_power_clock(&d, 600, &p), s = seconds_at(&p, x);

			assert_true(x >= last && s >= last_s * (1 - 1e-9));
			assert_true(p.clocked_J * pow(x, 1.2) + p.other_J <= 500 * s * (1 + 1e-9) || x < .1001);
			last = x;
			last_s = s;
		}
	}
}

/* Of 8 that train together the slowest has what the calibration says; of others, by the expected largest of so many
 * normal deviates within three sigma: 0 of 1, .5583 of 2, 1.0181 of 4, 1.4041 of 8, 2.3945 of 100, 2.9788 of 10,000
 * (3 - the integral of their distribution's nth power), to .04. */
static void slowest_of_many(void **state)
{
	const double n[] = { 1, 2, 4, 8, 100, 10000 }, largest[] = { 0, .5583, 1.0181, 1.4041, 2.3945, 2.9788 };
	struct mq_link_calib nvlink = { .name = "nvlink", .fleet = .9 };
	struct mq_device_calib d = board();
	struct mq_calib calib = { .n_devices = 1, .device = &d, .n_links = 1, .link = &nvlink };
	struct mq_device device = { .kind = MQ_GPU, .calib = 0 };
	struct mq_cluster cluster = { .device = &device, .n_devices = 1 };
	const struct mq_question q = { .cluster = &cluster, .calib = &calib };
	const struct mq_draw none = { 0 };

	d.nvlink_Bps = 1;
	near(mq_clocks_of(&q, 0, 8, &none), .9);
	for (int i = 0; i < 6; i++)
		assert_true(fabs(1 - mq_clocks_of(&q, 0, (uint32_t)n[i], &none) - .1 * largest[i] / 1.4041) < 3e-3);
	d.nvlink_Bps = 0;
	near(mq_clocks_of(&q, 0, 100, &none), 1);
}

/* The update draws less than the passes and counts in the mean of a step, for as long as that mean is of. */
static void updates_leave_room(void **state)
{
	static struct lowered w;

	lowered_open(&w, "gpt:layers=2,hidden=64,heads=4,seq=32,vocab=128", 1, 16);
	struct mq_device_calib *d = &w.calib->device[0], b = board();
	d->power_W = b.power_W;
	d->power_idle = b.power_idle;
	d->flop_J = b.flop_J;
	d->memory_J = b.memory_J / 10;
	const struct mq_schedule *s = lowered_shape(&w, &(struct mq_shape){ .micro_batches = 1 });
	struct mq_draw passes = { 0 }, update = { 0 };
	for (uint32_t i = 0; i < s->n_tasks; i++)
		mq_power_add(d, &s->work[s->task[i].work], 1, s->task[i].phase == MQ_UPDATE ? &update : &passes);
	double update_s = update.other_s, last = mq_power_clock(d, NAN, &passes);
	assert_true(last < 1 && update_s > 0 && update.clocked_s == 0);
	const double mean_s[] = { .25 * update_s, update_s, 9 * update_s };
	for (int i = 0; i < 3; i++) {
		double counts = fmin(1, mean_s[i] / update_s);
		struct mq_draw step = passes;

		step.other_s += counts * update.other_s;
		step.other_J += counts * update.other_J;
		d->power_s = mean_s[i];
		s = lowered_shape(&w, &(struct mq_shape){ .micro_batches = 1 });
		near(s->clock[0], mq_power_clock(d, NAN, &step));
		assert_true(i == 2 ? s->clock[0] == last : s->clock[0] > last);
		last = s->clock[0];
	}
	lowered_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clocks_of_gemms),
		cmocka_unit_test(memory_keeps_its_clock),
		cmocka_unit_test(loops),
		cmocka_unit_test(limits_are_kept),
		cmocka_unit_test(slowest_of_many),
		cmocka_unit_test(updates_leave_room),
		cmocka_unit_test(waits_are_no_gain),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	mq_arena_fini(&arena);
	return failed;
}

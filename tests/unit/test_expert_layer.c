/*
 * test_expert_layer.c - layers of experts and their token exchange, by hand. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/expert_layer.h"

static const struct mq_library_row layers[] = {
	{ "one", MQ_EXPERTS_16_BIT, 0,
	  .experts = { .share = .5, .tile = 64, .bw_share = .5, .fixed_s = 1e-5, .passes = 1 } },
	{ "two", MQ_EXPERTS_16_BIT, 0, .experts = { .share = .5, .tile = 64, .bw_share = .5, .remote = 1 } },
	{ "two", MQ_EXPERTS_16_BIT, 1, .experts = { .share = .25, .tile = 64, .bw_share = .5, .remote = 1 } },
};
static const struct mq_library_row exchanges[] = {
	{ "normal", false, 0,
	  .exchange = { .fixed_s = 2e-5,
			.fixed_nodes = 1,
			.token_s = 1e-7,
			.multiprocessor_Bps = 1e10,
			.link_share = .5,
			.net_share = .8,
			.net_multiprocessor_Bps = 1e9 } },
	{ "each", true, 0, .exchange = { .each = 1, .token_s = 1e-6, .link_share = .5, .net_share = .8 } },
};
static const struct mq_libraries libraries = {
	.n_generations = 2,
	.generation = { { "old", { 0, 0 }, 1 }, { "new", { 100, 0 }, 1 } },
	.row = { layers, exchanges },
	.n_rows = { 3, 2 },
};

static struct mq_device_calib device(double capability)
{
	struct mq_device_calib d = { .compute_capability = capability,
				     .sm_count = 100,
				     .mem_bw_Bps = 1e12,
				     .elementwise_bw_share = 1,
				     .nvlink_Bps = 4e11,
				     .nic_Bps = 5e10,
				     .libraries = &libraries };

	d.peak_flops[MQ_BF16] = 1e15;
	return d;
}

static void near(double a, double b)
{
	if (!(fabs(a / b - 1) < 1e-9))
		fail_msg("%.12g is not %.12g", a, b);
}

static const struct mq_expert_layer even = { .tokens = 6400,
					     .top_k = 1,
					     .copies = 6400,
					     .experts = 10,
					     .hidden = 1280,
					     .width = 1280,
					     .type = MQ_EXPERTS_16_BIT };

/* 10 experts x 10 tiles of 64 tokens x 10 tiles of features are ten waves; both GEMMs are as large. */
static void test_layer(void **state)
{
	struct mq_device_calib d = device(90);
	struct mq_expert_layer c = even;
	double wave = 2 * 64 * 128 * 1280 / (1e13 * .5), read = 10 * 2 * 1280 * 1280 * 2 / 5e11;

	near(mq_expert_layer_time(&d, "one", &c), 1e-5 + hypot(20 * wave, read) + 5 * 1280. * 6400 * 2 / 1e12);
	c.copies = c.tokens = 6410; /* a token more for each: an eleventh tile */
	near(mq_expert_layer_time(&d, "one", &c), 1e-5 + hypot(22 * wave, read) + 5 * 1280. * 6410 * 2 / 1e12);
	c = even;
	c.gated = true; /* a third matrix beside the first */
	near(mq_expert_layer_time(&d, "one", &c), 1e-5 + hypot(30 * wave, 1.5 * read) + 5 * 1280. * 6400 * 2 / 1e12);
	c.type = MQ_EXPERTS_FP8;
	assert_true(isnan(mq_expert_layer_time(&d, "one", &c)) && isnan(mq_expert_layer_time(&d, "three", &even)));
}

/* Tokens that visit two experts, of which this rank has a tenth: both copies are computed. A newer generation has a row
 * of its own, and takes the older one's where it has none. */
static void test_remote(void **state)
{
	struct mq_device_calib old = device(90), new = device(100);
	struct mq_expert_layer c = even;
	double wave = 2 * 64 * 128 * 1280 / (1e13 * .5), read = 10 * 2 * 1280 * 1280 * 2 / 5e11;

	c.tokens = 32000;
	c.top_k = 2;
	near(mq_expert_layer_time(&old, "two", &c), hypot(40 * wave, read));
	near(mq_expert_layer_time(&new, "two", &c), hypot(80 * wave, read));
	near(mq_expert_layer_time(&new, "one", &even), mq_expert_layer_time(&old, "one", &even));
}

/* More tokens never take less; skewed loads never less than even ones where every expert has enough of them. */
static void test_properties(void **state)
{
	struct mq_device_calib d = device(90);

	for (double skew = 0; skew < 1.3; skew += .6) {
		double last = 0;

		for (double n = 64; n < 1e6; n *= 1.37) {
			struct mq_expert_layer c = even;
			double time;

			c.tokens = c.copies = n;
			c.skew = skew;
			time = mq_expert_layer_time(&d, "one", &c);
			assert_true(time >= last * .999);
			last = time;
		}
	}
}

static void test_exchange(void **state)
{
	struct mq_device_calib d = device(90);
	struct mq_token_exchange x = {
		.nodes = 1, .ranks = 8, .tokens = 1000, .token_B = 1e4, .top_k = 1, .experts = 16, .multiprocessors = 10
	};

	near(mq_token_exchange_time(&d, "normal", &x), 2e-5 + hypot(1e-5, 1e-4));
	x.multiprocessors = 100; /* the port */
	near(mq_token_exchange_time(&d, "normal", &x), 2e-5 + 1e7 / 2e11);
	x.multiprocessors = 10;
	x.nodes = 2; /* half the tokens go to the other machine, as fast as ten multiprocessors send */
	near(mq_token_exchange_time(&d, "normal", &x), 4e-5 + 5e6 / 1e10);
	x.top_k = 16; /* more copies than those fewer tokens: they pass two multiprocessors */
	near(mq_token_exchange_time(&d, "normal", &x), 4e-5 + hypot(1e-5, 2 * 8 * (1 - pow(7. / 8, 16)) * 1e-4));
	x.nodes = 1;
	x.top_k = 2; /* to 8 (1 - (7/8)^2) of 8 ranks */
	near(mq_token_exchange_time(&d, "normal", &x), 2e-5 + hypot(1e-5, 1.875e-4));
	x.combine = true;
	near(mq_token_exchange_time(&d, "each", &x), 2e7 / 2e11 > 2000 * 1e-6 / 16 ? 2e7 / 2e11 : 2000 * 1e-6 / 16);
	assert_true(isnan(mq_token_exchange_time(&d, "normal", &x)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layer),
		cmocka_unit_test(test_remote),
		cmocka_unit_test(test_properties),
		cmocka_unit_test(test_exchange),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

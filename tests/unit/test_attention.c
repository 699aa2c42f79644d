/*
 * test_attention.c - the tile model of attention against tiles counted by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/attention.h"
#include "maquette/cost.h"
#include "libraries.h"

static struct mq_arena arena = MQ_ARENA_INIT;

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-9 * fabs(want)))
		fail_msg("got %.17g, wanted %.17g", got, want);
}

/* 100 SMs of Hopper, 1e15 flop/s, memory that costs nothing. */
static struct mq_device_calib *hopper(void)
{
	struct mq_device_calib *d = mq_calib_add_ideal(bare_calib(&arena), "ideal", 1e15, 1e30, 1e9);

	d->sm_count = 100;
	d->compute_capability = 90;
	return d;
}

/* A key costs a tile of 128 queries 4 * 128 * 128 flop at .377 of an SM's 1e13 flop/s; a tile 90 keys more. */
static double key_s(void)
{
	return 4. * 128 * 128 / .377 / 1e13;
}

/* 50 heads of 1,024 queries and keys: 400 tiles in 4 waves; one more head makes 408 tiles and a fifth. */
static void test_waves(void **state)
{
	struct mq_attention_call c = { 1, 50, 50, 1024, 1024, 128, .dtype = MQ_FP16 };

	near(mq_attention_time(hopper(), MQ_LIBRARY_FLASH2, &c), 4 * (1024 + 90) * key_s());
	c.heads = c.kv_heads = 51;
	near(mq_attention_time(hopper(), MQ_LIBRARY_FLASH2, &c), 5 * (1024 + 90) * key_s());
	c.queries = c.keys = 100; /* padded to a tile */
	near(mq_attention_time(hopper(), MQ_LIBRARY_FLASH2, &c), (128 + 90) * key_s());
}

/* Causal: the 8 tiles of a head see 128, 256 ... 1,024 keys: 4,608 of 8,192. 50 heads on 100 SMs, and .8
 * of the longest tile at the end but for one of four waves. */
static void test_causal(void **state)
{
	struct mq_attention_call c = { 1, 50, 50, 1024, 1024, 128, .causal = true, .dtype = MQ_FP16 };
	double even = 50 * (4608 + 8 * 90) / 100., last = .8 * (1024 + 90) * (1 - 1. / 4);

	near(mq_attention_time(hopper(), MQ_LIBRARY_FLASH2, &c), (even + last) * key_s());
	c.queries = 128; /* one tile, that of the last queries, sees all keys */
	near(mq_attention_time(hopper(), MQ_LIBRARY_FLASH2, &c), (1024 + 90) * key_s());
}

/* Narrow heads reach less of the peak; Ampere has no FlashAttention 3 and runs 2. */
static void test_widths_and_generations(void **state)
{
	struct mq_attention_call wide = { 1, 50, 50, 1024, 1024, 128, .dtype = MQ_FP16 }, narrow = wide;
	struct mq_device_calib *a = hopper();

	narrow.width = 64;
	near(mq_attention_time(hopper(), MQ_LIBRARY_FLASH3, &narrow) /
		     mq_attention_time(hopper(), MQ_LIBRARY_FLASH3, &wide),
	     (64 / .51) / (128 / .66));
	a->compute_capability = 80;
	near(mq_attention_time(a, MQ_LIBRARY_FLASH3, &wide), mq_attention_time(a, MQ_LIBRARY_FLASH2, &wide));
}

/* A library without kernels for Hopper runs Ampere's, which reach .63 of the peak that its own do, and half of
 * that on Blackwell; a GPU before Ampere runs xFormers'. */
static void test_kernels_of_other_generations(void **state)
{
	struct mq_attention_call c = { 1, 50, 50, 1024, 1024, 128, .dtype = MQ_FP16 };
	struct mq_device_calib *d = hopper();

	d->compute_capability = 80;
	double ampere = mq_attention_time(d, MQ_LIBRARY_FLASH1, &c), old = mq_attention_time(d, MQ_LIBRARY_CUTLASS, &c);
	d->compute_capability = 90;
	near(mq_attention_time(d, MQ_LIBRARY_FLASH1, &c), ampere / .63);
	d->compute_capability = 100;
	near(mq_attention_time(d, MQ_LIBRARY_FLASH1, &c), ampere / .315);
	d->compute_capability = 70;
	near(mq_attention_time(d, MQ_LIBRARY_FLASH2, &c), old);
	near(mq_attention_time(d, MQ_LIBRARY_FLASH1, &c), ampere);
	d->compute_capability = 120; /* tensor cores as Ada's */
	double card = mq_attention_time(d, MQ_LIBRARY_FLASH2, &c);
	d->compute_capability = 89;
	near(mq_attention_time(d, MQ_LIBRARY_FLASH2, &c), card);
}

/* Windows that leave half of the pairs: each tile sees half of the keys, and costs its 90 all the same. */
static void test_windows(void **state)
{
	struct mq_attention_call c = { 1, 50, 50, 1024, 1024, 128, .dtype = MQ_FP16, .seen = .5 };

	near(mq_attention_time(hopper(), MQ_LIBRARY_FLASH2, &c), 4 * (512 + 90) * key_s());
}

/* Causal windows end inside a block: with part p of the pairs a tile sees p of its keys and 1 - p of a block. */
static void test_causal_windows(void **state)
{
	struct mq_attention_call c = { 1, 50, 50, 1024, 1024, 128, .causal = true, .dtype = MQ_FP16, .seen = .25 };
	double even = 50 * (.25 * 4608 + 8 * (.75 * 128 + 90)) / 100., last = .8 * (256 + 90) * (1 - 1. / 4);

	near(mq_attention_time(hopper(), MQ_LIBRARY_FLASH2, &c), (even + last) * key_s());
}

static struct mq_device_calib *blackwell(uint32_t capability)
{
	struct mq_device_calib *d = mq_calib_add_ideal(bare_calib(&arena), "ideal", 2.5e15, 8e12, 1e9);

	d->peak_flops[MQ_FP8] = 5e15;
	d->sm_count = capability == 103 ? 160 : 152;
	d->compute_capability = capability;
	return d;
}

/* Published times of cuDNN 9.22: GB200 and GB300, batch 2, 64 heads of 128, 8 of keys, 16,384 causal tokens. */
static void test_published_of_blackwell(void **state)
{
	static const struct {
		uint32_t capability;
		bool backward, fp8, mx;
		double ms;
	} timed[] = {
		{ 100, false, false, false, 5.150 }, { 100, true, false, false, 16.554 },
		{ 100, false, true, false, 4.084 },  { 100, true, true, false, 13.476 },
		{ 100, false, true, true, 4.400 },   { 100, true, true, true, 15.315 },
		{ 103, false, false, false, 4.593 }, { 103, true, false, false, 14.593 },
		{ 103, false, true, false, 2.880 },  { 103, true, true, false, 10.805 },
		{ 103, false, true, true, 3.225 },   { 103, true, true, true, 14.072 },
	};

	for (size_t i = 0; i < sizeof(timed) / sizeof(*timed); i++) {
		struct mq_attention_call c = { 2, 64, 8, 16384, 16384, 128, .causal = true };

		c.backward = timed[i].backward;
		c.dtype = timed[i].fp8 ? MQ_FP8 : MQ_BF16;
		c.mx = timed[i].mx;
		double got = mq_attention_time(blackwell(timed[i].capability), MQ_LIBRARY_CUDNN, &c) * 1e3;
		if (fabs(got / timed[i].ms - 1) > .1)
			fail_msg("call %zu: %.3f ms, measured %.3f", i, got, timed[i].ms);
	}
}

/* cuDNN's backward pass in fp8 goes through what a window hides; that in 16 bits does not. */
static void test_windows_of_fp8(void **state)
{
	struct mq_device_calib *d = blackwell(100);

	for (int fp8 = 0; fp8 < 2; fp8++)
		for (int backward = 0; backward < 2; backward++) {
			struct mq_attention_call c = { 2, 128, 128, 16384, 16384, 64, .causal = true };

			c.backward = backward;
			c.dtype = fp8 ? MQ_FP8 : MQ_BF16;
			double whole = mq_attention_time(d, MQ_LIBRARY_CUDNN, &c);
			c.seen = 1. / 64;
			double window = mq_attention_time(d, MQ_LIBRARY_CUDNN, &c);
			assert_true(fp8 && backward ? window == whole : window < whole / 8);
		}
}

/* In 32 bits each product is three in TF32, by xFormers' kernels, whatever the library, backward as fast as forward; two
 * tiles of 128 of 256 keys, 50 more each. */
static void test_32_bits(void **state)
{
	struct mq_device_calib *d = hopper();
	struct mq_attention_call c = { 1, 50, 50, 256, 256, 64, .dtype = MQ_TF32 };
	double key = 4. * 128 * 64 / (.33 * .63 * 6e14 / 3 / 100);

	d->peak_flops[MQ_TF32] = 6e14;
	d->peak_flops[MQ_FP32] = 1e14;
	near(mq_attention_time(d, MQ_LIBRARY_CUDNN, &c) - mq_attention_launches(false) * d->launch_s, 306 * key);
	c.dtype = MQ_FP32;
	near(mq_attention_time(d, MQ_LIBRARY_FLASH2, &c) - mq_attention_launches(false) * d->launch_s, 306 * key);
	c.backward = true;
	near(mq_attention_time(d, MQ_LIBRARY_FLASH2, &c) - mq_attention_launches(true) * d->launch_s, 2.5 * 306 * key);
}

/* An operator of training asks the same model: flops below those of all pairs are windows', and the later steps of
 * a ring, whose causal work is balanced, have all queries and half of a block's keys or the other way round, and take
 * what the slower of the two takes. */
static void test_operators_ask_it(void **state)
{
	struct mq_device_calib *d = hopper();
	struct mq_kernel k = { .kind = MQ_KERNEL_ATTENTION,
			       .attention = MQ_ATTENTION_FLASH2,
			       .dtype = MQ_FP16,
			       .m = 1024,
			       .n = 1024,
			       .k = 128,
			       .count = 50,
			       .launches = 1,
			       .causal = true,
			       .flop = 4. * 1024 * 1024 * 128 * 50 };
	struct mq_attention_call c = { 1, 50, 50, 1024, 1024, 128, .causal = true, .dtype = MQ_FP16 }, other;

	d->gemm_kt = 1; /* a device with tiles */
	near(mq_cost_kernel(d, &k), mq_attention_time(d, MQ_LIBRARY_FLASH2, &c));
	k.flop /= 4;
	c.seen = .25;
	near(mq_cost_kernel(d, &k), mq_attention_time(d, MQ_LIBRARY_FLASH2, &c));
	k.flop *= 3 * 4;
	k.n *= 3;
	k.steps = 3;
	c = (struct mq_attention_call){ 1, 50, 50, 1024, 512, 128, .dtype = MQ_FP16 };
	other = (struct mq_attention_call){ 1, 50, 50, 512, 1024, 128, .dtype = MQ_FP16 };
	near(mq_cost_kernel(d, &k),
	     3 * fmax(mq_attention_time(d, MQ_LIBRARY_FLASH2, &c), mq_attention_time(d, MQ_LIBRARY_FLASH2, &other)));
	d->attention_scale = .5; /* measured to be half as fast as counted */
	double half = mq_cost_kernel(d, &k);
	d->attention_scale = 1;
	near(half, 2 * mq_cost_kernel(d, &k));
}

/* Scores of 50 heads, 1,024 x 1,024: two products, four backwards. */
static void test_unfused_moves_scores(void **state)
{
	struct mq_attention_call c = { 1, 50, 50, 1024, 1024, 128, .dtype = MQ_FP16 };
	struct mq_device_calib *d = hopper();

	d->mem_bw_Bps =
		1e6; /* nothing but memory: products 2 (q + k + scores) of 2 bytes, softmax 6, copies of q, k, v 4 */
	near(mq_attention_unfused(d, &c), 50. * 1024 * (2 * 2 * (128 + 128 + 1024) + 6 * 1024 + 3 * 4 * 128) / 1e6);
	c.backward = true; /* products from scores thrice, softmax 10, dO, dQ, dK, dV copied and three of them joined */
	near(mq_attention_unfused(d, &c), 50. * 1024 * (4 * 2 * (128 + 128 + 1024) + 10 * 1024 + 7 * 4 * 128) / 1e6);
}

/* Libraries of inference: no backward pass; a generation without a row in fp8 has that of the last older one. */
static void test_inference(void **state)
{
	struct mq_device_calib *d = hopper();
	struct mq_attention_call c = { 1, 50, 10, 4096, 4096, 192, .causal = true, .dtype = MQ_FP8 };
	double older;

	d->peak_flops[MQ_FP8] = 2e15;
	d->compute_capability = 100;
	older = mq_attention_time(d, MQ_LIBRARY_TRITON_PAGED, &c);
	d->compute_capability = 103;
	near(mq_attention_time(d, MQ_LIBRARY_TRITON_PAGED, &c), older);
	assert_true(mq_attention_time(d, MQ_LIBRARY_TRTLLM_GEN, &c) < older / 4);
	c.backward = true;
	for (int dtype = MQ_FP16; dtype <= MQ_FP8; dtype += MQ_FP8 - MQ_FP16) {
		c.dtype = (enum mq_dtype)dtype;
		for (int library = MQ_LIBRARY_FLASH2_PAGED; library < MQ_N_LIBRARIES; library++)
			assert_true(isnan(mq_attention_time(d, (enum mq_attention_library)library, &c)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waves),
		cmocka_unit_test(test_causal),
		cmocka_unit_test(test_widths_and_generations),
		cmocka_unit_test(test_kernels_of_other_generations),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_inference),
		cmocka_unit_test(test_causal_windows),
		cmocka_unit_test(test_published_of_blackwell),
		cmocka_unit_test(test_windows_of_fp8),
		cmocka_unit_test(test_32_bits),
		cmocka_unit_test(test_operators_ask_it),
		cmocka_unit_test(test_unfused_moves_scores),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	mq_arena_fini(&arena);
	return failed;
}

/*
 * test_cost.c - kernel times against values worked out by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "maquette/cost.h"
#include "kernels/kernel_table.h"
#include "libraries.h"

static struct mq_arena arena = MQ_ARENA_INIT;

/* 1 TFLOP/s, 1 TB/s, nothing lost. */
static struct mq_device_calib *ideal(void)
{
	return mq_calib_add_ideal(bare_calib(&arena), "ideal", 1e12, 1e12, 1e9);
}

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-12 * fabs(want)))
		fail_msg("got %.17g, wanted %.17g", got, want);
}

static void test_roofline(void **state)
{
	struct mq_device_calib *d = ideal();

	near(mq_cost_gemm(d, MQ_FP16, 1000, 1000, 1000, 1), 2e9 / 1e12);
	near(mq_cost_gemm(d, MQ_FP16, 1000, 1000, 1000, 3), 6e9 / 1e12);
	/* one row: bound by reading the weights, 2 bytes each */
	near(mq_cost_gemm(d, MQ_FP16, 1, 1000, 1000, 1), 2.0 * (1000 + 1e6 + 1000) / 1e12);
	near(mq_cost_gemm(d, MQ_FP32, 1, 1000, 1000, 1), 4.0 * (1000 + 1e6 + 1000) / 1e12);
	assert_true(mq_cost_gemm(d, MQ_FP16, 0, 1000, 1000, 1) == 0);
	d->peak_flops[MQ_FP8] = 0;
	assert_true(isinf(mq_cost_gemm(d, MQ_FP8, 10, 10, 10, 1)));
}

/* A kernel that issues 3e6 instructions at half of 1e12 flop/s of fp32 takes 6 us, or its bytes' time. */
static void test_worked(void **state)
{
	struct mq_device_calib *d = ideal();
	struct mq_kernel k = { .kind = MQ_KERNEL_MEMORY, .bytes = 2e6, .work = 3e6, .launches = 1 };

	near(mq_cost_kernel(d, &k), 6e-6 + d->launch_s);
	k.bytes = 8e6;
	near(mq_cost_kernel(d, &k), 8e-6 + d->launch_s);
}

/* 10 SMs, one wave of tiles of 256 x 128 with k = 100: 2*256*128*(100 + 20)*10/peak. */
static void test_waves(void **state)
{
	struct mq_device_calib *d = ideal();

	d->sm_count = 10;
	d->gemm_kt = 20;
	d->gemm_a0 = 1e-9; /* ties between tiles go to the largest */
	d->gemm_q = .25;
	double full = 2.0 * 256 * 128 * 120 * 10 / 1e12;
	/* 20 tiles of 256 x 128 fill two waves; smaller tiles do no better */
	near(mq_cost_gemm(d, MQ_FP16, 2560, 256, 100, 1), 2 * full);
	/* 21 tiles: the one left over costs .25 + .75 / 10 of a wave */
	d->gemm_a0 = 1e9; /* only the largest tile pays */
	near(mq_cost_gemm(d, MQ_FP16, 256, 21 * 128, 100, 1), (2 + .25 + .75 / 10) * full);
	/* memory takes as long as the arithmetic: the corner costs 2^(1/p) */
	d->gemm_corner = 2;
	d->mem_bw_Bps = 2.0 * (256 * 100 + 100 * 2560 + 256 * 2560) / (2 * full);
	near(mq_cost_gemm(d, MQ_FP16, 256, 2560, 100, 1), 2 * full * sqrt(2));
	d->gemm_corner = 0;
	d->gemm_a0 = 1e-9;
	d->mem_bw_Bps = 1e12;
	/* more work never takes less time */
	double last = 0;
	for (int m = 16; m < 4096; m += 16) {
		double t = mq_cost_gemm(d, MQ_FP16, m, 512, 512, 1);

		assert_true(t >= last * (1 - 1e-12));
		last = t;
	}
}

static void test_alignment(void **state)
{
	struct mq_device_calib *d = ideal();

	d->gemm_misaligned = .5;
	d->bmm_misaligned = .1;
	d->gemm_odd = .4;
	near(mq_cost_gemm(d, MQ_FP16, 2048, 2046, 2048, 1), 2.0 * 2048 * 2046 * 2048 / .5e12);
	near(mq_cost_gemm(d, MQ_FP16, 2048, 2044, 2048, 1), 2.0 * 2048 * 2044 * 2048 / .5e12);
	near(mq_cost_gemm(d, MQ_FP16, 2048, 2047, 2048, 1), 2.0 * 2048 * 2047 * 2048 / .2e12);
	near(mq_cost_gemm(d, MQ_FP16, 2048, 2048, 2047, 1), 2.0 * 2048 * 2047 * 2048 / .2e12);
	/* the weights' gradient reads rows of m and n, not of k */
	struct mq_kernel weights = { .kind = MQ_KERNEL_GEMM,
				     .dtype = MQ_FP16,
				     .count = 1,
				     .of_weights = true,
				     .m = 2048,
				     .n = 2048,
				     .k = 2047 };
	near(mq_cost_kernel(d, &weights), 2.0 * 2048 * 2047 * 2048 / 1e12);
	weights.m = 2047;
	near(mq_cost_kernel(d, &weights), 2.0 * 2047 * 2047 * 2048 / .2e12);
	near(mq_cost_gemm(d, MQ_FP16, 2048, 2048, 150, 8), 8 * 2.0 * 2048 * 2048 * 150 / .1e12);
	near(mq_cost_gemm(d, MQ_FP16, 2047, 2048, 2048, 1), 2.0 * 2048 * 2047 * 2048 / 1e12);
	d->bmm_misaligned = 0; /* ordinary cores: peak_fp32 / peak */
	d->peak_flops[MQ_FP32] = .25e12;
	near(mq_cost_gemm(d, MQ_FP16, 2048, 2048, 150, 8), 8 * 2.0 * 2048 * 2048 * 150 / .25e12);
	/* steps of k are slower, the 64 that a tile costs beside them are not; and a tile may be 32 wide */
	d->gemm_kt = 64;
	near(mq_cost_gemm(d, MQ_FP16, 2048, 2048, 4, 8), 8 * 2.0 * 2048 * 2048 * (4 * 4 + 64) / 1e12);
	near(mq_cost_gemm(d, MQ_FP16, 2048, 4, 120, 8), 8 * 2.0 * 2048 * 32 * (4 * 120 + 64) / 1e12);
	near(mq_cost_gemm(d, MQ_FP16, 2048, 8, 120, 8), 8 * 2.0 * 2048 * 64 * (120 + 64) / 1e12);
	d->gemm_kt = 0;
	/* four bytes: multiples of 4 suffice */
	near(mq_cost_gemm(d, MQ_TF32, 2048, 2044, 2048, 1), 2.0 * 2048 * 2044 * 2048 / 1e12);
	d->gemm_tf32 = .8;
	near(mq_cost_gemm(d, MQ_TF32, 2048, 2044, 2048, 1), 2.0 * 2048 * 2044 * 2048 / .8e12);
}

/* fp32 runs on plain cores: an efficiency of its own, a tile's prologue worth fewer steps, no alignment. */
static void test_plain_cores(void **state)
{
	struct mq_device_calib *d = ideal();
	double flop = 2.0 * 2048 * 2047 * 2048;

	d->peak_flops[MQ_FP32] = d->peak_flops[MQ_FP16] / 8;
	d->gemm_misaligned = .5;
	d->gemm_eff = .5;
	d->gemm_fp32 = 1.6;
	near(mq_cost_gemm(d, MQ_FP32, 2048, 2047, 2048, 1), flop / (.8 * .125e12));
	near(mq_cost_gemm(d, MQ_FP16, 2048, 2047, 2048, 1), flop / (.25 * 1e12));
	/* one tile of 256 x 128 on one core; prologue and epilogue last 64 steps of the tensor cores */
	d->gemm_eff = d->gemm_fp32 = 1;
	d->gemm_kt = 64;
	d->sm_count = 1;
	double unit = 2 * 256 * 128 / 1e12;
	near(mq_cost_gemm(d, MQ_FP16, 256, 128, 1024, 1), unit * (1024 + 64));
	near(mq_cost_gemm(d, MQ_FP32, 256, 128, 1024, 1), 8 * unit * (1024 + 8));
	/* without tensor cores every type does so, in steps of V100's: 125 Tflop/s on 80 SMs, 12.5 times as fast */
	d->compute_capability = 61;
	d->peak_flops[MQ_FP32] = d->peak_flops[MQ_FP16] = .125e12;
	for (int type = 0; type < 2; type++)
		near(mq_cost_gemm(d, type ? MQ_FP16 : MQ_FP32, 256, 128, 1024, 1), 8 * unit * (1024 + 64 / 12.5));
	near(mq_cost_gemm(d, MQ_FP16, 255, 127, 1023, 1), 8 * unit * (1023 + 64 / 12.5)); /* nothing to align */
}

static void test_kinds(void **state)
{
	struct mq_device_calib *d = ideal();
	struct mq_kernel k = { .kind = MQ_KERNEL_MEMORY, .bytes = 4e9, .launches = 3 };

	d->elementwise_bw_share = .8;
	d->launch_s = 2e-6;
	near(mq_cost_kernel(d, &k), 4e9 / .8e12 + 6e-6);
	/* a third read again and a quarter handed over, from a cache four times as fast, where both tensors fit */
	struct mq_kernel near_by = { .kind = MQ_KERNEL_MEMORY, .bytes = 12e6, .reread_B = 4e6, .handed_B = 3e6 };
	d->l2_B = 10e6;
	d->l2_Bps = 3.2e12;
	for (int size = 0; size < 3; size++) {
		near_by.reuse_B = (const double[]){ 4e6, 8e6, 8.1e6 }[size];
		near(mq_cost_kernel(d, &near_by), (const double[]){ 6.75e6, 9e6, 12e6 }[size] / .8e12 + 2e-6);
	}
	near_by = (struct mq_kernel){ .kind = MQ_KERNEL_MEMORY, .bytes = 2e6, .reread_B = 4e6 }; /* no more than all */
	near(mq_cost_kernel(d, &near_by), .5e6 / .8e12 + 2e-6);
	k.kind = MQ_KERNEL_OPTIMIZER;
	near(mq_cost_kernel(d, &k), 4e9 / .8e12 + 6e-6);
	k.kind = MQ_KERNEL_SCAN; /* a speed of its own */
	d->scan_share = .25;
	near(mq_cost_kernel(d, &k), 4e9 / .25 / .8e12 + 6e-6);
	k = (struct mq_kernel){ .kind = MQ_KERNEL_TIMED, .time_s = .125 };
	near(mq_cost_kernel(d, &k), .125);

	d->attention_scale = .5; /* without tiles: a roofline of its products */
	d->attention_bwd = .8;
	k = (struct mq_kernel){
		.kind = MQ_KERNEL_ATTENTION, .dtype = MQ_FP16, .flop = 1e12, .bytes = 1e6, .launches = 1, .causal = true
	};
	near(mq_cost_kernel(d, &k), .5 / .5 + 2e-6);
	k.phase = MQ_BACKWARD;
	near(mq_cost_kernel(d, &k), .5 / .5 / .8 + 2e-6);
	k.causal = false;
	k.phase = MQ_FORWARD;
	near(mq_cost_kernel(d, &k), 2 + 2e-6);

	/* 100 steps of 8 rows: each reads its weights once */
	d->launch_s = 0;
	k = (struct mq_kernel){ .kind = MQ_KERNEL_RECURRENT,
				.dtype = MQ_FP16,
				.m = 100,
				.n = 4096,
				.k = 2048,
				.count = 1,
				.flop = 2.0 * 100 * 8 * 4096 * 2048,
				.launches = 1 };
	near(mq_cost_kernel(d, &k),
	     100 * fmax(2.0 * 8 * 4096 * 2048 / 1e12, 2.0 * (8 * 2048 + 4096 * 2048 + 8 * 4096) / 1e12));
}

/* 3x3 convolution, 64 -> 64 channels at 8 x 8: a quarter of the products, 5.5 times the traffic. */
static void test_winograd(void **state)
{
	struct mq_device_calib *d = ideal();
	struct mq_kernel k = { .kind = MQ_KERNEL_CONV,
			       .dtype = MQ_FP32,
			       .m = 64e3,
			       .n = 64,
			       .k = 64 * 9,
			       .count = 1,
			       .winograd = 1,
			       .launches = 1 };
	double flop = 2 * k.m * k.n * k.k;

	k.bytes = 4 * (2 * 64e3 * 64 + 64 * 64 * 9);
	d->conv_eff = .5;
	double direct = flop / .5e12;
	near(mq_cost_kernel(d, &k), flop / 4 / .5e12 + 5.5 * k.bytes / 1e12);
	k.winograd = 1.5; /* tiles that hang over the edge */
	near(mq_cost_kernel(d, &k), 1.5 * (flop / 4 / .5e12 + 5.5 * k.bytes / 1e12));
	k.winograd = 4; /* more than one kernel with smaller tiles takes: 16 and 3 of 36 multiplications */
	near(mq_cost_kernel(d, &k), direct * 19 / 36);
	k.bytes = direct * 1e12; /* which moves the same tensors */
	near(mq_cost_kernel(d, &k), direct);
	k.of_weights = true; /* there is none */
	k.bytes = 0;
	near(mq_cost_kernel(d, &k), direct);
	k.of_weights = false;
	d->compute_capability = 90;
	near(mq_cost_kernel(d, &k), direct);
	k.winograd = 0; /* does not apply */
	near(mq_cost_kernel(d, &k), direct);
	k.winograd = 1;
	k.dtype = MQ_TF32; /* tensor cores */
	near(mq_cost_kernel(d, &k), direct);
}

/* What surrounds the products of convolutions: layouts, volumes, GPUs that have tensor cores or not. */
static void test_convolutions(void **state)
{
	struct mq_device_calib *d = ideal();
	struct mq_kernel k = { .kind = MQ_KERNEL_CONV,
			       .dtype = MQ_TF32,
			       .m = 64e3,
			       .n = 64,
			       .k = 64 * 27,
			       .count = 1,
			       .launches = 1,
			       .bytes = 4e8 };
	double flop = 2 * k.m * k.n * k.k;

	d->peak_flops[MQ_FP16] = d->peak_flops[MQ_TF32] = 8e12; /* tensor cores */
	d->conv_eff = .5;
	d->conv_eff_simt = .8;
	near(mq_cost_kernel(d, &k), flop / 4e12);
	k.volume = true;
	d->conv_volume = .25;
	near(mq_cost_kernel(d, &k), flop / 1e12);
	k.layout = 1.5;
	near(mq_cost_kernel(d, &k), flop / 1e12 + 1.5 * 4e8 / 1e12);
	k.volume = false;
	k.dtype = MQ_FP32; /* lies as the other cores want it */
	near(mq_cost_kernel(d, &k), flop / .8e12);
	k.dtype = MQ_FP16;
	near(mq_cost_kernel(d, &k), flop / 4e12 + 1.5 * 4e8 / 1e12);
	d->compute_capability = 60; /* no tensor cores */
	near(mq_cost_kernel(d, &k), flop / 6.4e12);
}

/* cuDNN's rules for windows of one pixel: strided, the input's gradient is that of twice as many rows; that of 64 x 256
 * weights has a tile of 128 x 256, and five sums of 4 bytes written and read. */
static void test_convolutions_by_rules(void **state)
{
	struct mq_device_calib *d = ideal();
	struct mq_kernel k = { .kind = MQ_KERNEL_CONV,
			       .dtype = MQ_FP32,
			       .m = 64e3,
			       .n = 64,
			       .k = 256,
			       .count = 1,
			       .launches = 1,
			       .of_input = true,
			       .image = { 80, 80, 40, 40, 1, 1, 2, 2 } };
	double flop = 2 * k.m * k.n * k.k;

	d->compute_capability = 75;
	d->peak_flops[MQ_FP16] = 8e12;
	d->conv_eff_simt = .5;
	d->conv_eff = .25;
	near(mq_cost_kernel(d, &k), flop / .5e12);
	k.untimed = true;
	near(mq_cost_kernel(d, &k), 2 * flop / .5e12);
	k.dtype = MQ_FP16;
	near(mq_cost_kernel(d, &k), 2 * flop / 2e12);
	d->compute_capability = 80; /* whose kernels nobody timed so */
	near(mq_cost_kernel(d, &k), flop / 2e12);
	d->compute_capability = 0; /* no GPU that cuDNN knows */
	near(mq_cost_kernel(d, &k), flop / 2e12);
	d->compute_capability = 75;
	k.dtype = MQ_FP32;
	k.image.kh = k.image.kw = 3;
	near(mq_cost_kernel(d, &k), flop / .5e12);
	k.image.kh = k.image.kw = 1;
	k.of_input = false;
	k.of_weights = true;
	k.m = 64;
	k.n = 256;
	k.k = 64e3;
	d->sm_count = 1;
	d->gemm_kt = 80;
	near(mq_cost_kernel(d, &k), 2 * 128 * 256 * (64e3 + 10) / .5e12 + 5 * 8 * 64 * 256 / 1e12);
	k.m = 32; /* tiles of at most twice the channels */
	near(mq_cost_kernel(d, &k), 2 * 64 * 256 * (64e3 + 10) / .5e12 + 5 * 8 * 32 * 256 / 1e12);
	k.untimed = false;
	k.m = 64;
	near(mq_cost_kernel(d, &k), 2 * 64 * 256 * (64e3 + 10) / .5e12);
}

/* Images of three channels before Ampere: 147 weights a filter at .5 of the fp32 peak in all passes, and no layout passes.
 * Groups, volumes, later GPUs and eight channels have tensor cores. */
static void test_convolutions_of_few_channels(void **state)
{
	struct mq_device_calib *d = ideal();
	struct mq_kernel k = { .kind = MQ_KERNEL_CONV,
			       .dtype = MQ_FP16,
			       .m = 64e3,
			       .n = 64,
			       .k = 147,
			       .count = 1,
			       .launches = 1,
			       .layout = 2,
			       .bytes = 1e6,
			       .image = { 224, 224, 112, 112, 7, 7, 2, 2 } };
	double flop = 2 * k.m * k.n * k.k, fast = flop / 4e12 + 2 * 1e6 / 1e12;

	d->compute_capability = 75;
	d->peak_flops[MQ_FP16] = 8e12;
	d->conv_eff_simt = .5;
	d->conv_eff = .5;
	near(mq_cost_kernel(d, &k), flop / .5e12);
	k.volume = true;
	d->conv_volume = 1;
	near(mq_cost_kernel(d, &k), fast);
	k.volume = false;
	d->compute_capability = 80;
	double pixels_B = 4 * 64e3 * 2; /* of a channel of the input, twice as high and wide as the output */
	near(mq_cost_kernel(d, &k), fast + 2 * 29 * pixels_B / 1e12); /* in tiles of 32 channels */
	d->compute_capability = 75;
	k.k = 8 * 49;
	near(mq_cost_kernel(d, &k), 2 * k.m * k.n * k.k / 4e12 + 2 * (1e6 + 24 * pixels_B) / 1e12);
	k.of_weights = true;
	k.m = 147;
	k.k = 64e3;
	near(mq_cost_kernel(d, &k), flop / .5e12);
	k.count = 2;
	k.n = 32;
	near(mq_cost_kernel(d, &k), fast);
}

/* Tiles of 32 columns are for kernels without tensor cores alone, and so are short prologues. */
static void test_narrow_convolutions(void **state)
{
	struct mq_device_calib *d = ideal();
	struct mq_kernel k = {
		.kind = MQ_KERNEL_CONV, .dtype = MQ_FP16, .m = 128e3, .n = 32, .k = 100, .count = 1, .launches = 1
	};
	double flop = 2 * k.m * k.n * k.k;

	d->peak_flops[MQ_FP16] = 8e12;
	d->gemm_kt = 80;
	near(mq_cost_kernel(d, &k), 2 * flop * 1.8 / 8e12); /* half of 64 columns is empty */
	k.dtype = MQ_FP32;
	near(mq_cost_kernel(d, &k), flop * 1.1 / 1e12); /* 80 steps of tensor cores are 10 of these */
}

/* Depthwise: instructions at half the fp32 peak's rate, whatever the tensor cores do, or bytes. */
static void test_depthwise(void **state)
{
	struct mq_device_calib *d = ideal();
	struct mq_kernel k = { .kind = MQ_KERNEL_CONV, .dtype = MQ_TF32, .m = 1e6, .n = 1, .k = 9, .count = 32 };

	d->peak_flops[MQ_FP16] = d->peak_flops[MQ_TF32] = 8e12;
	k.bytes = 8e6;
	k.launches = 1;
	k.work = 1e10;
	near(mq_cost_kernel(d, &k), 1e10 / mq_device_int_rate(d));
	k.dtype = MQ_FP16;
	near(mq_cost_kernel(d, &k), 1e10 / mq_device_int_rate(d));
	k.bytes = 1e11;
	near(mq_cost_kernel(d, &k), 1e11 / 1e12);
}

static void test_host_bound(void **state)
{
	struct mq_device_calib *d = ideal();
	struct mq_kernel k[2] = {
		{ .kind = MQ_KERNEL_MEMORY, .bytes = 1e6, .launches = 2 },
		{ .kind = MQ_KERNEL_TIMED, .time_s = 1e-3 },
	};
	struct mq_work work = { .n_kernels = 2, .kernel = k };

	d->host_launch_s = 1e-5;
	near(mq_cost_work(d, &work), 1e-6 + 1e-3);
	d->host_launch_s = 1e-3;
	near(mq_cost_work(d, &work), 2e-3);
	work.waits = true; /* nothing runs while the host is busy */
	near(mq_cost_work(d, &work), 2e-3 + 1e-6 + 1e-3);
	work.host = 3; /* software whose host takes three times as long per kernel */
	near(mq_cost_work(d, &work), 6e-3 + 1e-6 + 1e-3);
	work.waits = false;
	near(mq_cost_work(d, &work), 6e-3);
	k[0].looped = 1; /* by a library, at the machine's own pace */
	near(mq_cost_work(d, &work), 4e-3);
	k[0].looped = 0;
	k[1] = (struct mq_kernel){ .kind = MQ_KERNEL_CALL, .time_s = 4e-3 }; /* the host's, at any pace of launches */
	near(mq_cost_work(d, &work), 6e-3 + 4e-3);
	work.host = 1e-9;
	k[0].bytes = 1e10;
	near(mq_cost_work(d, &work), 1e-2); /* hidden */
	k[1].kind = MQ_KERNEL_WAIT;         /* not hidden */
	near(mq_cost_work(d, &work), 1e-2 + 4e-3);
	k[0].bytes = 1e6;
	k[1] = (struct mq_kernel){ .kind = MQ_KERNEL_TIMED, .time_s = 1e-3 };
	work.host = 3;
	d->kind = MQ_CPU; /* no kernels are launched from afar */
	work.waits = true;
	near(mq_cost_work(d, &work), 2e-3);
	d->kind = MQ_GPU;
	d->copy_bw_Bps = 2e10;
	d->launch_s = 1e-5;
	near(mq_cost_copy(d, 4e9), .2 + 1e-5);
}

/* Ten launches of 100 us: five of a weight, whose kernels take 1 ms or 10 us, and five of a bias. */
static void test_optimizer_that_waits(void **state)
{
	struct mq_device_calib *d = ideal();
	struct mq_kernel k = { .kind = MQ_KERNEL_OPTIMIZER, .bytes = 1e9, .launches = 10 };
	const struct mq_work work = { .n_kernels = 1, .kernel = &k };

	d->host_launch_s = 1e-4;
	near(mq_cost_work(d, &work), 1e-3);
	k.awaited = true;
	near(mq_cost_work(d, &work), .5e-3 + 1e-3);
	k.bytes = 1e7;
	near(mq_cost_work(d, &work), 1e-3);
}

/* Forty launches for 1 ms of bytes: of lists the device takes the bytes' time alone, the host its time for each. */
static void test_optimizer_of_lists(void **state)
{
	struct mq_device_calib *d = ideal();
	struct mq_kernel k = { .kind = MQ_KERNEL_OPTIMIZER, .bytes = 1e9, .launches = 40 };
	const struct mq_work work = { .n_kernels = 1, .kernel = &k };

	d->launch_s = 1e-5;
	near(mq_cost_kernel(d, &k), 1.4e-3);
	k.listed = true;
	near(mq_cost_kernel(d, &k), 1e-3);
	d->host_launch_s = 1e-4;
	near(mq_cost_work(d, &work), 4e-3);
}

static int teardown(void **state)
{
	mq_arena_fini(&arena);
	return 0;
}

/* A product of 2 s and a stream of 1 s: half of the multiprocessors taken doubles the first, a fifth of the memory
 * adds a quarter to the second; a host that needs 4.5 s hides what is below. No one takes more than nine tenths. */
static void test_beside(void **state)
{
	struct mq_device_calib *d = ideal();
	struct mq_kernel kernel[] = {
		{ .kind = MQ_KERNEL_GEMM, .dtype = MQ_FP16, .m = 1e4, .n = 1e4, .k = 1e4, .count = 1, .launches = 1 },
		{ .kind = MQ_KERNEL_MEMORY, .bytes = 1e12, .launches = 2 },
	};
	struct mq_work work = { .kernel = kernel, .n_kernels = 2 };
	struct mq_cost_parts p = mq_cost_parts(d, &work);
	const struct mq_cost_taken half = { .products = .5, .multiprocessors = .25, .memory = .2 };

	(void)state;
	near(p.products_s, 2);
	near(mq_cost_busy(&p), 3);
	near(p.memory_s, 1);
	near(mq_cost_work(d, &work), 3);
	near(mq_cost_beside(&p, half), 4 + 1.25);
	near(mq_cost_beside(&p, (struct mq_cost_taken){ .products = 5, .memory = 5 }), 20 + 10);
	p.arithmetic_s = p.products_s; /* of attention, say: what products lose is their own affair */
	p.products_s = 0;
	near(mq_cost_beside(&p, half), 2 / .75 + 1.25);
	d->host_launch_s = 1.5;
	p = mq_cost_parts(d, &work);
	near(p.host_s, 4.5);
	near(mq_cost_beside(&p, (struct mq_cost_taken){ .products = .25 }), 4.5);
	near(mq_cost_beside(&p, half), 5.25);
	p.waits = true;
	near(mq_cost_beside(&p, half), 9.75);
}

/* Held against the type that the products run in, where the device has it. */
/* A CPU's product of 100 x 300 by 300 x 200: 2 (6e6 + 2e4 kt + 3e4 a0 + 6e4 b0) flop at 1e12 flop/s; without b0 the operands
 * cost alike. Its optimizer at half of the memory's speed, and attention that skips nothing above the diagonal but
 * pays for its scores, 64 x 64 in 8 heads. */
static void test_cpu(void **state)
{
	struct mq_device_calib *d = ideal();
	struct mq_kernel adam = { .kind = MQ_KERNEL_OPTIMIZER, .bytes = 1e6 };
	struct mq_kernel attention = { .kind = MQ_KERNEL_ATTENTION,
				       .dtype = MQ_FP32,
				       .causal = true,
				       .m = 64,
				       .n = 64,
				       .k = 32,
				       .count = 8,
				       .flop = 1e6 };

	d->kind = MQ_CPU;
	d->gemm_kt = 7;
	d->gemm_a0 = 3;
	near(mq_cost_gemm(d, MQ_FP32, 100, 200, 300, 1), 2 * (6e6 + 14e4 + 27e4) / 1e12);
	d->gemm_b0 = 11;
	near(mq_cost_gemm(d, MQ_FP32, 100, 200, 300, 1), 2 * (6e6 + 14e4 + 9e4 + 66e4) / 1e12);
	near(mq_cost_kernel(d, &adam), 1e-6);
	d->optimizer_share = .5;
	near(mq_cost_kernel(d, &adam), 2e-6);
	near(mq_cost_kernel(d, &attention), 1e-6);
	d->attention_score = 10;
	near(mq_cost_kernel(d, &attention), 1e-6 + 327680e-12);
	d->kind = MQ_GPU; /* without tiles, half of it is masked */
	d->gemm_kt = d->gemm_a0 = 0;
	near(mq_cost_kernel(d, &attention), .5e-6 + 163840e-12);
}

static void test_train_peak(void **state)
{
	struct mq_device_calib *d = ideal();
	struct mq_train train = { .dtype = MQ_BF16, .gemm_dtype = MQ_GEMM_AS_DTYPE };

	(void)state;
	d->peak_flops[MQ_FP8] = 2e12;
	near(mq_cost_train_peak(d, &train), 1e12);
	train.gemm_dtype = MQ_GEMM_FP8;
	near(mq_cost_train_peak(d, &train), 2e12);
	d->peak_flops[MQ_FP8] = 0;
	near(mq_cost_train_peak(d, &train), 1e12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_roofline, teardown),
		cmocka_unit_test_teardown(test_worked, teardown),
		cmocka_unit_test_teardown(test_waves, teardown),
		cmocka_unit_test_teardown(test_alignment, teardown),
		cmocka_unit_test_teardown(test_plain_cores, teardown),
		cmocka_unit_test_teardown(test_kinds, teardown),
		cmocka_unit_test_teardown(test_beside, teardown),
		cmocka_unit_test_teardown(test_cpu, teardown),
		cmocka_unit_test_teardown(test_train_peak, teardown),
		cmocka_unit_test_teardown(test_host_bound, teardown),
		cmocka_unit_test_teardown(test_optimizer_of_lists, teardown),
		cmocka_unit_test_teardown(test_optimizer_that_waits, teardown),
		cmocka_unit_test_teardown(test_winograd, teardown),
		cmocka_unit_test_teardown(test_convolutions_by_rules, teardown),
		cmocka_unit_test_teardown(test_convolutions, teardown),
		cmocka_unit_test_teardown(test_convolutions_of_few_channels, teardown),
		cmocka_unit_test_teardown(test_narrow_convolutions, teardown),
		cmocka_unit_test_teardown(test_depthwise, teardown),
	};

	return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}

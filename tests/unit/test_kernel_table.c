/*
 * test_kernel_table.c - the counted kernels against counts made by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/kernel_table.h"
#include "libraries.h"

static struct mq_arena arena = MQ_ARENA_INIT;

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-12 * fabs(want)))
		fail_msg("got %.17g, wanted %.17g", got, want);
}

/* 1 TB/s, 1 us a launch, 1e12 instructions a second. */
static struct mq_device_calib *device(void)
{
	struct mq_device_calib *d = mq_calib_add_ideal(bare_calib(&arena), "ideal", 2e12, 1e12, 1e9);

	d->launch_s = 1e-6;
	return d;
}

/* LlamaRMSNorm in bf16, 1,000 rows of 1,000. Forward: to fp32 6, pow 8, mean 4, scale 8, to bf16 6, weight 4:
 * 36 bytes an element, and add and rsqrt over rows, 8 bytes each row. Kept: the fp32 copy, its normalised
 * bf16 form, and the output: 8. At most there are copy, scaled fp32, bf16: 10. */
static void test_eager_norm(void **state)
{
	const struct mq_part_kernels *k = mq_part_kernels(library_calib()->libraries, MQ_PART_RMS, MQ_MAKE_EAGER);
	struct mq_part_call call = { .elements = 1e6, .width = 1000, .dtype = MQ_BF16 };
	struct mq_part_cost c = mq_part_cost(device(), k->forward, &call);

	near(c.bytes, 36e6 + 8e3);
	near(c.launches, 8);
	near(c.time_s, 18.008e-6 + 3 * 46e-6 + 8e-6); /* to fp32, times a row's and a column's factor: by addresses */
	near(c.left_B, 8e6);
	near(c.peak_B, 10e6);
	c = mq_part_cost(device(), k->backward, &call);
	near(c.bytes, 92e6 + 8e3);
	near(c.left_B, 2e6);  /* dx */
	call.dtype = MQ_FP32; /* no casts: 8 + 4 + 8 + 8 */
	c = mq_part_cost(device(), k->forward, &call);
	near(c.bytes, 28e6 + 8e3);
	near(c.launches, 6);
}

/* A fused gate reads two tensors and writes one; backward reads three and writes two over them. */
static void test_fused_gate(void **state)
{
	const struct mq_part_kernels *k = mq_part_kernels(library_calib()->libraries, MQ_PART_GATE, MQ_MAKE_FUSED);
	struct mq_part_call call = { .elements = 1e6, .width = 1000, .dtype = MQ_BF16 };
	struct mq_part_cost c = mq_part_cost(device(), k->backward, &call);

	near(mq_part_cost(device(), k->forward, &call).time_s, 6e-6 + 1e-6);
	near(c.time_s, 10e-6 + 1e-6);
	assert_true(c.peak_B == 0);
}

/* Kernels that are not limited by memory: 123 instructions for each of 1e6 elements at 1e12 a second. Of a
 * table of 1,000 x 1,000 each row is read once however often it is looked up. */
static void test_look_up(void **state)
{
	const struct mq_part_kernels *eager =
		mq_part_kernels(library_calib()->libraries, MQ_PART_EMBEDDING, MQ_MAKE_EAGER);
	const struct mq_part_kernels *fused =
		mq_part_kernels(library_calib()->libraries, MQ_PART_EMBEDDING, MQ_MAKE_FUSED);
	struct mq_part_call call = { .elements = 1e6, .width = 1000, .weights = 1e6, .dtype = MQ_FP32 };
	struct mq_device_calib *d = device();

	near(mq_part_cost(d, eager->forward, &call).time_s, 123e-6 + 1e-6);
	call.elements = 4e6;
	near(mq_part_cost(d, fused->forward, &call).bytes, 16e6 + 4e6);
	d->compute_capability = 90; /* half the lanes of fp32 take integers */
	near(mq_part_cost(d, eager->forward, &call).time_s, 2 * 4 * 123e-6 + 1e-6);
}

/* Softmax reads a row twice more: a third of that where the rows in flight stay in the cache. */
static void test_rows_read_again(void **state)
{
	const struct mq_part_kernels *k = mq_part_kernels(library_calib()->libraries, MQ_PART_SOFTMAX, MQ_MAKE_NATIVE);
	struct mq_part_call call = { .elements = 3e6, .width = 1000, .dtype = MQ_FP32 };

	near(mq_part_cost(device(), k->forward, &call).bytes, 3e6 * 4 * (2 + 2. / 3));
	call.width = 30000;
	near(mq_part_cost(device(), k->forward, &call).bytes, 3e6 * 4 * 4);
}

/* What the training model asks: per element, on any device. The norm streams half of its 36 bytes, and computes
 * addresses where it casts to fp32, takes a row's factor or a column's; rotary
 * kernels all compute addresses, five for Q and five for K: 2 + 1 + 2 + 2 + 3 elements of 2 bytes. */
static void test_sums(void **state)
{
	struct mq_part_sum s =
		mq_part_sum(mq_part_kernels(library_calib()->libraries, MQ_PART_RMS, MQ_MAKE_EAGER)->forward, MQ_BF16);

	near(s.streamed.bytes, 18);
	near(s.streamed.launches, 5);
	near(s.worked.bytes, 18);
	near(s.worked.work, 3 * 46);
	near(s.worked.launches, 3);
	s = mq_part_sum(mq_part_kernels(library_calib()->libraries, MQ_PART_ROPE, MQ_MAKE_EAGER)->forward, MQ_BF16);
	near(s.worked.bytes, 20);
	near(s.worked.work, 46 + 23 + 46 + 46 + 46);
	near(s.worked.launches, 10);
	s = mq_part_sum(mq_part_kernels(library_calib()->libraries, MQ_PART_SCORES, MQ_MAKE_EAGER)->forward, MQ_FP16);
	near(s.streamed.bytes, 8 + 8 + 6);
	near(s.worked.bytes, 6 + 8); /* to fp32; one mask for all heads */
	s = mq_part_sum(mq_part_kernels(library_calib()->libraries, MQ_PART_SCORES, MQ_MAKE_EAGER)->backward, MQ_FP32);
	near(s.streamed.bytes, 12 + 8 + 8); /* no casts; the mask's clone, the scale's */
	near(s.worked.bytes, 8);
	/* apex's norm: dy and x for gamma and beta, a small sum, then dy, x and dx */
	s = mq_part_sum(mq_part_kernels(library_calib()->libraries, MQ_PART_LAYER_NORM, MQ_MAKE_APART)->backward,
			MQ_FP16);
	near(s.streamed.bytes, 4 + 6);
	near(s.streamed.launches, 3);
	/* torch.autocast in bf16: scale 4, to fp32 6, softmax 8, to bf16 6; back to fp32 6, softmax 12, to bf16 6, scale 4 */
	s = mq_part_sum(mq_part_kernels(library_calib()->libraries, MQ_PART_SCORES, MQ_MAKE_AUTOCAST)->forward,
			MQ_BF16);
	near(s.streamed.bytes + s.worked.bytes, 24);
	s = mq_part_sum(mq_part_kernels(library_calib()->libraries, MQ_PART_SCORES, MQ_MAKE_AUTOCAST)->backward,
			MQ_BF16);
	near(s.streamed.bytes + s.worked.bytes, 28);
}

/* Bytes of an element in 16 and in 32 bits, forward and backward. Dropout and a sum: 2 + 2 + a mask of 1, then three
 * tensors; back gradient, mask, gradient. Under XLA 4 of random bits, then those and a residual and a sum of fp32. */
static void test_frameworks(void **state)
{
	static const struct {
		enum mq_part part;
		enum mq_make make;
		double half[2], full[2]; /* bytes */
		double launches[2];      /* in 16 bits */
	} expected[] = {
		{ MQ_PART_DROPOUT_ADD, MQ_MAKE_EAGER, { 11, 5 }, { 21, 9 }, { 2, 1 } },
		{ MQ_PART_DROPOUT_ADD, MQ_MAKE_FUSED, { 7, 5 }, { 13, 9 }, { 1, 1 } },
		{ MQ_PART_DROPOUT_ADD, MQ_MAKE_XLA, { 19, 7 }, { 21, 9 }, { 2, 1 } },
		{ MQ_PART_DROPOUT_ADD, MQ_MAKE_TENSORFLOW, { 28, 10 }, { 46, 20 }, { 6, 2 } },
		{ MQ_PART_LAYER_NORM, MQ_MAKE_NATIVE, { 6, 14 }, { 12, 28 }, { 1, 2 } },
		{ MQ_PART_LAYER_NORM, MQ_MAKE_XLA, { 18, 36 }, { 16, 36 }, { 4, 4 } },
		{ MQ_PART_RMS, MQ_MAKE_APART, { 12, 22 }, { 8, 20 }, { 2, 4 } },
		{ MQ_PART_GELU, MQ_MAKE_APART, { 22, 48 }, { 44, 96 }, { 5, 10 } },
		{ MQ_PART_GELU, MQ_MAKE_XLA, { 8, 10 }, { 12, 16 }, { 1, 1 } },
		{ MQ_PART_GELU, MQ_MAKE_TENSORFLOW, { 36, 52 }, { 72, 104 }, { 8, 10 } },
		{ MQ_PART_GELU, MQ_MAKE_COMPOSITE, { 36, 56 }, { 72, 112 }, { 8, 11 } },
		{ MQ_PART_ADD, MQ_MAKE_AUTOCAST, { 10, 18 }, { 12, 12 }, { 1, 2 } },
		{ MQ_PART_DROPOUT_ADD, MQ_MAKE_AUTOCAST, { 15, 17 }, { 21, 15 }, { 2, 2 } },
		{ MQ_PART_CAST, MQ_MAKE_AUTOCAST, { 6, 6 }, { 8, 8 }, { 1, 1 } },
		{ MQ_PART_BIAS, MQ_MAKE_NATIVE, { 4, 2 }, { 8, 4 }, { 1, 1 } },
		{ MQ_PART_BIAS, MQ_MAKE_EAGER, { 0, 2 }, { 0, 4 }, { 0, 1 } },
		{ MQ_PART_BIAS, MQ_MAKE_APART, { 4, 2 }, { 8, 4 }, { 1, 1 } },
		{ MQ_PART_SCORES, MQ_MAKE_NATIVE, { 8, 10 }, { 16, 20 }, { 2, 2 } },
		{ MQ_PART_SCORES,
		  MQ_MAKE_AUTOCAST,
		  { 16, 20 },
		  { 16, 20 },
		  { 3, 3 } }, /* fp16 is cast by softmax itself */
		{ MQ_PART_DROPOUT, MQ_MAKE_AUTOCAST, { 9, 9 }, { 9, 9 }, { 1, 1 } },
		{ MQ_PART_MASK, MQ_MAKE_EAGER, { 8, 8 }, { 16, 16 }, { 2, 2 } },
		{ MQ_PART_MASK, MQ_MAKE_NATIVE, { 4, 0 }, { 8, 0 }, { 1, 0 } },
		{ MQ_PART_SCORES, MQ_MAKE_APART, { 8, 26 }, { 16, 52 }, { 2, 6 } }, /* a gradient copied four times */
		{ MQ_PART_SCORES, MQ_MAKE_XLA, { 8, 10 }, { 16, 20 }, { 3, 2 } },
		{ MQ_PART_SCORES, MQ_MAKE_TENSORFLOW, { 12, 22 }, { 24, 44 }, { 3, 5 } },
	};

	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
		const struct mq_part_kernels *k =
			mq_part_kernels(library_calib()->libraries, expected[i].part, expected[i].make);

		for (int back = 0; back < 2; back++) {
			const struct mq_part_pass *passes = back ? k->backward : k->forward;
			struct mq_part_sum half = mq_part_sum(passes, MQ_FP16), full = mq_part_sum(passes, MQ_FP32);

			near(half.streamed.bytes + half.worked.bytes, expected[i].half[back]);
			near(full.streamed.bytes + full.worked.bytes, expected[i].full[back]);
			near(half.streamed.launches + half.worked.launches, expected[i].launches[back]);
		}
	}
}

static void test_unknown(void **state)
{
	assert_null(mq_part_kernels(library_calib()->libraries, MQ_PART_ADD, MQ_MAKE_MEGATRON));
	assert_string_equal(mq_part_name(MQ_PART_GATE), "gate");
	assert_string_equal(mq_make_name(MQ_MAKE_FUSED), "fused");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_eager_norm), cmocka_unit_test(test_fused_gate),
		cmocka_unit_test(test_look_up),    cmocka_unit_test(test_rows_read_again),
		cmocka_unit_test(test_sums),       cmocka_unit_test(test_frameworks),
		cmocka_unit_test(test_unknown),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	mq_arena_fini(&arena);
	return failed;
}

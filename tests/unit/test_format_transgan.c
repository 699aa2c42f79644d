/*
 * test_format_transgan.c - the built-in image generator: parameters and FLOPs by closed formulas, its items,
 * and how tensor parallelism splits it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "maquette/plan.h"
#include "models.h"

/* The generator of four stages whose first two attend to all tokens: two blocks 32 wide on 4 x 4 tokens, none
 * on 8 x 8 (repeated tokens), one 8 wide on 16 x 16 (shuffled) and one 2 wide on 32 x 32; two heads. */
static const char GENERATOR[] = "tests/corpus/graph/transgan.jsonl";

static double block_parameters(double width, double window, double heads)
{
	return 12 * width * width + (3 + 1 + 4 + 1) * width + 1 + (2 * window - 1) * (2 * window - 1) * heads;
}

static double block_flops(double tokens, double width, double window)
{
	return 24 * tokens * width * width + (3 + 1 + 4 + 1) * tokens * width + 4 * tokens * window * window * width;
}

static void test_generator(void **state)
{
	const struct mq_model *m = load(GENERATOR, 0, &TRAIN);
	double flop = 0, positions = 16 * 32 + 64 * 32 + 256 * 8 + 1024 * 2;

	assert_true(mq_model_totals(m).parameters == 11 * 16 * 32 + positions + 2 * block_parameters(32, 4, 2) +
							     block_parameters(8, 8, 2) + block_parameters(2, 8, 2) +
							     3 * 2 + 3);
	for (uint32_t i = 0; i < m->n_ops; i++)
		if (m->op[i].kind == MQ_OP_CONV || m->op[i].kind == MQ_OP_GEMM || m->op[i].kind == MQ_OP_ATTENTION)
			flop += m->op[i].flop;
	assert_true(flop == 21 * 16 * 32 + 2 * block_flops(16, 32, 4) + block_flops(256, 8, 8) +
				    block_flops(1024, 2, 8) + 13 * 1024 + 2 * 1024);
	/* 4 windows of 64 tokens with two heads of 4 */
	const struct mq_op *attention = op_of(m, "item15.block.attention");
	assert_true(attention->m == 64 && attention->n == 64 && attention->k == 4);
	assert_true(attention->count == 8 && attention->extent[MQ_DIM_HEAD] == 2);
	assert_true(attention->saved_selective == 8 * 64 * 64 && !attention->fused);
	/* linear, view, position; 2 blocks; copy, upsample, position, pass; shuffle, position, 3 of windows,
	 * mask ... */
	assert_int_equal(op_of(m, "item5.copy")->layer, 5);
	assert_true(op_of(m, "item6.upsample")->output == 4 * op_of(m, "item5.copy")->output);
	assert_true(op_of(m, "item9.shuffle")->output == op_of(m, "item6.upsample")->output);
	assert_true(op_of(m, "item23.block.attention")->count == 2 * 16);
	assert_true(op_of(m, "loss")->layer == MQ_NONE && m->n_layers == 27);
	/* the variant that was run as a pipeline of 56 items */
	assert_int_equal(
		load("transgan:bottom=9,window=18,depth=12/0/0/0/0/12,heads=4,noise=true,qkv_bias=true", 0, &TRAIN)
			->n_layers,
		56);
}

/* Tensor parallelism as Megatron's: heads, columns and rows of the blocks; all else whole. */
static void test_generator_splits(void **state)
{
	const struct mq_model *m = load(GENERATOR, 0, &TRAIN);
	static const struct {
		const char *op;
		enum mq_dim dim;
	} cases[] = {
		{ "item15.block.qkv", MQ_DIM_OUT },
		{ "item15.block.proj", MQ_DIM_IN },
		{ "item15.block.attention", MQ_DIM_HEAD },
		{ "item15.block.up", MQ_DIM_OUT },
		{ "item15.block.activation", MQ_DIM_OUT },
		{ "item15.block.down", MQ_DIM_IN },
		{ "item15.block.noise", MQ_N_DIMS },
		{ "item15.block.norm1", MQ_N_DIMS },
		{ "item0.linear", MQ_N_DIMS },
		{ "item9.shuffle", MQ_N_DIMS },
		{ "item26.colours", MQ_N_DIMS },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint32_t split[MQ_N_DIMS], op = (uint32_t)(op_of(m, cases[i].op) - m->op);

		assert_true(mq_tensor_split(m, op, 2, false, true, split));
		for (int d = 0; d < MQ_N_DIMS; d++)
			if (split[d] != (d == (int)cases[i].dim ? 2u : 1u))
				fail_msg("%s: split %u along %s", cases[i].op, split[d], mq_dim_name((enum mq_dim)d));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_generator),
		cmocka_unit_test(test_generator_splits),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}

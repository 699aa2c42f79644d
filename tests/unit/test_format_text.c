/*
 * test_format_text.c - ELECTRA and Transformer-XL: FLOPs by closed formulas, what the parts share,
 * what software moves of its own, masks of dropout, and what is refused. Parameters: test_format_builders.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "models.h"

/* FLOPs of products and attention, forward, and whether the backward pass has twice as many. */
static double products(const struct mq_model *m)
{
	double flop = 0;

	for (uint32_t i = 0; i < m->n_ops; i++) {
		const struct mq_op *op = &m->op[i];

		if (op->kind != MQ_OP_GEMM && op->kind != MQ_OP_ATTENTION && op->kind != MQ_OP_BMM)
			continue;
		flop += op->kind == MQ_OP_GEMM ? 2 * op->m * op->n * op->k : op->flop;
		assert_true(op->flop_bwd == 2 * op->flop);
	}
	return flop;
}

/* A block of width h is 24 s h^2 + 4 s^2 h; generator and discriminator have the same number of them.
 * Around them: e -> g, the vocabulary, and a square layer with one output. */
static void test_electra_flops(void **state)
{
	double s = 40, h = 768, g = 256, v = 30528, p = .15 * s;
	double blocks = 12 * (24 * s * (h * h + g * g) + 4 * s * s * (h + g));
	double rest = 2 * s * h * g + 2 * s * h * (h + 1);
	const struct mq_model *m = load("electra", 40, &TRAIN);

	assert_true(products(m) == blocks + rest + 2 * p * h * (g + v));
	assert_int_equal(m->n_layers, 24);
	assert_true(op_of(m, "discriminator.embedding")->tied == (uint32_t)(op_of(m, "generator.embedding") - m->op));
	/* logits of all tokens, of which the masked ones are copied out */
	m = load("electra:logits=all", 40, &TRAIN);
	assert_true(products(m) == blocks + rest + 2 * s * h * (g + v));
	assert_true(op_of(m, "generator.choose")->output == p * v);
	/* fine-tuning: no generator, two numbers per token */
	m = load("electra:task=span", 40, &TRAIN);
	assert_true(products(m) == 12 * (24 * s * h * h + 4 * s * s * h) + 2 * s * h * 2);
	assert_int_equal(m->n_layers, 12);
}

/* A graph's fused attention is one that stores scores where the software has no other, as builders make it. */
static void test_stored_graph(void **state)
{
	struct mq_software eager = *mq_software_plain();
	struct mq_model_request request = { "electra", &TRAIN, 40, &eager };
	struct mq_model *m;
	struct mq_err err = MQ_ERR_INIT;
	const double rows = 40 * 256, scores = 40 * 40 * 4;

	eager.attention = MQ_ATTENTION_EAGER;
	assert_int_equal(mq_model_load(&request, &arena, &m, &err), MQ_OK);
	const struct mq_op *op = op_of(m, "generator.layer0.attention");
	assert_true(!op->fused && op->masks == scores && op->kernels == 5);
	assert_true(op->saved_selective == 2.5 * scores && op->saved == 4 * rows + 2.5 * scores);
	request.seq = 0;
	request.spec = "sd-v2-unet"; /* without dropout */
	assert_int_equal(mq_model_load(&request, &arena, &m, &err), MQ_OK);
	op = op_of(m, "down0.0.t.cross.attention");
	assert_true(!op->fused && op->masks == 0 && op->kernels == 4);
	assert_true(op->saved == 2 * 4096 * 320 + 2 * 77 * 320 + 4096 * 77 * 5);
	assert_true(op_of(load("sd-v2-unet", 0, &TRAIN), op->name)->fused);
	request.spec = "tests/corpus/graph/fused.jsonl"; /* one that keeps nothing, and a GEMM that says so too */
	assert_int_equal(mq_model_load(&request, &arena, &m, &err), MQ_OK);
	assert_true(op_of(m, "a")->saved == 64 && op_of(m, "g")->fused);
}

/* Three layers of 4 heads, 64 wide, with 48 tokens of memory. Q, K, V of memory and segment; three products of the scores' size; head and tails of the vocabulary. */
static void test_transformer_xl_flops(void **state)
{
	const struct mq_model *m = load("tests/corpus/graph/transformer_xl.jsonl", 0, &TRAIN);
	double s = 16, keys = 64, h = 64, f = 96, tokens = 0;
	double block = 2 * keys * h * 3 * h + 2 * s * h * h + 6 * s * keys * h + 4 * s * h * f;

	assert_true(fabs(products(m) / (3 * block + 2 * s * h * 20000 + 2 * op_of(m, "tail1.head")->m * h * 11) - 1) <
		    1e-12);
	/* Zipf's law puts less than a thousandth of the tokens on the last eleven of 20,010 words */
	assert_true(op_of(m, "tail1.head")->m > 0 && op_of(m, "tail1.head")->m < 1e-3 * s);
	m = load("transformer_xl:size=large", 0, &TRAIN);
	for (int i = 0; i < 4; i++) {
		const char *names[] = { "cluster0.embedding", "cluster1.embedding", "cluster2.embedding",
					"cluster3.embedding" };
		const struct mq_op *op = op_of(m, names[i]);

		tokens += op->output / (1024 >> 2 * i);
		assert_true(op->fixed_bwd == 4 * op->param);
		assert_true(fmod(op->param, 1024 >> 2 * i) == 0);
	}
	assert_true(fabs(tokens - 384) < 1e-9);
	/* the large model alone drops probabilities: a mask, and what is left of them */
	double scores = 384. * 768 * 16, rows = 384, q = 1024;
	assert_true(op_of(m, "layer0.attention")->saved == rows * 2 * q + 2 * 768 * q + 2.5 * scores);
	m = load("transformer_xl", 0, &TRAIN);
	assert_true(op_of(m, "layer0.attention")->saved == 150 * 2 * 410 + 2 * 300 * 410 + 150. * 300 * 10);
	/* gradients of one look-up and four clusters, set to zero and added up */
	assert_true(op_of(m, "embedding")->fixed_bwd == 17 * op_of(m, "embedding")->param);
	/* all words in one softmax, in place of a head and clusters */
	double large = 18 * (6 * 768 * q * q + 2 * rows * q * q + 6 * rows * 768 * q + 4 * rows * q * 4096);
	assert_true(products(load("transformer_xl:size=large,softmax=full", 0, &TRAIN)) ==
		    large + 2 * rows * q * 267735);
	/* the fused kernel does the same products and stores no scores */
	assert_true(products(load("tests/corpus/graph/transformer_xl_fused.jsonl", 0, &TRAIN)) ==
		    block + 2 * s * h * 100);
}

/* Masks of dropout have a byte an element in any type: of a residual, and of scores, kept with the probabilities
 * before and after; these go where scores are recomputed. Q, K, V and the output have 4 x 16 x 64 elements. */
static void test_masks(void **state)
{
	const struct mq_train half = { .dtype = MQ_FP16 }, full = { .dtype = MQ_FP32 };
	const struct mq_share one = { .samples = 1 };
	const double rows = 16 * 64, scores = 4 * 16 * 16;
	const struct mq_model *m = load("gpt:layers=1,hidden=64,heads=4,vocab=100,fused_attention=false", 16, &TRAIN);

	assert_true(mq_op_saved_B(op_of(m, "layer0.residual1"), &one, false, &half) == rows);
	assert_true(mq_op_saved_B(op_of(m, "layer0.residual1"), &one, false, &full) == rows);
	assert_true(mq_op_saved_B(op_of(m, "layer0.attention"), &one, false, &half) == 2 * 4 * rows + 5 * scores);
	assert_true(mq_op_saved_B(op_of(m, "layer0.attention"), &one, false, &full) == 4 * 4 * rows + 9 * scores);
	assert_true(mq_op_saved_B(op_of(m, "layer0.attention"), &one, true, &full) == 4 * 4 * rows);
}

static void test_refused(void **state)
{
	refuse("electra:size=huge", "there is no graph for size=huge");
	refuse("electra:layers=2", "there is no graph for layers=2; give size=base,task=pretrain,logits=masked");
	refuse("electra:size=small,logits=all", "there is no graph for");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_electra_flops),
		cmocka_unit_test(test_stored_graph),
		cmocka_unit_test(test_transformer_xl_flops),
		cmocka_unit_test(test_masks),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}

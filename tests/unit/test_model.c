/*
 * test_model.c - building and checking models, and the kernels of split ops, against numbers worked
 * out by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "maquette/model.h"
#include "maquette/question.h"
#include "libraries.h"

static const struct mq_train FP16 = { .batch = 1, .dtype = MQ_FP16, .grad_dtype = MQ_FP16 };

struct fixture {
	struct mq_arena arena;
	struct mq_model_builder b;
	struct mq_model *model;
	struct mq_err err;
};

static int setup(void **state)
{
	static struct fixture f;

	f = (struct fixture){ .arena = MQ_ARENA_INIT };
	mq_model_begin(&f.b, &f.arena, "test");
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	mq_arena_fini(&((struct fixture *)*state)->arena);
	return 0;
}

static enum mq_status finish(struct fixture *f)
{
	return mq_model_finish(&f->b, &f->model, &f->err);
}

static void expect_error(struct fixture *f, const char *part)
{
	assert_int_equal(finish(f), MQ_EINPUT);
	if (!strstr(f->err.text, part))
		fail_msg("'%s' does not say '%s'", f->err.text, part);
}

static struct mq_op *add(struct fixture *f, enum mq_op_kind kind, const char *name)
{
	uint32_t id = mq_model_add(&f->b, kind, name); /* may move the array of ops */

	return &f->b.model->op[id];
}

/* ---- building -------------------------------------------------------------------------------- */

static void test_orders_and_renumbers(void **state)
{
	struct fixture *f = *state;
	double *forward = mq_arena_array(&f->arena, 8, double);
	double *memory = mq_arena_array(&f->arena, 4, double);

	/* d <- c <- b <- a, given backwards; b and c are mates, d uses c's parameters */
	for (int i = 0; i < 4; i++) {
		add(f, MQ_OP_PROFILED, (const char *[]){ "d", "c", "b", "a" }[i]);
		forward[2 * i] = i;
		forward[2 * i + 1] = 10 + i;
		memory[i] = 100 + i;
	}
	f->b.model->op[1].mate = 2;
	f->b.model->op[2].mate = 1;
	f->b.model->op[1].phase = MQ_BACKWARD;
	f->b.model->op[0].tied = 1;
	f->b.model->profile.n_types = 2;
	f->b.model->profile.type = (const char *[]){ "x", "y" };
	f->b.model->profile.forward_s = forward;
	f->b.model->profile.memory_B = memory;
	mq_model_connect(&f->b, 1, 0, 5);
	mq_model_connect(&f->b, 2, 1, 6);
	mq_model_connect(&f->b, 3, 2, 7);
	assert_int_equal(finish(f), MQ_OK);
	const struct mq_model *m = f->model;
	assert_string_equal(m->op[0].name, "a");
	assert_string_equal(m->op[3].name, "d");
	assert_int_equal(m->op[1].mate, 2);
	assert_int_equal(m->op[2].mate, 1);
	assert_int_equal(m->op[3].tied, 2);
	assert_true(m->profile.forward_s[0] == 3 && m->profile.forward_s[7] == 10);
	assert_true(m->profile.memory_B[0] == 103);
	assert_int_equal(m->n_edges, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(m->edge[i].src, i);
		assert_int_equal(m->edge[i].dst, i + 1);
		assert_true(m->edge[i].elems == 7 - i);
		assert_int_equal(m->in_edge[m->in_first[i + 1]], i);
		assert_int_equal(m->out_first[i], i);
	}
}

static void test_keeps_an_order_that_fits(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 4; i++)
		add(f, MQ_OP_RESHAPE, (const char *[]){ "a", "b", "c", "d" }[i]);
	mq_model_connect(&f->b, 0, 3, 1);
	mq_model_connect(&f->b, 1, 2, 1);
	assert_int_equal(finish(f), MQ_OK);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(f->model->op[i].name[0], 'a' + (int)i);
}

static void test_merges_parallel_edges(void **state)
{
	struct fixture *f = *state;

	add(f, MQ_OP_RESHAPE, "a");
	add(f, MQ_OP_ELEMENTWISE, "square");
	mq_model_connect(&f->b, 0, 1, 8);
	f->b.model->edge[0].no_grad = true;
	mq_model_connect(&f->b, 0, 1, 8);
	assert_int_equal(finish(f), MQ_OK);
	assert_int_equal(f->model->n_edges, 1);
	assert_true(f->model->edge[0].elems == 8);
	assert_false(f->model->edge[0].no_grad);
}

static void test_names_an_op_on_the_cycle(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 4; i++)
		add(f, MQ_OP_RESHAPE, (const char *[]){ "in", "p", "q", "after" }[i]);
	mq_model_connect(&f->b, 0, 1, 1);
	mq_model_connect(&f->b, 1, 2, 1);
	mq_model_connect(&f->b, 2, 1, 1);
	mq_model_connect(&f->b, 2, 3, 1);
	assert_int_equal(finish(f), MQ_EINPUT);
	assert_true(strstr(f->err.text, "'p' is on a cycle") || strstr(f->err.text, "'q' is on a cycle"));
}

static void test_refuses_a_loop_on_itself(void **state)
{
	struct fixture *f = *state;

	add(f, MQ_OP_RESHAPE, "a");
	mq_model_connect(&f->b, 0, 0, 1);
	expect_error(f, "'a' is on a cycle");
}

static void test_refuses_no_ops(void **state)
{
	expect_error(*state, "has no ops");
}

static void test_refuses_nan(void **state)
{
	add(*state, MQ_OP_GEMM, "g")->flop = (double)NAN;
	expect_error(*state, "op 'g' has flop = nan");
}

static void test_refuses_negative(void **state)
{
	add(*state, MQ_OP_GEMM, "g")->param = -1;
	expect_error(*state, "op 'g' has param = -1");
}

static void test_refuses_equal_names(void **state)
{
	add(*state, MQ_OP_GEMM, "g");
	add(*state, MQ_OP_NORM, "h");
	add(*state, MQ_OP_NORM, "g");
	expect_error(*state, "two ops are called 'g'");
}

static void test_refuses_no_name(void **state)
{
	add(*state, MQ_OP_GEMM, "");
	expect_error(*state, "an op has no name");
}

static void test_refuses_an_infinite_tensor(void **state)
{
	struct fixture *f = *state;

	add(f, MQ_OP_RESHAPE, "a");
	add(f, MQ_OP_RESHAPE, "b");
	mq_model_connect(&f->b, 0, 1, INFINITY);
	expect_error(f, "from 'a' to 'b' has inf");
}

static void test_refuses_a_split_without_extent(void **state)
{
	add(*state, MQ_OP_GEMM, "g")->splits |= 1u << MQ_DIM_OUT;
	expect_error(*state, "extent 0 along 'out'");
}

static void test_refuses_one_sided_mates(void **state)
{
	add(*state, MQ_OP_PROFILED, "f");
	add(*state, MQ_OP_PROFILED, "b")->mate = 0;
	expect_error(*state, "op 'b' has a mate");
}

static void test_refuses_a_layer_that_is_not_there(void **state)
{
	add(*state, MQ_OP_GEMM, "g")->layer = 3;
	expect_error(*state, "in layer 3 of 0");
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* A GEMM of 6 rows, 8 columns, depth 4, with bias, in one sample. */
static struct mq_op *gemm(struct fixture *f)
{
	struct mq_op *op = add(f, MQ_OP_GEMM, "gemm");

	op->m = 6;
	op->n = 8;
	op->k = 4;
	op->count = 1;
	op->param = 4 * 8 + 8;
	op->flop = 2 * 6 * 8 * 4;
	op->flop_bwd = 2 * op->flop;
	op->read = 24;
	op->write = op->output = 48;
	op->moved_bwd = 144;
	op->kernels = 1;
	return op;
}

static uint32_t kernels_of(struct fixture *f, const struct mq_train *train, const struct mq_software *software,
			   uint32_t op, enum mq_phase phase, const struct mq_share *share,
			   struct mq_kernel k[MQ_MAX_KERNELS_PER_OP])
{
	const struct mq_question q = {
		.model = f->model, .calib = library_calib(), .software = software, .train = train
	};

	return mq_op_kernels(&q, op, phase, share, "gpu", k);
}

static uint32_t kernels(struct fixture *f, enum mq_phase phase, const struct mq_share *share,
			struct mq_kernel k[MQ_MAX_KERNELS_PER_OP])
{
	if (!f->model)
		assert_int_equal(finish(f), MQ_OK);
	return kernels_of(f, &FP16, NULL, 0, phase, share, k);
}

static void expect_gemm(const struct mq_kernel *k, double m, double n, double depth, double flop, double elems)
{
	assert_int_equal(k->kind, MQ_KERNEL_GEMM);
	assert_true(k->m == m && k->n == n && k->k == depth);
	assert_true(k->flop == flop);
	assert_true(k->bytes == 2 * elems);
}

static void test_gemm_whole(void **state)
{
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share whole = { .samples = 3 };

	gemm(*state);
	assert_int_equal(kernels(*state, MQ_FORWARD, &whole, k), 1);
	expect_gemm(&k[0], 18, 8, 4, 3 * 384, 3 * 72 + 40);
	assert_true(k[0].count == 1 && k[0].launches == 1);
	assert_int_equal(kernels(*state, MQ_BACKWARD, &whole, k), 2);
	expect_gemm(&k[0], 18, 4, 8, 3 * 384, 3 * 72 + 40); /* dX = dY W' */
	expect_gemm(&k[1], 4, 8, 18, 3 * 384, 3 * 72 + 40); /* dW = X' dY */
	assert_int_equal(k[1].phase, MQ_BACKWARD);
}

/* In fp8 a pass makes the operands that are new to it; the head, outside the layers, stays in 16 bit. */
static void test_gemm_in_fp8(void **state)
{
	struct fixture *f = *state;
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_train fp8 = { .batch = 1, .dtype = MQ_BF16, .grad_dtype = MQ_BF16, .gemm_dtype = MQ_GEMM_FP8 };
	struct mq_software software = *mq_software_plain();
	const struct mq_share whole = { .samples = 1 };

	software.fp8_cast_B = 3;
	gemm(f)->layer = 0;
	f->b.model->n_layers = 1;
	assert_int_equal(finish(f), MQ_OK);
	assert_int_equal(kernels_of(f, &fp8, &software, 0, MQ_FORWARD, &whole, k), 2);
	assert_true(k[0].dtype == MQ_FP8 && k[0].bytes == 24 + 48 + 40);
	assert_true(k[1].kind == MQ_KERNEL_COPY && k[1].dtype == MQ_BF16);
	assert_true(k[1].bytes == 3 * (24 + 40) && k[1].launches == 2);
	assert_int_equal(kernels_of(f, &fp8, &software, 0, MQ_BACKWARD, &whole, k), 3);
	assert_true(k[0].dtype == MQ_FP8 && k[1].dtype == MQ_FP8);
	assert_true(k[2].kind == MQ_KERNEL_COPY && k[2].bytes == 3 * 48 && k[2].launches == 1);
	const struct mq_train mx = { .batch = 1, .dtype = MQ_BF16, .grad_dtype = MQ_BF16, .gemm_dtype = MQ_GEMM_MXFP8 };
	software.mxfp8_cast_B = 5;
	assert_int_equal(kernels_of(f, &mx, &software, 0, MQ_FORWARD, &whole, k), 2);
	assert_true(k[1].bytes == 5 * (24 + 40));
	const struct mq_train fp4 = { .batch = 1, .dtype = MQ_BF16, .grad_dtype = MQ_BF16, .gemm_dtype = MQ_GEMM_FP4 };
	assert_int_equal(kernels_of(f, &fp4, &software, 0, MQ_FORWARD, &whole, k), 2);
	assert_true(k[0].dtype == MQ_FP4 && k[0].bytes == (24 + 48 + 40) / 2.);
	assert_true(k[1].bytes == (2 + 2 + 2 * .5625) * (24 + 40)); /* 2 read, packed and unpacked copies */
	f->model->op[0].layer = MQ_NONE;
	assert_int_equal(kernels_of(f, &fp8, &software, 0, MQ_FORWARD, &whole, k), 1);
	assert_int_equal(k[0].dtype, MQ_BF16);
}

/* Copies of weights that are kept are made once a step, of all ranks' parts, of frozen ones too: not where they are cast
 * for each product, come anew with each micro-batch (ZeRO-3) or are not kept. */
static void test_kept_weights_are_cast_once(void **state)
{
	struct fixture *f = *state;
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_train fp8 = { .batch = 1, .dtype = MQ_BF16, .grad_dtype = MQ_BF16, .gemm_dtype = MQ_GEMM_FP8 };
	struct mq_software software = *mq_software_plain();
	const struct mq_share whole = { .samples = 1 }, shard = { .samples = 1, .shards = 4 };
	const struct mq_share gathered = { .samples = 1, .gathered = true };

	software.fp8_cast_B = 3;
	software.save_quantized_operands = true;
	gemm(f)->layer = 0;
	f->b.model->n_layers = 1;
	assert_int_equal(finish(f), MQ_OK);
	assert_int_equal(kernels_of(f, &fp8, &software, 0, MQ_FORWARD, &whole, k), 2);
	assert_true(k[1].bytes == 3 * 24 && k[1].launches == 1);
	assert_int_equal(kernels_of(f, &fp8, &software, 0, MQ_UPDATE, &whole, k), 2);
	assert_true(k[1].kind == MQ_KERNEL_COPY && k[1].bytes == 3 * 40);
	assert_int_equal(kernels_of(f, &fp8, &software, 0, MQ_UPDATE, &shard, k), 2);
	assert_true(k[1].bytes == 4 * 3 * 40);
	assert_int_equal(kernels_of(f, &fp8, &software, 0, MQ_FORWARD, &gathered, k), 2);
	assert_true(k[1].bytes == 3 * (24 + 40) && k[1].launches == 2);
	assert_int_equal(kernels_of(f, &fp8, &software, 0, MQ_UPDATE, &gathered, k), 1);
	software.quantize_weights_again = true;
	kernels_of(f, &fp8, &software, 0, MQ_FORWARD, &whole, k);
	assert_true(k[1].bytes == 3 * (24 + 40));
	assert_int_equal(kernels_of(f, &fp8, &software, 0, MQ_UPDATE, &whole, k), 1);
	software.quantize_weights_again = false;
	f->model->op[0].frozen = MQ_FROZEN_AS_DTYPE;
	assert_int_equal(kernels_of(f, &fp8, &software, 0, MQ_UPDATE, &shard, k), 1);
	assert_true(k[0].kind == MQ_KERNEL_COPY && k[0].bytes == 4 * 3 * 40);
}

static void test_gemm_by_columns_and_rows(void **state)
{
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share out = { .samples = 1, .split = { [MQ_DIM_OUT] = 2 } };
	const struct mq_share in = { .samples = 1, .split = { [MQ_DIM_IN] = 2 } };
	const struct mq_share seq = { .samples = 1, .split = { [MQ_DIM_SEQ] = 2 } };
	const struct mq_op *op = gemm(*state);

	kernels(*state, MQ_FORWARD, &out, k);
	expect_gemm(&k[0], 6, 4, 4, 192, 24 + 24 + 20);
	kernels(*state, MQ_FORWARD, &in, k); /* the bias stays whole */
	expect_gemm(&k[0], 6, 8, 2, 192, 12 + 48 + 24);
	kernels(*state, MQ_FORWARD, &seq, k);
	expect_gemm(&k[0], 3, 8, 4, 192, 12 + 24 + 40);
	assert_true(mq_op_param_shard(op, out.split) == 20);
	assert_true(mq_op_param_shard(op, in.split) == 16 + 8);
	assert_true(mq_op_param_shard(op, seq.split) == 40);
}

static void test_gemm_without_input_gradient(void **state)
{
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share whole = { .samples = 1 };

	gemm(*state)->flop_bwd = 384;
	assert_int_equal(kernels(*state, MQ_BACKWARD, &whole, k), 1);
	expect_gemm(&k[0], 4, 8, 6, 384, 72 + 40);
}

static void test_expert_gemm(void **state)
{
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	/* 4 experts of [2 x 8][8 x 8] rows each; a group of two devices holds 2 samples in all */
	const struct mq_share one = { .samples = 1 };
	const struct mq_share two = { .samples = 2, .split = { [MQ_DIM_EXPERT] = 2 } };
	struct mq_op *op = gemm(*state);

	op->m = 2;
	op->k = 8;
	op->count = 4;
	op->param = 256;
	op->flop = 2 * 2 * 8 * 8 * 4;
	op->flop_bwd = 2 * op->flop;
	op->read = op->write = op->output = 64;
	kernels(*state, MQ_FORWARD, &one, k);
	assert_true(k[0].count == 4 && k[0].m == 2 && k[0].flop == 1024);
	kernels(*state, MQ_FORWARD, &two, k);
	assert_true(k[0].count == 2 && k[0].m == 4);
	assert_true(k[0].flop == 1024); /* as much work as before the exchange */
	assert_true(k[0].bytes == 2 * (64 + 64 + 128));
	assert_true(mq_op_param_shard(op, two.split) == 128);
}

static void test_grouped_conv_splits_its_groups(void **state)
{
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share out = { .samples = 1, .split = { [MQ_DIM_OUT] = 4 } };
	struct mq_op *op = gemm(*state);

	op->kind = MQ_OP_CONV;
	op->n = 1;
	op->k = 9;
	op->count = 8; /* depthwise over 8 channels */
	op->param = 72;
	op->flop = 2 * 6 * 9 * 8;
	op->read = op->write = op->output = 48;
	kernels(*state, MQ_FORWARD, &out, k);
	assert_int_equal(k[0].kind, MQ_KERNEL_CONV);
	assert_true(k[0].count == 2 && k[0].n == 1 && k[0].flop == 216);
	assert_true(k[0].bytes == 2 * (12 + 12 + 18));
}

/* 8 queries, 8 keys, 4 heads of 16 (keys and values of 2 heads). */
static struct mq_op *attention(struct fixture *f, bool fused)
{
	struct mq_op *op = add(f, MQ_OP_ATTENTION, "attention");
	double q = 8 * 64, kv = 2 * 8 * 32, scores = 8 * 8 * 4;

	op->m = op->n = 8;
	op->k = 16;
	op->count = 4;
	op->fused = fused;
	op->causal = true;
	op->flop = 4 * 8 * 8 * 64;
	op->flop_bwd = 2 * op->flop;
	op->read = q + kv;
	op->write = op->output = q;
	op->moved_bwd = 4 * q + 2 * kv;
	op->kernels = 1;
	if (!fused) {
		op->read = 3 * q + 2 * scores; /* Q, K, V; the scores, by softmax; P */
		op->write = q + 2 * scores;
		op->moved_bwd = 4 * (2 * q + scores) + 3 * scores;
		op->kernels = 5;
	}
	return op;
}

static void test_fused_attention(void **state)
{
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share heads = { .samples = 2, .split = { [MQ_DIM_HEAD] = 2 } };
	const struct mq_share seq = { .samples = 2, .split = { [MQ_DIM_SEQ] = 4 } };

	attention(*state, true);
	assert_int_equal(kernels(*state, MQ_FORWARD, &heads, k), 1);
	assert_int_equal(k[0].kind, MQ_KERNEL_ATTENTION);
	assert_true(k[0].m == 8 && k[0].n == 8 && k[0].k == 16 && k[0].count == 4);
	assert_true(k[0].flop == 4 * 8 * 8 * 64 && k[0].causal);
	assert_true(k[0].bytes == 2 * (512 + 512 + 512));
	/* In four parts, each of the two heads of keys and values is needed twice. */
	const struct mq_share many = { .samples = 1, .split = { [MQ_DIM_HEAD] = 4 } };
	kernels(*state, MQ_FORWARD, &many, k);
	assert_true(k[0].bytes == 2 * (128 + 256 + 128));
	/* Rows of the sequence: keys and values pass by whole. */
	assert_int_equal(kernels(*state, MQ_FORWARD, &seq, k), 1);
	assert_true(k[0].m == 2 && k[0].n == 8 && k[0].count == 8);
	assert_true(k[0].bytes == 2 * (256 + 1024 + 256));
	assert_true(k[0].flop == 2 * 4 * 8 * 8 * 64 / 4);
	assert_int_equal(kernels(*state, MQ_BACKWARD, &seq, k), 1);
	assert_true(k[0].bytes == 2 * (4 * 256 + 2 * 1024));
}

/* A ring of four: its first step sees a quarter of the keys, the three later ones the rest, and what they
 * make is added up, in fp32. The steps together do the work of one call. */
static void test_ring_attention(void **state)
{
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share first = { .samples = 2, .split = { [MQ_DIM_SEQ] = 4 }, .keys = .25 };
	struct mq_share later = first;

	later.keys = .75;
	later.remote = true;
	attention(*state, true);
	assert_int_equal(kernels(*state, MQ_FORWARD, &first, k), 1);
	assert_true(k[0].n == 2 && k[0].steps == 0);
	assert_true(k[0].flop == .25 * 2 * 4 * 8 * 8 * 64 / 4);
	assert_true(k[0].bytes == 2 * (256 + 1024 / 4 + 256));
	assert_int_equal(kernels(*state, MQ_FORWARD, &later, k), 2);
	assert_true(k[0].n == 6 && k[0].steps == 3);
	assert_true(k[0].flop == .75 * 2 * 4 * 8 * 8 * 64 / 4);
	assert_int_equal(k[1].kind, MQ_KERNEL_MEMORY);
	/* 256 elements of keys and values at hand are joined, outputs of 256 scaled, those of three steps added */
	assert_true(k[1].bytes == 2 * (2 * 256 + (2 + .75 * 3 * 3) * 256));
	assert_true(k[1].launches == 3 + 2 * 3);
	assert_int_equal(kernels(*state, MQ_BACKWARD, &later, k), 2);
	assert_true(k[1].bytes == 2 * (2 * 256 + .75 * (2 + 3 * 3) * 512));
}

/* Stored scores: products and softmax shrink with the keys that the step sees. */
static void test_ring_of_stored_scores(void **state)
{
	struct mq_kernel whole[MQ_MAX_KERNELS_PER_OP], k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share all = { .samples = 2, .split = { [MQ_DIM_SEQ] = 4 } };
	struct mq_share quarter = all;

	quarter.keys = .25;
	attention(*state, false);
	uint32_t n = kernels(*state, MQ_FORWARD, &all, whole);
	assert_int_equal(kernels(*state, MQ_FORWARD, &quarter, k), n);
	assert_true(k[0].n == whole[0].n / 4 && k[1].k == whole[1].k / 4);
	for (uint32_t i = 0; i < n; i++)
		assert_true(k[i].flop == whole[i].flop / 4);
	assert_true(k[n - 1].bytes == whole[n - 1].bytes / 4);
}

static void test_unfused_attention(void **state)
{
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share whole = { .samples = 1 };

	attention(*state, false);
	assert_int_equal(kernels(*state, MQ_FORWARD, &whole, k), 3);
	expect_gemm(&k[0], 8, 8, 16, 2 * 8 * 8 * 64, 512 + 512 + 256);
	expect_gemm(&k[1], 8, 16, 8, 2 * 8 * 8 * 64, 512 + 512 + 256);
	assert_int_equal(k[2].kind, MQ_KERNEL_MEMORY);
	assert_true(k[2].bytes == 2 * 2 * 256 && k[2].launches == 3);
	assert_true(k[0].count == 4);
	assert_int_equal(kernels(*state, MQ_BACKWARD, &whole, k), 5);
	double flop = 0;
	for (int i = 0; i < 5; i++)
		flop += k[i].flop;
	assert_true(flop == 2 * 4 * 8 * 8 * 64);
	assert_true(k[4].bytes == 2 * 3 * 256);
}

static void test_embedding(void **state)
{
	struct fixture *f = *state;
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share vocab = { .samples = 1, .split = { [MQ_DIM_IN] = 4 } };
	struct mq_op *op = add(f, MQ_OP_EMBEDDING, "e");

	op->param = 1000 * 16;
	op->read = op->write = op->output = 8 * 16;
	op->moved_bwd = 2 * 8 * 16;
	op->kernels = 1;
	assert_int_equal(kernels(f, MQ_FORWARD, &vocab, k), 1);
	assert_int_equal(k[0].kind, MQ_KERNEL_EMBEDDING);
	assert_true(k[0].bytes == 2 * (32 + 128)); /* a quarter found, the output whole: partial sums */
	assert_true(mq_op_param_shard(op, vocab.split) == 4000);
}

/* 10 steps, inputs of 6, state of 4, 4 gates: the inputs at once, the state step by step. */
static void test_recurrent(void **state)
{
	struct fixture *f = *state;
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share share = { .samples = 3 };
	struct mq_op *op = add(f, MQ_OP_RECURRENT, "lstm");

	op->m = 10;
	op->n = 16;
	op->k = 6 + 4;
	op->count = 1;
	op->param = 16 * 10 + 2 * 16;
	op->flop = 2 * 10 * 16 * 10;
	op->flop_bwd = 2 * op->flop;
	op->read = 10 * 6;
	op->write = op->output = 10 * 4;
	op->kernels = 1;
	assert_int_equal(kernels(f, MQ_FORWARD, &share, k), 2);
	assert_true(k[0].kind == MQ_KERNEL_GEMM && k[1].kind == MQ_KERNEL_RECURRENT);
	assert_true(k[0].m == 30 && k[0].n == 16 && k[0].k == 6 && k[0].flop == 2 * 30 * 16 * 6);
	assert_true(k[1].m == 10 && k[1].n == 16 && k[1].k == 4 && k[1].flop == 2 * 30 * 16 * 4);
	assert_true(fabs(k[0].bytes + k[1].bytes - 2 * (180 + 3 * 480 + 120 + 192)) < 1e-9);
	assert_int_equal(kernels(f, MQ_BACKWARD, &share, k), 3);
	assert_true(k[0].m == 30 && k[0].n == 6 && k[0].k == 16);  /* inputs */
	assert_true(k[1].m == 10 && k[1].n == 16 && k[1].k == 30); /* weights */
	assert_true(k[2].m == 10 && k[2].n == 4 && k[2].k == 16);  /* states */
	assert_true(k[0].flop + k[1].flop + k[2].flop == 3 * op->flop_bwd);
}

static void test_profiled(void **state)
{
	struct fixture *f = *state;
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share share = { .samples = 4 };

	add(f, MQ_OP_PROFILED, "p");
	f->b.model->profile = (struct mq_profile){
		.n_types = 2,
		.type = (const char *[]){ "gpu", "cpu" },
		.forward_s = (double[]){ 2, 3 },
		.backward_s = (double[]){ 5, 7 },
	};
	assert_int_equal(kernels(f, MQ_FORWARD, &share, k), 1);
	assert_true(k[0].kind == MQ_KERNEL_TIMED && k[0].time_s == 8);
	assert_int_equal(kernels(f, MQ_BACKWARD, &share, k), 1);
	assert_true(k[0].time_s == 20);
	const struct mq_question q = { .model = f->model, .calib = library_calib(), .train = &FP16 };
	assert_int_equal(mq_op_kernels(&q, 0, MQ_FORWARD, &share, "tpu", k), 1);
	assert_true(isinf(k[0].time_s)); /* never measured there */
	assert_int_equal(kernels(f, MQ_UPDATE, &share, k), 0);
}

static void test_explicit_backward_op(void **state)
{
	struct fixture *f = *state;
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share share = { .samples = 1 };

	add(f, MQ_OP_PROFILED, "grad")->phase = MQ_BACKWARD;
	f->b.model->profile =
		(struct mq_profile){ .n_types = 1, .type = (const char *[]){ "gpu" }, .forward_s = (double[]){ 2 } };
	assert_int_equal(kernels(f, MQ_FORWARD, &share, k), 0);
	assert_int_equal(kernels(f, MQ_BACKWARD, &share, k), 1);
	assert_true(k[0].time_s == 2);
}

/* Bytes per parameter of an optimizer step. */
static void test_update(void **state)
{
	struct fixture *f = *state;
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share out = { .samples = 1, .split = { [MQ_DIM_OUT] = 2 } };
	static const struct {
		enum mq_dtype dtype, grad;
		enum mq_optimizer optimizer;
		double bytes;
	} cases[] = {
		{ MQ_FP16, MQ_FP16, MQ_OPTIMIZER_ADAM, 28 },     { MQ_BF16, MQ_FP32, MQ_OPTIMIZER_ADAM, 30 },
		{ MQ_FP32, MQ_FP32, MQ_OPTIMIZER_ADAM, 28 },     { MQ_FP16, MQ_FP16, MQ_OPTIMIZER_SGD, 12 },
		{ MQ_FP32, MQ_FP32, MQ_OPTIMIZER_SGD, 12 },      { MQ_FP16, MQ_FP16, MQ_OPTIMIZER_MOMENTUM, 20 },
		{ MQ_FP32, MQ_FP32, MQ_OPTIMIZER_MOMENTUM, 20 },
	};

	gemm(f);
	assert_int_equal(finish(f), MQ_OK);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct mq_train t = { .batch = 1,
					    .dtype = cases[i].dtype,
					    .grad_dtype = cases[i].grad,
					    .optimizer = cases[i].optimizer };

		assert_int_equal(kernels_of(f, &t, NULL, 0, MQ_UPDATE, &out, k), 1);
		assert_int_equal(k[0].kind, MQ_KERNEL_OPTIMIZER);
		assert_true(k[0].bytes == 20 * cases[i].bytes);
	}
}

/* What software moves beside the least: per micro-batch behind the products, per step, over scores. */
static void test_software_traffic(void **state)
{
	struct fixture *f = *state;
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share one = { .samples = 1 };
	const struct mq_share half = { .samples = 7, .split = { [MQ_DIM_OUT] = 2 }, .accumulates = true };
	const struct mq_share reduced = { .samples = 1, .reduced = true };
	const struct mq_share part = { .samples = 1, .split = { [MQ_DIM_OUT] = 4 }, .shards = 4 };
	struct mq_train t = { .batch = 1, .dtype = MQ_FP16, .grad_dtype = MQ_FP16 };
	struct mq_software s = *mq_software_plain();

	s.cast_B = 8;
	s.accum_B = 4;
	s.update_B = 60;
	s.reduce_B = 7;
	s.optimizer_kernels = 10;
	s.reduce_kernels = 3;
	s.score_traffic = .5;
	gemm(f)->fixed_bwd = 1000;
	attention(f, false);
	assert_int_equal(finish(f), MQ_OK);
	assert_int_equal(kernels_of(f, &t, &s, 0, MQ_FORWARD, &one, k), 1);
	assert_int_equal(kernels_of(f, &t, &s, 0, MQ_BACKWARD, &one, k), 3);
	assert_int_equal(k[2].kind, MQ_KERNEL_COPY);
	/* in 16-bit training; sums are added where micro-batches are accumulated */
	assert_true(k[2].bytes == 40 * 8 + 1000 * 2);
	/* a share of the parameters, whatever the samples */
	assert_int_equal(kernels_of(f, &t, &s, 0, MQ_BACKWARD, &half, k), 3);
	assert_true(k[2].bytes == 20 * 12 + 1000 * 2);
	assert_int_equal(kernels_of(f, &t, &s, 0, MQ_UPDATE, &one, k), 1);
	assert_true(k[0].bytes == 40 * (28 + 60) && k[0].launches == 10);
	kernels_of(f, &t, &s, 0, MQ_UPDATE, &reduced, k);
	assert_true(k[0].bytes == 40 * (28 + 60 + 7) && k[0].launches == 10 + 3);
	s.grads_B = 6; /* of all gradients, where the optimizer has a quarter of them */
	kernels_of(f, &t, &s, 0, MQ_UPDATE, &part, k);
	assert_true(k[0].bytes == 10 * (28 + 60) + 40 * 6);
	kernels_of(f, &t, &s, 1, MQ_FORWARD, &one, k);
	assert_true(k[2].kind == MQ_KERNEL_MEMORY && k[2].bytes == 2 * 256);
	assert_int_equal(kernels_of(f, &t, &s, 1, MQ_BACKWARD, &one, k), 5);
}

/* Element-wise kernels move more than their least. Those of an image network, whose graph
 * has each of them, do not, nor do copies. */
static void test_elementwise_traffic(void **state)
{
	struct fixture *f = *state;
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share one = { .samples = 1 };
	const struct mq_train wide = { .batch = 1, .dtype = MQ_FP32, .grad_dtype = MQ_FP32 };
	struct mq_software s = *mq_software_plain();

	s.traffic = 1.5;
	for (int i = 0; i < 2; i++) {
		struct mq_op *op = add(f, i ? MQ_OP_RESHAPE : MQ_OP_ELEMENTWISE, i ? "copy" : "act");

		op->read = op->write = op->output = 100;
		op->kernels = 1;
	}
	assert_int_equal(finish(f), MQ_OK);
	kernels_of(f, &FP16, &s, 0, MQ_FORWARD, &one, k);
	assert_true(k[0].kind == MQ_KERNEL_MEMORY && k[0].bytes == 1.5 * 2 * 200);
	kernels_of(f, &wide, &s, 0, MQ_FORWARD, &one, k);
	assert_true(k[0].bytes == 1.5 * 4 * 200);
	kernels_of(f, &FP16, &s, 1, MQ_FORWARD, &one, k);
	assert_true(k[0].kind == MQ_KERNEL_COPY && k[0].bytes == 2 * 200);
	f->model->image = true;
	kernels_of(f, &wide, &s, 0, MQ_FORWARD, &one, k);
	assert_true(k[0].bytes == 4 * 200);
}

static void test_inference_has_no_backward(void **state)
{
	struct fixture *f = *state;
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share whole = { .samples = 1 };
	const struct mq_train infer = { .batch = 1, .dtype = MQ_FP16, .infer = true };

	gemm(f);
	assert_int_equal(finish(f), MQ_OK);
	assert_int_equal(kernels_of(f, &infer, NULL, 0, MQ_FORWARD, &whole, k), 1);
	assert_int_equal(kernels_of(f, &infer, NULL, 0, MQ_BACKWARD, &whole, k), 0);
	assert_int_equal(kernels_of(f, &infer, NULL, 0, MQ_UPDATE, &whole, k), 0);
}

/* A loss counts 3 elements a logit and pass; a software's own count goes by bytes of both passes, whatever its traffic. */
static void test_moved_by_losses(void **state)
{
	struct mq_op *loss = add(*state, MQ_OP_LOSS, "loss");
	const struct mq_share share = { .samples = 2 };
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	struct mq_software s = *mq_software_plain();

	loss->read = 100;
	loss->write = 200;
	loss->moved_bwd = 300;
	loss->kernels = 3;
	assert_int_equal(finish(*state), MQ_OK);
	s.traffic = 5;
	kernels_of(*state, &FP16, &s, 0, MQ_FORWARD, &share, k);
	assert_true(k[0].bytes == 2 * 100 * 6.);
	s.loss_moved_B = 50;
	kernels_of(*state, &FP16, &s, 0, MQ_FORWARD, &share, k);
	assert_true(fabs(k[0].bytes - 2 * 100 * 25.) < 1e-9);
	kernels_of(*state, &FP16, &s, 0, MQ_BACKWARD, &share, k);
	assert_true(fabs(k[0].bytes - 2 * 100 * 25.) < 1e-9);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_orders_and_renumbers),
		TEST(test_keeps_an_order_that_fits),
		TEST(test_merges_parallel_edges),
		TEST(test_names_an_op_on_the_cycle),
		TEST(test_refuses_a_loop_on_itself),
		TEST(test_refuses_no_ops),
		TEST(test_refuses_nan),
		TEST(test_refuses_negative),
		TEST(test_refuses_equal_names),
		TEST(test_refuses_no_name),
		TEST(test_refuses_an_infinite_tensor),
		TEST(test_refuses_a_split_without_extent),
		TEST(test_refuses_one_sided_mates),
		TEST(test_refuses_a_layer_that_is_not_there),
		TEST(test_gemm_whole),
		TEST(test_gemm_in_fp8),
		TEST(test_kept_weights_are_cast_once),
		TEST(test_gemm_by_columns_and_rows),
		TEST(test_gemm_without_input_gradient),
		TEST(test_expert_gemm),
		TEST(test_grouped_conv_splits_its_groups),
		TEST(test_fused_attention),
		TEST(test_ring_attention),
		TEST(test_ring_of_stored_scores),
		TEST(test_unfused_attention),
		TEST(test_embedding),
		TEST(test_recurrent),
		TEST(test_profiled),
		TEST(test_explicit_backward_op),
		TEST(test_update),
		TEST(test_software_traffic),
		TEST(test_elementwise_traffic),
		TEST(test_moved_by_losses),
		TEST(test_inference_has_no_backward),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

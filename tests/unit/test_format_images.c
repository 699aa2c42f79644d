/*
 * test_format_images.c - the built-in image networks: published FLOPs and shapes, what is frozen, the
 * kernels of their convolutions, and what they keep for the backward pass.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "models.h"
#include "libraries.h"

/* Multiply-adds of the products alone, in G, as published. */
static void test_image_flops(void **state)
{
	static const struct {
		const char *spec;
		double gmac;
	} cases[] = {
		{ "resnet50", 4.09 },
		{ "resnet101", 7.80 },
		{ "vgg19", 19.63 },
		{ "inception_v3:aux=false", 5.71 },
		{ "resnext101", 7.99 },
		{ "efficientnet_b0", .385 },
		{ "efficientnet_b4", 4.39 },
		{ "efficientdet_d0", 2.5 },
		{ "stable_diffusion_v2", 339 },
		{ "sdxl", 2989 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct mq_model *m = load(cases[i].spec, 0, &INFER);
		double flop = 0;

		for (uint32_t k = 0; k < m->n_ops; k++)
			if (m->op[k].kind == MQ_OP_CONV || m->op[k].kind == MQ_OP_GEMM)
				flop += m->op[k].flop;
		if (fabs(flop / 2e9 / cases[i].gmac - 1) > .005)
			fail_msg("%s: %g GMAC, %g expected", cases[i].spec, flop / 2e9, cases[i].gmac);
	}
}

/* ResNet: each convolution's output (its batch norm's input) and each ReLU's, once. */
static void test_image_network_keeps(void **state)
{
	const struct mq_model *m = load("resnet50", 0, &TRAIN);
	const double area = 56 * 56;

	assert_true(op_of(m, "stage1.block0.conv1")->saved == 64 * area);
	assert_true(op_of(m, "stage1.block0.conv1.bn")->saved == 0);
	assert_true(op_of(m, "stage1.block0.conv1.relu")->saved == 64 * area);
	assert_true(op_of(m, "stage1.block0.add")->saved == 0);
	assert_true(op_of(m, "stage1.block0.relu")->saved == 256 * area);
	assert_true(op_of(m, "stem.pool")->saved == 1.5 * 64 * area); /* and which element it was */
	/* 3x3 with stride 1; 14 x 14 takes tiles of 4 x 4 as 16 x 16 */
	assert_true(op_of(m, "stage1.block0.conv2")->winograd == 1);
	assert_true(op_of(m, "stage3.block1.conv2")->winograd == 256 / 196.);
	assert_true(op_of(m, "stage3.block0.conv2")->winograd == 0); /* stride 2 */
	assert_true(op_of(m, "stage1.block0.conv1")->winograd == 0);
	assert_true(op_of(m, "stem")->flop_bwd == op_of(m, "stem")->flop); /* images need no gradient */
}

/* What has a fixed size whatever the network: SSD's 8732 boxes, U-Net's 388 pixels of 572, 512 regions. */
static void test_published_shapes(void **state)
{
	const struct mq_model *ssd = load("ssd300", 0, &TRAIN), *u = load("unet", 0, &TRAIN);
	const struct mq_model *rcnn = load("mask_rcnn", 0, &TRAIN);
	uint32_t seen = 0;

	for (uint32_t i = 0; i < ssd->n_ops; i++)
		if (!strcmp(ssd->op[i].name, "boxes") && ++seen)
			assert_true(ssd->op[i].output == 8732 * 4);
	for (uint32_t i = 0; i < u->n_ops; i++)
		if (!strcmp(u->op[i].name, "classes") && ++seen)
			assert_true(u->op[i].output == 2 * 388 * 388);
	for (uint32_t i = 0; i < rcnn->n_ops; i++) {
		const struct mq_op *op = &rcnn->op[i];

		if (!strcmp(op->name, "box.fc1") && ++seen)
			assert_true(op->m == 512 && op->k == 7 * 7 * 256);
		if (!strcmp(op->name, "mask.classes") && ++seen)
			assert_true(op->output == 128. * 28 * 28 * 91);
		if (!strcmp(op->name, "rpn.all") && ++seen) /* 3 anchors of 5 numbers */
			assert_true(op->output == 15. * (208 * 336 + 104 * 168 + 52 * 84 + 26 * 42 + 13 * 21));
	}
	assert_int_equal(seen, 5);
}

/* What is not trained has no backward pass, nor has what comes before it; what comes behind has. */
static void test_frozen_layers(void **state)
{
	const struct mq_model *m = load("mask_rcnn", 0, &TRAIN);
	struct mq_kernel kernel[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share share = { .samples = 2 };
	const struct mq_question q = { .model = m, .calib = library_calib(), .train = &TRAIN };
	uint32_t frozen = 0;

	for (uint32_t i = 0; i < m->n_ops; i++) {
		const char *name = m->op[i].name;
		uint32_t n = mq_op_kernels(&q, i, MQ_BACKWARD, &share, "*", kernel);
		bool cold = !strncmp(name, "stem", 4) || !strncmp(name, "stage1", 6);

		if (cold || m->op[i].kind == MQ_OP_NORM)
			assert_int_equal(mq_op_kernels(&q, i, MQ_UPDATE, &share, "*", kernel), 0);
		if (m->op[i].kind != MQ_OP_CONV)
			continue;
		frozen += cold;
		if (cold)
			assert_int_equal(n, 0);
		else if (!strcmp(name, "stage2.block0.conv1") || !strcmp(name, "stage2.block0.skip"))
			assert_int_equal(n, 1); /* the weights' gradient alone */
		else if (strcmp(name, "fpn2.side"))
			assert_int_equal(n, 2);
	}
	assert_int_equal(frozen, 1 + 3 * 3 + 1);
}

/* A text encoder that is frozen is held and run forward: nothing of it is updated, and of what reads its output weights
 * alone get gradients. */
static void test_frozen_encoder(void **state)
{
	const struct mq_model *m = load("stable_diffusion_v2:text=frozen", 0, &TRAIN);
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share share = { .samples = 2 };
	const struct mq_question q = { .model = m, .calib = library_calib(), .train = &TRAIN };
	double frozen = 0, trained = 0, kept = 0;

	for (uint32_t i = 0; i < m->n_ops; i++) {
		const struct mq_op *op = &m->op[i];
		bool text = !strncmp(op->name, "text", 4),
		     cross = strstr(op->name, "cross.k") || strstr(op->name, "cross.v");

		*(mq_op_trained(op) ? &trained : &frozen) += op->param;
		kept += text ? op->saved : 0;
		if (text)
			assert_true(!mq_op_kernels(&q, i, MQ_BACKWARD, &share, "*", k) &&
				    !mq_op_kernels(&q, i, MQ_UPDATE, &share, "*", k));
		else if (op->kind == MQ_OP_GEMM)
			assert_int_equal(mq_op_kernels(&q, i, MQ_BACKWARD, &share, "*", k),
					 cross || !strcmp(op->name, "level.up") ? 1 : 2);
	}
	assert_true(trained == 865910724 && frozen == 354032641 && kept == 0);
}

/* The kernels of the backward pass: a convolution's input gradient gathers the output's gradient with the
 * same window, its weights' gradient has that in the rows. */
static void test_convolution_kernels(void **state)
{
	const struct mq_model *m = load("resnet50", 0, &TRAIN);
	const struct mq_op *op = op_of(m, "stage2.block1.conv2"); /* 128 channels at 28 x 28 */
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share share = { .samples = 2 };
	struct mq_question q = { .model = m, .calib = library_calib(), .train = &TRAIN };

	assert_int_equal(mq_op_kernels(&q, (uint32_t)(op - m->op), MQ_BACKWARD, &share, "*", k), 2);
	assert_true(k[0].m == 2 * 28 * 28 && k[0].n == 128 && k[0].k == 128 * 9);
	assert_true(!k[0].of_weights && k[0].work == 0 && !k[0].volume);
	assert_true(k[1].m == 128 * 9 && k[1].n == 128 && k[1].k == 2 * 28 * 28);
	assert_true(k[1].of_weights);

	q.model = m = load("efficientnet_b0", 0, &TRAIN);
	op = op_of(m, "block1.depthwise"); /* 16 x 6 channels, 3 x 3, at 56 x 56 */
	assert_int_equal(mq_op_kernels(&q, (uint32_t)(op - m->op), MQ_FORWARD, &share, "*", k), 1);
	assert_true(k[0].work > 0 && k[0].count == 96 && k[0].m == 2 * 56 * 56 && k[0].k == 9);
	assert_true(op_of(load("unet3d", 0, &TRAIN), "down1.conv1")->volume);
}

/* What a library is told of a convolution; cut into strips only where its rows are whole. */
static void test_convolution_images(void **state)
{
	static const char *const specs[] = { "resnet50", "vgg19", "inception_v3", "efficientnet_b0" };
	const struct mq_model *m = load("resnet50", 0, &TRAIN);
	const struct mq_conv_image first = { 224, 224, 112, 112, 7, 7, 2, 2 }, none = { 0 };
	const struct mq_op *op = op_of(m, "stage2.block1.conv2");
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	struct mq_share share = { .samples = 2, .split = { [MQ_DIM_SPATIAL] = 4 } };
	struct mq_question q = { .model = m, .calib = library_calib(), .train = &TRAIN };

	for (uint32_t i = 0; i < m->n_ops; i++)
		if (m->op[i].kind == MQ_OP_CONV) {
			assert_memory_equal(&m->op[i].image, &first, sizeof(first));
			break;
		}
	assert_int_equal(mq_op_kernels(&q, (uint32_t)(op - m->op), MQ_BACKWARD, &share, "*", k), 2);
	assert_true(k[0].of_input && !k[1].of_input);
	assert_true(k[0].image.out_h == 7 && k[0].image.h * 28 == 7 * op->image.h && k[0].image.out_w == 28);
	share.split[MQ_DIM_SPATIAL] = 3;
	assert_int_equal(mq_op_kernels(&q, (uint32_t)(op - m->op), MQ_FORWARD, &share, "*", k), 1);
	assert_memory_equal(&k[0].image, &none, sizeof(none));
	assert_true(!mq_conv_image_part(op_of(load("unet3d", 0, &TRAIN), "down1.conv1"), 1).h);
	for (size_t s = 0; s < sizeof(specs) / sizeof(*specs); s++) {
		m = load(specs[s], 0, &TRAIN);
		for (uint32_t i = 0; i < m->n_ops; i++) {
			const struct mq_conv_image *at = &m->op[i].image;

			if (m->op[i].kind != MQ_OP_CONV)
				continue;
			if (!at->h || at->out_h * at->out_w != m->op[i].m || at->kh * at->kw != m->op[i].window)
				fail_msg("%s: %s: image of %u x %u", specs[s], m->op[i].name, at->h, at->w);
		}
	}
}

/* On the host, overlaps of the best 2,000 boxes of four maps and all 819 of the fifth. */
static void test_suppression(void **state)
{
	const struct mq_model *host = load("mask_rcnn:suppression=host", 0, &TRAIN);
	const struct mq_op *op = op_of(host, "rpn.all");
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share share = { .samples = 4 };
	const struct mq_question q = { .model = host, .calib = library_calib(), .train = &TRAIN };
	double pairs = (4 * 2000. * 2000 + 819. * 819) / 2;

	assert_true(op->host_flop == 16 * pairs);
	assert_true(op_of(load("mask_rcnn", 0, &TRAIN), "rpn.all")->host_flop == 0);
	assert_int_equal(mq_op_kernels(&q, (uint32_t)(op - host->op), MQ_FORWARD, &share, "*", k), 2);
	assert_int_equal(k[0].kind, MQ_KERNEL_TIMED); /* four samples on four cores */
	assert_true(k[0].time_s == 16 * pairs / MQ_HOST_FLOPS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_image_flops),        cmocka_unit_test(test_image_network_keeps),
		cmocka_unit_test(test_published_shapes),   cmocka_unit_test(test_frozen_layers),
		cmocka_unit_test(test_frozen_encoder),     cmocka_unit_test(test_convolution_kernels),
		cmocka_unit_test(test_convolution_images), cmocka_unit_test(test_suppression),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}

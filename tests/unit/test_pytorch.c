/*
 * test_pytorch.c - what eager PyTorch runs beside the kernels that an op counts: under torch.autocast, of modules that are
 * apart, of formulas written out, in image networks. Bytes and launches counted by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "maquette/cost.h"
#include "models.h"
#include "libraries.h"

static const struct mq_train BF16 = { .batch = 1, .dtype = MQ_BF16, .grad_dtype = MQ_BF16 };

/* Of one op and pass of a single sample on one device; work: only of kernels that a block for each channel does, if so. */
struct sum {
	double bytes, launches, work, blocked, blocks;
};

static struct sum kernels(const struct mq_model *m, const struct mq_software *s, const struct mq_train *train,
			  const char *name, enum mq_phase phase)
{
	const struct mq_question q = { .model = m, .calib = library_calib(), .train = train, .software = s };
	const struct mq_share one = { .samples = 1 };
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	uint32_t n = mq_op_kernels(&q, (uint32_t)(op_of(m, name) - m->op), phase, &one, "gpu", k);
	struct sum sum = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		sum.bytes += k[i].kind == MQ_KERNEL_GEMM || k[i].kind == MQ_KERNEL_CONV ? 0 : k[i].bytes;
		sum.launches += k[i].launches;
		*(k[i].blocks > 0 ? &sum.blocked : &sum.work) += k[i].work;
		sum.blocks = fmax(sum.blocks, k[i].blocks);
	}
	return sum;
}

static struct sum forward(const struct mq_model *m, const struct mq_software *s, const char *name)
{
	return kernels(m, s, &BF16, name, MQ_FORWARD);
}

static struct sum backward(const struct mq_model *m, const struct mq_software *s, const char *name)
{
	return kernels(m, s, &BF16, name, MQ_BACKWARD);
}

/* The stream is fp32: a norm moves 12 bytes forward and 28 back, nothing cast; the sum reads 2 and 4 and writes 4, and
 * back casts the branch's part (6) and sums both ways (12); each of three products that read a norm casts its operand
 * (6), and back its gradient (6), of which two are summed up with the first (12 each). */
static void test_autocast_keeps_the_stream_wide(void **state)
{
	const struct mq_model *m = load("gpt:layers=1,hidden=64,heads=4,vocab=128,seq=32,dropout=false", 0, &BF16);
	struct mq_software s = *mq_software_plain();
	double elems = 32 * 64;

	s.norm = MQ_EAGER;
	s.autocast = s.separate_projections = true;
	assert_near(forward(m, &s, "layer0.norm1").bytes, 12 * elems + 2 * 128);
	assert_near(backward(m, &s, "layer0.norm1").bytes, 28 * elems + 2 * 128);
	assert_near(forward(m, &s, "layer0.residual1").bytes, 10 * elems);
	assert_near(backward(m, &s, "layer0.residual1").bytes, 18 * elems);
	assert_near(forward(m, &s, "layer0.qkv").bytes, 3 * 6 * elems);
	assert_near(backward(m, &s, "layer0.qkv").bytes, (3 * 6 + 2 * 12) * elems);
	assert_near(forward(m, &s, "layer0.qkv").launches, 3 + 3);
	assert_near(backward(m, &s, "layer0.qkv").launches, 2 * 3 + 3 + 2);
	assert_near(forward(m, &s, "layer0.proj").bytes, 0); /* reads what attention made in 16 bits */
	s.separate_projections = false;
	assert_near(forward(m, &s, "layer0.qkv").bytes, 6 * elems);
	/* in fp32 there is nothing to cast, nor where parameters are in 16 bits */
	const struct mq_train wide = { .batch = 1, .dtype = MQ_FP32, .grad_dtype = MQ_FP32 };
	assert_near(kernels(m, &s, &wide, "layer0.qkv", MQ_FORWARD).bytes, 0);
	s.autocast = false;
	assert_near(forward(m, &s, "layer0.qkv").bytes, 0);
	assert_near(forward(m, &s, "layer0.norm1").bytes, 6 * elems + 2 * 128);
	assert_near(forward(m, &s, "layer0.residual1").bytes, 6 * elems);
}

/* Weights and biases of three products are cast down and their gradients up: twelve launches. */
static void test_weights_are_cast_both_ways(void **state)
{
	const struct mq_model *m =
		load("gpt:layers=1,hidden=64,heads=4,vocab=128,seq=32,dropout=false,bias=true", 0, &BF16);
	struct mq_software s = *mq_software_plain();

	s.autocast = s.separate_projections = true;
	struct sum without = backward(m, &s, "layer0.qkv");
	s.cast_B = 12;
	struct sum with = backward(m, &s, "layer0.qkv");
	assert_near(with.bytes - without.bytes, 12. * (64 + 1) * 3 * 64);
	assert_near(with.launches - without.launches, 12);
}

/* The optimizer steps each of three weights and biases. */
static void test_optimizer_steps_modules(void **state)
{
	const struct mq_model *m = load("gpt:layers=1,hidden=64,heads=4,vocab=128,seq=32,dropout=false", 0, &BF16);
	struct mq_software s = *mq_software_plain();

	s.optimizer_kernels = 40;
	assert_near(kernels(m, &s, &BF16, "layer0.qkv", MQ_UPDATE).launches, 40);
	s.separate_projections = true;
	assert_near(kernels(m, &s, &BF16, "layer0.qkv", MQ_UPDATE).launches, 3 * 40);
	assert_near(kernels(m, &s, &BF16, "layer0.proj", MQ_UPDATE).launches, 40);
}

/* 18 passes forward and 28 back, where one kernel makes 2 and 3; in fp32 under autocast, whose pow() is. */
static void test_gelu_written_out(void **state)
{
	const struct mq_model *m = load("gpt:layers=1,hidden=64,heads=4,vocab=128,seq=32,dropout=false", 0, &BF16);
	struct mq_software s = *mq_software_plain();
	double elems = 32 * 256;

	s.unfused_gelu = true;
	assert_near(forward(m, &s, "layer0.activation").bytes, 2 * 18 * elems);
	assert_near(backward(m, &s, "layer0.activation").bytes, 2 * 28 * elems);
	assert_near(forward(m, &s, "layer0.down").bytes, 0);
	s.autocast = true;
	assert_near(forward(m, &s, "layer0.activation").bytes, 4 * 18 * elems);
	assert_near(backward(m, &s, "layer0.activation").bytes, 4 * 28 * elems);
	assert_near(forward(m, &s, "layer0.down").bytes, 6 * elems); /* its operand is that fp32 */
}

/* A loss moves what its software says in 16 bits, and two casts of 6 bytes less in 32, but no less than it counts. */
static void test_loss(void **state)
{
	const struct mq_model *m = load("gpt:layers=1,hidden=64,heads=4,vocab=128,seq=32,dropout=false", 0, &BF16);
	const struct mq_train wide = { .batch = 1, .dtype = MQ_FP32, .grad_dtype = MQ_FP32 };
	struct mq_software s = *mq_software_plain();
	double logits = 32 * 128;

	s.loss_moved_B = 45;
	assert_near(forward(m, &s, "loss").bytes + backward(m, &s, "loss").bytes, 45 * logits);
	assert_near(kernels(m, &s, &wide, "loss", MQ_FORWARD).bytes + kernels(m, &s, &wide, "loss", MQ_BACKWARD).bytes,
		    33 * logits);
	s.loss_moved_B = 12;
	assert_near(kernels(m, &s, &wide, "loss", MQ_FORWARD).bytes + kernels(m, &s, &wide, "loss", MQ_BACKWARD).bytes,
		    24 * logits);
}

/* The stem of ResNet: 64 channels of 112 x 112, pooled by 3 x 3 to 56 x 56. */
static void test_image_networks(void **state)
{
	const struct mq_model *m = load("resnet50", 0, &BF16);
	const struct mq_train half = { .batch = 1, .dtype = MQ_FP16, .grad_dtype = MQ_FP16 };
	struct mq_software s = *mq_software_plain();
	double elems = 64 * 112 * 112, taps = 9 * 64 * 56 * 56;

	struct sum library = forward(m, &s, "stem.bn");
	s.aten_image_kernels = true;
	assert_near(kernels(m, &s, &half, "stem.bn", MQ_FORWARD).bytes, library.bytes); /* cuDNN's */
	struct sum last = forward(m, &s, "stem.bn");
	assert_near(last.bytes, 6 * elems);
	assert_near(last.blocked, 55 * elems);
	assert_near(last.blocks, 2 * 2 * 49); /* twice 32 channels by 256 pixels */
	s.channels_first = MQ_FIRST_ALL;      /* a block for each channel */
	struct sum first = forward(m, &s, "stem.bn"), back = backward(m, &s, "stem.bn");
	assert_near(first.bytes, 6 * elems);
	assert_near(first.work, 53 * elems);
	assert_near(first.blocked, 29 * elems);
	assert_near(first.blocks, 64);
	assert_near(back.bytes, 10 * elems);
	assert_near(back.blocked, 70 * elems);
	assert_near(forward(m, &s, "stem.pool").work, 27 * elems + 20 * taps);
	assert_near(backward(m, &s, "stem.pool").work, 110 * elems + 40 * taps);
	/* PyTorch writes and reads places of 8 bytes; cuDNN reads input, output and gradient, and writes the input's */
	double outputs = 64 * 56 * 56;
	assert_near(forward(m, &s, "stem.pool").bytes, 2 * elems + (2 + 8) * outputs);
	assert_near(backward(m, &s, "stem.pool").bytes, 2 * elems + (2 + 8) * outputs);
	assert_near(forward(m, mq_software_plain(), "stem.pool").bytes, 2 * (elems + outputs));
	assert_near(backward(m, mq_software_plain(), "stem.pool").bytes, 2 * (2 * elems + 2 * outputs));
	assert_near(forward(m, &s, "pool").work, 0); /* of whole images: a sum by rows */
	/* a bias is added to each pixel, and its gradient summed; those of ResNet have none */
	const struct mq_model *vgg = load("vgg16", 0, &BF16);
	double first_elems = 64. * 224 * 224;
	assert_near(forward(vgg, &s, "block1.conv1").work, 46 * first_elems);
	assert_near(backward(vgg, &s, "block1.conv1").work, 28 * first_elems);
	assert_near(forward(m, &s, "stem").work, 0);
}

/* EfficientNet: 32 channels of 112 x 112, a filter of 3 x 3 for each; a number scales each. SiLU in place of a copy. */
static void test_depthwise_networks(void **state)
{
	const struct mq_model *m = load("efficientnet_b0", 0, &BF16);
	const struct mq_train half = { .batch = 1, .dtype = MQ_FP16, .grad_dtype = MQ_FP16 };
	struct mq_software s = *mq_software_plain();
	double elems = 32 * 112 * 112, taps = 9 * elems;

	assert_near(forward(m, &s, "block0.depthwise").work, 25 * taps); /* TensorFlow's */
	assert_near(forward(m, &s, "stem.swish").bytes, 2 * 2 * elems);
	assert_near(forward(m, &s, "block0.squeeze").bytes, 2 * 2 * elems);
	s.aten_image_kernels = true; /* PyTorch: cuDNN's channels last, else its own; in fp16 cuDNN's too */
	assert_near(forward(m, &s, "block0.depthwise").work, 3.6 * taps);
	assert_near(backward(m, &s, "block0.depthwise").work, (3.6 + 9) * taps);
	assert_near(forward(m, &s, "stem.swish").bytes, 2 * 2 * 2 * elems);
	assert_near(backward(m, &s, "stem.swish").bytes, 3 * 2 * elems);
	assert_near(forward(m, &s, "block0.squeeze").work, 46 * elems);
	assert_near(backward(m, &s, "block0.squeeze").bytes, (2 + 3 + 1 + 3) * 2 * elems);
	assert_near(backward(m, &s, "block0.squeeze").work, (46 + 124) * elems);
	/* 24 channels in columns of 16: a quarter of the lanes idles */
	assert_near(forward(m, &s, "block1.project.bn").blocked, 55 * 32 * 56 * 56);
	assert_near(forward(m, &s, "block1.project.bn").blocks, 2 * 2 * 13);
	s.channels_first = MQ_FIRST_ALL;
	assert_near(forward(m, &s, "block0.depthwise").work, 24 * taps);
	assert_near(kernels(m, &s, &half, "block0.depthwise", MQ_BACKWARD).work, (38.5 + 87) * taps);
	assert_near(backward(m, &s, "block0.squeeze").work, 46 * elems);
	assert_near(forward(load("resnet50", 0, &BF16), &s, "stage1.block0.conv2").work, 0);
}

/* Blocks that do not fill the device: 50 of the 4 x 100 that 100 SMs take, an eighth of the speed. */
static void test_few_blocks(void **state)
{
	struct mq_device_calib *d = mq_calib_add_ideal(bare_calib(&arena), "ideal", 1e15, 1e30, 1e9);
	struct mq_kernel k = { .kind = MQ_KERNEL_MEMORY, .dtype = MQ_BF16, .bytes = 1, .work = 1e9, .launches = 1 };

	d->sm_count = 100;
	d->compute_capability = 90;
	d->peak_flops[MQ_FP32] = 4e12;
	double full = mq_cost_kernel(d, &k);
	k.blocks = 50;
	assert_near(mq_cost_kernel(d, &k) - d->launch_s, 8 * (full - d->launch_s));
	k.blocks = 4000;
	assert_near(mq_cost_kernel(d, &k), full);
	d->compute_capability = 70; /* 64 lanes of the 64 for fp32, not of 128 */
	assert_near(full - d->launch_s, 2 * (mq_cost_kernel(d, &k) - d->launch_s));
	d->compute_capability = 61;
	assert_near(mq_cost_kernel(d, &k), full);
}

/* Without masters AdamW reads the gradient and reads and writes parameter and moments. */
static void test_no_masters(void **state)
{
	const struct mq_model *m = load("gpt:layers=1,hidden=64,heads=4,vocab=128,seq=32,dropout=false", 0, &BF16);
	struct mq_software s = *mq_software_plain();
	double parameters = op_of(m, "layer0.up")->param;

	assert_near(kernels(m, &s, &BF16, "layer0.up", MQ_UPDATE).bytes, (2 + 2 + 8 + 16) * parameters);
	s.master_B = 0;
	s.moment_B = 2;
	assert_near(kernels(m, &s, &BF16, "layer0.up", MQ_UPDATE).bytes, (2 + 4 + 8) * parameters);
	assert_near(mq_train_state_B(&BF16, s.master_B, s.moment_B), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_autocast_keeps_the_stream_wide),
		cmocka_unit_test(test_weights_are_cast_both_ways),
		cmocka_unit_test(test_optimizer_steps_modules),
		cmocka_unit_test(test_gelu_written_out),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_image_networks),
		cmocka_unit_test(test_depthwise_networks),
		cmocka_unit_test(test_few_blocks),
		cmocka_unit_test(test_no_masters),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}

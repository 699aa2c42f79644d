/* test_model_chains.c - element-wise ops of image networks inside the kernels before them, worked out by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "kernels/model_chains.h"
#include "maquette/question.h"
#include "libraries.h"

enum { NORM, ACT, ADD, ACT2, LEFT, RIGHT, N_OPS };
static const struct mq_train HALF = { .batch = 1, .dtype = MQ_FP16, .grad_dtype = MQ_FP16 };
static const struct mq_train WIDE = { .batch = 1, .dtype = MQ_FP32, .grad_dtype = MQ_FP32 };

/* norm -> act -> add (with a skip from outside) -> act2, which two ops read, so that neither is in its chain. */
static const struct mq_model *image_block(struct mq_arena *arena)
{
	static const char *const names[N_OPS] = { "norm", "act", "add", "act2", "left", "right" };
	static const uint32_t from[] = { NORM, ACT, ADD, ACT2, ACT2 }, to[] = { ACT, ADD, ACT2, LEFT, RIGHT };
	struct mq_model_builder b = { 0 };
	struct mq_model *model = NULL;
	struct mq_err err = { 0 };

	mq_model_begin(&b, arena, "block");
	for (uint32_t i = 0; i < N_OPS; i++) {
		uint32_t id = mq_model_add(&b, i ? MQ_OP_ELEMENTWISE : MQ_OP_NORM, names[i]);
		struct mq_op *op = &b.model->op[id];

		op->read = i == ADD || i == NORM ? 200 : 100;
		op->write = op->output = 100;
		op->moved_bwd = i ? 300 : 500;
		op->kernels = 1;
	}
	for (size_t e = 0; e < sizeof(from) / sizeof(*from); e++)
		mq_model_connect(&b, from[e], to[e], 100);
	b.model->image = true;
	assert_int_equal(mq_model_finish(&b, &model, &err), MQ_OK);
	return model;
}

/* Elements that an op's kernel moves; 0 where it has none. */
static double moved(const struct mq_model *model, const struct mq_software *software, const struct mq_train *train,
		    uint32_t op, enum mq_phase phase)
{
	const struct mq_question q = { .model = model, .calib = library_calib(), .train = train, .software = software };
	const struct mq_share one = { .samples = 1 };
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];

	return mq_op_kernels(&q, op, phase, &one, "gpu", k) ? k[0].bytes / mq_dtype_size(train->dtype) : 0;
}

static void test_chains(void **state)
{
	static const struct {
		uint32_t chains;
		bool fused_grad_add, half;
		double forward[N_OPS], backward[N_OPS];
	} cases[] = {
		{ MQ_CHAINS_NONE, 0, 1, { 300, 200, 300, 200, 200, 200 }, { 500, 300, 300, 300, 300, 300 } },
		{ MQ_CHAINS_NONE, 1, 1, { 300, 200, 300, 200, 200, 200 }, { 500, 300, 100, 300, 300, 300 } },
		{ MQ_CHAINS_NORM_16, 0, 1, { 300, 0, 100, 0, 200, 200 }, { 500, 0, 400, 0, 300, 300 } },
		{ MQ_CHAINS_NORM_16, 1, 1, { 300, 0, 100, 0, 200, 200 }, { 500, 0, 200, 0, 300, 300 } },
		{ MQ_CHAINS_NORM_16, 0, 0, { 300, 200, 300, 200, 200, 200 }, { 500, 300, 300, 300, 300, 300 } },
		{ MQ_CHAINS_ALL, 0, 0, { 300, 0, 100, 0, 200, 200 }, { 500, 200, 300, 100, 300, 300 } },
	};
	struct mq_arena arena = MQ_ARENA_INIT;
	const struct mq_model *model = image_block(&arena);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct mq_train *train = cases[i].half ? &HALF : &WIDE;
		struct mq_software s = *mq_software_plain();

		s.elementwise_fusion = cases[i].chains;
		s.fused_grad_add = cases[i].fused_grad_add;
		for (uint32_t op = 0; op < N_OPS; op++) {
			assert_true(moved(model, &s, train, op, MQ_FORWARD) == cases[i].forward[op]);
			assert_true(moved(model, &s, train, op, MQ_BACKWARD) == cases[i].backward[op]);
		}
	}
	mq_arena_fini(&arena);
}

/* A library's fused norms want channels last. */
static void test_channels_last(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	const struct mq_model *model = image_block(&arena);
	struct mq_software s = *mq_software_plain();

	(void)state;
	s.elementwise_fusion = MQ_CHAINS_NORM_16;
	s.channels_first = MQ_FIRST_ALL;
	assert_true(moved(model, &s, &HALF, ACT, MQ_FORWARD) == 200);
	s.channels_first = MQ_FIRST_32;
	assert_true(moved(model, &s, &HALF, ACT, MQ_FORWARD) == 0);
	mq_arena_fini(&arena);
}

/* Other networks' element-wise ops are fused kernels as they are. */
static void test_images_alone(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_model model = *image_block(&arena);
	struct mq_software s = *mq_software_plain();

	(void)state;
	model.image = false;
	s.elementwise_fusion = MQ_CHAINS_ALL;
	s.fused_grad_add = true;
	assert_true(moved(&model, &s, &HALF, ADD, MQ_FORWARD) == 300);
	assert_true(moved(&model, &s, &HALF, ADD, MQ_BACKWARD) == 300);
	mq_arena_fini(&arena);
}

/* Two convolutions with frozen norms; the first's is activated, read by the second, whose own is added to it: conv, scale,
 * act, conv2, scale2, add, act2. The first activation has two readers, so that the sum is in the second's kernel alone. */
static void test_epilogues(void **state)
{
	enum { CONV, SCALE, RELU, CONV2, SCALE2, SUM, RELU2, N };
	static const uint32_t from[] = { CONV, SCALE, RELU, RELU, CONV2, SCALE2, SUM },
			      to[] = { SCALE, RELU, CONV2, SUM, SCALE2, SUM, RELU2 };
	static const double forward[N] = { [SUM] = 100 },
			    backward[N] = { [RELU] = 300, [SCALE2] = 100, [SUM] = 300, [RELU2] = 300 };
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_model_builder b = { 0 };
	struct mq_model *model = NULL;
	struct mq_err err = { 0 };
	struct mq_software s = *mq_software_plain();

	(void)state;
	mq_model_begin(&b, &arena, "block");
	for (uint32_t i = 0; i < N; i++) {
		bool conv = i == CONV || i == CONV2, scale = i == SCALE || i == SCALE2;
		uint32_t id = mq_model_add(&b,
					   conv  ? MQ_OP_CONV :
					   scale ? MQ_OP_NORM :
						   MQ_OP_ELEMENTWISE,
					   (const char[][2]){ "a", "b", "c", "d", "e", "f", "g" }[i]);
		struct mq_op *op = &b.model->op[id];

		op->read = i == SUM ? 200 : 100;
		op->write = op->output = 100;
		op->moved_bwd = scale ? 200 : 300;
		op->kernels = 1;
	}
	for (size_t e = 0; e < sizeof(from) / sizeof(*from); e++)
		mq_model_connect(&b, from[e], to[e], 100);
	b.model->image = true;
	assert_int_equal(mq_model_finish(&b, &model, &err), MQ_OK);
	s.elementwise_fusion = MQ_CHAINS_CONV;
	for (uint32_t op = SCALE; op < N; op++) {
		if (op == CONV2)
			continue;
		assert_true(moved(model, &s, &HALF, op, MQ_FORWARD) == forward[op]);
		assert_true(moved(model, &s, &HALF, op, MQ_BACKWARD) == backward[op]);
	}
	mq_arena_fini(&arena);
}

/* Convolution, norm, activation, convolution, norm, activation: what the norms move forward. No convolution reads the
 * second. */
static void test_norm_convolution(void **state)
{
	enum { CONV, BN, RELU, CONV2, BN2, RELU2, N };
	static const struct {
		uint32_t fusion;
		double window, norm, norm2;
	} cases[] = {
		{ MQ_NORMS_APART, 1, 300, 300 },  { MQ_NORMS_STATS, 1, 200, 200 },     { MQ_NORMS_STATS, 49, 300, 200 },
		{ MQ_NORMS_MAINLOOP, 9, 0, 200 }, { MQ_NORMS_MAINLOOP, 49, 300, 200 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct mq_arena arena = MQ_ARENA_INIT;
		struct mq_model_builder b = { 0 };
		struct mq_model *model = NULL;
		struct mq_err err = { 0 };
		struct mq_software s = *mq_software_plain();

		mq_model_begin(&b, &arena, "block");
		for (uint32_t op = 0; op < N; op++) {
			bool conv = op == CONV || op == CONV2, norm = op == BN || op == BN2;
			uint32_t id = mq_model_add(&b,
						   conv ? MQ_OP_CONV :
						   norm ? MQ_OP_NORM :
							  MQ_OP_ELEMENTWISE,
						   (const char[][2]){ "a", "b", "c", "d", "e", "f" }[op]);

			b.model->op[id].read = norm ? 200 : 100;
			b.model->op[id].write = b.model->op[id].output = 100;
			b.model->op[id].moved_bwd = norm ? 500 : 300;
			b.model->op[id].window = op == CONV ? cases[i].window : conv;
			b.model->op[id].kernels = 1;
		}
		for (uint32_t op = 0; op + 1 < N; op++)
			mq_model_connect(&b, op, op + 1, 100);
		b.model->image = true;
		assert_int_equal(mq_model_finish(&b, &model, &err), MQ_OK);
		s.norm_convolution = cases[i].fusion;
		assert_true(moved(model, &s, &HALF, BN, MQ_FORWARD) == cases[i].norm);
		assert_true(moved(model, &s, &HALF, BN2, MQ_FORWARD) == cases[i].norm2);
		assert_true(moved(model, &s, &HALF, BN, MQ_BACKWARD) == 500);
		mq_arena_fini(&arena);
	}
}

/* What kernels read again, in elements: a norm its input, an activation what the norm made, a frozen norm as it. */
static void test_rereads(void **state)
{
	static const struct {
		uint32_t op;
		bool frozen, backward;
		double reread, handed;
	} cases[] = {
		{ NORM, false, false, 100, 100 }, { NORM, false, true, 0, 300 }, { ACT, false, false, 0, 100 },
		{ NORM, true, false, 0, 100 },    { NORM, true, true, 0, 100 },  { ACT, false, true, 0, 100 },
	};
	const struct mq_share one = { .samples = 1 };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct mq_arena arena = MQ_ARENA_INIT;
		const struct mq_model *model = image_block(&arena);
		const struct mq_question q = {
			.model = model, .calib = library_calib(), .train = &HALF, .software = mq_software_plain()
		};
		struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];

		if (cases[i].frozen) {
			model->op[NORM].read = 100;
			model->op[NORM].moved_bwd = 200;
		}
		mq_op_kernels(&q, cases[i].op, cases[i].backward ? MQ_BACKWARD : MQ_FORWARD, &one, "gpu", k);
		assert_true(k[0].reuse_B == 2 * 100);
		assert_true(k[0].reread_B == 2 * cases[i].reread);
		assert_true(k[0].handed_B == 2 * cases[i].handed);
		mq_arena_fini(&arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chains),           cmocka_unit_test(test_epilogues),
		cmocka_unit_test(test_norm_convolution), cmocka_unit_test(test_channels_last),
		cmocka_unit_test(test_images_alone),     cmocka_unit_test(test_rereads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

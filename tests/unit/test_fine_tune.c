/* test_fine_tune.c - a part of a model trained: parameters, GEMMs, bytes and collectives, each counted by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lowered.h"
#include "maquette/fine_tune.h"
#include "models.h"

/* Two layers: queries of 64, keys and values of 32 each, gate and up of 96. */
static const char LLAMA[] = "llama:layers=2,hidden=64,heads=4,kv_heads=2,ffn=96,seq=32,vocab=128";
enum { LAYERS = 2, HIDDEN = 64, QKV = 128, FFN = 96, SEQ = 32, VOCAB = 128, RANK = 8 };
/* Matrices of the layers, and the rest: five norms, embedding and head. */
static const double MATRICES = LAYERS * (HIDDEN * (QKV + HIDDEN) + 3.0 * HIDDEN * FFN);
static const double REST = (2.0 * LAYERS + 1) * HIDDEN + 2.0 * VOCAB * HIDDEN;
static const double ADAPTERS = LAYERS * RANK * (HIDDEN + QKV + HIDDEN + HIDDEN);

static void open(struct lowered *w, const char *tuning)
{
	lowered_open(w, LLAMA, 4, 8);
	w->train.tuning = tuning;
	lowered_model(w, LLAMA);
}

static double trained(const struct lowered *w)
{
	double sum = 0;

	for (uint32_t i = 0; i < w->model->n_ops; i++)
		sum += mq_op_trained(&w->model->op[i]) ? w->model->op[i].param : 0;
	return sum;
}

static void adapters_have_the_parameters_of_their_matrices(void **state)
{
	static const struct {
		const char *tuning;
		double adapters;
	} rows[] = {
		{ "lora:rank=8", ADAPTERS },
		{ "lora:rank=8,targets=linear_qkv+linear_proj", ADAPTERS },
		{ "lora:rank=8,targets=attention", ADAPTERS },
		{ "lora:rank=8,targets=q_proj+v_proj", LAYERS * RANK * (HIDDEN + 64.0 + HIDDEN + 32) },
		{ "lora:rank=8,targets=q_proj+k_proj+v_proj", LAYERS * RANK * (3.0 * HIDDEN + QKV) },
		{ "lora:rank=4,targets=gate_proj+up_proj+down_proj", LAYERS * 4 * 3.0 * (HIDDEN + FFN) },
		{ "lora:rank=8,targets=all-linear", LAYERS * RANK * (4.0 * HIDDEN + QKV + 2 * FFN + FFN + HIDDEN) },
		{ "lora:rank=8,targets=d*n", LAYERS * RANK * (FFN + (double)HIDDEN) },
	};
	struct lowered w;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		open(&w, rows[i].tuning);
		assert_near(trained(&w), rows[i].adapters);
		assert_near(mq_model_totals(w.model).parameters, MATRICES + REST + rows[i].adapters);
		assert_int_equal(mq_model_check(w.model, &w.err), MQ_OK);
		lowered_close(&w);
	}
}

static uint32_t gemms(const struct lowered *w, const char *name, enum mq_phase phase)
{
	const struct mq_question q = lowered_question(w);
	const struct mq_share share = { .samples = 1 };
	struct mq_kernel kernel[MQ_MAX_KERNELS_PER_OP];
	uint32_t op = (uint32_t)(op_of(w->model, name) - w->model->op), n, sum = 0;

	n = mq_op_kernels(&q, op, phase, &share, "ideal", kernel);
	for (uint32_t i = 0; i < n; i++)
		sum += kernel[i].kind == MQ_KERNEL_GEMM;
	return sum;
}

/* Backward: a frozen GEMM has the gradient of its input alone, the first layer's QKV not even that, and an adapter both
 * but for the first one of all. The embedding and the first norm have no backward pass. */
static void frozen_weights_have_no_gradient(void **state)
{
	static const struct {
		const char *op;
		uint32_t forward, backward;
	} rows[] = {
		{ "layer0.qkv", 1, 0 },  { "layer0.qkv.lora_a", 1, 1 },  { "layer0.qkv.lora_b", 1, 2 },
		{ "layer0.proj", 1, 1 }, { "layer0.proj.lora_a", 1, 2 }, { "layer0.up", 1, 1 },
		{ "layer1.qkv", 1, 1 },  { "layer1.qkv.lora_a", 1, 2 },  { "layer1.down", 1, 1 },
		{ "head", 1, 1 },
	};
	struct lowered w;

	open(&w, "lora:rank=8");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(gemms(&w, rows[i].op, MQ_FORWARD), rows[i].forward);
		assert_int_equal(gemms(&w, rows[i].op, MQ_BACKWARD), rows[i].backward);
	}
	assert_false(mq_op_goes_back(op_of(w.model, "embedding")));
	assert_false(mq_op_goes_back(op_of(w.model, "layer0.norm1")));
	assert_true(mq_op_goes_back(op_of(w.model, "layer0.norm2")));
	/* who trains the same with less: 4 P of a token instead of 6 P, and what adapters do */
	assert_near(op_of(w.model, "layer1.up")->flop_bwd, op_of(w.model, "layer1.up")->flop);
	lowered_close(&w);
}

/* A norm keeps its input alone where frozen GEMMs read it, and its output too where an adapter without dropout does; a
 * gated activation keeps gate and up. What dropout leaves is kept by the adapter. */
static void activations_are_kept_for_what_is_trained(void **state)
{
	const double sh = SEQ * (double)HIDDEN, sf = SEQ * (double)FFN;
	struct lowered w;

	open(&w, "lora:rank=8");
	assert_near(op_of(w.model, "layer1.norm1")->saved, 2 * sh);
	assert_near(op_of(w.model, "layer1.norm2")->saved, sh);
	assert_near(op_of(w.model, "layer1.activation")->saved, 2 * sf);
	assert_near(op_of(w.model, "layer0.norm1")->saved, sh); /* for the adapter; nothing goes back through it */
	lowered_shape(&w, &(struct mq_shape){ .dp = 1, .micro_batches = 1 });
	double dry = w.low.memory[0].activation_B;
	lowered_close(&w);
	open(&w, "lora:rank=8,dropout=.1");
	assert_near(op_of(w.model, "layer1.norm1")->saved, sh);
	lowered_shape(&w, &(struct mq_shape){ .dp = 1, .micro_batches = 1 });
	/* in place of both norms' outputs, what is left of them and of two attentions' outputs, with masks of a byte */
	assert_near(w.low.memory[0].activation_B, dry + w.train.batch * (2 * LAYERS * 3 * sh - LAYERS * 2 * sh));
	lowered_close(&w);
}

/* One device. Frozen matrices in 16 bits, fp8, nvfp4 (a scale of a byte for 16) or nf4; gradients of 2 bytes and
 * optimizer states of 12 of the adapters alone. */
static void memory_is_the_base_and_the_adapters_states(void **state)
{
	static const struct {
		const char *base;
		double each_B;
	} rows[] = { { "dtype", 2 },
		     { "fp8", 1 },
		     { "mxfp8", 1 + 1 / 32. },
		     { "nvfp4", .5 + 1 / 16. },
		     { "nf4", .5 + 1 / 64. + 4 / 16384. } };
	struct lowered w;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char tuning[64];

		snprintf(tuning, sizeof(tuning), "lora:rank=8,base=%s", rows[i].base);
		open(&w, tuning);
		lowered_shape(&w, &(struct mq_shape){ .dp = 1 });
		assert_near(w.low.memory[0].parameter_B, MATRICES * rows[i].each_B + 2 * (REST + ADAPTERS));
		assert_near(w.low.memory[0].gradient_B, 2 * ADAPTERS);
		assert_near(w.low.memory[0].optimizer_B, 12 * ADAPTERS);
		lowered_close(&w);
	}
}

static double bytes(const struct mq_schedule *s, enum mq_coll_kind kind, enum mq_phase phase)
{
	return lowered_count(s, MQ_TASK_COLLECTIVE, kind, phase).bytes;
}

/* Replicas reduce the adapters' gradients alone. ZeRO-3 gathers frozen parameters too, as they are held, and of the
 * embedding's and the first norm's no gradient comes back. */
static void adapters_alone_are_reduced(void **state)
{
	const enum { RANKS = 2 } ranks = RANKS;
	struct lowered w;

	open(&w, "lora:rank=8,base=nf4");
	struct mq_schedule *s = lowered_shape(&w, &(struct mq_shape){ .dp = RANKS });
	assert_non_null(s);
	assert_near(bytes(s, MQ_COLL_ALL_REDUCE, MQ_BACKWARD), ranks * 2 * ADAPTERS);
	s = lowered_shape(&w, &(struct mq_shape){ .dp = RANKS, .sync = MQ_SYNC_ZERO3 });
	assert_non_null(s);
	double held = MATRICES * (.5 + 1 / 64. + 4 / 16384.) + 2 * (REST + ADAPTERS);
	assert_near(bytes(s, MQ_COLL_ALL_GATHER, MQ_FORWARD), ranks * held);
	assert_near(bytes(s, MQ_COLL_REDUCE_SCATTER, MQ_BACKWARD), ranks * 2 * ADAPTERS);
	assert_near(w.low.memory[0].parameter_B, held / RANKS);
	lowered_close(&w);
}

/* As Megatron's ParallelLinearAdapter: into the rank as the GEMM itself, out of it by columns. */
static void tensor_parallel_adapters_are_megatrons(void **state)
{
	static const struct {
		const char *op;
		enum mq_dim dim;
	} rows[] = { { "layer1.qkv", MQ_DIM_OUT },         { "layer1.qkv.lora_a", MQ_DIM_OUT },
		     { "layer1.qkv.lora_b", MQ_DIM_OUT },  { "layer1.qkv.lora_sum", MQ_DIM_OUT },
		     { "layer1.proj", MQ_DIM_IN },         { "layer1.proj.lora_a", MQ_DIM_IN },
		     { "layer1.proj.lora_b", MQ_DIM_OUT }, { "layer1.proj.lora_sum", MQ_DIM_SEQ } };
	struct lowered w;

	open(&w, "lora:rank=8");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint32_t split[MQ_N_DIMS], op = (uint32_t)(op_of(w.model, rows[i].op) - w.model->op);

		assert_true(mq_tensor_split(w.model, op, 2, true, true, split));
		for (int d = 0; d < MQ_N_DIMS; d++)
			if (split[d] != (d == (int)rows[i].dim ? 2u : 1u))
				fail_msg("%s along %s: %u", rows[i].op, mq_dim_name(d), split[d]);
	}
	w.software.sequence_parallel = true;
	struct mq_schedule *s = lowered_shape(&w, &(struct mq_shape){ .tp = 2, .sequence_parallel = true });
	assert_non_null(s);
	/* [8 samples x s x r] is gathered and summed, [s x h] goes all to all; of each layer and rank, with 2 bytes */
	double tokens = 8.0 * SEQ * 2;
	assert_near(bytes(s, MQ_COLL_ALL_TO_ALL, MQ_FORWARD), 2 * LAYERS * tokens * HIDDEN / 2);
	lowered_close(&w);
}

/* What lies before the first op that is trained has no backward pass; its gradients are nobody's. */
static void frozen_patterns_end_the_backward_pass(void **state)
{
	struct lowered w;

	open(&w, "frozen:embedding+layer0.*");
	assert_near(trained(&w), MATRICES / 2 + REST - VOCAB * HIDDEN - 2 * HIDDEN);
	assert_int_equal(gemms(&w, "layer0.down", MQ_BACKWARD), 0);
	assert_int_equal(gemms(&w, "layer1.qkv", MQ_BACKWARD), 2);
	assert_false(mq_op_goes_back(op_of(w.model, "layer0.attention")));
	assert_near(op_of(w.model, "layer0.activation")->saved, 0);
	struct mq_schedule *s = lowered_shape(&w, &(struct mq_shape){ .dp = 2 });
	assert_non_null(s);
	assert_near(bytes(s, MQ_COLL_ALL_REDUCE, MQ_BACKWARD), 2 * 2 * trained(&w));
	lowered_close(&w);
}

static void what_is_not_understood_is_refused(void **state)
{
	static const char *const bad[][2] = {
		{ "lor", "did you mean 'lora'" },
		{ "frozen", "frozen:PATTERN" },
		{ "full:x", "give full" },
		{ "lora:rank=0", "rank=0" },
		{ "lora:rnk=8", "did you mean 'rank'" },
		{ "lora:targets=qvk", "qkv proj up down" },
		{ "lora:targets=", "targets" },
		{ "lora:base=int3", "base" },
		{ "frozen:layer9.*", "layer9" },
		{ "frozen:*", "nothing is left" },
	};
	struct lowered w;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		lowered_open(&w, LLAMA, 1, 1);
		struct mq_train train = w.train;
		struct mq_model_request rq = { .spec = LLAMA, .train = &train };

		train.tuning = bad[i][0];
		assert_int_equal(mq_model_load(&rq, &w.arena, &w.model, &w.err), MQ_EINPUT);
		if (!strstr(w.err.text, bad[i][1]))
			fail_msg("%s: %s", bad[i][0], w.err.text);
		lowered_close(&w);
	}
}

/* Whatever is adapted, at any rank: the step's FLOPs are those of the ops, and more rank is more of all. */
static void more_rank_is_more_of_everything(void **state)
{
	double before[3] = { 0 };

	for (uint32_t rank = 1; rank <= 64; rank *= 4) {
		struct lowered w;
		char tuning[64];

		snprintf(tuning, sizeof(tuning), "lora:rank=%u,targets=all-linear,dropout=.05", rank);
		open(&w, tuning);
		struct mq_schedule *s = lowered_shape(&w, &(struct mq_shape){ .dp = 2 });
		assert_non_null(s);
		struct mq_model_totals t = mq_model_totals(w.model);
		assert_near(lowered_model_flop(s), w.train.batch * (t.forward_flop + t.backward_flop));
		double now[3] = { lowered_model_flop(s), w.low.memory[0].peak_B,
				  bytes(s, MQ_COLL_ALL_REDUCE, MQ_BACKWARD) };
		for (int k = 0; k < 3; k++)
			assert_true(now[k] > before[k]);
		memcpy(before, now, sizeof(now));
		lowered_close(&w);
	}
}

/* In fp4 with ends in bf16, one GEMM of the others in bf16 and one in MXFP8; in bf16 nothing is cast. */
static void gemms_of_their_own(void **state)
{
	struct mq_software s = *mq_software_plain();
	struct mq_train train = { .batch = 1, .dtype = MQ_BF16, .gemm_dtype = MQ_GEMM_FP4 };
	struct mq_model_request ask = { "llama:layers=4,hidden=64,heads=4,kv_heads=2,ffn=96,vocab=512", &train, 32,
					&s };
	struct mq_err err = MQ_ERR_INIT;
	struct mq_model *model;

	(void)state;
	s.num_layers_at_start_in_bf16 = s.num_layers_at_end_in_bf16 = 1;
	s.bf16_ops = "qkv|pro*";
	s.mxfp8_ops = "down|residual*";
	assert_int_equal(mq_model_load(&ask, &arena, &model, &err), MQ_OK);
	for (uint32_t i = 0; i < model->n_ops; i++) {
		const struct mq_op *op = &model->op[i];
		const char *name = strchr(op->name, '.');
		bool casts = op->kind == MQ_OP_GEMM && (op->layer == 1 || op->layer == 2);
		enum mq_gemm_dtype want = !casts || strstr("down up", name + 1) == NULL ? MQ_GEMM_AS_DTYPE :
					  !strcmp(name + 1, "down")                     ? MQ_GEMM_MXFP8 :
											  MQ_GEMM_FP4;

		assert_int_equal(mq_op_gemm_dtype(op, &train), want);
	}
	/* a frozen matrix is made whole where its own GEMM cannot read it, whatever the others read */
	struct mq_op down = model->op[0];
	for (uint32_t i = 0; i < model->n_ops; i++)
		down = mq_op_gemm_dtype(&model->op[i], &train) == MQ_GEMM_MXFP8 ? model->op[i] : down;
	down.frozen = MQ_FROZEN_NVFP4;
	assert_true(mq_op_dequantizes(&down, &train));
	down.frozen = MQ_FROZEN_MXFP8;
	assert_false(mq_op_dequantizes(&down, &train));
	train.gemm_dtype = MQ_GEMM_AS_DTYPE;
	for (uint32_t i = 0; i < model->n_ops; i++)
		assert_int_equal(mq_op_gemm_dtype(&model->op[i], &train), MQ_GEMM_AS_DTYPE);
	assert_int_equal(mq_operand_dtype(MQ_GEMM_MXFP8, MQ_BF16), MQ_FP8);
	assert_int_equal(mq_operand_dtype(MQ_GEMM_FP4, MQ_BF16), MQ_FP4);
	assert_int_equal(mq_operand_dtype(MQ_GEMM_AS_DTYPE, MQ_FP16), MQ_FP16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adapters_have_the_parameters_of_their_matrices),
		cmocka_unit_test(frozen_weights_have_no_gradient),
		cmocka_unit_test(activations_are_kept_for_what_is_trained),
		cmocka_unit_test(memory_is_the_base_and_the_adapters_states),
		cmocka_unit_test(adapters_alone_are_reduced),
		cmocka_unit_test(tensor_parallel_adapters_are_megatrons),
		cmocka_unit_test(frozen_patterns_end_the_backward_pass),
		cmocka_unit_test(what_is_not_understood_is_refused),
		cmocka_unit_test(more_rank_is_more_of_everything),
		cmocka_unit_test(gemms_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

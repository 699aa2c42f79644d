/* test_memory.c - peak memory of a small GPT, by hand, for each schedule, sharding and recompute.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "costing/costing.h"
#include "lowered.h"

#define assert_bytes(a, b)                                                  \
	do {                                                                \
		double a_ = (a), b_ = (b);                                  \
		if (!(fabs(a_ - b_) <= 1e-9 * fabs(b_)))                    \
			fail_msg("%s is %.12g B, not %.12g B", #a, a_, b_); \
	} while (0)

enum { LAYERS = 4, HIDDEN = 64, HEADS = 4, SEQ = 32, VOCAB = 256 };

/* Element counts of one sample. One layer keeps 34 s h + 4 a s bytes (Korthikanti et al. 2022, with flash
 * attention's fp32 row sums); the dropout mask behind the positions s h. */
static const double SH = SEQ * HIDDEN, SV = SEQ * VOCAB, ROWS = 4.0 * HEADS * SEQ;
static const double LAYER = 34.0 * SEQ * HIDDEN + 4.0 * HEADS * SEQ;
static const double LAYER_PARAM = 12.0 * HIDDEN * HIDDEN + 13.0 * HIDDEN;
static const double ENDS_PARAM = VOCAB * HIDDEN + SEQ * HIDDEN + 2.0 * HIDDEN;
/* Input and output gradient of the activation between the two products of the MLP: the fullest op. */
static const double PASSING = 16.0 * SEQ * HIDDEN;
/* Its larger product's weights and bias, 16-bit. */
static const double WEIGHT_GRADIENT = 2.0 * (4 * HIDDEN * HIDDEN + 4 * HIDDEN);

static void make_model(struct lowered *w, const char *more)
{
	lowered_model(w, mq_arena_printf(&w->arena, "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=256%s", more));
}

static int make_world(void **state)
{
	static struct lowered w;

	lowered_open(&w, "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=256", 4, 8);
	*state = &w;
	return 0;
}

static void lower_plan(struct lowered *w)
{
	const struct mq_question q = lowered_question(w);
	struct mq_lower_request rq = { .q = &q, .plan = &w->plan, .memory_only = true };

	if (mq_lower(&rq, &w->arena, &w->low, &w->err) != MQ_OK)
		fail_msg("%s", w->err.text);
}

/* 1F1B unless the shape is of another schedule. */
static void lower_shape(struct lowered *w, const struct mq_shape *asked)
{
	struct mq_shape shape = *asked;

	if (shape.pipeline == MQ_PIPE_GPIPE && shape.pp < 2)
		shape.pipeline = MQ_PIPE_1F1B;
	if (mq_plan_from_shape(&shape, w->model, w->cluster, &w->arena, &w->plan, &w->err) != MQ_OK)
		fail_msg("%s", w->err.text);
	lower_plan(w);
	assert_int_equal(w->low.verdict, MQ_VERDICT_OK);
}

static double sum(const struct mq_memory *m)
{
	return m->parameter_B + m->gradient_B + m->optimizer_B + m->activation_B + m->buffer_B + m->fragmentation_B +
	       m->reserve_B;
}

/* All that is kept, at the moment of the loss: 4 bytes a logit stay from forward, 8 come backward, before any weight
 * gradient is formed. */
static void one_device_peaks_at_the_loss(void **state)
{
	struct lowered *w = *state;
	double params = LAYERS * LAYER_PARAM + ENDS_PARAM;

	lower_shape(w, &(struct mq_shape){ .micro_batches = 8 });
	const struct mq_memory *m = w->low.memory;
	assert_bytes(m->activation_B, LAYERS * LAYER + SH + 4 * SH + 12 * SV);
	assert_bytes(m->buffer_B, 0);
	assert_bytes(m->parameter_B, 2 * params);
	assert_bytes(m->gradient_B, 2 * params);
	assert_bytes(m->optimizer_B, 12 * params);
	assert_bytes(m->peak_B, sum(m));
}

/* One layer a stage. Rank 0 keeps its layer, the mask behind the positions and its output, for as many
 * micro-batches as the schedule has in flight; the last one its layer, final norm and loss. */
static void in_flight(struct lowered *w, enum mq_pipeline pipeline, double first, double last)
{
	lower_shape(w, &(struct mq_shape){ .pp = 4, .micro_batches = 8, .pipeline = (uint8_t)pipeline });
	const struct mq_memory *m = w->low.memory;
	assert_bytes(m[0].activation_B, first * (LAYER + 3 * SH) + PASSING);
	assert_bytes(m[0].buffer_B, WEIGHT_GRADIENT);
	/* The loss, or where activations stay for weight gradients the layer; two receive buffers. */
	bool layer = pipeline == MQ_PIPE_ZB_H1;
	assert_bytes(m[3].activation_B, last * (LAYER + 4 * SH + 4 * SV) + (layer ? PASSING : 8 * SV));
	assert_bytes(m[3].buffer_B, 2 * 2 * SH + (layer ? WEIGHT_GRADIENT : 0));
	for (int i = 0; i < 4; i++)
		assert_bytes(m[i].peak_B, sum(&m[i]));
}

static void schedules_keep_their_micro_batches(void **state)
{
	in_flight(*state, MQ_PIPE_GPIPE, 8, 8);
	in_flight(*state, MQ_PIPE_1F1B, 4, 1);
	in_flight(*state, MQ_PIPE_ZB_H1, 4, 4);
}

/* Two ranks of two chunks, four micro-batches. Rank 0 runs F0 F0 F1 F1, then F0 before the first B1: at
 * the fullest, four micro-batches of its first chunk and one of its second. */
static void interleaved_warms_up_longer(void **state)
{
	struct lowered *w = *state;

	lower_shape(w,
		    &(struct mq_shape){ .pp = 2, .virtual = 2, .micro_batches = 4, .pipeline = MQ_PIPE_INTERLEAVED });
	double first = LAYER + 3 * SH, second = LAYER + 2 * SH; /* two samples each */
	assert_bytes(w->low.memory[0].activation_B, 2 * (4 * first + second + PASSING));
}

/* Software that frees what a stage has sent keeps what its layers keep. */
static void sent_outputs_are_freed(void **state)
{
	struct lowered *w = *state;

	w->software.deallocate_pipeline_outputs = 1;
	lower_shape(w,
		    &(struct mq_shape){ .pp = 2, .virtual = 2, .micro_batches = 4, .pipeline = MQ_PIPE_INTERLEAVED });
	assert_bytes(w->low.memory[0].activation_B, 2 * (4 * (LAYER + SH) + LAYER + PASSING));
	w->software.deallocate_pipeline_outputs = 0;
}

/* In fp8 the two norms and the activation keep their outputs in 8 bits, s h + s h + 4 s h less; attention's is
 * kept in 16 bits too, s h more. In bf16 software keeps what it kept. */
static void products_keep_8_bit_inputs(void **state)
{
	struct lowered *w = *state;
	double plain = LAYERS * LAYER + 5 * SH + 12 * SV;

	w->software.save_quantized_operands = 1;
	lower_shape(w, &(struct mq_shape){ .micro_batches = 8 });
	assert_bytes(w->low.memory[0].activation_B, plain);
	w->train.gemm_dtype = MQ_GEMM_FP8;
	lower_plan(w);
	assert_bytes(w->low.memory[0].activation_B, plain - LAYERS * 5 * SH);
	w->software.save_quantized_operands = 0;
	lower_plan(w);
	assert_bytes(w->low.memory[0].activation_B, plain);
	w->train.gemm_dtype = MQ_GEMM_AS_DTYPE;
}

/* Of 12 h h weights a layer in products there are two copies in 8 bits, beside them or in their place; one where
 * a device multiplies transposed operands, which blocks with scales of their own (33/32 B) do not allow. */
static void weights_in_8_bits(void **state)
{
	struct lowered *w = *state;
	double params = LAYERS * LAYER_PARAM + ENDS_PARAM, products = LAYERS * 12.0 * HIDDEN * HIDDEN;

	w->software.save_quantized_operands = true;
	w->train.gemm_dtype = MQ_GEMM_FP8;
	lower_shape(w, &(struct mq_shape){ .micro_batches = 8 });
	assert_bytes(w->low.memory[0].parameter_B, 2 * params + 2 * products);
	w->software.quantize_weights_again = true;
	lower_plan(w);
	assert_bytes(w->low.memory[0].parameter_B, 2 * params);
	w->software.quantize_weights_again = false;
	w->software.fp8_params = true;
	lower_plan(w);
	assert_bytes(w->low.memory[0].parameter_B, 2 * params);
	w->calib->device[0].compute_capability = 100;
	lower_plan(w);
	assert_bytes(w->low.memory[0].parameter_B, 2 * params - products);
	w->train.gemm_dtype = MQ_GEMM_MXFP8;
	lower_plan(w);
	assert_bytes(w->low.memory[0].parameter_B, 2 * params + products / 16);
	w->train.gemm_dtype = MQ_GEMM_AS_DTYPE; /* nothing is cast */
	lower_plan(w);
	assert_bytes(w->low.memory[0].parameter_B, 2 * params);
	w->calib->device[0].compute_capability = 80;
	w->software.save_quantized_operands = w->software.fp8_params = false;
}

/* A loss that writes gradients over 16-bit logits holds these once, also while the head's backward pass reads them;
 * the norm before it has gradients of its output and of its input beside that. */
static void logits_lie_once(void **state)
{
	struct lowered *w = *state;

	w->software.loss_B = 2;
	lower_shape(w, &(struct mq_shape){ .micro_batches = 8 });
	assert_bytes(w->low.memory[0].activation_B, LAYERS * LAYER + 5 * SH + 2 * SV + 4 * SH);
	w->software.loss_B = 12;
}

/* Two layers of four wait on the host: beside the other two, one on its way is never more than the loss. */
static void offloaded_layers_pass_through(void **state)
{
	struct lowered *w = *state;

	w->software.offload_layers = 2;
	lower_shape(w, &(struct mq_shape){ .micro_batches = 8 });
	assert_bytes(w->low.memory[0].activation_B, 2 * LAYER + 5 * SH + 12 * SV);
	w->software.offload_layers = 3; /* the third layer's backward, while the second comes back */
	w->software.loss_B = 2;
	lower_plan(w);
	assert_bytes(w->low.memory[0].activation_B, 2 * LAYER + SH + PASSING);
	w->plan.explicit |= MQ_EXPLICIT_OFFLOAD_LAYERS; /* none: the plan decides */
	lower_plan(w);
	assert_bytes(w->low.memory[0].activation_B, LAYERS * LAYER + SH + PASSING);
	w->software.offload_layers = 0;
	w->software.loss_B = 12;
}

/* Recomputed queries, keys and values, 6 s h, are not kept by the attention that reads them. */
static void attention_keeps_no_input_that_is_made_again(void **state)
{
	struct lowered *w = *state;

	w->software.selective = MQ_SELECTIVE_NAMED;
	w->software.recompute_ops = "qkv";
	lower_shape(w, &(struct mq_shape){ .micro_batches = 8, .recompute = MQ_RECOMPUTE_SELECTIVE });
	assert_bytes(w->low.memory[0].activation_B, LAYERS * (LAYER - 6 * SH) + 5 * SH + 12 * SV);
	w->software.selective = MQ_SELECTIVE_ATTENTION;
	w->software.recompute_ops = "";
}

/* Sequence parallelism of 2: of what two products a layer and the head gather, the other rank's half stays, in the type
 * in which each multiplies it. */
static void gathered_inputs_may_stay(void **state)
{
	struct lowered *w = *state;
	const struct mq_shape shape = {
		.tp = 2, .micro_batches = 8, .vocab_parallel = true, .sequence_parallel = true
	};

	for (int few = 0; few < 2; few++) {
		w->train.gemm_dtype = few ? MQ_GEMM_FP8 : MQ_GEMM_AS_DTYPE;
		w->software.save_quantized_operands = few;
		w->software.regather_in_backward = true;
		lower_shape(w, &shape);
		double again = w->low.memory[0].activation_B;
		w->software.regather_in_backward = false;
		lower_shape(w, &shape);
		assert_bytes(w->low.memory[0].activation_B, again + LAYERS * (few ? 1 : 2) * SH + SH);
	}
	w->train.gemm_dtype = MQ_GEMM_AS_DTYPE;
	w->software.save_quantized_operands = false;
	w->software.regather_in_backward = true;
}

/* What is freed late: before they are scattered along the sequence a layer's two row-parallel products are whole on
 * each rank, and wait beside the rest as the allocator's; where nothing is scattered nothing waits. */
static void scattered_products_are_freed_late(void **state)
{
	struct lowered *w = *state;
	struct mq_shape shape = { .tp = 2, .micro_batches = 8, .vocab_parallel = true, .sequence_parallel = true };

	lower_shape(w, &shape);
	double before = w->low.memory[0].spare_B, peak = w->low.memory[0].peak_B;
	w->software.record_stream = true;
	lower_shape(w, &shape);
	assert_bytes(w->low.memory[0].spare_B, before + LAYERS * 4 * SH);
	assert_bytes(w->low.memory[0].peak_B, peak + LAYERS * 4 * SH);
	shape.sequence_parallel = false;
	lower_shape(w, &shape);
	assert_bytes(w->low.memory[0].spare_B, before);
	w->software.record_stream = false;
}

/* A mixture of two layers, top 2 of 4 experts, on two devices. Routing weights that come early spare the
 * experts' outputs, 2 s h elements a layer. Where a forward and a backward pass take turns, a layer more is kept
 * than one micro-batch has, and both hold 8 bytes a logit beside what they keep. */
static void experts_keep_what_they_need(void **state)
{
	struct lowered *w = *state;
	struct mq_model_request rq = { .train = &w->train,
				       .spec = "moe:layers=2,hidden=64,heads=4,seq=32,"
					       "vocab=2048,experts=4,top_k=2,ffn=32" };
	const struct mq_shape shape = { .dp = 2, .ep = 2, .micro_batches = 4 };
	double logits = SEQ * 2048.0;

	if (mq_model_load(&rq, &w->arena, &w->model, &w->err) != MQ_OK)
		fail_msg("%s", w->err.text);
	lower_shape(w, &shape);
	double late = w->low.memory[0].activation_B, kept = late - 8 * logits;
	double layer = (kept - 4 * logits - 4 * SH) / 2; /* the rest: final norm and loss */
	assert_true(layer > 0 && layer < 4 * logits);
	w->plan.explicit |= MQ_EXPLICIT_OVERLAP_EXPERTS;
	w->plan.overlap_experts = true;
	lower_plan(w);
	assert_bytes(w->low.memory[0].activation_B, kept + (4 * logits + 4 * SH) + 2 * 8 * logits);
	w->software.probs_on_activation = true;
	lower_shape(w, &shape);
	assert_bytes(w->low.memory[0].activation_B, late - 2 * 2 * 2 * SH);
	w->software.probs_on_activation = false;
	make_model(w, "");
}

/* A gated RMS model of one product width, 2 heads' queries, keys, values. Written out, each of its two norms a layer
 * and the last one keep 2 elements more per output, s h, and each activation 1, s f. */
static void eager_ops_keep_more(void **state)
{
	struct lowered *w = *state;
	struct mq_model_request rq = { .train = &w->train,
				       .spec = "llama:layers=2,hidden=64,heads=4,seq=32,"
					       "vocab=2048,ffn=96" };

	if (mq_model_load(&rq, &w->arena, &w->model, &w->err) != MQ_OK)
		fail_msg("%s", w->err.text);
	lower_shape(w, &(struct mq_shape){ .micro_batches = 8 });
	double fused = w->low.memory[0].activation_B;
	w->software.norm = MQ_EAGER;
	lower_plan(w);
	assert_bytes(w->low.memory[0].activation_B, fused + 5 * 2 * 2 * SH);
	w->software.activation = MQ_EAGER;
	lower_plan(w);
	assert_bytes(w->low.memory[0].activation_B, fused + 5 * 2 * 2 * SH + 2 * 2 * SEQ * 96.0);
	w->software.norm = w->software.activation = MQ_FUSED;
	make_model(w, "");
}

/* Stored scores, s s for each of 4 heads. A softmax in fp32 keeps 2 bytes a score more than one in 16 bits, and where no
 * dropout follows the product's operand of 2 besides; in 32-bit training nothing is cast. */
static void wide_scores_are_kept(void **state)
{
	static const struct {
		const char *spec;
		double more_B;
	} model[] = { { "gpt:layers=2,hidden=64,heads=4,seq=32,vocab=2048,fused_attention=false", 2 },
		      { "gpt:layers=2,hidden=64,heads=4,seq=32,vocab=2048,fused_attention=false,dropout=false", 4 } };
	struct lowered *w = *state;
	double scores = 2 * 4.0 * SEQ * SEQ;

	for (size_t i = 0; i < 2; i++) {
		struct mq_model_request rq = { .train = &w->train, .spec = model[i].spec };

		if (mq_model_load(&rq, &w->arena, &w->model, &w->err) != MQ_OK)
			fail_msg("%s", w->err.text);
		w->software.attention = MQ_ATTENTION_EAGER;
		lower_shape(w, &(struct mq_shape){ .micro_batches = 8 });
		double narrow = w->low.memory[0].activation_B;
		w->software.autocast = true;
		lower_plan(w);
		/* and of five norms the input keeps 2 bytes more, the operand behind it 2 of its own */
		assert_bytes(w->low.memory[0].activation_B, narrow + model[i].more_B * scores + 5 * 2 * SH);
		w->software.autocast = false;
		w->software.attention = MQ_ATTENTION_STORED;
		lower_plan(w);
		assert_bytes(w->low.memory[0].activation_B, narrow + model[i].more_B * scores);
		w->software.attention = MQ_ATTENTION_FLASH2;
	}
	make_model(w, "");
}

/* On two tensor ranks the loss holds 12 bytes of half the logits, or of all of them. */
static void gathered_logits_are_whole(void **state)
{
	struct lowered *w = *state;
	const struct mq_shape shape = { .tp = 2, .micro_batches = 8, .vocab_parallel = true };

	lower_shape(w, &shape);
	double split = w->low.memory[0].activation_B;
	w->software.gather_logits = true;
	lower_shape(w, &shape);
	assert_bytes(w->low.memory[0].activation_B, split + 6 * SV);
	w->software.gather_logits = false;
}

/* Gradients that wait for the end of their pass: with next to no activations the fullest moment is the first
 * layer's backward, when those of all layers and the final norm lie there beside that layer. DDP's buckets are 2
 * bytes a parameter more where there is something to reduce. */
static void gradients_wait_and_are_copied(void **state)
{
	struct lowered *w = *state;
	double params = LAYERS * LAYER_PARAM + ENDS_PARAM;
	const struct mq_shape shape = { .dp = 2, .micro_batches = 2, .recompute = MQ_RECOMPUTE_FULL };
	struct mq_shape alone = shape;

	w->software.loss_B = 2;
	w->software.defer_grad_accumulation = true;
	w->software.gradient_as_bucket_view = false;
	lower_shape(w, &shape);
	assert_bytes(w->low.memory[0].gradient_B, 4 * params);
	/* at the first layer: all but the embeddings' */
	assert_bytes(w->low.memory[0].buffer_B, 2 * (LAYERS * LAYER_PARAM + 2 * HIDDEN));
	alone.dp = 1;
	lower_shape(w, &alone);
	assert_bytes(w->low.memory[0].gradient_B, 2 * params);
	w->software.defer_grad_accumulation = false;
	w->software.gradient_as_bucket_view = true;
	w->software.loss_B = 12;
}

/* Full recomputation keeps each layer's input, 2 s h; its last backward holds the layer again. */
static void recompute_keeps_layer_inputs(void **state)
{
	struct lowered *w = *state;

	lower_shape(w, &(struct mq_shape){ .micro_batches = 8, .recompute = MQ_RECOMPUTE_FULL });
	assert_bytes(w->low.memory[0].activation_B, SH + LAYERS * 2 * SH + LAYER + PASSING);
}

static double recomputed(struct lowered *w, enum mq_recompute_method method, uint32_t layers)
{
	lower_shape(w, &(struct mq_shape){ .micro_batches = 8, .recompute = MQ_RECOMPUTE_FULL });
	w->plan.explicit |= MQ_EXPLICIT_RECOMPUTE_NUM_LAYERS | MQ_EXPLICIT_RECOMPUTE_METHOD;
	w->plan.recompute_num_layers = layers;
	w->plan.recompute_method = (uint8_t)method;
	lower_plan(w);
	return w->low.memory[0].activation_B;
}

/* Block: the first layers keep their inputs, the others all; uniform: units keep the input of their first layer, and at
 * the backward pass of the last unit it is there whole. */
static void recompute_takes_some_layers(void **state)
{
	struct lowered *w = *state;
	double all = recomputed(w, MQ_RECOMPUTE_BLOCK, 0);

	for (uint32_t n = 1; n < LAYERS; n++)
		assert_bytes(recomputed(w, MQ_RECOMPUTE_BLOCK, n),
			     SH + n * 2 * SH + (LAYERS - n) * LAYER + 4 * SH + 12 * SV);
	assert_bytes(recomputed(w, MQ_RECOMPUTE_BLOCK, LAYERS), all);
	assert_bytes(recomputed(w, MQ_RECOMPUTE_BLOCK, 100), all);
	assert_bytes(recomputed(w, MQ_RECOMPUTE_UNIFORM, 1), all);
	assert_bytes(recomputed(w, MQ_RECOMPUTE_UNIFORM, 2), SH + 2 * 2 * SH + 2 * LAYER + PASSING);
	/* units of three layers and of one: the first is the fullest, when the second is gone */
	assert_bytes(recomputed(w, MQ_RECOMPUTE_UNIFORM, 3), SH + 2 * SH + 3 * LAYER + PASSING);
	assert_bytes(recomputed(w, MQ_RECOMPUTE_UNIFORM, 100), SH + 2 * SH + 4 * LAYER + PASSING);
	/* the software's way, where the plan leaves it */
	w->software.recompute_num_layers = 3;
	lower_shape(w, &(struct mq_shape){ .micro_batches = 8, .recompute = MQ_RECOMPUTE_FULL });
	assert_bytes(w->low.memory[0].activation_B, SH + 3 * 2 * SH + LAYER + 4 * SH + 12 * SV);
	w->software.autocast = true; /* what flows from layer to layer is in 32 bits then */
	lower_plan(w);
	assert_bytes(w->low.memory[0].activation_B, SH + 3 * 4 * SH + LAYER + 2 * 2 * SH + 6 * SH + 12 * SV);
	w->software.autocast = false;
	w->software.recompute_num_layers = 0;
}

/* Stored scores: 5 a s s bytes a layer, which selective recomputation frees until a layer's backward. */
static void selective_frees_scores(void **state)
{
	struct lowered *w = *state;
	double scores = (double)HEADS * SEQ * SEQ, kept = 34 * SH;

	make_model(w, ",fused_attention=false");
	lower_shape(w, &(struct mq_shape){ .micro_batches = 8 });
	assert_bytes(w->low.memory[0].activation_B, LAYERS * (kept + 5 * scores) + 5 * SH + 12 * SV);
	lower_shape(w, &(struct mq_shape){ .micro_batches = 8, .recompute = MQ_RECOMPUTE_SELECTIVE });
	/* At the last layer: its scores again, and two gradients of them with those of Q, K, V and O. */
	double passing = fmax(2 * 2 * scores + 8 * SH, PASSING);
	assert_bytes(w->low.memory[0].activation_B,
		     fmax(LAYERS * kept + SH + 5 * scores + passing, LAYERS * kept + 5 * SH + 12 * SV));
	make_model(w, "");
}

/* ZeRO shards optimizer, gradients, parameters in this order. ZeRO-3 holds what is outside the layers
 * gathered, and at the last layer's backward two layers' parameters and that layer's gradients twice; DeepSpeed no more
 * than so many of each. */
static void zero_shards(void **state)
{
	struct lowered *w = *state;
	double params = LAYERS * LAYER_PARAM + ENDS_PARAM;

	for (int sync = MQ_SYNC_ZERO1; sync <= MQ_SYNC_ZERO3; sync++) {
		lower_shape(w, &(struct mq_shape){ .dp = 4, .micro_batches = 2, .sync = (uint8_t)sync });
		const struct mq_memory *m = w->low.memory;
		assert_bytes(m->optimizer_B, 12 * params / 4);
		assert_bytes(m->gradient_B, 2 * params / (sync == MQ_SYNC_ZERO1 ? 1 : 4));
		assert_bytes(m->parameter_B, 2 * params / (sync == MQ_SYNC_ZERO3 ? 4 : 1));
		assert_bytes(m->peak_B, sum(m));
	}
	assert_bytes(w->low.memory[0].activation_B, LAYERS * LAYER + SH + PASSING);
	assert_bytes(w->low.memory[0].buffer_B, 2 * ENDS_PARAM + 8 * LAYER_PARAM);
	w->software.live_M = LAYER_PARAM * 1e-6;
	w->software.flat_M = LAYER_PARAM * 1e-6 / 4;
	lower_plan(w);
	assert_bytes(w->low.memory[0].buffer_B, 2 * LAYER_PARAM + LAYER_PARAM);
	w->software.live_M = 10 * LAYER_PARAM * 1e-6;
	w->software.flat_M = 10 * LAYER_PARAM * 1e-6;
	lower_plan(w);
	assert_bytes(w->low.memory[0].buffer_B, 2 * ENDS_PARAM + 8 * LAYER_PARAM);
	w->software.live_M = w->software.flat_M = 0;
}

/* What search engines are told of single ops adds up to what the verdict counts. */
static void engines_hear_the_same_bytes(void **state)
{
	struct lowered *w = *state;
	const struct mq_question q = lowered_question(w);
	const struct mq_costs *costs = mq_costs_new(&q, &w->arena);
	uint32_t split[MQ_N_DIMS] = { 1, 1, 1, 1, 1, 1, 1 };

	for (int sync = MQ_SYNC_ALLREDUCE; sync <= MQ_SYNC_ZERO3; sync++)
		for (int recompute = MQ_RECOMPUTE_NONE; recompute <= MQ_RECOMPUTE_FULL; recompute += 2) {
			bool full = recompute == MQ_RECOMPUTE_FULL;
			struct mq_op_memory all = { 0 }, one;

			lower_shape(w, &(struct mq_shape){ .dp = 4,
							   .micro_batches = 2,
							   .sync = (uint8_t)sync,
							   .recompute = (uint8_t)recompute });
			for (uint32_t op = 0; op < w->model->n_ops; op++) {
				costs->op_memory(costs->context, op, split, 1, sync, 4, recompute, &one);
				all.parameter_B += one.parameter_B;
				all.gradient_B += one.gradient_B;
				all.optimizer_B += one.optimizer_B;
				all.kept_B += one.kept_B;
				all.again_B += one.again_B;
			}
			assert_bytes(all.parameter_B, w->low.memory[0].parameter_B);
			assert_bytes(all.gradient_B, w->low.memory[0].gradient_B);
			assert_bytes(all.optimizer_B, w->low.memory[0].optimizer_B);
			assert_bytes(all.kept_B, LAYERS * (full ? 2 * SH : LAYER) + 5 * SH + 4 * SV);
			assert_bytes(all.again_B, full ? LAYERS * LAYER : 0);
		}
}

/* Where every second layer is computed again, layers that are alike otherwise keep more and less in turn. */
static void engines_hear_which_layers_keep(void **state)
{
	enum { MANY = 8 };
	struct lowered *w = *state;
	uint32_t split[MQ_N_DIMS] = { 1, 1, 1, 1, 1, 1, 1 };
	double kept_B[MANY] = { 0 };

	lowered_model(w, "gpt:layers=8,hidden=64,heads=4,seq=32,vocab=256");
	w->software.selective = MQ_SELECTIVE_LAYERS;
	const struct mq_question q = lowered_question(w);
	const struct mq_costs *costs = mq_costs_new(&q, &w->arena);
	for (uint32_t op = 0; op < w->model->n_ops; op++) {
		struct mq_op_memory one;

		costs->op_memory(costs->context, op, split, 1, MQ_SYNC_ALLREDUCE, 1, MQ_RECOMPUTE_SELECTIVE, &one);
		if (w->model->op[op].layer != MQ_NONE)
			kept_B[w->model->op[op].layer] += one.kept_B;
	}
	assert_true(kept_B[0] < kept_B[1] / 2);
	for (uint32_t layer = 2; layer < MANY; layer++)
		assert_bytes(kept_B[layer], kept_B[layer - 2]);
	w->software.selective = MQ_SELECTIVE_ATTENTION;
	make_model(w, "");
}

/* Tensor parallelism of 2: s h (10 + 24/t) and the statistics a layer, Q, K, V's and the MLP's halves. */
static void tensor_parallel_divides(void **state)
{
	struct lowered *w = *state;

	lower_shape(w, &(struct mq_shape){ .tp = 2, .micro_batches = 8, .vocab_parallel = true });
	assert_bytes(w->low.memory[0].activation_B, LAYERS * (SH * (10 + 12) + ROWS / 2) + SH + 4 * SH + 12 * SV / 2);
}

static void fp32_gradients_and_offload(void **state)
{
	struct lowered *w = *state;
	double params = LAYERS * LAYER_PARAM + ENDS_PARAM;

	w->train.grad_dtype = MQ_FP32;
	lower_shape(w, &(struct mq_shape){ .micro_batches = 8 });
	const struct mq_memory *m = w->low.memory;
	assert_bytes(m->parameter_B + m->gradient_B + m->optimizer_B, 18 * params);
	w->plan.explicit |= MQ_EXPLICIT_OFFLOAD_OPTIMIZER;
	w->plan.offload_optimizer = true;
	lower_plan(w);
	assert_bytes(w->low.memory[0].optimizer_B, 0);
	assert_bytes(w->low.memory[0].gradient_B, 4 * params);
	w->plan.offload_optimizer = false;
	w->software.moment_B = 2; /* an fp32 master and two moments of 16 bits */
	lower_plan(w);
	assert_bytes(w->low.memory[0].optimizer_B, 8 * params);
	w->software.moment_B = 4;
	w->train.grad_dtype = MQ_FP16;
}

/* Software with gradients in both precisions: 16-bit ones are copied for the step, when activations are
 * gone; the allocator keeps their blocks while there is room, and no longer. */
static void step_takes_the_place_of_activations(void **state)
{
	struct lowered *w = *state;
	double params = LAYERS * LAYER_PARAM + ENDS_PARAM;
	double passes = LAYERS * LAYER + 5 * SH + 12 * SV;

	w->software.grads_twice = MQ_GRADS_STEP;
	lower_shape(w, &(struct mq_shape){ .micro_batches = 8 });
	const struct mq_memory *m = w->low.memory;
	assert_true(4 * params > passes);
	assert_bytes(m->optimizer_B, 16 * params);
	assert_true(m->activation_B == 0 && m->buffer_B == 0);
	assert_bytes(m->peak_B, 20 * params + passes);
	assert_bytes(m->spare_B, passes);
	for (uint32_t d = 0; d < w->cluster->n_devices; d++)
		w->cluster->device[d].memory_B = 20 * params + passes / 2;
	lower_shape(w, &(struct mq_shape){ .micro_batches = 8 });
	assert_bytes(w->low.memory[0].peak_B, 20 * params + passes / 2);
	assert_bytes(w->low.memory[0].spare_B, passes / 2);
	for (uint32_t d = 0; d < w->cluster->n_devices; d++)
		w->cluster->device[d].memory_B = 20 * params - 1;
	lower_plan(w);
	assert_int_equal(w->low.verdict, MQ_VERDICT_OOM);
	w->train.grad_dtype = MQ_FP32; /* nothing to copy: 2 + 4 + 12 */
	lower_plan(w);
	assert_bytes(w->low.memory[0].gradient_B, 4 * params);
	assert_bytes(w->low.memory[0].optimizer_B, 12 * params);
	w->software.grads_twice = MQ_GRADS_BOTH; /* accumulated beside 16-bit ones: 2 + 4 + 2 + 12 */
	lower_plan(w);
	assert_bytes(w->low.memory[0].gradient_B, 6 * params);
	assert_bytes(w->low.memory[0].optimizer_B, 12 * params);
	w->train.grad_dtype = MQ_FP16;
	w->software.grads_twice = MQ_GRADS_ONCE;
	for (uint32_t d = 0; d < w->cluster->n_devices; d++)
		w->cluster->device[d].memory_B = 1e12;
}

/* An optimizer by lists has one as large as a moment at once, of the rank's shard, beside what it keeps. */
static void lists_take_the_place_of_activations(void **state)
{
	struct lowered *w = *state;
	double params = LAYERS * LAYER_PARAM + ENDS_PARAM, passes = LAYERS * LAYER + 5 * SH + 12 * SV;
	struct mq_shape shape = { .micro_batches = 8 };

	w->software.foreach = 1;
	lower_shape(w, &shape);
	assert_true(4 * params > passes);
	assert_bytes(w->low.memory[0].optimizer_B, (12 + 4) * params);
	assert_bytes(w->low.memory[0].peak_B, (2 + 2 + 12 + 4) * params + passes);
	w->software.master_B = 0; /* all is in 16 bits, whatever is updated */
	w->software.moment_B = 2;
	lower_plan(w);
	const double small = 2 * params > passes ? 2 * params : 0;
	assert_bytes(w->low.memory[0].optimizer_B, 4 * params + small);
	assert_bytes(w->low.memory[0].peak_B, (2 + 2 + 4 + 2) * params + passes);
	w->software.master_B = w->software.moment_B = 4;
	w->plan.explicit |= MQ_EXPLICIT_OFFLOAD_OPTIMIZER;
	w->plan.offload_optimizer = true; /* the host steps */
	lower_plan(w);
	assert_bytes(w->low.memory[0].optimizer_B, 0);
	w->plan.offload_optimizer = false;
	w->train.optimizer = MQ_OPTIMIZER_NONE; /* which made the fp32 copies, unless they are the parameters */
	lower_plan(w);
	assert_bytes(w->low.memory[0].optimizer_B, 0);
	w->software.fp32_params = true;
	lower_plan(w);
	assert_bytes(w->low.memory[0].optimizer_B, 4 * params);
	w->software.fp32_params = false;
	w->train.optimizer = MQ_OPTIMIZER_ADAM;
	shape = (struct mq_shape){ .dp = 2, .sync = MQ_SYNC_ZERO1, .micro_batches = 4 };
	lower_shape(w, &shape);
	double with = w->low.memory[0].peak_B;
	w->software.foreach = 0;
	lower_shape(w, &shape);
	assert_bytes(with, w->low.memory[0].peak_B + 4 * params / 2);
}

/* Two buckets, or one flat copy, of the gradients that are reduced, and never more than there are. */
static void reduction_takes_buffers(void **state)
{
	struct lowered *w = *state;
	double grads = 2 * (LAYERS * LAYER_PARAM + ENDS_PARAM);
	struct mq_shape shape = { .dp = 2, .micro_batches = 4 };

	lower_shape(w, &shape);
	double without = w->low.memory[0].buffer_B;
	w->plan.explicit |= MQ_EXPLICIT_BUCKET;
	w->plan.bucket_B = 1000;
	lower_plan(w);
	assert_bytes(w->low.memory[0].buffer_B, without + 2000);
	w->plan.bucket_B = 0;
	w->software.flat_M = 1e-3;
	lower_plan(w);
	assert_bytes(w->low.memory[0].buffer_B, without + 2000);
	w->software.flat_M = 1e3;
	lower_plan(w);
	assert_bytes(w->low.memory[0].buffer_B, without + grads);
	shape.dp = 1; /* nothing to reduce: the flat copy is made all the same (DeepSpeed) */
	lower_shape(w, &shape);
	assert_bytes(w->low.memory[0].buffer_B, without + grads);
	w->plan.bucket_B = 1000;
	w->software.flat_M = 0;
	lower_plan(w);
	assert_bytes(w->low.memory[0].buffer_B, without);
}

/* A loss that works in place holds 2 bytes a logit; fragmentation stretches what is dynamic. */
static void software_has_its_share(void **state)
{
	struct lowered *w = *state;
	struct mq_device_calib *d = &w->calib->device[0];

	w->software.loss_B = 2;
	w->software.reserve_GB = 1e-3;
	d->fragmentation = 1.25;
	lower_shape(w, &(struct mq_shape){ .micro_batches = 8 });
	const struct mq_memory *m = w->low.memory;
	/* The loss is no longer the fullest: the last layer's backward is, without final norm and loss. */
	assert_bytes(m->activation_B, LAYERS * LAYER + SH + PASSING);
	assert_bytes(m->buffer_B, WEIGHT_GRADIENT);
	assert_bytes(m->fragmentation_B, (m->activation_B + m->buffer_B) / 4);
	assert_bytes(m->reserve_B, 1e6);
	assert_bytes(m->peak_B, sum(m));
	w->software.allocator = MQ_ALLOCATOR_EXPANDABLE; /* nothing is lost between segments that grow */
	lower_plan(w);
	assert_bytes(w->low.memory[0].fragmentation_B, 0);
	w->software.allocator = MQ_ALLOCATOR_PLANNED;
	lower_plan(w);
	assert_bytes(w->low.memory[0].fragmentation_B, 0);
	w->software.allocator = MQ_ALLOCATOR_OTHER;
	w->software.loss_B = 12;
	w->software.reserve_GB = 0;
	d->fragmentation = 1;
}

static void inference_holds_parameters_and_one_op(void **state)
{
	struct lowered *w = *state;

	w->train.infer = true;
	make_model(w, "");
	lower_shape(w, &(struct mq_shape){ .micro_batches = 8 });
	const struct mq_memory *m = w->low.memory;
	assert_bytes(m->parameter_B, 2 * (LAYERS * LAYER_PARAM + ENDS_PARAM));
	assert_true(m->gradient_B == 0 && m->optimizer_B == 0);
	/* 4 h in, 4 h out of the activation, 16 bit */
	assert_bytes(m->activation_B, PASSING);
	w->train.infer = false;
	make_model(w, "");
}

static void message_names_what_lacks(void **state)
{
	struct lowered *w = *state;

	for (uint32_t d = 0; d < w->cluster->n_devices; d++)
		w->cluster->device[d].memory_B = 3e6;
	struct mq_shape shape = { .micro_batches = 8, .pipeline = MQ_PIPE_1F1B };
	assert_int_equal(mq_plan_from_shape(&shape, w->model, w->cluster, &w->arena, &w->plan, &w->err), MQ_OK);
	lower_plan(w);
	assert_int_equal(w->low.verdict, MQ_VERDICT_OOM);
	char want[256];
	const struct mq_memory *m = w->low.memory;
	snprintf(want, sizeof(want),
		 "device 0 (%s) needs %.2f MB of its 3.00 MB; largest: optimizer "
		 "state %.2f MB",
		 w->cluster->device[0].name, m->peak_B / 1e6, m->optimizer_B / 1e6);
	assert_string_equal(w->low.message, want);
	for (uint32_t d = 0; d < w->cluster->n_devices; d++)
		w->cluster->device[d].memory_B = 1e12;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_device_peaks_at_the_loss),
		cmocka_unit_test(schedules_keep_their_micro_batches),
		cmocka_unit_test(interleaved_warms_up_longer),
		cmocka_unit_test(sent_outputs_are_freed),
		cmocka_unit_test(products_keep_8_bit_inputs),
		cmocka_unit_test(weights_in_8_bits),
		cmocka_unit_test(logits_lie_once),
		cmocka_unit_test(offloaded_layers_pass_through),
		cmocka_unit_test(attention_keeps_no_input_that_is_made_again),
		cmocka_unit_test(gathered_inputs_may_stay),
		cmocka_unit_test(scattered_products_are_freed_late),
		cmocka_unit_test(experts_keep_what_they_need),
		cmocka_unit_test(eager_ops_keep_more),
		cmocka_unit_test(wide_scores_are_kept),
		cmocka_unit_test(gathered_logits_are_whole),
		cmocka_unit_test(gradients_wait_and_are_copied),
		cmocka_unit_test(recompute_keeps_layer_inputs),
		cmocka_unit_test(recompute_takes_some_layers),
		cmocka_unit_test(selective_frees_scores),
		cmocka_unit_test(zero_shards),
		cmocka_unit_test(engines_hear_the_same_bytes),
		cmocka_unit_test(engines_hear_which_layers_keep),
		cmocka_unit_test(tensor_parallel_divides),
		cmocka_unit_test(fp32_gradients_and_offload),
		cmocka_unit_test(step_takes_the_place_of_activations),
		cmocka_unit_test(lists_take_the_place_of_activations),
		cmocka_unit_test(reduction_takes_buffers),
		cmocka_unit_test(software_has_its_share),
		cmocka_unit_test(inference_holds_parameters_and_one_op),
		cmocka_unit_test(message_names_what_lacks),
	};

	return cmocka_run_group_tests(tests, make_world, lowered_free);
}

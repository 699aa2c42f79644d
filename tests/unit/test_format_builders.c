/*
 * test_format_builders.c - the built-in models: published parameter counts, FLOPs by closed
 * formulas, and what a transformer layer keeps for its backward pass, split as Megatron splits it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "models.h"
#include "libraries.h"
#include "model/formats/lib/huggingface.h"
#include "model/formats/lib/names.h"

/* Totals as published by the authors (or counted in their released weights). */
static void test_parameters(void **state)
{
	static const struct {
		const char *spec;
		double parameters;
	} cases[] = {
		{ "llama:size=8b", 8030261248 },
		{ "llama:size=70b", 70553706496 },
		{ "llama:size=405b", 405853388800 },
		{ "llama:size=7b", 6738415616 },
		{ "llama:size=13b", 13015864320 },
		{ "llama:size=1b", 1235814400 },
		{ "llama:size=3b", 3212749824 },
		{ "moe:size=8x7b", 46702792704 },
		{ "moe:size=8x22b", 140630071296 },
		{ "moe:size=deepseek-16b", 16375728128 },
		{ "moe:size=deepseek-v2-lite", 15706484224 },
		{ "moe:size=deepseek-v2", 235741434880 },
		{ "moe:size=deepseek-v3", 671026419200 - 58 * 256 },  /* the router's biases apart */
		{ "nemotron-h:size=3-nano", 31577940288 - 23 * 128 }, /* likewise */
		{ "mamba2:size=130m", 128989632 },
		{ "gpt:layers=12,hidden=768,heads=12,vocab=50257,seq=1024", 124439808 },
		{ "bert:size=base", 110106428 }, /* with pooler and pre-training heads */
		{ "bert:size=large", 336226108 },
		{ "t5:size=small", 60506624 },
		{ "t5:size=base", 222903552 },
		{ "t5:size=large", 737668096 },
		{ "t5:size=3b", 2851598336 },
		{ "t5:size=11b", 11307321344 },
		{ "bert:size=large,task=span", 334094338 },
		{ "bart", 139420416 },
		{ "bart:size=large", 406291456 },
		/* the released discriminators (with the head that fine-tuning drops) ... */
		{ "electra:task=span", 108891648 + 6 * 768 + 2 * 769 }, /* vocabulary of a multiple of 8 */
		{ "electra:size=large,task=span", 334092288 + 2 * 1025 },
		{ "electra:size=small,task=span", 13483008 + 2 * 257 },
		/* ... and the whole: what the released generator shares with them, once */
		{ "electra", 109483009 + 33511168 - 23837184 + 197376 + 1536 + 30522 + 6 * 769 },
		{ "alexnet", 61100840 },
		{ "rnnlm", 2 * 10000 * 2048. + 10000 + 2 * (2 * 2048 * 8192. + 2 * 8192) },
		{ "resnet50", 25557032 },
		{ "resnet101", 44549160 },
		{ "resnet152", 60192808 },
		{ "resnext50", 25028904 },
		{ "resnext101", 44177704 },
		{ "se_resnext101", 48955416 },
		{ "efficientnet_b0", 5288548 },
		{ "efficientnet_b4", 19341616 },
		{ "efficientdet_d0", 3880067 },
		{ "efficientdet_d7", 51871934 },
		{ "unet", 31030658 },
		{ "mask_rcnn", 44401393 + 53120 }, /* torchvision's, and its batch norms */
		/* torchvision's ResNet-50 without stage 4 and classifier; extra layers and the heads of six maps */
		{ "ssd300", 25557032 - 14964736 - 2049000 + 3773696 + 10577910 },
		/* bucket_cap_mb of NeMo's recipe for it says so; with it OpenCLIP's ViT-H text encoder, which is frozen */
		{ "stable_diffusion_v2", 865910724 },
		{ "Stable-Diffusion-v2:text=frozen", 865910724 + 354032641 },
		{ "stable_diffusion_v2:image=768", 865910724 },
		{ "sdxl", 2567463684 },
		{ "flux.1-dev", 11901408320 },
		{ "flux.1-schnell:image=32",
		  11891178560 }, /* without the strength of guidance: 256 x 3072 + 3072 x 3072 + 2 x 3072 */
		{ "vgg16", 138357544 },
		{ "vgg19", 143667240 },
		{ "inception_v3", 27161264 },
		{ "inception_v3:aux=false", 23834568 },
		{ "tests/corpus/graph/gnmt_pipedream.jsonl", 193765952 }, /* four layers, as profiled in its release */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		double got = mq_model_totals(load(cases[i].spec, 0, &TRAIN)).parameters;

		if (got != cases[i].parameters)
			fail_msg("%s: %.0f parameters, %.0f expected", cases[i].spec, got, cases[i].parameters);
	}
}

/* GPT-3 1.3B and its larger relatives are known by rounded names; GPUNet and nnU-Net by figures in
 * millions. */
static void test_rounded_sizes(void **state)
{
	static const struct {
		const char *spec;
		double billions;
	} cases[] = {
		{ "gpt", 1.3 },
		{ "gpt:size=1.7b", 1.7 },
		{ "gpt:size=3.6b", 3.6 },
		{ "gpt:size=7.5b", 7.5 },
		{ "gpt:size=22b", 22 },
		{ "gpt:size=39b", 39.1 },
		{ "gpt:size=76b", 76.1 },
		{ "gpt:size=145b", 145.6 },
		{ "gpt:size=175b", 175 },
		{ "gpt:size=530b", 529.6 },
		{ "gpt:size=1t", 1008 },
		{ "transformer:size=base", .0631 },
		{ "transformer:size=big", .214 },
		{ "transformer_xl", .151 },
		{ "gpunet_0", .0119 },
		{ "gpunet_1", .0127 },
		{ "gpunet_2", .0258 },
		{ "gpunet_d1", .0106 },
		{ "gpunet_d2", .0193 },
		{ "unet3d", .0312 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		double got = mq_model_totals(load(cases[i].spec, 0, &TRAIN)).parameters / 1e9;

		if (fabs(got / cases[i].billions - 1) > .03)
			fail_msg("%s: %g G parameters, %g expected", cases[i].spec, got, cases[i].billions);
	}
}

/* 24 s l h^2 (1 + s/6h + V/12lh), Narayanan et al. 2021 (there with backward and recomputation). */
static void test_gpt_flops(void **state)
{
	const struct mq_model *m = load("gpt:layers=3,hidden=64,heads=4,vocab=100,bias=false", 32, &TRAIN);
	double s = 32, l = 3, h = 64, v = 100, flop = 0, backward = 0;

	for (uint32_t i = 0; i < m->n_ops; i++)
		if (m->op[i].kind == MQ_OP_GEMM || m->op[i].kind == MQ_OP_ATTENTION) {
			flop += m->op[i].flop;
			backward += m->op[i].flop_bwd;
		}
	assert_true(flop == 24 * s * l * h * h + 4 * s * s * h * l + 2 * s * h * v);
	assert_true(backward == 2 * flop);
	assert_int_equal(m->n_layers, 3);
	assert_true(m->tokens_per_sample == 32);
}

static void test_llama_layer(void **state)
{
	const struct mq_model *m = load("llama:layers=1,hidden=64,heads=8,kv_heads=2,ffn=96,vocab=100", 16, &TRAIN);
	const struct mq_op *qkv = op_of(m, "layer0.qkv"), *up = op_of(m, "layer0.up");
	const struct mq_op *attention = op_of(m, "layer0.attention");

	assert_true(qkv->n == 64 + 2 * 16 && qkv->param == 64 * 96);
	assert_true(up->n == 192 && up->param == 64 * 192);
	assert_true(attention->m == 16 && attention->n == 16 && attention->k == 8);
	assert_true(attention->count == 8 && attention->causal && attention->fused);
	assert_true(attention->read == 16 * 96 && attention->output == 16 * 64);
	assert_true(op_of(m, "layer0.norm1")->param == 64);
	assert_true(op_of(m, "head")->param == 6400 && op_of(m, "head")->tied == MQ_NONE);
	assert_int_equal(m->kv_heads, 2);
}

static void test_experts(void **state)
{
	const struct mq_model *m =
		load("moe:layers=1,hidden=64,heads=4,ffn=32,vocab=100,experts=4,top_k=2", 16, &TRAIN);
	const struct mq_op *up = op_of(m, "layer0.experts.up");

	assert_true(up->count == 4 && up->m == 16 * 2 / 4. && up->n == 64 && up->k == 64);
	assert_true(up->param == 4 * 64 * 64);
	assert_true(up->flop == 2 * 16 * 2 * 64 * 64); /* every token visits two experts */
	assert_true(up->extent[MQ_DIM_EXPERT] == 4);
	assert_true(op_of(m, "layer0.router")->param == 64 * 4);
	assert_true(op_of(m, "layer0.dispatch")->output == 16 * 2 * 64);
	assert_true(op_of(m, "layer0.combine")->output == 16 * 64);
}

/* BERT's head looks at the masked tokens alone: 15 % of them, or as many as asked for. */
/* Totals of the model cards, in billions as printed there. */
static void test_hybrid_sizes(void **state)
{
	static const struct {
		const char *spec;
		double billions, step;
	} cases[] = {
		{ "nemotron-h:size=4b", 4.5, .05 },          { "nemotron-h:size=8b", 8.1, .05 },
		{ "nemotron-h:size=47b", 46.8, .1 },         { "nemotron-h:size=56b", 56.3, .1 },
		{ "nemotron-h:size=nano-9b-v2", 8.89, .01 }, { "nemotron-h:size=nano-12b-v2", 12.31, .01 },
		{ "nemotron-h:size=3-super", 120.6, .1 },    { "mamba2:size=370m", .37, .005 },
		{ "mamba2:size=780m", .78, .005 },           { "mamba2", 1.34, .005 },
		{ "mamba2:size=2.7b", 2.7, .005 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		double total = mq_model_totals(load(cases[i].spec, 0, &TRAIN)).parameters / 1e9;

		if (fabs(total - cases[i].billions) > cases[i].step)
			fail_msg("%s: %g of %g billion parameters", cases[i].spec, total, cases[i].billions);
	}
}

/* 16 tokens in chunks of 8; 4 heads of 8, 2 groups, state 16; D = 32, G N = 32. */
static void test_mamba_layer(void **state)
{
	const struct mq_model *m = load("mamba2:pattern=M,hidden=24,mamba_heads=4,mamba_head_dim=8,"
					"groups=2,state=16,chunk=8,vocab=100,seq=16",
					0, &TRAIN);
	const struct mq_op *in = op_of(m, "layer0.in_proj"), *scan = op_of(m, "layer0.scan");

	assert_float_equal(in->n, 2 * 32 + 2 * 32 + 4, 0);
	assert_float_equal(in->param, 24 * 132, 0);
	assert_float_equal(op_of(m, "layer0.conv")->param, (32 + 64) * 5, 0);
	assert_float_equal(scan->param, 12, 0);
	/* within a chunk: C B' for each group, times x for each head; states: in and out */
	assert_float_equal(scan->flop, 16 * (2 * 8 * (2 * 16 + 32) + 2 * 2 * 16 * 32), 0);
	/* fp32 states of 4 x 8 x 16 in two chunks: written, read and written again, read */
	double states = 2 * 2 * 512, products = 2 * 16 * 8 * 2;
	assert_true(scan->read == 16. * (2 * 32 + 4 * 32) + products + 2 * states);
	assert_true(scan->write == 16. * 32 + products + 2 * states);
	assert_float_equal(op_of(m, "layer0.out_proj")->param, 32 * 24, 0);
	assert_false(scan->splits >> MQ_DIM_SEQ & 1);
}

/* Tokens travel to experts in the latent width; the further predictions share one set of weights. */
static void test_latent_experts_and_prediction(void **state)
{
	static const char *const specs[] = {
#define SMALL                                                                             \
	"nemotron-h:pattern=ME,hidden=64,groups=2,heads=4,kv_heads=4,head_dim=16,ffn=32," \
	"shared_ffn=48,experts=8,top_k=2,latent=16,vocab=100"
		SMALL,
		SMALL ",mtp=1",
		SMALL ",mtp=2",
	};
	double param[3];

	for (int mtp = 0; mtp < 3; mtp++) {
		const struct mq_model *m = load(specs[mtp], 32, &TRAIN);

		param[mtp] = mq_model_totals(m).parameters;
		assert_float_equal(op_of(m, "layer1.dispatch")->output, 32 * 2 * 16, 0);
		assert_float_equal(op_of(m, "layer1.experts.up")->k, 16, 0);
		assert_float_equal(op_of(m, "layer1.router")->k, 64, 0);
	}
	double attention = 64 * 64 * 4, experts = 64 * 8 + 2 * 64 * 16 + 8 * 2 * 16 * 32 + 2 * 64 * 48;
	double norms = 5 * 64; /* stream, embedding, the two layers, the last */
	assert_true(param[1] - param[0] == 2 * 64 * 64 + attention + experts + norms);
	assert_true(param[2] == param[1]);
}

static void test_masked_tokens(void **state)
{
	const struct mq_model *m = load("bert:layers=1,hidden=64,heads=4,vocab=100", 128, &TRAIN);
	const struct mq_model *n = load("bert:layers=1,hidden=64,heads=4,vocab=100,predictions=20", 128, &TRAIN);

	assert_true(op_of(m, "head")->m == 19 && op_of(n, "head")->m == 20);
	assert_true(op_of(n, "head")->flop == 2 * 20 * 64 * 100);
	assert_true(op_of(n, "next_sentence")->m == 1);
	refuse("bert:predictions=513", "predictions=513 exceed the sequence of 512");
}

static void test_tied_head(void **state)
{
	const struct mq_model *m = load("gpt:layers=1,hidden=64,heads=4,vocab=100", 16, &TRAIN);
	const struct mq_op *head = op_of(m, "head");

	assert_true(head->param == 0 && head->k * head->n == 6400);
	assert_string_equal(m->op[head->tied].name, "embedding");
	assert_true(m->op[head->tied].param == 6400);
}

/* A stack whose loss is over the last norm, as wide as the model. */
static void test_no_head(void **state)
{
	const struct mq_model *m = load("gpt:layers=1,hidden=64,heads=4,vocab=100,head=false", 16, &TRAIN);
	const struct mq_model *whole = load("gpt:layers=1,hidden=64,heads=4,vocab=100,tied=false", 16, &TRAIN);

	assert_int_equal(m->n_ops, whole->n_ops - 1);
	assert_true(mq_model_totals(m).parameters == mq_model_totals(whole).parameters - 6400);
	assert_string_equal(m->op[m->n_ops - 1].name, "loss");
	assert_true(m->op[m->n_ops - 1].read == 16 * 64);
}

/* ---- what a layer keeps ---------------------------------------------------------------------- */

/* Megatron's splits of degree t: columns then rows; norms and residuals whole, or by sequence. */
static struct mq_share megatron(const struct mq_op *op, double t, bool sequence_parallel)
{
	struct mq_share share = { .samples = 2 }; /* b */

	if (strstr(op->name, "qkv") || strstr(op->name, "up") || strstr(op->name, "activation"))
		share.split[MQ_DIM_OUT] = t;
	else if (strstr(op->name, "attention"))
		share.split[MQ_DIM_HEAD] = t;
	else if (strstr(op->name, "proj") || strstr(op->name, "down"))
		share.split[MQ_DIM_IN] = t;
	else if (sequence_parallel)
		share.split[MQ_DIM_SEQ] = t;
	return share;
}

static double kept_bytes(const struct mq_model *m, double t, bool sequence_parallel, bool selective)
{
	double elems = 0;

	for (uint32_t i = 0; i < m->n_ops; i++)
		if (m->op[i].layer == 0) {
			const struct mq_share share = megatron(&m->op[i], t, sequence_parallel);

			elems += mq_op_saved_shard(&m->op[i], &share, selective);
		}
	return 2 * elems;
}

/* Korthikanti et al. 2022, table 2: bytes per layer. */
static void test_kept_activations(void **state)
{
	const struct mq_model *m = load("gpt:layers=2,hidden=64,heads=8,vocab=100,fused_attention=false", 32, &TRAIN);
	double s = 32, b = 2, h = 64, a = 8, t = 4, sbh = s * b * h;

	assert_true(kept_bytes(m, 1, false, false) == sbh * (34 + 5 * a * s / h));
	assert_true(kept_bytes(m, t, false, false) == sbh * (10 + 24 / t + 5 * a * s / (h * t)));
	assert_true(kept_bytes(m, t, true, false) == sbh / t * (34 + 5 * a * s / h));
	assert_true(kept_bytes(m, t, false, true) == sbh * (10 + 24 / t));
	assert_true(kept_bytes(m, t, true, true) == sbh * 34 / t);
}

/* Without dropout of probabilities their mask and what is left of them are not kept: 2 of 5 a s b s, 2 + 1 + 2. */
static void test_undropped_attention(void **state)
{
	const struct mq_model *m = load(
		"gpt:layers=2,hidden=64,heads=8,vocab=100,fused_attention=false,attention_dropout=false", 32, &TRAIN);
	double s = 32, b = 2, h = 64, a = 8;

	assert_true(kept_bytes(m, 1, false, false) == s * b * h * (34 + 2 * a * s / h));
}

static void test_fused_attention_keeps_no_scores(void **state)
{
	const struct mq_model *m = load("gpt:layers=2,hidden=64,heads=8,vocab=100", 32, &TRAIN);
	double s = 32, b = 2, h = 64, a = 8;

	/* only a row's log-sum-exp (4 bytes) beyond the 34 s b h */
	assert_true(kept_bytes(m, 1, false, false) == 34 * s * b * h + 4 * a * s * b);
}

struct sums {
	double flop, bytes;
};

static struct sums sum(const struct mq_model *m, uint32_t op, enum mq_phase phase, const struct mq_share *share)
{
	struct mq_kernel k[MQ_MAX_KERNELS_PER_OP];
	const struct mq_question q = { .model = m, .calib = library_calib(), .train = &TRAIN };
	uint32_t n = mq_op_kernels(&q, op, phase, share, "gpu", k);
	struct sums s = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		s.flop += k[i].flop;
		s.bytes += k[i].bytes;
	}
	return s;
}

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b));
}

/* Splitting an op divides its work and its parameters, and never makes bytes vanish. */
static void expect_conserved(const struct mq_model *m, uint32_t op, enum mq_dim dim)
{
	const struct mq_op *o = &m->op[op];
	const struct mq_share whole = { .samples = 3 }, twice = { .samples = 6 };
	struct mq_share half = whole;

	half.split[dim] = 2;
	for (int phase = MQ_FORWARD; phase <= MQ_BACKWARD; phase++) {
		struct sums w = sum(m, op, (enum mq_phase)phase, &whole);
		struct sums h = sum(m, op, (enum mq_phase)phase, &half);
		struct sums t = sum(m, op, (enum mq_phase)phase, &twice);

		if (!near(2 * h.flop, w.flop) || !near(t.flop, 2 * w.flop))
			fail_msg("%s: %s along %s: %g and %g FLOP of %g", m->name, o->name, mq_dim_name(dim), h.flop,
				 t.flop, w.flop);
		if (2 * h.bytes < w.bytes * (1 - 1e-12) || h.bytes > w.bytes * (1 + 1e-12))
			fail_msg("%s: %s along %s: %g bytes of %g", m->name, o->name, mq_dim_name(dim), h.bytes,
				 w.bytes);
	}
	double param = mq_op_param_shard(o, half.split), bias = 0;
	if ((o->kind == MQ_OP_GEMM || o->kind == MQ_OP_CONV) && dim == MQ_DIM_IN) /* stays whole */
		bias = fmax(o->param - o->k * o->n * o->count, 0);
	bool divides = dim != MQ_DIM_SEQ && dim != MQ_DIM_SPATIAL;
	if (!near(param, divides ? (o->param + bias) / 2 : o->param))
		fail_msg("%s: %s along %s: %g of %g parameters", m->name, o->name, mq_dim_name(dim), param, o->param);
}

static void test_splits_conserve_work(void **state)
{
	static const char *const specs[] = {
		"gpt:layers=1,hidden=64,heads=4,vocab=128",
		"bert:layers=1,hidden=64,heads=4,vocab=128",
		"gpt:layers=1,hidden=64,heads=4,vocab=128,fused_attention=false",
		"llama:layers=1,hidden=64,heads=4,kv_heads=2,ffn=96,vocab=128",
		"moe:layers=1,hidden=64,heads=4,ffn=32,vocab=128,experts=4",
		"moe:size=deepseek-v2-lite,layers=2,hidden=64,heads=4,ffn=32,vocab=128",
		"t5:size=small,layers=1",
		"bart:layers=1,hidden=64,heads=4",
		"electra:size=small",
		"tests/corpus/graph/transformer_xl.jsonl",
		"resnet50",
		"resnext50",
		"vgg11:batch_norm",
		"inception_v3",
		"se_resnext101",
		"unet",
		"unet3d",
		"efficientnet_b0",
		"gpunet_d1",
		"ssd300",
		"mask_rcnn",
		"efficientdet_d0",
		"tests/corpus/graph/gnmt.jsonl",
		"nemotron-h:pattern=M*-E,hidden=64,groups=2,heads=4,kv_heads=2,ffn=32,experts=4,top_k=2,latent=32,mtp=1,"
		"vocab=128",
		"tests/corpus/graph/transgan.jsonl",
	};

	for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
		const struct mq_model *m = load(specs[i], 0, &TRAIN);

		for (uint32_t op = 0; op < m->n_ops; op++)
			for (int dim = MQ_DIM_BATCH + 1; dim < MQ_N_DIMS; dim++)
				if (m->op[op].splits >> dim & 1)
					expect_conserved(m, op, (enum mq_dim)dim);
	}
}

static void test_inference_has_no_loss(void **state)
{
	static const char *const specs[] = { "gpt:layers=1", "t5:layers=1", "resnet50",
					     "gnmt",         "electra",     "transformer_xl" };

	for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
		const struct mq_model *m = load(specs[i], 0, &INFER);

		for (uint32_t k = 0; k < m->n_ops; k++)
			assert_int_not_equal(m->op[k].kind, MQ_OP_LOSS);
	}
}

static void test_seq_overrides(void **state)
{
	assert_int_equal(load("llama:layers=1", 128, &TRAIN)->seq, 128);
	assert_int_equal(load("llama:layers=1,seq=64", 0, &TRAIN)->seq, 64);
	assert_int_equal(load("llama:layers=1,seq=64", 32, &TRAIN)->seq, 32);
}

/* Each shipped configuration goes by its name alone, each size by FAMILY-SIZE; what differs by more than spelling by none. */
static void test_names_that_people_say(void **state)
{
	static const struct {
		const char *name, *spec;
	} said[] = { { "LLAMA 2 7B", "meta-llama/Llama-2-7b-hf" },
		     { "mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1" },
		     { "gemma_3_27b", "google/gemma-3-27b-it" },
		     { "Qwen3-Coder-480B-A35B", "Qwen/Qwen3-Coder-480B-A35B-Instruct" },
		     { "mamba2-2.7b", "mamba2:size=2.7b" },
		     { "gpt-175B", "gpt:size=175b" },
		     { "Inception-v3", "inception_v3" },
		     { "ResNet 50", "resnet50" },
		     { "glm-4.5", NULL },
		     { "llama-3-8b", NULL },
		     { "gpt-17.5b", NULL } };
	const char *near, **known = mq_model_names(&arena);

	for (const char *const *name = mq_hf_shipped(&arena); *name; name++)
		assert_string_equal(mq_model_named(strchr(*name, '/') + 1, known, &arena, &near), *name);
	for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++) {
		const char *spec = mq_model_named(said[i].name, known, &arena, &near);

		assert_true(!spec == !said[i].spec);
		if (spec)
			assert_string_equal(spec, said[i].spec);
	}
	assert_int_equal(load("gpt-125m:layers=2", 64, &TRAIN)->n_ops,
			 load("gpt:size=125m,layers=2", 64, &TRAIN)->n_ops);
}

static void test_bad_specifications(void **state)
{
	refuse("nemotron-h:pattern=MX", "pattern 'MX'");
	refuse("nemotron-h:size=8b,pattern=ME", "experts=");
	refuse("mamba2:mamba_heads=3,groups=2", "multiple of groups=2");
	refuse("mamba2:size=9b", "it has: 1.3b");
	refuse("", "no model given");
	refuse("lama", "did you mean llama?");
	refuse("llama3-70b:seq=64", "did you mean meta-llama/Llama-3.1-70B, meta-llama/Llama-3.3-70B-Instruct?");
	refuse("glm-4.5", "no model 'glm-4.5'; did you mean zai-org/GLM-4.5-Air?");
	refuse("zai-org/GLM-4.5", "did you mean zai-org/GLM-4.5-Air?");
	refuse("nosuchmodel", "a name of `maquette list models`");
	refuse("none.onnx", "cannot open model file 'none.onnx'");
	refuse("gpt:layers=-1", "layers=-1 is out of range; give 1 to 10000");
	refuse("gpt:head=false,mtp=1", "head=false beside mtp");
	refuse("bert:head=false", "head=false beside BERT's heads");
	refuse("gpt:layers=2,hidden=nan", "hidden=nan is not a number");
	refuse("gpt:layers=0", "layers=0 is out of range");
	refuse("gpt:layers=1.5", "layers=1.5");
	refuse("gpt:hidden=1e30", "out of range");
	refuse("gpt:hidden=65,heads=2", "hidden=65 is not a multiple of heads=2");
	refuse("llama:heads=6,kv_heads=4,hidden=96", "heads=6 is not a multiple of kv_heads=4");
	refuse("gpt:layer=2", "did you mean 'layers'?");
	refuse("gpt:size=9b", "no size '9b'; it has: 1.3b");
	refuse("gpt:experts=4", "use the model 'moe'");
	refuse("moe:experts=2,top_k=3", "top_k=3 is out of range");
	refuse("vgg19:image=1", "there is no graph for image=1");
	refuse("t5:hidden=100,heads=8", "not a multiple of heads=8");
	refuse("gpt:task=span", "use the model 'bert'");
	refuse("/dev/null", "not a regular file");
	refuse("/", "config.json");
}

/* Bytes of an op in a pass, whole, and what the host launches for it. */
static double moved(const struct mq_question *q, const char *name, enum mq_phase phase, double *launches)
{
	struct mq_kernel kernel[MQ_MAX_KERNELS_PER_OP];
	const struct mq_share whole = { .samples = 1 };
	uint32_t id = (uint32_t)(op_of(q->model, name) - q->model->op);
	uint32_t n = mq_op_kernels(q, id, phase, &whole, "T", kernel);
	double bytes = 0;

	*launches = 0;
	for (uint32_t i = 0; i < n; i++) {
		bytes += kernel[i].bytes;
		*launches += kernel[i].launches;
	}
	return bytes;
}

/* Between router and products, counted in tokens of `hidden` elements and copies of `ffn` elements. */
static void test_steps_of_experts(void **state)
{
	enum { SEQ = 16, HIDDEN = 64, FFN = 32, K = 2, EXPERTS = 4 };
	struct mq_train train = TRAIN;
	const struct mq_model *m = load("moe:layers=1,hidden=64,heads=4,ffn=32,vocab=100,experts=4,"
					"top_k=2,bias=true,clamp=true",
					SEQ, &train);
	struct mq_software software = *mq_software_plain();
	const struct mq_question q = { .model = m, .calib = library_calib(), .software = &software, .train = &train };
	double size = mq_dtype_size(train.dtype), token = SEQ * HIDDEN * size, copy = K * token;
	double wide = K * SEQ * FFN * size, n;

	(void)state;
	assert_near(moved(&q, "layer0.dispatch", MQ_FORWARD, &n), token + 3 * copy);
	assert_near(moved(&q, "layer0.dispatch", MQ_BACKWARD, &n), token + 3 * copy);
	assert_near(moved(&q, "layer0.combine", MQ_FORWARD, &n), token + 3 * copy);
	assert_near(moved(&q, "layer0.combine", MQ_BACKWARD, &n), token + 4 * copy);
	assert_near(moved(&q, "layer0.experts.clamp", MQ_FORWARD, &n), 8 * wide);
	assert_near(moved(&q, "layer0.experts.clamp", MQ_BACKWARD, &n), 10 * wide);
	assert_near(moved(&q, "layer0.experts.bias", MQ_FORWARD, &n), 14 * copy);
	assert_near(n, 2 * EXPERTS);
	assert_near(moved(&q, "layer0.experts.bias", MQ_BACKWARD, &n), 20 * copy);
	train.gemm_dtype = MQ_GEMM_FP8; /* padded to blocks and cut again */
	assert_near(moved(&q, "layer0.dispatch", MQ_FORWARD, &n), token + 5 * copy);
	software.fused_experts = true;
	assert_near(moved(&q, "layer0.dispatch", MQ_FORWARD, &n), token + copy);
	assert_near(moved(&q, "layer0.combine", MQ_BACKWARD, &n), token + copy);
	assert_near(moved(&q, "layer0.experts.clamp", MQ_FORWARD, &n), 0);
	assert_near(moved(&q, "layer0.experts.bias", MQ_BACKWARD, &n), 0);
	assert_near(moved(&q, "layer0.experts.activation", MQ_FORWARD, &n), 0);
	/* The products stay. */
	assert_true(moved(&q, "layer0.experts.up", MQ_FORWARD, &n) > 0);
}

/* A fused kernel for rotary positions that cannot scale leaves YaRN's to eager ones; the others stay. */
static void test_yarn(void **state)
{
	struct mq_train train = TRAIN;
	struct mq_software software = *mq_software_plain();
	double plain[2], yarn[2], n;

	(void)state;
	for (int eager = 0; eager < 2; eager++) {
		struct mq_question q = { .calib = library_calib(), .software = &software, .train = &train };

		software.yarn = eager ? MQ_EAGER : MQ_FUSED;
		q.model = load("llama:layers=1,hidden=64,heads=4,ffn=32,vocab=100", 16, &train);
		plain[eager] = moved(&q, "layer0.attention", MQ_FORWARD, &n);
		q.model = load("llama:layers=1,hidden=64,heads=4,ffn=32,vocab=100,yarn=true", 16, &train);
		yarn[eager] = moved(&q, "layer0.attention", MQ_FORWARD, &n);
	}
	assert_near(plain[1], plain[0]);
	assert_near(yarn[0], plain[0]);
	software.rope = MQ_EAGER;
	const struct mq_question q = { .model = load("llama:layers=1,hidden=64,heads=4,ffn=32,vocab=100", 16, &train),
				       .calib = library_calib(),
				       .software = &software,
				       .train = &train };
	assert_true(yarn[1] > yarn[0]);
	assert_near(yarn[1], moved(&q, "layer0.attention", MQ_FORWARD, &n));
}

/* Every second layer, from the first on, sees w keys: n w - w^2/2 pairs of n^2/2. */
static void test_window(void **state)
{
	const struct mq_model *m = load("moe:layers=2,hidden=64,heads=4,ffn=32,vocab=100,experts=4,"
					"top_k=2,window=32",
					128, &TRAIN);
	double near = op_of(m, "layer0.attention")->flop, all = op_of(m, "layer1.attention")->flop;

	(void)state;
	assert_near(near / all, (128 * 32 - 32 * 32 / 2) / (128 * 128 / 2.0));
	m = load("moe:layers=1,hidden=64,heads=4,ffn=32,vocab=100,experts=4,top_k=2,window=999", 128, &TRAIN);
	assert_near(op_of(m, "layer0.attention")->flop, all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parameters),
		cmocka_unit_test(test_rounded_sizes),
		cmocka_unit_test(test_gpt_flops),
		cmocka_unit_test(test_llama_layer),
		cmocka_unit_test(test_experts),
		cmocka_unit_test(test_hybrid_sizes),
		cmocka_unit_test(test_mamba_layer),
		cmocka_unit_test(test_latent_experts_and_prediction),
		cmocka_unit_test(test_masked_tokens),
		cmocka_unit_test(test_tied_head),
		cmocka_unit_test(test_no_head),
		cmocka_unit_test(test_kept_activations),
		cmocka_unit_test(test_undropped_attention),
		cmocka_unit_test(test_fused_attention_keeps_no_scores),
		cmocka_unit_test(test_splits_conserve_work),
		cmocka_unit_test(test_steps_of_experts),
		cmocka_unit_test(test_yarn),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_inference_has_no_loss),
		cmocka_unit_test(test_seq_overrides),
		cmocka_unit_test(test_names_that_people_say),
		cmocka_unit_test(test_bad_specifications),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}

/*
 * test_format_files.c - the readers of model files: small files of tests/corpus with totals worked
 * out by hand, broken files with the message they must give, and the public data sets where they
 * are at hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

#include "maquette/model.h"
#include "model/format.h"
#include "model/formats/lib/huggingface.h"

#define CORPUS "tests/corpus/"
#define DATA   "../shared/data/"

static const struct mq_train TRAIN = { .batch = 1, .dtype = MQ_FP32, .grad_dtype = MQ_FP32 };

static struct mq_arena arena;

static int teardown(void **state)
{
	mq_arena_fini(&arena);
	return 0;
}

static const struct mq_model *load_seq(const char *spec, uint32_t seq)
{
	const struct mq_model_request request = { .spec = spec, .train = &TRAIN, .seq = seq };
	struct mq_model *model = NULL;
	struct mq_err err = MQ_ERR_INIT;

	if (mq_model_load(&request, &arena, &model, &err) != MQ_OK)
		fail_msg("%s: %s", spec, err.text);
	return model;
}

static const struct mq_model *load(const char *spec)
{
	return load_seq(spec, 0);
}

static void refuse(const char *spec, const char *part)
{
	const struct mq_model_request request = { .spec = spec, .train = &TRAIN };
	struct mq_model *model = NULL;
	struct mq_err err = MQ_ERR_INIT;

	assert_int_equal(mq_model_load(&request, &arena, &model, &err), MQ_EINPUT);
	if (!strstr(err.text, part))
		fail_msg("%s: '%s' does not say '%s'", spec, err.text, part);
}

static uint32_t id_of(const struct mq_model *m, const char *name)
{
	for (uint32_t i = 0; i < m->n_ops; i++)
		if (!strcmp(m->op[i].name, name))
			return i;
	fail_msg("%s has no op '%s'", m->name, name);
	return 0;
}

/* False, and said aloud, where the data are not at hand. */
static bool have(const char *path)
{
	if (!access(path, R_OK))
		return true;
	print_message("SKIPPED: %s is not here\n", path);
	return false;
}

/* ---- placement ------------------------------------------------------------------------------- */

static void test_placement(void **state)
{
	const struct mq_model *m = load(CORPUS "placement/training.json");
	uint32_t a = id_of(m, "a"), b = id_of(m, "b"), bgrad = id_of(m, "bgrad"), agrad = id_of(m, "agrad");
	const struct mq_profile *p = &m->profile;

	assert_int_equal(m->n_ops, 5);
	assert_int_equal(m->n_edges, 5);
	assert_int_equal(p->n_types, 2);
	assert_string_equal(p->type[0], "accelerator");
	assert_string_equal(p->type[1], "cpu");
	assert_true(p->forward_s[2 * a] == 1.5 && p->forward_s[2 * a + 1] == 15);
	assert_true(isinf(p->forward_s[2 * b]) && p->forward_s[2 * b + 1] == 25); /* not supported */
	assert_true(p->forward_s[2 * bgrad] == 5);
	assert_true(p->memory_B[a] == 100 && p->memory_B[agrad] == 10);
	assert_int_equal(m->op[a].mate, agrad);
	assert_int_equal(m->op[agrad].mate, a);
	assert_int_equal(m->op[b].mate, bgrad);
	assert_int_equal(m->op[agrad].phase, MQ_BACKWARD);
	assert_int_equal(m->op[a].color, 1);
	assert_int_equal(m->op[id_of(m, "free")].color, MQ_NONE);
	assert_true(m->op[a].output == .25 && m->op[bgrad].output == .75); /* c_v */
	assert_int_equal(m->devices.n_accelerators, 2);
	assert_int_equal(m->devices.n_cpus, 1);
	assert_true(m->devices.memory_B == 1000 && m->devices.bw_Bps == 0);
	assert_true(mq_model_totals(m).activation_elems == 0); /* edges are times */
}

static void test_broken_placement(void **state)
{
	refuse(CORPUS "placement/cycle.json", "is on a cycle");
	refuse(CORPUS "placement/negative.json", "nodes[0]: \"fpgaLatency\" is -1; give a number from 0");
	refuse(CORPUS "placement/nan.json", "nan.json:1:");
	refuse(CORPUS "placement/same-id.json", "two nodes have the id 1");
	refuse(CORPUS "placement/no-node.json", "edges[0]: \"destId\" is 5, but no node has that id");
	refuse(CORPUS "placement/types.json", "\"nodes\" is missing or no array");
	refuse(CORPUS "placement/training.json:a=b", "take no options");
}

static void test_placement_data(void **state)
{
	const char *dir = DATA "dnn-partitioning/throughput-inputs/";
	static const struct {
		const char *file;
		uint32_t ops, edges, accelerators, backward;
	} cases[] = {
		{ "LayerGraphs/bert24_training.json", 64, 110, 6, 32 },
		{ "LayerGraphs/inceptionv3_inference.json", 326, 363, 6, 0 },
		{ "OperatorGraphs/bert_L-12_training.json", 2012, 2751, 6, 1229 },
		{ "OperatorGraphs/resnet50_training.json", 1243, 1806, 6, 639 },
	};

	if (!have(dir))
		skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct mq_model *m = load(mq_arena_printf(&arena, "%s%s", dir, cases[i].file));
		uint32_t backward = 0;

		for (uint32_t k = 0; k < m->n_ops; k++)
			backward += m->op[k].phase == MQ_BACKWARD;
		assert_int_equal(m->n_ops, cases[i].ops);
		assert_int_equal(m->n_edges, cases[i].edges);
		assert_int_equal(m->devices.n_accelerators, cases[i].accelerators);
		assert_int_equal(backward, cases[i].backward);
	}
}

/* ---- PipeDream ------------------------------------------------------------------------------- */

static void test_pipedream(void **state)
{
	const struct mq_model *m = load(CORPUS "pipedream/small.txt");
	uint32_t conv = id_of(m, "node2.Conv2d"), relu = id_of(m, "node3.ReLU");

	/* The linear layer's 256 bytes are 8 features of 8 samples. The input is dropped. */
	assert_int_equal(m->n_ops, 3);
	assert_int_equal(m->n_edges, 2);
	assert_int_equal(m->profile.n_types, 1);
	assert_string_equal(m->profile.type[0], "*");
	assert_true(fabs(m->profile.forward_s[conv] - 2e-3 / 8) < 1e-18);
	assert_true(fabs(m->profile.backward_s[conv] - 4e-3 / 8) < 1e-18);
	assert_true(m->op[conv].param == 112 && m->op[conv].output == 64);
	assert_true(m->op[conv].saved == 64 && m->op[relu].saved == 0); /* in place */
	assert_true(m->edge[0].elems == 64);
}

static void test_pipedream_options(void **state)
{
	const struct mq_model *m = load(CORPUS "pipedream/no-batch.txt:batch=4,device=V100");

	assert_true(m->profile.forward_s[0] == 1e-3 / 4);
	assert_string_equal(m->profile.type[0], "V100");
}

static void test_pipedream_lstm(void **state)
{
	const struct mq_model *m = load(CORPUS "pipedream/lstm.txt");

	/* State of 256 bytes: width 16, so 4 samples. An item of the outputs has its own size. */
	assert_true(m->profile.forward_s[0] == 4e-3 / 4);
	assert_true(m->op[0].output == (2048 + 512) / 16.);
	assert_true(m->edge[0].elems == 2048 / 16.);
}

static void test_broken_pipedream(void **state)
{
	refuse(CORPUS "pipedream/no-batch.txt", "no-batch.txt:batch=N");
	refuse(CORPUS "pipedream/negative.txt", "negative.txt:1: forward_compute_time= no number from 0");
	refuse(CORPUS "pipedream/nan.txt", "nan.txt:1: forward_compute_time= no number");
	refuse(CORPUS "pipedream/cycle.txt", "is on a cycle");
	refuse(CORPUS "pipedream/broken.txt", "broken.txt:2: not a node");
	refuse(CORPUS "pipedream/no-node.txt", "no-node.txt:2: no node is called 'node7'");
	refuse(CORPUS "pipedream/small.txt:batch=0", "batch=0 is out of range");
	refuse(CORPUS "pipedream/small.txt:bach=2", "did you mean 'batch'?");
}

static void test_pipedream_data(void **state)
{
	static const struct {
		const char *name;
		double parameters, batch, first_ms; /* of the first op in the file that is not an input */
	} cases[] = {
		{ "alexnet", 61100840, 256, 0 },      { "vgg16", 138357544, 128, 0 }, { "resnet50", 25557032, 128, 0 },
		{ "inception_v3", 27161264, 128, 0 }, { "gnmt", 193765952, 32, 0 },
	};

	if (!have(DATA "pipedream"))
		skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *path = mq_arena_printf(&arena, DATA "pipedream/%s.graph.txt", cases[i].name);
		const struct mq_model *found = load(path);
		const struct mq_model *given = load(mq_arena_printf(&arena, "%s:batch=%.0f", path, cases[i].batch));

		assert_true(mq_model_totals(found).parameters == cases[i].parameters);
		for (uint32_t k = 0; k < found->n_ops; k++)
			assert_true(found->profile.forward_s[k] == given->profile.forward_s[k]);
	}
}

/* ---- Hugging Face ---------------------------------------------------------------------------- */

static void expect_same(const char *file, const char *spec, uint32_t seq)
{
	const struct mq_model *a = load_seq(file, seq), *b = load_seq(spec, seq);

	assert_int_equal(a->n_ops, b->n_ops);
	for (uint32_t i = 0; i < a->n_ops; i++) {
		assert_string_equal(a->op[i].name, b->op[i].name);
		if (a->op[i].flop != b->op[i].flop || a->op[i].param != b->op[i].param ||
		    a->op[i].saved != b->op[i].saved)
			fail_msg("%s differs from %s at %s", file, spec, a->op[i].name);
	}
}

static void test_huggingface(void **state)
{
	expect_same(CORPUS "huggingface/llama.json", "llama:layers=2,hidden=32,heads=4,kv_heads=2,ffn=48,vocab=100",
		    64);
	expect_same(CORPUS "huggingface/gpt2.json", "gpt:layers=2,hidden=32,heads=4,vocab=100", 64);
	expect_same(CORPUS "huggingface/mixtral.json",
		    "moe:layers=1,hidden=32,heads=4,kv_heads=2,ffn=48,vocab=100,experts=4", 64);
	expect_same(CORPUS "huggingface/bert.json", "bert:layers=1,hidden=32,heads=4,ffn=48,vocab=100", 64);
	expect_same(CORPUS "huggingface/nemotron_h.json:mtp=true",
		    "nemotron-h:pattern=ME*-,hidden=32,heads=4,kv_heads=2,head_dim=8,ffn=24,vocab=100,"
		    "mamba_heads=4,mamba_head_dim=16,groups=2,state=16,chunk=32,experts=8,top_k=2,"
		    "shared_ffn=48,latent=16,mtp=1",
		    64);
	expect_same(CORPUS "huggingface/gpt2.json:fused_attention=false",
		    "gpt:layers=2,hidden=32,heads=4,vocab=100,fused_attention=false", 64);
	/* Python's Infinity and NaN, outside texts */
	expect_same(CORPUS "huggingface/infinity.json", "llama:layers=2,hidden=32,heads=4,kv_heads=2,ffn=48,vocab=100",
		    64);
	/* Qwen2: a bias on Q, K and V alone, a tied head */
	const struct mq_model *m = load(CORPUS "huggingface/qwen2.json");
	assert_true(m->op[id_of(m, "layer0.qkv")].param == 32 * 64 + 64);
	assert_true(m->op[id_of(m, "layer0.proj")].param == 32 * 32);
	assert_true(m->op[id_of(m, "head")].param == 0);
	assert_int_equal(m->seq, 64);
}

/* Latent attention; the first layer dense, the second with four experts and a shared one. */
static void test_deepseek(void **state)
{
	const struct mq_model *m = load(CORPUS "huggingface/deepseek.json");
	double attention = 32 * (16 + 8 + 4) + (16 + 8) + 16 * 4 * 12 + 8 * 4 * 16 + 4 * 8 * 32;
	double dense = 32 * 96 + 48 * 32, expert = 32 * 16 + 8 * 32;
	double rest = 2 * 100 * 32 + 5 * 32; /* embedding, head, norms */
	const struct mq_op *op = &m->op[id_of(m, "layer1.attention")];

	assert_true(mq_model_totals(m).parameters == rest + 2 * attention + dense + 32 * 4 + 5 * expert);
	/* Q and K are 12 wide, V 8 */
	assert_true(op->flop == 2 * 64 * 64 * 4 * (12 + 8));
	assert_true(op->output == 64 * 4 * 8 && op->read == 64 * 4 * (12 + 12 + 8));
	/* compressed layers are whole on every tensor-parallel rank */
	assert_false(m->op[id_of(m, "layer0.latent")].splits & 1u << MQ_DIM_OUT);
}

static double param_of(const struct mq_model *m, const char *op)
{
	return m->op[id_of(m, op)].param;
}

static bool is_near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * b;
}

/* Parts that are not attention over all keys, by hand from their papers; 4 layers of width 32, 64 tokens. */
static void test_linear_parts(void **state)
{
	/* Gated delta-net: 2 heads of keys 8 wide, 4 of values 16 wide */
	const struct mq_model *m = load(CORPUS "huggingface/qwen3_next.json");
	double c = 64, k = 8, v = 16;

	assert_true(param_of(m, "layer0.in_proj") == 32 * (2 * 2 * k + 2 * 4 * v + 2 * 4));
	assert_true(param_of(m, "layer0.conv") == 4 * (2 * 2 * k + 4 * v));
	assert_true(param_of(m, "layer0.scan") == 2 * 4 && param_of(m, "layer0.gate") == v);
	assert_true(param_of(m, "layer0.out_proj") == 4 * v * 32);
	assert_true(is_near(m->op[id_of(m, "layer0.scan")].flop,
			    64 * 4 * (6 * c * k + 4 * c * v + 6 * k * v + 2 * c * c / 3)));
	assert_true(param_of(m, "layer3.qkv") == 32 * (2 * 32 + 2 * 16)); /* a gate as wide as the output */
	assert_true(param_of(m, "layer1.experts.up") == 8 * 32 * 2 * 16);
	/* Kimi's: decay and gate through 8 channels; latent attention in the last layer, the first without experts */
	m = load(CORPUS "huggingface/kimi_linear.json");
	assert_true(param_of(m, "layer0.in_proj") == 32 * (3 * 32 + 4) && param_of(m, "layer0.decay_up") == 8 * 32);
	assert_true(param_of(m, "layer0.up") == 32 * 96 && param_of(m, "layer1.experts.up") == 4 * 32 * 32);
	assert_true(param_of(m, "layer3.kv") == 8 * 4 * 16 && !(m->op[id_of(m, "layer3.attention")].rotated > 0));
	/* Mamba-1: 64 channels, state 4, steps of rank 2; attention in layer 1, experts in 1 and 3 */
	m = load(CORPUS "huggingface/jamba.json");
	assert_true(param_of(m, "layer0.in_proj") == 32 * 128 && param_of(m, "layer0.x_proj") == 64 * (2 + 8));
	assert_true(param_of(m, "layer0.dt_proj") == 2 * 64 + 64 && param_of(m, "layer0.scan") == 64 * (4 + 1));
	assert_true(m->op[id_of(m, "layer0.scan")].flop == 64 * 9 * 64 * 4);
	assert_true(param_of(m, "layer1.qkv") == 32 * 64 && param_of(m, "layer3.router") == 32 * 4);
	assert_true(param_of(m, "layer2.up") == 32 * 96);
	/* Mamba-2 beside attention; short convolutions; lightning attention */
	m = load(CORPUS "huggingface/falcon_h1.json");
	assert_true(param_of(m, "layer0.in_proj") == 32 * (32 + 40 + 4) && param_of(m, "layer0.qkv") == 32 * 64);
	m = load(CORPUS "huggingface/lfm2.json");
	assert_true(param_of(m, "layer0.in_proj") == 32 * 96 && param_of(m, "layer0.conv") == 3 * 32);
	assert_true(param_of(m, "layer2.qkv") == 32 * 64);
	m = load(CORPUS "huggingface/minimax.json");
	assert_true(param_of(m, "layer0.in_proj") == 32 * 4 * 32);
	assert_true(m->op[id_of(m, "layer0.scan")].flop == 64 * 4 * (2 * 256 * 16 + 4 * 8 * 8));
	assert_true(param_of(m, "layer3.qkv") == 32 * 64);
}

static void test_sparse_parts(void **state)
{
	/* Each query sees the 16 best of the keys before it: 64 16 - 16^2 / 2 pairs of 64^2 / 2 */
	const struct mq_model *m = load(CORPUS "huggingface/deepseek_v32.json");
	const struct mq_op *a = &m->op[id_of(m, "layer0.attention")];

	assert_true(is_near(a->flop, 2 * 64 * 64 * 4 * (12 + 8) * (64 * 16 - 16 * 16 / 2.) / (64 * 64 / 2.)));
	assert_true(param_of(m, "layer0.index.q") == 16 * 16 && param_of(m, "layer0.index.k") == 32 * 8);
	assert_true(m->op[id_of(m, "layer0.index.scores")].flop == 2. * 64 * 64 * 8 * 2);
	/* Gemma 4: layers that see all keys have wider heads, and no V of their own */
	m = load(CORPUS "huggingface/gemma4_text.json");
	assert_true(param_of(m, "layer0.qkv") == 32 * (32 + 2 * 16) && param_of(m, "layer3.qkv") == 32 * (64 + 16));
	a = &m->op[id_of(m, "layer0.attention")];
	assert_true(is_near(a->flop, 4. * 64 * 64 * 8 * 4 * (64 * 16 - 16 * 16 / 2.) / (64 * 64 / 2.)));
	assert_true(m->op[id_of(m, "layer3.attention")].flop == 4. * 64 * 64 * 16 * 4);
}

/* What is written is read as the same model. */
static void test_written_huggingface(void **state)
{
	static const char *const files[] = { "llama",    "gpt2",         "mixtral",    "qwen2",      "bert",
					     "deepseek", "deepseek_v32", "qwen3_next", "nemotron_h", "infinity" };
	char dir[] = "/tmp/maquette-test-XXXXXX", path[64];
	struct mq_err err = MQ_ERR_INIT;

	assert_non_null(mkdtemp(dir));
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		snprintf(path, sizeof(path), CORPUS "huggingface/%s.json", files[i]);
		const struct mq_model *m = load(path), *again;
		snprintf(path, sizeof(path), "%s/config.json", dir);
		FILE *file = fopen(path, "w");
		assert_non_null(file);
		if (mq_hf_write(m->stack, file, &err) != MQ_OK)
			fail_msg("%s: %s", files[i], err.text);
		assert_int_equal(fclose(file), 0);
		again = load(path);
		assert_int_equal(again->n_ops, m->n_ops);
		for (uint32_t op = 0; op < m->n_ops; op++)
			assert_true(again->op[op].param == m->op[op].param && again->op[op].flop == m->op[op].flop);
	}
	unlink(path);
	rmdir(dir);
}

/* 16 patches of 4 x 4 pixels, joined by fours to 4 tokens; a projector at the end, and one behind the first block. */
static void test_towers(void **state)
{
	const struct mq_model *m = load(CORPUS "huggingface/qwen3_vl.json");
	double block = 4 * (16 * 16 + 16) + 2 * 16 * 32 + 32 + 16 + 4 * 16, merger = 64 * 64 + 64 + 64 * 32 + 32;
	double tower = 2 * 3 * 16 * 16 + 16 + 9 * 16 + 2 * block + 2 * 16 + 2 * merger, sum = 0;

	for (uint32_t i = 0; i < m->n_ops; i++)
		sum += strncmp(m->op[i].name, "vision.", 7) ? 0 : m->op[i].param;
	assert_true(sum == tower);
	assert_null(m->stack); /* no single stack to be written down */
	assert_true(m->op[id_of(m, "vision.layer0.attention")].m == 16);
	assert_true(m->op[id_of(m, "vision.projector0")].m == 4);
	assert_true(mq_model_totals(load(CORPUS "huggingface/qwen3_vl.json:towers=false")).parameters + tower ==
		    mq_model_totals(m).parameters);
	refuse(CORPUS "huggingface/qwen3_vl.json:image=64", "an image makes 64 of a sequence's 64 tokens");
	refuse(CORPUS "huggingface/nested.json", "sliding_window may change");
}

static void test_broken_huggingface(void **state)
{
	refuse(CORPUS "huggingface/unknown.json",
	       "\"model_type\" is falcon9, not a family that is read (did you mean falcon)");
	refuse(CORPUS "huggingface/negative.json", "\"model_type\" is missing");
	refuse(CORPUS "huggingface/mixture.json", "no Llama: num_local_experts num_experts_per_tok may change");
	refuse(CORPUS "huggingface/nested.json",
	       "text_config: \"model_type\" is speaks, not a family that is read, and no "
	       "Llama: sliding_window may change");
	refuse(CORPUS "huggingface/overflow.json", "overflow.json:1:");
	refuse(CORPUS "huggingface/pattern.json", "pattern 'MX' is not a letter of M * - E");
	refuse(CORPUS "huggingface/types.json", "\"hidden_size\" is an array; give a whole number");
	refuse(CORPUS "huggingface/heads.json", "hidden=33 is not a multiple of heads=4");
	refuse(CORPUS "huggingface/gpt2.json:fused_attention=maybe", "neither true nor false");
}

/* ---- ONNX ------------------------------------------------------------------------------------ */

static void test_onnx(void **state)
{
	const struct mq_model *m = load(CORPUS "onnx/cnn.onnx");
	const struct mq_model_totals t = mq_model_totals(m);

	/* 3x8x8 -> conv 4 of 3x3 -> batch norm -> ReLU -> max pool 2 -> 64 -> 5 -> softmax */
	assert_int_equal(m->n_ops, 7);
	assert_int_equal(m->n_edges, 6);
	assert_true(t.parameters == 3 * 4 * 9 + 4 + 4 * 4 + 64 * 5 + 5);
	assert_true(t.forward_flop == 55 * 256 + 4 * 256 + 256 + 4 * 64 + 129 * 5 + 25);
	assert_true(t.backward_flop == 55 * 256 + 2 * 4 * 256 + 256 + 4 * 64 + 2 * 129 * 5 + 25);
	assert_true(t.activation_elems == 3 * 256 + 64 + 64 + 5 + 5);
	/* kept: the norm's and the last product's inputs, ReLU's output, the mask, the softmax */
	assert_true(m->op[0].saved == 256 && m->op[1].saved == 0 && m->op[2].saved == 256);
	assert_true(m->op[3].saved == 64 + 32 && m->op[4].saved == 0 && m->op[6].saved == 5);
	assert_string_equal(m->unit, "image");
}

/* A weight in a Constant node, and the same transposed: y = x W, z = y W^T. */
static void test_onnx_constant(void **state)
{
	const struct mq_model_totals t = mq_model_totals(load(CORPUS "onnx/constant.onnx"));

	assert_true(t.parameters == 16 * 8);
	assert_true(t.forward_flop == 2 * 2 * 16 * 8);
	assert_true(t.backward_flop == 3 * 2 * 16 * 8); /* nothing wants the gradient of x */
}

/* Shapes that the graph computes from its input's, a batch of two in the file, weights split and
 * folded. */
static void test_onnx_attention(void **state)
{
	const struct mq_model *m = load_seq(CORPUS "onnx/attention.onnx", 10);
	const struct mq_op *scores = &m->op[id_of(m, "sc.MatMul")];

	assert_int_equal(m->n_ops, 18);
	assert_true(mq_model_totals(m).parameters == 100 * 16 + 32 + 16 * 48 + 48 + 16 * 16);
	assert_int_equal(scores->kind, MQ_OP_BMM);
	assert_true(scores->m == 10 && scores->n == 10 && scores->k == 4 && scores->count == 4);
	assert_true(scores->flop == 2 * 10 * 10 * 16);
	assert_true(m->op[id_of(m, "q0.MatMul")].m == 10);
	assert_true(m->op[id_of(m, "q0.MatMul")].flop == 2 * 10 * 16 * 48);
	assert_int_equal(m->op[id_of(m, "e.Gather")].kind, MQ_OP_EMBEDDING);
	assert_true(m->tokens_per_sample == 10);
}

/* 6x4x5 by a transposed convolution of stride 2 and 1, in two groups: 4x8x5. */
static void test_onnx_upsampling(void **state)
{
	const struct mq_model *m = load(CORPUS "onnx/upsample.onnx");

	assert_int_equal(m->n_ops, 5);
	assert_true(m->op[0].flop == 2 * (4 * 5) * (2 * 2 * 3) * 3 * 2 + 160);
	assert_true(m->op[0].param == 6 * 2 * 2 * 3 + 4 && m->op[0].output == 4 * 8 * 5);
	assert_true(m->op[1].output == 160 && m->op[2].output == 160);
	assert_true(m->op[3].output == 320 && m->op[4].output == 320); /* tiled; all 4 channels */

	/* The same file for three images at once is the same for one. */
	static const char one[] = "\x0a\x02\x08\x01\x0a\x02\x08\x06";
	char path[] = "/tmp/maquette-test-XXXXXX.onnx", data[1024];
	FILE *in = fopen(CORPUS "onnx/upsample.onnx", "rb");
	size_t size = fread(data, 1, sizeof(data), in);
	char *images = memmem(data, size, one, sizeof(one) - 1);
	FILE *out = fdopen(mkstemps(path, 5), "wb");

	fclose(in);
	assert_non_null(images);
	images[3] = 3;
	fwrite(data, 1, size, out);
	fclose(out);
	const struct mq_model *three = load(path);
	unlink(path);
	for (uint32_t i = 0; i < m->n_ops; i++) {
		assert_true(fabs(three->op[i].flop - m->op[i].flop) < 1e-9 * (m->op[i].flop + 1));
		assert_true(fabs(three->op[i].output - m->op[i].output) < 1e-9 * (m->op[i].output + 1));
	}
}

/* A graph for any sequence length, and what a broken one is told. */
static void test_graph(void **state)
{
	static const struct {
		const char *file, *part;
	} broken[] = {
		{ "cycle", "on a cycle" },
		{ "negative", "line 2: \"m\" is negative or huge" },
		{ "twice", "line 3: \"name\" stands for two ops" },
		{ "unknown", "line 2: \"from\" names no op of the graph" },
		{ "kind", "line 2: \"kind\" is missing or not known" },
		{ "like", "line 2: \"like\" names an op that does not stand before" },
		{ "cut", "each line must be a whole JSON object" },
		{ "pixels", "line 2: \"pixels\" is no list of 8 sizes" },
		{ "empty", "has no ops" },
	};
	const struct mq_model *m = load_seq("tests/corpus/graph/polynomial.jsonl", 10);

	assert_int_equal(m->n_ops, 2);
	assert_true(m->op[0].m == 10 && m->op[0].output == 40 && m->op[0].extent[MQ_DIM_SEQ] == 10);
	assert_true(m->edge[0].elems == 1 + 2 * 10 + 3 * 100 && m->edge[0].no_grad);
	assert_int_equal(m->op[0].splits, 1 << MQ_DIM_BATCH | 1 << MQ_DIM_SEQ | 1 << MQ_DIM_OUT);
	m = load("tests/corpus/graph/backward.jsonl");
	assert_true(m->op[1].phase == MQ_BACKWARD && m->op[1].mate == 0 && m->op[0].mate == 1 && m->op[0].color == 1);
	for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++)
		refuse(mq_arena_printf(&arena, "tests/corpus/graph/%s.jsonl", broken[i].file), broken[i].part);
	refuse("tests/corpus/graph/transgan.jsonl:heads=3", "was not made for heads=3; its parameters are: width=32");
	refuse("ssd300:image=400", "there is no graph for image=400; give image=300,classes=81");
	refuse("transformer_xl:size=small", "there is no graph for size=small");
}

static void test_broken_onnx(void **state)
{
	refuse(CORPUS "onnx/attention.onnx", "axis 1 of input 'ids', length is left open");
	refuse(CORPUS "onnx/channels.onnx", "Conv node 'y': 3 input channels do not fit a weight for 5");
	refuse(CORPUS "onnx/cycle.onnx", "node 1 (Add) uses 'c' before any node makes it");
	refuse(CORPUS "onnx/negative.onnx", "axis 2 has the size -3");
	refuse(CORPUS "onnx/nested.onnx", "nested deeper than 32 levels");
	refuse(CORPUS "onnx/twice.onnx", "makes 'y' a second time");
	refuse(CORPUS "onnx/unknown-op.onnx", "Foo node 'y': this operator is not supported");
}

/* YaRN scales what it turns, but not where two of its factors cancel; another kind of stretch does not. */
static void test_yarn(void **state)
{
	static const struct {
		const char *scaling;
		bool scaled;
	} cases[] = {
		{ "{\"rope_type\": \"yarn\", \"factor\": 32}", true },
		{ "{\"type\": \"yarn\", \"factor\": 40, \"mscale\": 1.0, \"mscale_all_dim\": 1.0}", false },
		{ "{\"type\": \"yarn\", \"factor\": 40, \"mscale\": 1.0, \"mscale_all_dim\": 0.5}", true },
		{ "{\"rope_type\": \"llama3\", \"factor\": 8}", false },
		{ "null", false },
	};
	char dir[] = "/tmp/maquette-test-XXXXXX", path[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/config.json", dir);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		FILE *out = fopen(path, "w");

		assert_non_null(out);
		fprintf(out,
			"{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_hidden_layers\": 1, "
			"\"num_attention_heads\": 4, \"intermediate_size\": 128, \"vocab_size\": 100, "
			"\"rope_scaling\": %s}",
			cases[i].scaling);
		assert_int_equal(fclose(out), 0);
		const struct mq_model *m = load(path);
		bool scaled = false;
		for (uint32_t k = 0; k < m->n_ops; k++)
			scaled |= m->op[k].scaled;
		assert_int_equal(scaled, cases[i].scaled);
	}
	unlink(path);
	rmdir(dir);
}

static void test_cut_files(void **state)
{
	char dir[] = "/tmp/maquette-test-XXXXXX", path[64];
	char bytes[256];

	assert_non_null(mkdtemp(dir));
	FILE *in = fopen(CORPUS "onnx/cnn.onnx", "rb");
	assert_non_null(in);
	assert_int_equal(fread(bytes, 1, sizeof(bytes), in), sizeof(bytes));
	fclose(in);
	snprintf(path, sizeof(path), "%s/cut.onnx", dir);
	FILE *out = fopen(path, "wb");
	assert_non_null(out);
	fwrite(bytes, 1, sizeof(bytes), out);
	assert_int_equal(fclose(out), 0);
	refuse(path, "not a complete ONNX model");
	out = fopen(path, "wb");
	assert_non_null(out);
	assert_int_equal(fclose(out), 0);
	refuse(path, "is empty");
	unlink(path);
	snprintf(path, sizeof(path), "%s/config.json", dir);
	out = fopen(path, "w");
	assert_non_null(out);
	fputs("{\"model_type\": \"llama\", \"hidden_si", out);
	assert_int_equal(fclose(out), 0);
	refuse(dir, "config.json:1:"); /* a folder stands for its config.json */
	unlink(path);
	rmdir(dir);
	refuse(CORPUS "model/text", "is no model file that can be read");
}

/* Totals of the graphs derived beside the files: FLOPs, bytes of outputs and parameters, op for op.
 */
static void compare_graph(const char *name)
{
	const struct mq_model *m = load(mq_arena_printf(&arena, DATA "onnx-light/light_%s.onnx", name));
	json_error_t e;
	json_t *graph = json_load_file(mq_arena_printf(&arena, DATA "onnx-light/%s.graph.json", name), 0, &e);
	json_t *nodes = json_object_get(graph, "nodes");
	size_t edges = 0;

	assert_non_null(graph);
	assert_int_equal(m->n_ops, json_array_size(nodes));
	for (uint32_t i = 0; i < m->n_ops; i++) {
		json_t *node = json_array_get(nodes, i);

		assert_true(m->op[i].flop == json_number_value(json_object_get(node, "fwd_flops")));
		assert_true(4 * m->op[i].param == json_number_value(json_object_get(node, "param_bytes")));
		assert_true(4 * m->op[i].output == json_number_value(json_object_get(node, "out_bytes")));
		edges += json_array_size(json_object_get(node, "inputs"));
	}
	assert_int_equal(m->n_edges, edges);
	json_decref(graph);
}

static void test_onnx_data(void **state)
{
	if (!have(DATA "onnx-light"))
		skip();
	compare_graph("inception_v1");
	compare_graph("resnet50");
	compare_graph("squeezenet");
	compare_graph("vgg19");
}

/* The built-in ResNet-50 is the same computation as the exported one, batch norm's averages apart.
 */
static void test_builder_agrees_with_onnx(void **state)
{
	if (!have(DATA "onnx-light/light_resnet50.onnx"))
		skip();
	const struct mq_model *a = load(DATA "onnx-light/light_resnet50.onnx"), *b = load("resnet50");

	assert_true(mq_model_totals(a).forward_flop == mq_model_totals(b).forward_flop);
	assert_true(mq_model_totals(a).backward_flop == mq_model_totals(b).backward_flop);
	assert_true(mq_model_totals(a).parameters == mq_model_totals(b).parameters + 2 * 26560);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_placement),
		cmocka_unit_test(test_broken_placement),
		cmocka_unit_test(test_placement_data),
		cmocka_unit_test(test_pipedream),
		cmocka_unit_test(test_pipedream_options),
		cmocka_unit_test(test_pipedream_lstm),
		cmocka_unit_test(test_broken_pipedream),
		cmocka_unit_test(test_pipedream_data),
		cmocka_unit_test(test_huggingface),
		cmocka_unit_test(test_deepseek),
		cmocka_unit_test(test_linear_parts),
		cmocka_unit_test(test_sparse_parts),
		cmocka_unit_test(test_towers),
		cmocka_unit_test(test_written_huggingface),
		cmocka_unit_test(test_broken_huggingface),
		cmocka_unit_test(test_yarn),
		cmocka_unit_test(test_onnx),
		cmocka_unit_test(test_onnx_constant),
		cmocka_unit_test(test_onnx_attention),
		cmocka_unit_test(test_onnx_upsampling),
		cmocka_unit_test(test_graph),
		cmocka_unit_test(test_broken_onnx),
		cmocka_unit_test(test_cut_files),
		cmocka_unit_test(test_onnx_data),
		cmocka_unit_test(test_builder_agrees_with_onnx),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}

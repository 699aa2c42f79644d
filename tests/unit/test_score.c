/*
 * test_score.c - error summaries, rank correlation and regret against values worked out by hand; the
 * tables of models, publishers and their words; the job that a row of measurements becomes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "score/groups.h"
#include "score_rows.h"

static void test_stats(void **state)
{
	const double error[] = { .1, -.3, .2, 0 };
	struct mq_errors s = mq_errors_of(error, 4, &arena);

	assert_int_equal(s.n, 4);
	near(s.mean, .15);
	near(s.median, .15);
	near(s.bias, 0);
	near(s.worst, .3);
	near(s.p90, .2 + .7 * .1); /* 0.9 x 3 = 2.7: between the third and the fourth */
	assert_true(isnan(mq_errors_of(error, 0, &arena).mean));
}

static void test_rank(void **state)
{
	const double x[] = { 1, 2, 3, 4, 5 }, y[] = { 2, 1, 4, 3, 5 }, flat[] = { 1, 1, 1, 1, 1 };
	const double tied[] = { 1, 2, 2, 3, 4 };

	near(mq_spearman(x, x, 5, &arena), 1);
	near(mq_spearman(x, y, 5, &arena), 1 - 6.0 * 4 / (5 * 24));
	/* ranks 1, 2.5, 2.5, 4, 5 against 1..5: 9.5 / sqrt(10 * 9.5) */
	near(mq_spearman(x, tied, 5, &arena), 9.5 / sqrt(95));
	assert_true(isnan(mq_spearman(x, flat, 5, &arena)));
	assert_true(isnan(mq_spearman(x, y, 2, &arena)));
	near(mq_regret(y, x, 5), 2); /* 1 is predicted for the second, measured 2 */
	near(mq_regret(x, x, 5), 1);
}

/* Two sets of runs: plans of a batch of 64, of which the one ranked first took 4 s and the best 3, and a run of
 * another batch that has nothing to be ranked with. A refused row takes no part. */
static void test_groups(void **state)
{
	const double predicted[] = { 5, 9, 2, 1, 4 }, measured[] = { 3, 9, 4, 1, 1 };
	struct mq_run run[5];
	struct mq_case c[5];
	enum mq_verdict verdict[5] = { MQ_VERDICT_OK, MQ_VERDICT_OK, MQ_VERDICT_OK, MQ_VERDICT_OK, MQ_VERDICT_REFUSED };
	struct mq_judged_table t = { .stem = "t", .run = run, .n = 5, .c = c, .verdict = verdict };

	(void)state;
	t.step_s = mq_arena_array(&arena, 5, double);
	for (uint32_t i = 0; i < 5; i++) {
		run[i] = gpt();
		run[i].step_time_s = measured[i];
		t.step_s[i] = predicted[i];
		c[i] = (struct mq_case){ .run = &run[i], .system.name = "s" };
	}
	run[3].gbs = 8;
	struct mq_score_groups g = mq_score_groups(&t, &arena);
	assert_int_equal(g.n, 2);
	assert_int_equal(g.group[0].n, 3);
	assert_true(g.group[0].first == 2 && g.group[0].best == 0);
	near(g.group[0].regret, 4.0 / 3);
	near(g.group[0].spearman, .5); /* ranks 2 3 1 and 1 3 2: 1 - 6 (1 + 0 + 1) / (3 x 8) */
	assert_true(isnan(g.group[1].regret) && isnan(g.group[1].spearman));
	near(g.regret, 4.0 / 3);
	near(g.spearman, .5);
}

static void test_patterns(void **state)
{
	assert_true(mq_pattern_fits("", "anything"));
	assert_true(mq_pattern_fits("A100*;H100*", "H100-80GB"));
	assert_false(mq_pattern_fits("A100*;H100*", "H200"));
	assert_true(mq_pattern_fits("*", ""));
	assert_false(mq_pattern_fits("8", "4"));
}

static void test_case(void **state)
{
	struct mq_run r = gpt();
	struct mq_case c;

	build(&r, &c);
	assert_int_equal(c.shape.dp, 4);
	assert_int_equal(c.shape.micro_batches, 8);
	assert_int_equal(c.part[0].nodes, 4);
	assert_null(c.shape.device);
	assert_string_equal(c.system.device, "A100-SXM4-80GB");
	assert_true(c.train.dtype == MQ_FP16 && c.train.batch == 64);
	assert_null(c.shape.stage_layers);
	assert_non_null(strstr(c.spec, "gpt:layers=24,hidden=1024,heads=16,vocab=51200"));

	/* 30 items of which 24 are layers: three before, three behind */
	r.pp = 4;
	r.stage_layers = "9/6/6/9";
	build(&r, &c);
	for (int s = 0; s < 4; s++)
		assert_int_equal(c.shape.stage_layers[s], 6);

	r.stage_layers = "13/11/0/0"; /* the third has head and loss, the fourth idles */
	build(&r, &c);
	assert_int_equal(c.shape.pp, 3);
	assert_int_equal(c.shape.stage_layers[1], 11);
	assert_int_equal(c.shape.stage_layers[2], 0);

	r.zero = "ZeRO-1 within 8 GPUs";
	r.stage_layers = "";
	r.pp = r.tp = 1;
	build(&r, &c);
	assert_int_equal(c.shape.sync, MQ_SYNC_ZERO1);
	assert_int_equal(c.zero_group, 8);

	struct mq_run image = gpt();
	image.model = "PyTorch/Classification/ConvNets/resnet50v1.5";
	image.layers = image.hidden = image.seq = NAN;
	image.tp = image.pp = 1;
	build(&image, &c);
	assert_true(c.image && c.train.optimizer == MQ_OPTIMIZER_MOMENTUM);
	assert_string_equal(c.spec, "resnet50:image=224");

	r.precision = "MXFP8";
	r.gpu = "H100";
	build(&r, &c);
	assert_true(c.train.products == MQ_FP8 && c.train.mx && c.train.dtype == MQ_BF16);

	r.precision = "float8 (rowwise)";
	build(&r, &c);
	assert_true(c.train.products == MQ_FP8 && !c.train.mx && c.train.dtype == MQ_BF16);

	/* software that trains in fp8 where the row says nothing; its releases differ */
	r.software = r.precision = "";
	r.source = "NeMo";
	build(published(&r), &c);
	assert_true(c.train.products == MQ_FP8 && c.software.software.deepep);
	assert_string_equal(c.software.software.name, "megatron-bridge");
	assert_false(c.software.software.fused_experts);
	r.locator = "line 60; \"26.08 NeMo Container\"";
	build(published(&r), &c);
	assert_string_equal(c.software.software.name, "megatron-bridge-26.06");
	assert_true(c.software.software.fused_experts);
}

/* What `simulate` is asked: the same model, machines, software and training, past memory where the run fitted. */
static void test_job(void **state)
{
	struct mq_run r = gpt();
	struct mq_case c;

	(void)state;
	r.software = "megatron-core";
	build(&r, &c);
	assert_string_equal(c.job.model, c.spec);
	assert_string_equal(c.job.platform, c.platform);
	assert_string_equal(c.job.software, "megatron-core");
	assert_true(c.job.train.batch == 64 && c.job.train.dtype == MQ_FP16 && !c.job.analytic);
	assert_true(c.job.train.grad_dtype == MQ_FP32); /* of the software */
	assert_true(c.job.time_oom && c.job.max_tasks == 4e6);
	assert_int_equal(c.job.n_change, 0);
	assert_int_equal(c.plan.says, 0); /* overlaps and buckets are the software's */
	assert_int_equal(c.plan.micro_batches, 8);
	r.step_time_s = NAN;
	r.status = "oom";
	options.executor = "analytic";
	build(&r, &c);
	assert_true(!c.job.time_oom && c.job.analytic);
	/* hosts slower than those that the calibration was taken with are a change of the hardware */
	r.gpu = "V100";
	r.gpus_per_node = 4;
	r.inter = "10 Gb/s";
	build(&r, &c);
	assert_int_equal(c.job.n_change, 1);
	assert_non_null(strstr(c.job.change[0], "calib.V100-SXM2-16GB.host_launch_s="));
}

/* Columns of the row win over its source's words: the software, its options, its fields by name, the machines. */
static void test_columns(void **state)
{
	struct mq_run r = gpt(), *own;
	struct mq_case c;

	(void)state;
	r.software = "";
	r.source = "github pytorch/torchtitan";
	build(published(&r), &c);
	assert_string_equal(c.software.software.name, "torchtitan-eager");
	assert_null(c.guess);
	r.software = "deepspeed";
	build(published(&r), &c);
	assert_string_equal(c.software.software.name, "deepspeed");
	r.options = "norm=eager;attention=stored";
	build(published(&r), &c);
	assert_string_equal(c.software.software.name, "deepspeed,norm=eager,attention=stored");
	assert_string_equal(c.software.software.file, "deepspeed");
	assert_int_equal(c.software.software.norm, MQ_EAGER);
	assert_true(mq_software_stores_scores(&c.software.software));

	/* any field as a column; what is no column of a row and no field, is none */
	assert_true(mq_run_put(&r, "traffic", "2.5", true, &arena));
	assert_true(mq_run_put(&r, "tp", "2", true, &arena));
	assert_true(mq_run_put(&r, "vocab", "50k", true, &arena));
	assert_true(r.vocab == 50000);
	assert_true(mq_run_put(&r, "vocab", "1000", true, &arena));
	assert_false(mq_run_put(&r, "colour", "red", true, &arena));
	build(published(&r), &c);
	assert_true(c.software.software.traffic == 2.5 && c.shape.tp == 2);
	assert_true(mq_run_put(&r, "tp", "4", false, &arena)); /* fills only */
	assert_true(r.tp == 2);

	/* nobody knows the source: generic, and it is told */
	r = gpt();
	r.software = "";
	build(published(&r), &c);
	assert_string_equal(c.software.software.name, "generic");
	assert_non_null(strstr(c.guess, "software generic"));

	/* words of a source; what the row says itself comes last */
	r.recompute = "selective + sequence parallel";
	r.notes = "fp32 gradient accumulation";
	r.options = "bucket_MB=7";
	own = published(&r);
	build(own, &c);
	assert_true(c.software.software.sequence_parallel && c.software.software.bucket_MB == 7);
	assert_int_equal(c.train.grad_dtype, MQ_FP32);
	assert_int_equal(c.shape.recompute, MQ_RECOMPUTE_SELECTIVE);
	r.options = "sequence_parallel=0";
	build(published(&r), &c);
	assert_false(c.software.software.sequence_parallel);

	/* machines: keys of the generator, a name, a file */
	r = gpt();
	r.platform = "gpu=A100-SXM4-80GB nodes=4 nics=1 nic_GBps=12.5";
	build(&r, &c);
	assert_int_equal(platform_of(&c).nodes, 4);
	assert_true(platform_of(&c).nic_GBps == 12.5 && platform_of(&c).nics == 1);
	assert_string_equal(c.network, "row");
	r.platform = "dgx_a100_ib";
	build(&r, &c);
	assert_string_equal(c.job.platform, "dgx_a100_ib");
	assert_int_equal(c.n_parts, 0);
}

/* A model that no table knows is taken by its dimensions. */
static void test_dimensions(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_run r = gpt();
	struct mq_case c;

	(void)state;
	r.model = "Aurora";
	build(&r, &c);
	assert_non_null(strstr(c.spec, "gpt:layers=24,hidden=1024,heads=16"));
	assert_non_null(strstr(c.guess, "'Aurora' taken for a gpt"));
	r.ffn = 2816;
	build(&r, &c);
	assert_non_null(strstr(c.spec, "llama:layers=24,hidden=1024,heads=16"));
	r.ffn = NAN;
	r.params_b = (24 * (4 + 3 * 4) * 1024. * 1024 + 2 * 1024. * 51200) / 1e9; /* gated, of that width */
	build(&r, &c);
	assert_non_null(strstr(c.spec, "llama:"));
	assert_null(strstr(c.spec, "tied"));
	r.params_b -= 1024. * 51200 / 1e9; /* the embedding once */
	build(&r, &c);
	assert_non_null(strstr(c.spec, "llama:"));
	assert_non_null(strstr(c.spec, "tied=true"));
	r.vocab = NAN;
	assert_int_equal(mq_case_build(&options, &tables, &r, &c, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "model 'Aurora' is not known; give its layers, hidden, heads and vocab"));
}

/* Model FLOPs say the step time; NeMo's own formula counts causal attention whole, its successor by half. */
static void test_model_flops(void **state)
{
	const double s = 16384, h = 4096, ffn = 14336, layers = 32, vocab = 128256;
	struct mq_run r = blank();

	r.model = "LLAMA3-8B";
	r.source = "github NVIDIA/NeMo@1";
	r.software = r.precision = "";
	r.seq = s;
	r.gpus = 16;
	r.gbs = 256;
	r.metric = "model TFLOP/s/GPU with CP";
	r.unit = "TFLOP/s/GPU";
	r.value = 1000;
	for (int half = 0; half < 2; half++) {
		double attention = (half ? 6 : 12) * s / h, rest = 12 + 12 * 8 / 32.0 + 18 * ffn / h;

		r.step_time_s = NAN;
		mq_run_complete(&tables, &r, &arena);
		near(r.step_time_s, 256 * (s * layers * h * h * (rest + attention) + 6 * s * h * vocab) / 16e15);
		r.source = "github NVIDIA-NeMo/Megatron-Bridge@1";
	}
}

/* What a row leaves to its source: sequence, batch and step time. */
static void test_completed_rows(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_run r = blank();
	struct mq_case c;

	/* the sequence of a task that the locator names */
	r.model = "BERT-Large (TensorFlow2)";
	r.locator = "README.md line 784; Fine-tuning training performance for SQuAD v1.1";
	r.gpus = 4;
	r.gbs = 24;
	r.mbs = 6;
	r.value = 48;
	r.unit = "sequences/s";
	mq_run_complete(&tables, &r, &arena);
	assert_true(r.seq == 384);
	near(r.step_time_s, .5);
	build(&r, &c);
	assert_string_equal(c.spec, "bert:seq=384,size=large,task=span");

	/* its software: fp32 means TF32 where there is any; XLA and casts belong to mixed precision */
	r.source = "github NVIDIA/DeepLearningExamples";
	r.locator = "TensorFlow2/LanguageModeling/BERT/README.md line 813; Fine-tuning for SQuAD";
	assert_false(attention_of(&c)->fused);
	r.software = "pytorch"; /* a kernel for it */
	build(&r, &c);
	assert_true(attention_of(&c)->fused);
	r.software = "";
	r.precision = "fp32";
	build(published(&r), &c);
	assert_false(attention_of(&c)->fused);
	assert_true(c.train.dtype == MQ_TF32 && !strcmp(c.software.software.name, "tensorflow"));
	r.gpu = "V100";
	build(published(&r), &c);
	assert_true(c.train.dtype == MQ_FP32);
	r.precision = "mixed fp16";
	r.accum = 2;
	r.mbs = NAN;
	build(published(&r), &c);
	assert_string_equal(c.software.software.name, "tensorflow-xla");

	/* the batch of a published recipe; what the row says itself stays */
	r = blank();
	r.model = "PyTorch/LanguageModeling/BART";
	r.source = "github NVIDIA/DeepLearningExamples";
	r.seq = 512;
	r.value = 100;
	r.unit = "sequences/s/GPU";
	r.gpus = 8;
	mq_run_complete(&tables, &r, &arena);
	near(r.gbs, 30720);
	near(r.step_time_s, 30720 / 800.);
	r.step_time_s = 7;
	r.gbs = 1;
	mq_run_complete(&tables, &r, &arena);
	near(r.gbs, 1);
	near(r.step_time_s, 7);

	/* batches in tokens, part of them padding */
	r = blank();
	r.model = "PyTorch/Translation/Transformer";
	r.source = "github NVIDIA/DeepLearningExamples";
	r.gpus = 1;
	r.gbs = r.mbs = 3200;
	r.value = 1000;
	r.unit = "tok/s";
	mq_run_complete(&tables, &r, &arena);
	near(r.gbs, 100);
	near(r.mbs, 100);
	near(r.step_time_s, 3.2 * .876);

	/* the machine as the source's heading has it */
	r = gpt();
	r.gpu = "V100";
	r.gpus_per_node = 2;
	r.locator = "README.md line 720; Single-node on NVIDIA DGX-2 V100 (16x V100 32GB)";
	mq_run_complete(&tables, &r, &arena);
	assert_string_equal(r.gpu, "V100-32GB");
	near(r.gpus_per_node, 16);
	r.gpus_per_node = 4; /* that number is no machine's name: half of them were used */
	mq_run_complete(&tables, &r, &arena);
	near(r.gpus_per_node, 4);
	r.gpu = "A100-40GB";
	r.locator = "DGX A100 (8x A100 80GB)";
	mq_run_complete(&tables, &r, &arena);
	assert_string_equal(r.gpu, "A100-40GB");

	/* a throughput without its batch says what is missing */
	r = gpt();
	r.step_time_s = r.gbs = NAN;
	r.value = 10;
	r.unit = "tok/s";
	mq_run_complete(&tables, &r, &arena);
	assert_int_equal(mq_case_build(&options, &tables, &r, &c, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "tok/s without the global batch (gbs)"));
	r.unit = "TFLOP/s/GPU";
	r.gbs = 8;
	mq_run_complete(&tables, &r, &arena);
	assert_true(isnan(r.step_time_s));
}

static struct mq_run image_run(const char *model, const char *gpu, double gpus, const char *precision)
{
	struct mq_run r = blank();

	r.software = "";
	r.model = model;
	r.source = "github NVIDIA/DeepLearningExamples@729963dd";
	r.locator = mq_arena_printf(&arena, "%s/README.md line 1", model);
	r.gpu = gpu;
	r.gpus = gpus;
	r.gpus_per_node = 8;
	r.precision = precision;
	r.value = 100;
	r.unit = "img/s";
	return r;
}

/* Image networks: the batch of a device in its source's configuration, what is refused and why, and how
 * their software lays out tensors. */
static void test_image_rows(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_case c;
	struct mq_run r =
		image_run("PyTorch/Classification/ConvNets/se-resnext101-32x4d", "V100-16GB", 8, "mixed fp16");

	mq_run_complete(&tables, &r, &arena);
	near(r.mbs, 112);
	near(r.gbs, 8 * 112);
	near(r.step_time_s, 8 * 112 / 100.);
	build(&r, &c);
	assert_string_equal(c.spec, "se_resnext101:image=224");
	assert_true(c.image && c.software.software.channels_first == MQ_FIRST_32);
	r = image_run("PyTorch/Classification/ConvNets/resnext101-32x4d", "A100-80GB", 1, "tf32");
	mq_run_complete(&tables, &r, &arena);
	near(r.gbs, 128);

	r = image_run("TensorFlow2/Segmentation/MaskRCNN", "A100-80GB", 1, "tf32");
	r.mbs = r.gbs = 2;
	mq_run_complete(&tables, &r, &arena);
	build(&r, &c);
	assert_true(c.software.software.channels_first == MQ_FIRST_32_VOLUMES);
	r.gpus = 8;
	r.gbs = 16;
	assert_int_equal(mq_case_build(&options, &tables, &r, &c, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "16 threads"));
	r = image_run("PyTorch/Classification/GPUNet GPUNet-D1", "A100-80GB", 8, "mixed fp16");
	assert_int_equal(mq_case_build(&options, &tables, &r, &c, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "teacher"));
}

/* Names in any case; a cell may be what -m takes; a released variant with one more token predicted. */
static void test_names(void **state)
{
	static const struct {
		const char *name, *spec;
	} cases[] = {
		{ "llama-3-8b", "llama:seq=1024,size=8b" },
		{ "Qwen3-14B", "layers=40,hidden=5120" },
		{ "QWEN3_4B", "layers=36,hidden=2560" },
		{ "gpt:layers=7,hidden=64,heads=4", "gpt:layers=7,hidden=64,heads=4" },
		{ "DeepSeekV3", "mtp=1" },
		{ "DeepSeekV3 (w/o MTP)", "moe:seq=1024,size=deepseek-v3" },
		{ "Nemotron_3_Super", "size=3-super,mtp=2" },
	};
	struct mq_run r = gpt();
	struct mq_case c;

	r.software = "pytorch";
	r.layers = r.hidden = r.heads = r.vocab = NAN;
	r.gpu = "h100";
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		r.model = cases[i].name;
		build(&r, &c);
		if (!strstr(c.spec, cases[i].spec))
			fail_msg("%s: '%s' in '%s'", cases[i].name, cases[i].spec, c.spec);
		if (strstr(cases[i].name, "w/o MTP"))
			assert_null(strstr(c.spec, "mtp"));
	}
}

/* Megatron pads the vocabulary so that each tensor rank has a multiple of 128 of it. */
static void test_vocabulary(void **state)
{
	struct mq_run r = gpt();
	struct mq_case c;

	(void)state;
	r.vocab = 50257;
	build(&r, &c);
	assert_non_null(strstr(c.spec, "vocab=50257"));
	assert_true(c.vocab == 50257);
	assert_int_equal(padded(&c), 50688); /* 99 x 4 x 128 */
	r.tp = 1;
	build(&r, &c);
	assert_int_equal(padded(&c), 50304); /* 393 x 128 */
	r.software = "pytorch";
	build(&r, &c);
	assert_int_equal(padded(&c), 50257);
	r.software = ""; /* pads nothing, but no rank has a part of a column */
	r.source = "vTrain";
	r.locator = "ground_truth_single.csv";
	r.tp = 8;
	r.recompute = "full"; /* which that software leaves out, whatever its settings say */
	build(published(&r), &c);
	assert_string_equal(c.software.software.name, "vtrain-predictor");
	assert_int_equal(padded(&c), 50256);
	assert_int_equal(c.shape.recompute, MQ_RECOMPUTE_NONE);
	r.software = "megatron-lm-2021";
	build(published(&r), &c);
	assert_int_equal(c.shape.recompute, MQ_RECOMPUTE_FULL);
}

/* Every reason for refusal is told. */
static void test_refused(void **state)
{
	struct mq_run r;
	struct mq_case c;

#define REFUSE(change, says)                                                                            \
	do {                                                                                            \
		struct mq_err err = MQ_ERR_INIT;                                                        \
		r = gpt();                                                                              \
		change;                                                                                 \
		assert_int_equal(mq_case_build(&options, &tables, published(&r), &c, &err), MQ_EINPUT); \
		if (!strstr(err.text, says))                                                            \
			fail_msg("'%s' does not say '%s'", err.text, says);                             \
	} while (0)
	REFUSE(r.provenance = "memory", "unverified");
	REFUSE(r.status = "failed", "failed");
	REFUSE(r.locator = "LoRA Performance", "low-rank");
	REFUSE(r.step_time_s = NAN, "step time");
	REFUSE(r.gpu = "TPU v4", "platforms/calib");
	REFUSE(r.zero = "ZeRO-Infinity", "not modelled");
	REFUSE((r.model = "StyleGAN", r.layers = NAN), "models.csv");
	REFUSE(r.heads = NAN, "heads");
	REFUSE(r.layers = NAN, "layers");
	REFUSE(r.seq = NAN, "sequence");
	REFUSE(r.tp = 3, "multiple");
	REFUSE(r.mbs = 3, "micro-batches");
	REFUSE((r.mbs = NAN, r.open_batches = true), "micro-batch");
	REFUSE(r.precision = "NVFP4", "has no fp4");
	REFUSE(r.precision = "int8", "int8");
	REFUSE((r.stage_layers = "1/2/3"), "stage_layers");
	REFUSE((r.pp = 4, r.tp = 1, r.stage_layers = "12/0/12/0"), "without a layer");
	REFUSE(r.software = "mine", "no training software 'mine'");
	REFUSE(r.software = "megatron-cor", "did you mean 'megatron-core'?");
	REFUSE(r.options = "attention=flas2", "flash2");
	REFUSE(r.options = "trafic=2", "did you mean 'traffic'?");
	REFUSE(r.options = "traffic=-1", "give 0.1 to 20");
	REFUSE(r.platform = "gpu=A100-SXM4-80GB nodes=2", "has 16 devices, the row 32");
	REFUSE(r.platform = "gpu=A100-SXM4-80GB nodess=4", "did you mean 'nodes'?");
	REFUSE(r.dp = 5, "dp 5");
	REFUSE(r.gpu = "V100 + T4", "how many");
	REFUSE(r.gpu = "12x V100 + 4x T4", "names 16 devices");
	REFUSE(r.gpu = "28x GB200 + 4x T4", "one platform has one");
	REFUSE((r.gpus = 6, r.tp = 1, r.gbs = 60, r.pp = 2, r.placement = "V100xTP2|T4xTP1 ; V100xTP2|T4xTP1"),
	       "replicas");
	REFUSE((r.gpus = 8, r.tp = 2, r.pp = 2, r.placement = "V100xTP2|T4xTP2; T4xTP2"), "takes 6 devices");
#undef REFUSE
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_stats, teardown),
		cmocka_unit_test_teardown(test_rank, teardown),
		cmocka_unit_test_teardown(test_groups, teardown),
		cmocka_unit_test(test_patterns),
		cmocka_unit_test_setup_teardown(test_case, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_job, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_columns, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_dimensions, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_vocabulary, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_names, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_model_flops, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_completed_rows, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_image_rows, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_refused, load_tables, teardown),
	};

	return cmocka_run_group_tests_name("score", tests, NULL, NULL);
}

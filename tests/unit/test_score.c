/*
 * test_score.c - error summaries, rank correlation and regret against values worked out by hand; the
 * names of models; the job that a row of measurements becomes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <unistd.h>

#include "score/judge.h"
#include "score_rows.h"

static void test_stats(void **state)
{
	const double error[] = { .1, -.3, .2, 0 };
	struct mq_errors s = mq_errors_of(error, 4, &arena);

	assert_int_equal(s.n, 4);
	near(s.mean, .15);
	near(s.median, .15);
	near(s.bias, 0);
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
		c[i] = (struct mq_case){ .run = &run[i], .links = "s" };
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
	struct mq_err err = MQ_ERR_INIT;

	build(&r, &c);
	assert_int_equal(c.shape.dp, 4);
	assert_int_equal(c.shape.micro_batches, 8);
	assert_int_equal(c.part[0].nodes, 4);
	assert_null(c.shape.device);
	assert_string_equal(c.part[0].device, "A100-SXM4-80GB");
	assert_true(c.train.dtype == MQ_FP16 && c.train.batch == 64);
	assert_null(c.shape.stage_layers);
	assert_string_equal(c.spec, "gpt:layers=24,hidden=1024,heads=16,vocab=51200,seq=1024");

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
	image.model_spec = "resnet50:image=224";
	image.tp = image.pp = 1;
	build(&image, &c);
	assert_true(c.image && c.train.optimizer == MQ_OPTIMIZER_MOMENTUM);
	assert_string_equal(c.spec, "resnet50:image=224");
	assert_non_null(strstr(c.assumed, "layers not read: a model resnet50 has none"));

	r.precision = "MXFP8";
	r.gpu = "B200";
	build(&r, &c);
	assert_true(c.train.gemm_dtype == MQ_GEMM_MXFP8 && c.train.dtype == MQ_BF16);
	r.gpu = "H100";
	assert_int_equal(mq_case_build(&options, &r, &c, &err), MQ_EINPUT);
	assert_string_equal(err.text, "H100-SXM-80GB has no mxfp8");

	r.precision = "float8 (rowwise)";
	build(&r, &c);
	assert_true(c.train.gemm_dtype == MQ_GEMM_FP8 && c.train.dtype == MQ_BF16);

	r.mode = "infer";
	build(&r, &c);
	assert_true(c.job.asked.train.infer);

	r.mode = "backward";
	r.model_spec = "gpt";
	build(&r, &c);
	assert_true(!c.job.asked.train.infer && c.job.asked.train.optimizer == MQ_OPTIMIZER_NONE);
}

/* What `simulate` is asked: the same model, machines, software and training, past memory where the run fitted. */
static void test_job(void **state)
{
	struct mq_run r = gpt();
	struct mq_case c;

	(void)state;
	r.software = "megatron-core";
	build(&r, &c);
	assert_string_equal(c.job.asked.model, c.spec);
	assert_string_equal(c.job.asked.platform, c.platform);
	assert_string_equal(c.job.asked.software, "megatron-core");
	assert_true(c.job.asked.train.batch == 64 && c.job.asked.train.dtype == MQ_FP16 && !c.job.analytic);
	assert_true(c.job.asked.train.grad_dtype == MQ_FP32); /* of the software */
	assert_true(c.job.asked.time_oom && c.job.max_tasks == 4e6);
	assert_int_equal(c.job.n_change, 0);
	assert_int_equal(c.plan.explicit, 0); /* overlaps and buckets are the software's */
	assert_int_equal(c.plan.micro_batches, 8);
	r.step_time_s = NAN;
	r.status = "oom";
	options.executor = "analytic";
	build(&r, &c);
	assert_true(!c.job.asked.time_oom && c.job.analytic);
	/* changes of the hardware are the row's own */
	r.change = "calib.A100-SXM4-80GB.host_launch_s=7e-06;scale.nic.bw=0.5";
	build(&r, &c);
	assert_int_equal(c.job.n_change, 2);
	assert_string_equal(c.job.change[0], "calib.A100-SXM4-80GB.host_launch_s=7e-06");
	assert_string_equal(c.job.change[1], "scale.nic.bw=0.5");
}

/* The software, its options, the machines. */
static void test_columns(void **state)
{
	struct mq_run r = gpt();
	struct mq_case c;

	(void)state;
	r.software = "deepspeed";
	r.options = "norm=eager;attention=stored";
	build(&r, &c);
	assert_string_equal(c.software.software.name, "deepspeed,norm=eager,attention=stored");
	assert_string_equal(c.software.software.file, "deepspeed");
	assert_int_equal(c.software.software.norm, MQ_EAGER);
	assert_true(mq_software_stores_scores(&c.software.software));

	/* none is generic, and it is told */
	r = gpt();
	r.software = "";
	build(&r, &c);
	assert_string_equal(c.software.software.name, "generic");
	assert_non_null(strstr(c.assumed, "software generic"));
	assert_non_null(strstr(c.assumed, "platform from gpu, gpus"));
	assert_string_equal(c.platform, "gpu=A100-SXM4-80GB nodes=4 gpus=8");
	assert_string_equal(c.network, "default");

	/* machines: keys of the generator, all of them defaults too, a name, a file */
	r = gpt();
	r.platform = "gpu=A100-SXM4-80GB nodes=4 nics=1 nic_GBps=12.5";
	build(&r, &c);
	assert_int_equal(platform_of(&c).nodes, 4);
	assert_true(platform_of(&c).nic_GBps == 12.5 && platform_of(&c).nics == 1);
	assert_string_equal(c.network, "row");
	assert_null(c.assumed);
	r.gpus = r.tp = 8;
	r.pp = 1;
	r.platform = "gpu=H100-SXM-80GB nodes=1 gpus=8";
	build(&r, &c);
	assert_string_equal(c.platform, r.platform);
	r.platform = "nodes=1";
	build(&r, &c);
	assert_string_equal(c.part[0].device, "H100-SXM-80GB");
	r.platform = "dgx_a100_ib";
	build(&r, &c);
	assert_string_equal(c.job.asked.platform, "dgx_a100_ib");
	assert_int_equal(c.n_parts, 0);
}

/* A model that no table knows is taken by its dimensions; what is missing follows from others, and is told. */
static void test_dimensions(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_run r = gpt();
	struct mq_case c;

	(void)state;
	r.model = "Aurora";
	build(&r, &c);
	assert_non_null(strstr(c.spec, "gpt:layers=24,hidden=1024,heads=16"));
	assert_non_null(strstr(c.assumed, "'Aurora' taken for a gpt"));
	r.ffn = 2816;
	build(&r, &c);
	assert_non_null(strstr(c.spec, "llama:layers=24,hidden=1024,heads=16"));
	r.ffn = NAN;
	r.kv_heads = 4;
	build(&r, &c);
	assert_non_null(strstr(c.spec, "llama:layers=24,hidden=1024,heads=16,kv_heads=4"));
	r.vocab = NAN;
	assert_int_equal(mq_case_build(&options, &r, &c, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "model 'Aurora' is not known; give its layers, hidden, heads and vocab"));

	r = gpt();
	r.layers = r.heads = NAN;
	r.params_b = 12 * 22 * 1152. * 1152 / 1e9;
	r.hidden = 1152; /* no heads of 128 that four ranks share: of 144 */
	build(&r, &c);
	assert_non_null(strstr(c.spec, "layers=22,hidden=1152,heads=8"));
	assert_non_null(strstr(c.assumed, "22 layers, as params_b and hidden make; 8 heads of 144"));
}

/* model_spec says the model and `model` is a name; columns complete it and may not contradict it. */
static void test_model_spec(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_run r = gpt();
	struct mq_case c;

	(void)state;
	r.model = "Aurora";
	r.model_spec = "llama:tied=true,vocab=51200";
	build(&r, &c);
	assert_string_equal(c.spec, "llama:tied=true,vocab=51200,layers=24,hidden=1024,heads=16,seq=1024");
	r.model_spec = "";
	r.model = "gpt:layers=24"; /* the cell itself: columns are no less read */
	build(&r, &c);
	assert_string_equal(c.spec, "gpt:layers=24,hidden=1024,heads=16,vocab=51200,seq=1024");
	r.model = "gpt:layers=12";
	assert_int_equal(mq_case_build(&options, &r, &c, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "layers is 24 in the column layers and 12 in the model 'gpt:layers=12'"));
	r.model_spec = "gtp";
	assert_int_equal(mq_case_build(&options, &r, &c, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "model_spec 'gtp'"));
}

/* A step time that follows from a rate; a column that nearly has the name of one that is missing. */
static void test_table(void **state)
{
	static const char text[] = "model,gpu,gpus,gbs,seqs,value,unit,zer0,change,peer\n"
				   "\"gpt:layers=2,hidden=128,heads=2,seq=64\",T4,2,8,64,16,sequences/s/GPU,,,a\n"
				   "\"gpt:layers=2,hidden=128,heads=2,seq=64\",T4,2,8,64,16,tok/s,,,b\n";
	char path[] = "/tmp/maquette-runs-XXXXXX";
	struct mq_err err = MQ_ERR_INIT;
	struct mq_run *run;
	struct mq_case c;
	uint32_t n;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0 && write(fd, text, sizeof(text) - 1) == sizeof(text) - 1);
	close(fd);
	assert_int_equal(mq_runs_load(path, &arena, &run, &n, &err), MQ_OK);
	assert_int_equal(n, 2);
	near(run[0].step_time_s, .25);
	assert_true(isnan(run[1].step_time_s));
	assert_string_equal(mq_runs_unread(run->table, &arena), "zer0 (did you mean zero?), seqs (did you mean seq?)");
	assert_int_equal(mq_case_build(&options, &run[1], &c, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "no column 'seq' (is it 'seqs'?)"));
	unlink(path);
}

/* Names in any case; a cell may be what -m takes; a released variant with one more token predicted. */
static void test_names(void **state)
{
	static const struct {
		const char *name, *spec;
	} cases[] = {
		{ "llama-3-8b", "llama:size=8b,seq=1024" },
		{ "Qwen3-14B", "layers=40,hidden=5120" },
		{ "QWEN3_4B", "layers=36,hidden=2560" },
		{ "gpt:layers=7,hidden=64,heads=4", "gpt:layers=7,hidden=64,heads=4" },
		{ "DeepSeekV3", "mtp=1" },
		{ "Nemotron_3_Super", "size=3-super,mtp=2" },
	};
	struct mq_run r = gpt();
	struct mq_case c;

	r.software = "pytorch";
	r.layers = r.hidden = r.heads = r.vocab = NAN;
	r.gpu = "h100";
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		r.model = cases[i].name;
		r.layers = i == 3 ? 7 : NAN; /* which the cell says too */
		build(&r, &c);
		if (!strstr(c.spec, cases[i].spec))
			fail_msg("%s: '%s' in '%s'", cases[i].name, cases[i].spec, c.spec);
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
	r.software = "vtrain-predictor"; /* pads nothing, but no rank has a part of a column */
	r.tp = 8;
	build(&r, &c);
	assert_int_equal(padded(&c), 50256);
}

/* A table of before a field was renamed is read, and that is told. */
static void test_renamed(void **state)
{
	struct mq_run r = blank();
	struct mq_case c;

	r.options = "graphs=norm1|attention;norm=eager,call_launches=3";
	r.layers = 4, r.hidden = 512, r.heads = 8, r.gpus = 8, r.gbs = 16, r.tp = 1, r.pp = 1, r.mbs = 1, r.seq = 512,
	r.step_time_s = 1;
	build(&r, &c);
	assert_string_equal(c.software.software.cuda_graph_scope, "norm1|attention");
	assert_true(c.software.software.launches_per_collective == 3);
	assert_true(c.software.software.norm == MQ_EAGER);
	assert_non_null(strstr(c.assumed, "'graphs' of software is now 'cuda_graph_scope'"));
	assert_non_null(strstr(c.assumed, "'call_launches' of software is now 'launches_per_collective'"));
}

/* Every reason for refusal is told. */
static void test_refused(void **state)
{
	struct mq_run r;
	struct mq_case c;

#define REFUSE(change, says)                                                        \
	do {                                                                        \
		struct mq_err err = MQ_ERR_INIT;                                    \
		r = gpt();                                                          \
		change;                                                             \
		assert_int_equal(mq_case_build(&options, &r, &c, &err), MQ_EINPUT); \
		if (!strstr(err.text, says))                                        \
			fail_msg("'%s' does not say '%s'", err.text, says);         \
	} while (0)
	REFUSE(r.provenance = "memory", "unverified");
	REFUSE(r.status = "failed", "failed");
	REFUSE(r.step_time_s = NAN, "step_time_s");
	REFUSE((r.step_time_s = NAN, r.value = 10, r.unit = "TFLOP/s/GPU"), "does not follow from 'TFLOP/s/GPU'");
	REFUSE(r.mode = "trian", "mode 'trian' is not known; did you mean 'train'?");
	REFUSE(r.memory_basis = "reservd", "did you mean 'reserved'?");
	REFUSE(r.gpu = "TPU v4", "no such device type");
	REFUSE(r.gpus_per_node = 0, "gpus_per_node 0");
	REFUSE(r.layers = 1.5, "layers 1.5 is no whole number");
	REFUSE(r.seq = 1e12, "seq 1e+12");
	REFUSE(r.zero = "ZeRO-Infinity", "zero 'ZeRO-Infinity' is not known");
	REFUSE(r.zero = "zer1", "did you mean 'zero1'?");
	REFUSE(r.schedule = "1f1d", "did you mean '1f1b'?");
	REFUSE(r.recompute = "ful", "did you mean 'full'?");
	REFUSE((r.model = "StyleGAN", r.layers = NAN), "model_spec");
	REFUSE((r.heads = NAN, r.hidden = 1030), "heads");
	REFUSE(r.layers = NAN, "layers");
	REFUSE(r.seq = NAN, "no column 'seq'");
	REFUSE(r.tp = 3, "multiple");
	REFUSE(r.mbs = 3, "micro-batches");
	REFUSE(r.precision = "NVFP4", "has no fp4");
	REFUSE(r.precision = "int8", "int8");
	REFUSE((r.stage_layers = "1/2/3"), "stage_layers");
	REFUSE((r.pp = 4, r.tp = 1, r.stage_layers = "12/0/12/0"), "without a layer");
	REFUSE(r.software = "mine", "no training software 'mine'");
	REFUSE(r.software = "megatron-cor", "did you mean 'megatron-core'?");
	REFUSE(r.options = "attention=flas2", "flash2");
	REFUSE(r.options = "trafic=2", "did you mean 'traffic'?");
	REFUSE(r.options = "bucket_copies=1", "is now 'gradient_as_bucket_view', its opposite");
	REFUSE(r.options = "traffic=-1", "give 0.1 to 20");
	REFUSE(r.platform = "gpu=A100-SXM4-80GB nodes=2", "has 16 devices, the column gpus 32");
	REFUSE(r.platform = "gpu=A100-SXM4-80GB nodess=4", "did you mean 'nodes'?");
	REFUSE(r.dp = 5, "dp 5");
	REFUSE(r.gpu = "V100 + T4", "how many");
	REFUSE(r.gpu = "12x V100 + 4x T4", "have 16 devices, the column gpus 32");
	REFUSE(r.gpu = "32x V100 + 0x T4", "how many");
	REFUSE((r.gpus = 6, r.tp = 1, r.gbs = 60, r.pp = 2, r.placement = "V100xTP2|T4xTP1 ; V100xTP2|T4xTP1"),
	       "replicas");
	REFUSE((r.gpus = 8, r.tp = 2, r.pp = 2, r.placement = "V100xTP2|T4xTP2; T4xTP2"), "have 6 devices");
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
		cmocka_unit_test_setup_teardown(test_model_spec, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_table, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_renamed, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_refused, load_tables, teardown),
	};

	return cmocka_run_group_tests_name("score", tests, NULL, NULL);
}

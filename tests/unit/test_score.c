/*
 * test_score.c - error summaries, rank correlation and regret against values worked out by hand; the
 * tables of systems, models and stacks; what a row of measurements becomes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cmd/score_runs.h"
#include "cmd/score_tables.h"

static struct mq_arena arena = MQ_ARENA_INIT;

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-12 * fmax(1, fabs(want))))
		fail_msg("got %.17g, wanted %.17g", got, want);
}

static void test_stats(void **state)
{
	const double error[] = { .1, -.3, .2, 0 };
	struct mq_score_stats s = mq_score_stats(error, 4, &arena);

	assert_int_equal(s.n, 4);
	near(s.mean, .15);
	near(s.median, .15);
	near(s.bias, 0);
	near(s.worst, .3);
	near(s.p90, .2 + .7 * .1); /* 0.9 x 3 = 2.7: between the third and the fourth */
	assert_true(isnan(mq_score_stats(error, 0, &arena).mean));
}

static void test_rank(void **state)
{
	const double x[] = { 1, 2, 3, 4, 5 }, y[] = { 2, 1, 4, 3, 5 }, flat[] = { 1, 1, 1, 1, 1 };
	const double tied[] = { 1, 2, 2, 3, 4 };

	near(mq_score_spearman(x, x, 5, &arena), 1);
	near(mq_score_spearman(x, y, 5, &arena), 1 - 6.0 * 4 / (5 * 24));
	/* ranks 1, 2.5, 2.5, 4, 5 against 1..5: 9.5 / sqrt(10 * 9.5) */
	near(mq_score_spearman(x, tied, 5, &arena), 9.5 / sqrt(95));
	assert_true(isnan(mq_score_spearman(x, flat, 5, &arena)));
	assert_true(isnan(mq_score_spearman(x, y, 2, &arena)));
	near(mq_score_regret(y, x, 5), 2);    /* 1 is predicted for the second, measured 2 */
	near(mq_score_regret(x, x, 5), 1);
}

static void test_patterns(void **state)
{
	assert_true(mq_pattern_fits("", "anything"));
	assert_true(mq_pattern_fits("A100*;H100*", "H100-80GB"));
	assert_false(mq_pattern_fits("A100*;H100*", "H200"));
	assert_true(mq_pattern_fits("*", ""));
	assert_false(mq_pattern_fits("8", "4"));
}

/* A row with nothing given. */
static struct mq_run blank(void)
{
	struct mq_run r = { .id = "x", .model = "GPT", .gpu = "A100-80GB", .intra = "", .inter = "",
			    .precision = "fp16", .zero = "", .stage_layers = "", .placement = "",
			    .schedule = "", .recompute = "", .metric = "", .unit = "", .basis = "",
			    .status = "ok", .source = "", .provenance = "text", .notes = "",
			    .stack = "megatron", .line = 2 };

	r.params_b = r.layers = r.hidden = r.ffn = r.heads = r.kv_heads = r.seq = r.vocab = NAN;
	r.gpus = r.gpus_per_node = r.nodes = r.tp = r.pp = r.dp = r.vp = r.cp = r.ep = NAN;
	r.mbs = r.gbs = r.accum = r.value = r.step_time_s = r.max_mem_GB = NAN;
	return r;
}

static struct mq_score_tables tables;
static struct mq_calib *calib;

static int load_tables(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_score_options o = { .platforms = "platforms", .arena = &arena };

	calib = mq_calib_new(&arena);
	if (mq_calib_load_dir(calib, "platforms/calib", &err) != MQ_OK ||
	    mq_score_tables_load(&o, &tables, &err) != MQ_OK)
		fail_msg("%s", err.text);
	return 0;
}

static struct mq_run gpt(void)
{
	struct mq_run r = blank();

	r.layers = 24;
	r.hidden = 1024;
	r.heads = 16;
	r.vocab = 51200;
	r.seq = 1024;
	r.gpus = 32;
	r.gpus_per_node = 8;
	r.tp = 4;
	r.pp = 2;
	r.gbs = 64;
	r.mbs = 2;
	r.step_time_s = 1;
	return r;
}

static void test_case(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_run r = gpt();
	struct mq_case c;

	if (mq_case_build(&tables, calib, &r, &arena, &c, &err) != MQ_OK)
		fail_msg("%s", err.text);
	assert_int_equal(c.shape.dp, 4);
	assert_int_equal(c.shape.micro_batches, 8);
	assert_int_equal(c.nodes, 4);
	assert_string_equal(c.system.device, "A100-SXM4-80GB");
	assert_true(c.train.dtype == MQ_FP16 && c.train.batch == 64);
	assert_null(c.shape.stage_layers);
	assert_non_null(strstr(c.spec, "gpt:layers=24,hidden=1024,heads=16,vocab=51200"));

	/* 30 items of which 24 are layers: three before, three behind */
	r.pp = 4;
	r.stage_layers = "9/6/6/9";
	assert_int_equal(mq_case_build(&tables, calib, &r, &arena, &c, &err), MQ_OK);
	for (int s = 0; s < 4; s++)
		assert_int_equal(c.shape.stage_layers[s], 6);

	r.zero = "ZeRO-1 within 8 GPUs";
	r.stage_layers = "";
	r.pp = r.tp = 1;
	assert_int_equal(mq_case_build(&tables, calib, &r, &arena, &c, &err), MQ_OK);
	assert_int_equal(c.shape.sync, MQ_SYNC_ZERO1);
	assert_int_equal(c.zero_group, 8);

	r.precision = "MXFP8";
	r.gpu = "H100";
	assert_int_equal(mq_case_build(&tables, calib, &r, &arena, &c, &err), MQ_OK);
	assert_true(c.fp8 && c.train.dtype == MQ_BF16);
}

/* Every reason for refusal is told. */
static void test_refused(void **state)
{
	struct mq_run r;
	struct mq_case c;

#define REFUSE(change, says) do { \
		struct mq_err err = MQ_ERR_INIT; \
		r = gpt(); \
		change; \
		assert_int_equal(mq_case_build(&tables, calib, &r, &arena, &c, &err), MQ_EINPUT); \
		if (!strstr(err.text, says)) \
			fail_msg("'%s' does not say '%s'", err.text, says); \
	} while (0)
	REFUSE(r.provenance = "memory", "unverified");
	REFUSE(r.status = "failed", "failed");
	REFUSE(r.step_time_s = NAN, "step time");
	REFUSE(r.gpu = "TPU v4", "systems.csv");
	REFUSE(r.model = "StyleGAN", "models.csv");
	REFUSE(r.heads = NAN, "heads");
	REFUSE(r.layers = NAN, "layers");
	REFUSE(r.seq = NAN, "sequence");
	REFUSE(r.tp = 3, "multiple");
	REFUSE(r.mbs = 3, "micro-batches");
	REFUSE(r.mbs = NAN, "micro-batch");
	REFUSE(r.precision = "NVFP4", "4-bit");
	REFUSE(r.precision = "int8", "int8");
	REFUSE((r.stage_layers = "1/2/3"), "stage_layers");
	REFUSE(r.stack = "mine", "stacks.csv");
	REFUSE(r.dp = 5, "dp 5");
#undef REFUSE
}

static int teardown(void **state)
{
	mq_arena_fini(&arena);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_stats, teardown),
		cmocka_unit_test_teardown(test_rank, teardown),
		cmocka_unit_test(test_patterns),
		cmocka_unit_test_setup_teardown(test_case, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_refused, load_tables, teardown),
	};

	return cmocka_run_group_tests_name("score", tests, NULL, NULL);
}

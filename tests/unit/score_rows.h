/*
 * score_rows.h - rows of tables of measured runs in tests: the tables behind them, and what a row becomes. Comes
 * behind cmocka.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_SCORE_ROWS_H
#define MQ_TESTS_SCORE_ROWS_H

#include <math.h>
#include <string.h>

#include "score/row.h"
#include "hardware/platform/generate.h"

static struct mq_arena arena = MQ_ARENA_INIT;

static inline void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-12 * fmax(1, fabs(want))))
		fail_msg("got %.17g, wanted %.17g", got, want);
}

/* A row with nothing given. */
static inline struct mq_run blank(void)
{
	struct mq_run r = { .id = "x",
			    .model = "GPT",
			    .model_spec = "",
			    .mode = "",
			    .gpu = "A100-80GB",
			    .platform = "",
			    .change = "",
			    .software = "megatron-lm-2021",
			    .options = "",
			    .precision = "fp16",
			    .tuning = "",
			    .zero = "",
			    .stage_layers = "",
			    .placement = "",
			    .schedule = "",
			    .recompute = "",
			    .unit = "",
			    .status = "ok",
			    .provenance = "text",
			    .source = "",
			    .memory_basis = "",
			    .memory_rank = "",
			    .line = 2 };

	r.params_b = r.layers = r.hidden = r.ffn = r.heads = r.kv_heads = r.seq = r.vocab = NAN;
	r.gpus = r.gpus_per_node = r.nodes = r.tp = r.pp = r.dp = r.vp = r.cp = r.ep = NAN;
	r.mbs = r.gbs = r.accum = r.value = r.step_time_s = r.max_mem_GB = NAN;
	return r;
}

static struct mq_score_options options;

static inline int load_tables(void **state)
{
	struct mq_err err = MQ_ERR_INIT;

	mq_score_options_init(&options, &arena);
	options.platforms = "platforms";
	if (mq_score_open(&options, &err) != MQ_OK || mq_score_open_runs(&options, &err) != MQ_OK)
		fail_msg("%s", err.text);
	return 0;
}

static inline void build(const struct mq_run *r, struct mq_case *c)
{
	struct mq_err err = MQ_ERR_INIT;

	if (mq_case_build(&options, r, c, &err) != MQ_OK)
		fail_msg("%s", err.text);
}

/* The vocabulary that the plan of a row is simulated with. */
static inline uint32_t padded(const struct mq_case *c)
{
	const struct mq_question q = { .model = c->model, .software = &c->software.software, .train = &c->train };

	return mq_question_for(&q, &c->plan, &arena).model->vocab;
}

static inline const struct mq_op *attention_of(const struct mq_case *c)
{
	for (uint32_t i = 0; i < c->model->n_ops; i++)
		if (c->model->op[i].kind == MQ_OP_ATTENTION)
			return &c->model->op[i];
	fail_msg("%s has no attention", c->spec);
	return NULL;
}

static inline struct mq_platform_spec platform_of(const struct mq_case *c)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_platform_spec spec;

	mq_platform_spec_init(&spec);
	if (mq_platform_spec_parse(c->platform, &spec, &arena, &err) != MQ_OK)
		fail_msg("%s", err.text);
	return spec;
}

static inline struct mq_run gpt(void)
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

static inline int teardown(void **state)
{
	mq_arena_fini(&arena);
	return 0;
}

#endif

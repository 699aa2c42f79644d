/*
 * test_software_fields.c - every field of a training software matters: with another legal value the step takes another
 * time, or needs other memory, or another plan comes out of the defaults, in one of a few scenarios.
 *
 * Scenarios differ in what fields act on: host-bound and device-bound steps, each kind of parallelism, sync and
 * recomputation, experts, fp8, a window of attention, image networks, inference.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "executors/execute.h"
#include "judge/judge.h"
#include "models.h"

enum { DEVICES = 8, PER_NODE = 4, MOST_VALUES = 16 };

struct scenario {
	const char *model, *options; /* options: of the software, before the field is flipped */
	const char *device;          /* NULL: H100 */
	struct mq_shape shape;
	uint32_t seq;                  /* 0: 256 */
	bool fp16, fp32;               /* else bf16 */
	bool passes;                   /* no optimizer */
	bool gpipe;                    /* else 1f1b, where the shape says no other */
	enum mq_gemm_dtype gemm_dtype; /* of the layers' GEMMs */
	const char *tuning;            /* what is trained; NULL: all */
};

#define LLAMA "llama:layers=4,hidden=512,heads=8,kv_heads=2,ffn=1024,vocab=1000"
#define GPT   "gpt:layers=4,hidden=512,heads=8,vocab=1000"
#define MOE   "moe:layers=4,hidden=512,heads=8,ffn=512,experts=8,top_k=2,vocab=1000"

static const struct scenario scenarios[] = {
	{ .model = GPT, .options = "", .shape = { .dp = 2, .tp = 2, .pp = 2, .sync = MQ_SYNC_ZERO1 } },
	{ .model = GPT, .options = "host=1000", .shape = { .dp = 8 }, .seq = 64 },
	{ .model = MOE, .options = "host=1000", .shape = { .dp = 8 }, .seq = 64 },
	{ .model = GPT, .options = "host=100", .shape = { .dp = 2, .pp = 4 }, .seq = 64 },
	{ .model = GPT, .options = "defer_embedding_wgrad_compute=1", .shape = { .dp = 2, .pp = 4 } },
	{ .model = LLAMA, .options = "attention=eager,rope=eager", .shape = { .dp = 1 } },
	{ .model = GPT ",fused_attention=0", .options = "attention=eager", .shape = { .dp = 1 } },
	{ .model = GPT ",fused_attention=0", .options = "attention=masked-softmax", .shape = { .dp = 1 } },
	{ .model = GPT, .options = "", .shape = { .dp = 1 }, .fp32 = true },
	{ .model = LLAMA ",yarn=true", .options = "", .shape = { .dp = 1 } },
	{ .model = LLAMA, .options = "sequence_parallel=0,allocator=pytorch", .shape = { .tp = 8 } },
	{ .model = LLAMA, .options = "allocator=pytorch", .shape = { .tp = 4, .dp = 2, .sequence_parallel = true } },
	{ .model = GPT, .options = "allocator=pytorch,bucket_MB=1", .shape = { .dp = 8 }, .fp16 = true },
	{ .model = LLAMA, .options = "allocator=pytorch,bucket_MB=1", .shape = { .dp = 8, .sync = MQ_SYNC_ZERO3 } },
	{ .model = LLAMA, .options = "host=100", .shape = { .dp = 4, .pp = 2, .sync = MQ_SYNC_ZERO2 } },
	{ .model = LLAMA,
	  .options = "overlap_param_gather=1",
	  .shape = { .dp = 4, .pp = 2, .virtual = 2, .pipeline = MQ_PIPE_INTERLEAVED, .sync = MQ_SYNC_ZERO1 } },
	{ .model = LLAMA, .options = "", .shape = { .dp = 4, .pp = 2, .sync = MQ_SYNC_ZERO3 } },
	{ .model = LLAMA, .options = "", .shape = { .cp = 8 }, .seq = 8192 },
	{ .model = LLAMA, .options = "", .shape = { .dp = 1, .recompute = MQ_RECOMPUTE_FULL } },
	{ .model = LLAMA, .options = "", .shape = { .dp = 1, .recompute = MQ_RECOMPUTE_FULL }, .gpipe = true },
	{ .model = LLAMA, .options = "", .shape = { .dp = 1, .recompute = MQ_RECOMPUTE_SELECTIVE } },
	{ .model = LLAMA, .options = "selective=named", .shape = { .dp = 1, .recompute = MQ_RECOMPUTE_SELECTIVE } },
	{ .model = LLAMA, .options = "save_quantized_operands=1", .shape = { .dp = 2 }, .gemm_dtype = MQ_GEMM_FP8 },
	{ .model = LLAMA, .options = "allocator=pytorch", .shape = { .dp = 2 }, .gemm_dtype = MQ_GEMM_FP8 },
	{ .model = LLAMA,
	  .options = "attention=te",
	  .shape = { .dp = 2 },
	  .gemm_dtype = MQ_GEMM_MXFP8,
	  .device = "B200" },
	{ .model = LLAMA, .options = "", .shape = { .dp = 2 }, .gemm_dtype = MQ_GEMM_FP4, .device = "B200" },
	{ .model = LLAMA,
	  .options = "save_quantized_operands=1",
	  .shape = { .dp = 2 },
	  .gemm_dtype = MQ_GEMM_FP8,
	  .tuning = "lora:base=fp8" },
	{ .model = MOE, .options = "", .shape = { .dp = 8, .ep = 8 }, .seq = 4096 },
	{ .model = MOE, .options = "", .shape = { .dp = 2, .ep = 2 } },
	{ .model = MOE,
	  .options = "",
	  .shape = { .dp = 4, .ep = 4, .pp = 2, .virtual = 2, .pipeline = MQ_PIPE_INTERLEAVED } },
	{ .model = "resnet50", .options = "channels_first=all", .shape = { .dp = 2 }, .fp16 = true },
	{ .model = "resnet50", .options = "layout_passes=2", .shape = { .dp = 2 }, .fp16 = true },
	{ .model = "resnet50", .options = "", .shape = { .dp = 2 } },
	{ .model = GPT, .options = "", .shape = { .dp = 1 }, .passes = true },
	{ .model = "resnet50", .options = "", .shape = { .dp = 2 }, .fp16 = true, .device = "P100" },
};

static struct mq_calib *calib;

/* Two machines of four. */
static struct mq_cluster *devices(const char *type)
{
	struct mq_cluster *cluster = mq_cluster_flat(&arena, DEVICES, type, 1e15, 80e9, 1e11, 1e-6);
	struct mq_err err = MQ_ERR_INIT;

	for (uint32_t d = 0; d < DEVICES; d++) {
		cluster->device[d].node = d / PER_NODE;
		cluster->device[d].local = d % PER_NODE;
	}
	cluster->n_nodes = DEVICES / PER_NODE;
	if (mq_calib_bind(calib, cluster, &err) != MQ_OK)
		fail_msg("%s", err.text);
	cluster->nvlink = true;
	return cluster;
}

/* These fill in what a row of measured runs leaves open: test_score_software.c. */
static bool of_rows(const char *name)
{
	static const char *const names[] = { "tf32",      "sync",   "recompute",   "partition",
					     "expert_tp", "chunks", "split_batch", "use_tp_pp_dp_mapping" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

/* What a scenario costs with a software. */
struct cost {
	struct mq_result result;
	uint64_t plan; /* hash of the plan with its defaults */
	bool runs;
};

struct asked {
	const struct scenario *scenario;
	struct mq_train train;
	struct mq_model *model;
	struct mq_question q;
};

static void ask(const struct scenario *s, struct asked *a)
{
	enum mq_dtype dtype = s->fp32 ? MQ_FP32 : s->fp16 ? MQ_FP16 : MQ_BF16;

	a->train = (struct mq_train){
		.batch = 64, .dtype = dtype, .grad_dtype = dtype, .gemm_dtype = s->gemm_dtype, .tuning = s->tuning
	};
	a->train.optimizer = s->passes ? MQ_OPTIMIZER_NONE : MQ_OPTIMIZER_ADAM;
	a->q = (struct mq_question){ .cluster = devices(s->device ? s->device : "H100-SXM-80GB"),
				     .calib = calib,
				     .train = &a->train };
	a->q.model = a->model = load(s->model, strchr(s->model, ':') ? s->seq ? s->seq : 256 : 0, &a->train);
	a->scenario = s;
}

/* The plan as engines make it for a software. */
static void plan_of(const struct asked *a, const struct mq_software *software, struct mq_plan *plan)
{
	struct mq_shape shape = a->scenario->shape;
	struct mq_err err = MQ_ERR_INIT;

	shape.micro_batches = 4;
	shape.pipeline = shape.pipeline || a->scenario->gpipe ? shape.pipeline : MQ_PIPE_1F1B;
	shape.sequence_parallel = software->sequence_parallel;
	shape.vocab_parallel = software->vocab_parallel;
	if (mq_plan_from_shape(&shape, a->q.model, a->q.cluster, &arena, plan, &err) != MQ_OK)
		fail_msg("%s: %s", a->scenario->model, err.text);
}

static struct cost cost_of(struct asked *a, const struct mq_software *software)
{
	struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_plan plan, whole;
	struct cost c = { 0 };
	struct mq_err err = MQ_ERR_INIT;

	a->q.software = software;
	mq_model_mark_gemms(&(struct mq_model_request){ .train = &a->train, .software = software }, a->model);
	mq_model_find_alike(a->model, &arena);
	a->train.grad_dtype = mq_software_grad_dtype(software, a->train.dtype);
	plan_of(a, software, &plan);
	const struct mq_judge judge = { .q = &a->q,
					.execute = mq_execute_analytic,
					.fold = true,
					.interference = true,
					.max_tasks = 1e7,
					.time_oom = true,
					.timeout_s = 1e9 };
	if (mq_judge_plan(&judge, &plan, &scratch, &c.result, &err) != MQ_OK) /* it cannot run so */
		c.result.verdict = MQ_N_VERDICTS;
	mq_software_apply_defaults(software, a->q.model, &plan, &scratch, &whole);
	c.plan = mq_plan_hash(&whole);
	c.runs = mq_software_runs(software, &a->q, &plan, NULL, 0);
	mq_arena_fini(&scratch);
	return c;
}

static bool equal(const struct cost *a, const struct cost *b)
{
	const struct mq_result *x = &a->result, *y = &b->result;

	return x->step_time_s == y->step_time_s && x->peak_memory_B == y->peak_memory_B && x->verdict == y->verdict &&
	       a->plan == b->plan && a->runs == b->runs;
}

/* Other values of a field, as options. */
static uint32_t values(const struct mq_opt *o, const struct mq_software *s, const char *value[MOST_VALUES])
{
	const void *at = (const char *)s + o->offset;
	uint32_t n = 0;

	switch (o->type) {
	case MQ_OPT_BOOL:
		value[n++] = *(const bool *)at ? "false" : "true";
		break;
	case MQ_OPT_CHOICE: {
		char *list = mq_arena_strdup(&arena, o->text), *rest = NULL;

		for (char *word = strtok_r(list, "|", &rest); word && n < MOST_VALUES;
		     word = strtok_r(NULL, "|", &rest))
			value[n++] = word;
		break;
	}
	case MQ_OPT_STR:
		value[n++] = "norm*|q|kv|up";
		break;
	default: {
		double now = o->type == MQ_OPT_F64 ? *(const double *)at : *(const uint32_t *)at;
		const double tries[] = { now + 1, 2 * now + 2, now / 2, 2, 4, o->min, o->max };

		for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++)
			if (tries[i] >= o->min && tries[i] <= o->max && tries[i] < 1e6)
				value[n++] = mq_arena_printf(&arena, "%.9g",
							     o->type == MQ_OPT_F64 ? tries[i] : floor(tries[i]));
	}
	}
	return n;
}

static struct mq_software with(const char *options, const char *field, const char *value, bool *legal)
{
	struct mq_software_record record;
	struct mq_err err = MQ_ERR_INIT;

	if (mq_software_load("platforms/software", mq_arena_printf(&arena, "generic%s%s", *options ? "," : "", options),
			     &arena, &record, &err) != MQ_OK)
		fail_msg("%s", err.text);
	*legal = !field || mq_software_set(&record.software, "test", mq_arena_printf(&arena, "%s=%s", field, value),
					   &arena, &err) == MQ_OK;
	return record.software;
}

/* Does a value of the field change what the scenario costs? */
static bool matters(const struct mq_opt *field, const struct scenario *s, struct asked *a, const struct cost *base)
{
	bool legal;
	struct mq_software plain = with(s->options, NULL, NULL, &legal);
	const char *value[MOST_VALUES];
	uint32_t n = values(field, &plain, value);

	for (uint32_t i = 0; i < n; i++) {
		struct mq_software other = with(s->options, field->name, value[i], &legal);
		struct cost c = { 0 };

		if (!legal)
			continue;
		c = cost_of(a, &other);
		if (!equal(base, &c))
			return true;
	}
	return false;
}

static void every_field_matters(void **state)
{
	enum { N = sizeof(scenarios) / sizeof(*scenarios) };
	static struct asked asked[N];
	static struct cost base[N];
	uint32_t idle = 0;

	struct mq_err err = MQ_ERR_INIT;

	calib = mq_calib_new(&arena);
	if (mq_calib_load_dir(calib, "platforms/calib", &err) != MQ_OK)
		fail_msg("%s (run from the project's root)", err.text);
	for (uint32_t i = 0; i < N; i++) {
		bool legal;
		struct mq_software *s = mq_arena_alloc(&arena, sizeof(*s));

		*s = with(scenarios[i].options, NULL, NULL, &legal);
		ask(&scenarios[i], &asked[i]);
		base[i] = cost_of(&asked[i], s);
		if (base[i].result.verdict != MQ_VERDICT_OK)
			fail_msg("scenario %u, %s: %s", i, scenarios[i].model, base[i].result.message);
	}
	for (const struct mq_software_field *f = mq_software_fields(); f->opt.type != MQ_OPT_END; f++) {
		bool found = of_rows(f->opt.name);

		for (uint32_t i = 0; i < N && !found; i++)
			found = matters(&f->opt, &scenarios[i], &asked[i], &base[i]);
		if (!found)
			print_error("%s: no value of it changes any scenario\n", f->opt.name);
		idle += !found;
	}
	assert_int_equal(idle, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test_teardown(every_field_matters, teardown) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * bench_scale.c - seconds and memory to judge one plan of a large cluster, and how they grow with it.
 *
 * Each line is a process of its own: the platform is built of its keys (load), then the plan is judged
 * as a worker does, once cold (routes are asked, collectives chosen: what a single question costs) and
 * once more (again: what a search pays for each further plan of that size). CPU time of one core; the peak
 * of the whole process, platform included.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "executors/simgrid/conductor.h"
#include "hardware/platform/platform.h"
#include "hardware/platform/generate.h"
#include "judge/judge.h"
#include "../unit/libraries.h"

struct point {
	const char *what, *model, *platform;
	double batch;
	uint32_t dp, tp, pp, cp, micro_batches, virtual;
	double bar_s, bar_MiB; /* 0 = none */
	bool full;             /* recompute every layer */
};

static const struct point points[] = {
#define GPT_1T                                                                                                        \
	.model = "gpt:size=1t", .platform = "gpu=A100-80GB,nodes=384,fabric=switch", .batch = 3072, .dp = 6, .tp = 8, \
	.pp = 64, .micro_batches = 512, .bar_s = 1, .bar_MiB = 512
	{ "GPT-1T, 3,072 A100, 1F1B", GPT_1T, .virtual = 1 },
	{ "GPT-1T, 3,072 A100, interleaved x 2", GPT_1T, .virtual = 2 },
	{ "GPT 48 layers, 256 H100", .model = "gpt:layers=48,hidden=8192,heads=64,seq=2048",
	  .platform = "nodes=32,fabric=rail", .batch = 128, .dp = 4, .tp = 8, .pp = 8, .micro_batches = 32,
	  .bar_s = 0.5 },
#define LLAMA_405B(fabric)                                                                                        \
	.model = "llama:size=405b,seq=8192", .platform = "nodes=2048," fabric, .batch = 2048, .dp = 128, .tp = 8, \
	.pp = 16, .micro_batches = 16, .full = true, .bar_s = 5
	{ "Llama-405B, 16,384 H100, one switch", LLAMA_405B("fabric=switch") },
	{ "  rails", LLAMA_405B("fabric=rail") },
	{ "  2:1 fat-tree", LLAMA_405B("fabric=fat-tree,oversub=2") },
	{ "  4 ports for 8, one switch", LLAMA_405B("fabric=switch,nics=4") },
	{ "  4 ports for 8, rails", LLAMA_405B("fabric=rail,nics=4") },
	{ "  4 ports for 8, 2:1 fat-tree", LLAMA_405B("fabric=fat-tree,oversub=2,nics=4") },
	{ "  cp 2, 2:1 fat-tree", .model = "llama:size=405b,seq=8192",
	  .platform = "nodes=2048,fabric=fat-tree,oversub=2", .batch = 1024, .dp = 64, .tp = 8, .pp = 16, .cp = 2,
	  .micro_batches = 16, .bar_s = 5 },
#define GROWTH(nodes_, dp_, batch_)                                                                                    \
	.model = "llama:size=70b,seq=8192", .platform = "nodes=" nodes_ ",fabric=fat-tree,oversub=2", .batch = batch_, \
	.dp = dp_, .tp = 8, .pp = 4, .micro_batches = 16
	{ "Llama-70B, 64 H100, 2:1 fat-tree", GROWTH("8", 2, 32) },
	{ "  256", GROWTH("32", 8, 128) },
	{ "  1,024", GROWTH("128", 32, 512) },
	{ "  4,096", GROWTH("512", 128, 2048) },
	{ "  16,384", GROWTH("2048", 512, 8192) },
	{ "Llama-405B, 131,072 H100, rails", .model = "llama:size=405b,seq=8192", .platform = "nodes=16384,fabric=rail",
	  .batch = 16384, .dp = 1024, .tp = 8, .pp = 16, .micro_batches = 16, .full = true, .bar_s = 2,
	  .bar_MiB = 480 },
#define SAME_405B(platform_, dp_)                                                                                    \
	.model = "llama:size=405b,seq=8192", .platform = platform_, .batch = 16 * dp_, .dp = dp_, .tp = 8, .pp = 16, \
	.micro_batches = 16, .full = true, .bar_s = 12, .bar_MiB = 3815
	{ "  262,144, rails", SAME_405B("nodes=32768,fabric=rail,leaf=64", 2048) },
	{ "  1,048,576, rails", SAME_405B("nodes=131072,fabric=rail,leaf=256", 8192) },
	{ "  1,048,576, 2:1 fat-tree", SAME_405B("nodes=131072,fabric=fat-tree,pod=64,oversub=2", 8192) },
	{ "  1,048,576, racks of 64", SAME_405B("gpu=GB200,gpus=4,nodes=262144,fabric=nvl72,domain=64,pod=64", 8192) },
};

static double clock_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void stop_on(enum mq_status status, const struct mq_err *err)
{
	if (status == MQ_OK)
		return;
	fprintf(stderr, "%s\n", err->text);
	_exit(status);
}

struct bench {
	const struct point *point;
	struct mq_arena arena;
	struct mq_cluster *cluster;
	struct mq_calib *calib;
	double load_s;
	int rc;
};

static double peak_MiB(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (double)use.ru_maxrss / 1024;
}

static void make_plan(struct bench *b, const struct mq_model *model, struct mq_plan *plan)
{
	const struct point *p = b->point;
	struct mq_shape shape = { .dp = p->dp,
				  .tp = p->tp,
				  .pp = p->pp,
				  .cp = p->cp,
				  .virtual = p->virtual,
				  .micro_batches = p->micro_batches,
				  .pipeline = p->virtual > 1 ? MQ_PIPE_INTERLEAVED : MQ_PIPE_1F1B,
				  .sync = MQ_SYNC_ZERO1,
				  .recompute = (uint8_t)(p->full ? MQ_RECOMPUTE_FULL : MQ_RECOMPUTE_SELECTIVE),
				  .sequence_parallel = true,
				  .vocab_parallel = true };
	struct mq_err err = MQ_ERR_INIT;

	stop_on(mq_plan_from_shape(&shape, model, b->cluster, &b->arena, plan, &err), &err);
	plan->explicit |= MQ_EXPLICIT_OVERLAP_GRADS;
	plan->overlap_grads = true;
}

/* A bar holds for load and first judgement together. */
static void print_line(struct bench *b, const struct mq_judged *out, const double cost_s[2])
{
	const struct point *p = b->point;
	double whole_s = b->load_s + cost_s[0];

	printf("%-37s %8u %7.2f %8.3f %8.3f %5.0f  ", p->what, out->view.schedule ? out->view.schedule->n_tasks : 0,
	       b->load_s, cost_s[0], cost_s[1], peak_MiB());
	if (out->result.verdict != MQ_VERDICT_OK)
		printf("%s: %s", mq_verdict_name(out->result.verdict), out->result.message);
	else
		printf("%.6g s%s", out->result.step_time_s, out->view.fold ? "" : ", not folded");
	b->rc = out->result.verdict != MQ_VERDICT_OK || (p->bar_s > 0 && whole_s > p->bar_s) ||
		(p->bar_MiB > 0 && peak_MiB() > p->bar_MiB);
	if (b->rc && p->bar_s > 0)
		printf("\n    above its bar of %g s and %g MiB (0: none)", p->bar_s, p->bar_MiB);
	printf("\n");
}

static void body(void *data)
{
	struct bench *b = data;
	const struct point *p = b->point;
	struct mq_train train = { .batch = p->batch, .dtype = MQ_BF16, .grad_dtype = MQ_FP32 };
	struct mq_model_request ask = { .spec = p->model, .train = &train };
	struct mq_arena arena = MQ_ARENA_INIT; /* as a worker's: kept from plan to plan */
	struct mq_err err = MQ_ERR_INIT;
	struct mq_model *model;
	struct mq_judged out;
	struct mq_plan plan;
	double cost_s[2] = { 0, 0 };

	mq_conduct_bind(b->cluster);
	stop_on(mq_model_load(&ask, &b->arena, &model, &err), &err);
	make_plan(b, model, &plan);
	const struct mq_question q = { .model = model, .cluster = b->cluster, .calib = b->calib, .train = &train };
	struct mq_judge judge = {
		.q = &q, .execute = mq_execute_simgrid, .fold = true, .interference = true, .timeout_s = INFINITY
	};
	for (int again = 0; again < 2; again++) {
		mq_arena_rewind(&arena, (struct mq_arena_mark){ NULL, 0 });
		double at = clock_s();
		stop_on(mq_judge_full(&judge, &plan, &arena, &out, &err), &err);
		cost_s[again] = clock_s() - at;
	}
	print_line(b, &out, cost_s);
	fflush(stdout);
	_exit(b->rc);
}

static void in_child(const struct point *point)
{
	struct bench b = { .point = point };
	struct mq_platform_spec spec;
	struct mq_err err = MQ_ERR_INIT;
	double at = clock_s();

	mq_platform_spec_init(&spec);
	stop_on(mq_opt_parse(mq_platform_opts, &spec, "platform", point->platform, &b.arena, &err), &err);
	b.calib = bare_calib(&b.arena);
	stop_on(mq_calib_load_dir(b.calib, "platforms/calib", &err), &err);
	mq_platform_start("bench");
	stop_on(mq_platform_build(&spec, b.calib, &b.arena, &b.cluster, &err), &err);
	stop_on(mq_calib_bind(b.calib, b.cluster, &err), &err);
	b.load_s = clock_s() - at;
	mq_conduct(b.cluster, body, &b);
	_exit(1);
}

int main(int argc, char **argv)
{
	int bad = 0, status;

	printf("%-37s %8s %7s %8s %8s %5s  %s\n", "plan", "tasks", "load s", "judge s", "again", "MiB", "step");
	for (size_t i = 0; i < sizeof(points) / sizeof(*points); i++) {
		if (argc > 1 && !strstr(points[i].what, argv[1])) /* a part of the name: only those */
			continue;
		fflush(stdout);
		pid_t child = fork();

		if (!child)
			in_child(&points[i]);
		bad += waitpid(child, &status, 0) != child || status != 0;
	}
	return bad != 0;
}

/*
 * bench_pool.c - milliseconds per candidate and plans per second through the pool, lowering included.
 *
 * This program is also its own worker.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "judge/pool.h"

static double clock_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void stop_on(enum mq_status status, const struct mq_err *err)
{
	if (status == MQ_OK)
		return;
	fprintf(stderr, "%s\n", err->text);
	exit(status);
}

/* Plans per second of `n` judgements. */
static double rate(const struct mq_job *job, const struct mq_shape *shape, uint32_t workers, uint32_t n, double *step_s)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_model_request ask = { .spec = job->asked.model, .train = &job->asked.train, .seq = job->asked.seq };
	struct mq_model *model;
	struct mq_calib *calib;
	struct mq_pool *pool;
	struct mq_plan plan;

	stop_on(mq_model_load(&ask, &arena, &model, &err), &err);
	stop_on(mq_job_calib(job, 0, calib = mq_calib_new(&arena), &err), &err);
	stop_on(mq_pool_open(job, workers, &arena, &pool, &err), &err);
	stop_on(mq_calib_bind(calib, mq_pool_cluster(pool), &err), &err);
	stop_on(mq_plan_from_shape(shape, model, mq_pool_cluster(pool), &arena, &plan, &err), &err);
	const struct mq_plan **plans = mq_arena_array(&arena, n, const struct mq_plan *);
	struct mq_result *result = mq_arena_array(&arena, n, struct mq_result);
	for (uint32_t i = 0; i < n; i++)
		plans[i] = &plan;
	stop_on(mq_pool_judge(pool, plans, 2 * workers, result, &err), &err); /* workers are forked */
	double at = clock_s();
	stop_on(mq_pool_judge(pool, plans, n, result, &err), &err);
	double seconds = clock_s() - at;
	if (result[0].verdict != MQ_VERDICT_OK)
		fprintf(stderr, "verdict %s: %s\n", mq_verdict_name(result[0].verdict), result[0].message);
	*step_s = result[0].step_time_s;
	mq_pool_close(pool);
	mq_arena_fini(&arena);
	return n / seconds;
}

static void compare(struct mq_job *job, const struct mq_shape *shape, const char *what, uint32_t n)
{
	double step_s, one = rate(job, shape, 1, n, &step_s), two = rate(job, shape, 2, n, &step_s);

	printf("%-44s %9.3f  %8.1f  %8.1f  %6.2f  %.6g\n", what, 1e3 / one, one, two, two / one, step_s);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const char *const calibs[] = { "platforms/calib" };
	struct mq_job job;

	if (argc > 1 && !strcmp(argv[1], "worker")) {
		struct mq_err err = MQ_ERR_INIT;
		return mq_pool_serve(argc - 2, argv + 2, &err);
	}
	mq_job_init(&job);
	job.asked.model = "gpt:layers=24,hidden=2048,heads=16";
	job.asked.seq = 1024;
	job.asked.train = (struct mq_train){ .batch = 64, .dtype = MQ_FP16, .grad_dtype = MQ_FP16 };
	job.asked.grad_given = true;
	job.asked.platform = "platforms/dgx_a100.xml";
	job.calib = calibs;
	job.n_calib = 1;
	printf("GPT 1.3B on 8 A100                           ms/plan   plans/s 1         2   scale  step s\n");
	struct mq_shape shape = { .pp = 8, .micro_batches = 32, .pipeline = MQ_PIPE_1F1B, .vocab_parallel = true };
	compare(&job, &shape, "8 stages x 32 micro-batches", 400);
	shape = (struct mq_shape){ .dp = 8, .micro_batches = 1 };
	compare(&job, &shape, "dp 8", 400);
	shape = (struct mq_shape){
		.tp = 4, .pp = 2, .micro_batches = 16, .pipeline = MQ_PIPE_1F1B, .vocab_parallel = true
	};
	compare(&job, &shape, "tp 4 pp 2 x 16", 60);
	shape = (struct mq_shape){
		.dp = 2, .tp = 2, .pp = 2, .micro_batches = 16, .pipeline = MQ_PIPE_1F1B, .vocab_parallel = true
	};
	compare(&job, &shape, "dp 2 tp 2 pp 2 x 16", 60);
	return 0;
}

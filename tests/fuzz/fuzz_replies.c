/*
 * fuzz_replies.c - what a program behind `-e exec:` answers: the first line to the start, the others proposals.
 * The program is `cat`, which answers without listening.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <math.h>
#include <signal.h>

#include "search/search.h"

enum { MOST_PROPOSALS = 8 };

static bool tick(void *context, double done, const char *what)
{
	return true;
}

static void ask(const struct mq_engine *engine, const struct mq_problem *problem)
{
	void *state = mq_arena_alloc(problem->arena, engine->state_size);
	struct mq_plan plan;
	struct mq_err err = MQ_ERR_INIT;
	enum mq_status status;

	mq_opt_defaults(engine->opts, state);
	status = engine->start(state, problem, &err);
	fuzz_refused(status, &err);
	if (status != MQ_OK)
		return;
	for (uint32_t i = 0; i < MOST_PROPOSALS && status == MQ_OK; i++) {
		mq_plan_init(&plan, problem->arena, problem->q->model->n_ops);
		status = engine->propose(state, problem, problem->arena, &plan, &err);
		if (status == MQ_OK)
			fuzz_refused(
				mq_plan_check(&plan, problem->q->model, problem->q->cluster, problem->q->train, &err),
				&err);
		else if (status != MQ_DONE)
			fuzz_refused(status, &err);
	}
	engine->stop(state, problem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct mq_train train = { .batch = 8, .dtype = MQ_FP16, .grad_dtype = MQ_FP32 };
	const struct mq_model_request request = { .spec = "gpt:layers=2,hidden=64,heads=2,vocab=512", .train = &train };
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_limits limits = { .fix_pipeline = -1, .fix_recompute = -1, .fix_sync = -1 };
	struct mq_question q = { .train = &train };
	struct mq_rng rng;
	struct mq_problem problem = { .q = &q,
				      .limits = &limits,
				      .rng = &rng,
				      .arena = &arena,
				      .tick = tick,
				      .objective = "step-time",
				      .seconds = (double)INFINITY };
	struct mq_model *model;
	struct mq_err err = MQ_ERR_INIT;

	signal(SIGPIPE, SIG_IGN);
	mq_rng_seed(&rng, 1);
	mq_assert(mq_model_load(&request, &arena, &model, &err) == MQ_OK);
	q.model = model;
	q.cluster = mq_cluster_flat(&arena, 4, "ideal", 1e12, 1e9, 1e9, 1e-6);
	ask(mq_exec_engine_new(mq_arena_printf(&arena, "cat %s", fuzz_file(data, size, ".jsonl")), "", &arena),
	    &problem);
	mq_arena_fini(&arena);
	return 0;
}

/*
 * lowered.h - a model on so many ideal devices, lowered: for tests that count tasks, bytes and work. Comes behind
 * cmocka.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_LOWERED_H
#define MQ_TESTS_LOWERED_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "folding/fold.h"
#include "libraries.h"

#define assert_within(a, b, tolerance)                                  \
	do {                                                            \
		double a_ = (a), b_ = (b);                              \
		if (!(fabs(a_ - b_) <= (tolerance)))                    \
			fail_msg("%s is %.12g, not %.12g", #a, a_, b_); \
	} while (0)

struct lowered {
	struct mq_arena arena;
	struct mq_model *model;
	struct mq_cluster *cluster;
	struct mq_calib *calib;
	struct mq_software software;
	struct mq_train train;
	struct mq_plan plan;
	struct mq_lowered low;
	struct mq_err err;
};

static inline void lowered_model(struct lowered *w, const char *spec)
{
	struct mq_model_request rq = { .spec = spec, .train = &w->train };

	if (mq_model_load(&rq, &w->arena, &w->model, &w->err) != MQ_OK)
		fail_msg("%s", w->err.text);
}

/* Devices of 1 TFLOP/s, 1 TB/s and 1 TB on links of 1 GB/s. */
static inline void lowered_open(struct lowered *w, const char *spec, uint32_t devices, double batch)
{
	*w = (struct lowered){ .train = { .batch = batch, .dtype = MQ_FP16, .grad_dtype = MQ_FP16 },
			       .software = *mq_software_plain() };
	lowered_model(w, spec);
	w->cluster = mq_cluster_flat(&w->arena, devices, "ideal", 1e12, 1e12, 1e9, 1e-6);
	w->calib = bare_calib(&w->arena);
	mq_calib_add_ideal(w->calib, "ideal", 1e12, 1e12, 1e12);
	assert_int_equal(mq_calib_bind(w->calib, w->cluster, &w->err), MQ_OK);
}

static inline void lowered_close(struct lowered *w)
{
	mq_arena_fini(&w->arena);
}

/* Teardown of a test whose state is a struct lowered. */
static inline int lowered_free(void **state)
{
	lowered_close(*state);
	return 0;
}

static inline struct mq_question lowered_question(const struct lowered *w)
{
	return (struct mq_question){ .model = w->model,
				     .cluster = w->cluster,
				     .calib = w->calib,
				     .software = &w->software,
				     .train = &w->train };
}

/* The plan at hand; NULL where it is none that runs: w->low says why. */
static inline struct mq_schedule *lowered_plan(struct lowered *w)
{
	const struct mq_question q = lowered_question(w);
	struct mq_lower_request rq = { .q = &q, .plan = &w->plan };

	assert_int_equal(mq_lower(&rq, &w->arena, &w->low, &w->err), MQ_OK);
	if (w->low.verdict != MQ_VERDICT_OK)
		return NULL;
	if (mq_schedule_check(w->low.schedule, NULL, &w->err) != MQ_OK)
		fail_msg("%s", w->err.text);
	return w->low.schedule;
}

static inline struct mq_schedule *lowered_shape(struct lowered *w, const struct mq_shape *shape)
{
	if (mq_plan_from_shape(shape, w->model, w->cluster, &w->arena, &w->plan, &w->err) != MQ_OK)
		fail_msg("%s", w->err.text);
	return lowered_plan(w);
}

/* What comes back of a shape when its plan is read: it makes the same plan. */
static inline struct mq_shape lowered_shape_back(struct lowered *w, const struct mq_shape *shape)
{
	struct mq_plan_stage *stage;
	struct mq_shape back;
	struct mq_plan again;
	uint32_t n;

	assert_non_null(lowered_shape(w, shape));
	assert_int_equal(mq_plan_stages(&w->plan, w->model, &w->arena, &stage, &n, &w->err), MQ_OK);
	if (mq_plan_to_shape(&w->plan, w->model, w->cluster, stage, n, &w->arena, &back, &w->err) != MQ_OK)
		fail_msg("%s", w->err.text);
	assert_int_equal(mq_plan_from_shape(&back, w->model, w->cluster, &w->arena, &again, &w->err), MQ_OK);
	assert_true(mq_plan_hash(&again) == mq_plan_hash(&w->plan));
	return back;
}

struct lowered_sum {
	uint32_t tasks;
	double bytes;
};

/* Tasks of a kind; coll and phase -1: any. */
static inline struct lowered_sum lowered_count(const struct mq_schedule *s, enum mq_task_kind kind, int coll, int phase)
{
	struct lowered_sum c = { 0 };

	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].kind == kind && (coll < 0 || s->task[i].coll == coll) &&
		    (phase < 0 || s->task[i].phase == phase)) {
			c.tasks++;
			c.bytes += s->task[i].bytes;
		}
	return c;
}

/* The model's FLOPs in all tasks. */
static inline double lowered_model_flop(const struct mq_schedule *s)
{
	double sum = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].kind == MQ_TASK_COMPUTE)
			sum += s->work[s->task[i].work].model_flop;
	return sum;
}

/* FLOPs of the kernels of ops whose names contain a text, in a pass. */
static inline double lowered_flop(const struct lowered *w, const char *part, enum mq_phase phase)
{
	const struct mq_schedule *s = w->low.schedule;
	double sum = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_work *work = &s->work[s->task[i].work];

		if (s->task[i].kind != MQ_TASK_COMPUTE)
			continue;
		for (uint32_t k = 0; k < work->n_kernels; k++)
			if (work->kernel[k].phase == phase && strstr(w->model->op[work->kernel[k].op].name, part))
				sum += work->kernel[k].flop;
	}
	return sum;
}

#endif

/*
 * models.h - reading built-in models in tests: one arena for all, freed by teardown. Comes behind
 * cmocka.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_MODELS_H
#define MQ_TESTS_MODELS_H

#include <math.h>
#include <string.h>

#include "maquette/model.h"
#include "maquette/question.h"
#include "model/format.h"

__attribute__((unused)) static const struct mq_train TRAIN = { .batch = 1, .dtype = MQ_FP16, .grad_dtype = MQ_FP32 };
__attribute__((unused)) static const struct mq_train INFER = { .batch = 1, .dtype = MQ_FP16, .infer = true };

static struct mq_arena arena;

static inline int teardown(void **state)
{
	mq_arena_fini(&arena);
	return 0;
}

static inline void assert_near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-9 * fabs(want)))
		fail_msg("%.12g, not %.12g", got, want);
}

static inline struct mq_model *load(const char *spec, uint32_t seq, const struct mq_train *train)
{
	const struct mq_model_request request = { .spec = spec, .train = train, .seq = seq };
	struct mq_model *model = NULL;
	struct mq_err err = MQ_ERR_INIT;

	if (mq_model_load(&request, &arena, &model, &err) != MQ_OK)
		fail_msg("%s: %s", spec, err.text);
	assert_int_equal(mq_model_check(model, &err), MQ_OK);
	return model;
}

static inline void refuse(const char *spec, const char *part)
{
	const struct mq_model_request request = { .spec = spec, .train = &TRAIN };
	struct mq_model *model = NULL;
	struct mq_err err = MQ_ERR_INIT;

	assert_int_equal(mq_model_load(&request, &arena, &model, &err), MQ_EINPUT);
	if (!strstr(err.text, part))
		fail_msg("%s: '%s' does not say '%s'", spec, err.text, part);
}

static inline const struct mq_op *op_of(const struct mq_model *m, const char *name)
{
	for (uint32_t i = 0; i < m->n_ops; i++)
		if (!strcmp(m->op[i].name, name))
			return &m->op[i];
	fail_msg("%s has no op '%s'", m->name, name);
	return NULL;
}

#endif

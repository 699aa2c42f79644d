/* question.h - what every question is about: a model, on a cluster, as fast as its calibration says, run by a training
 * software, under training options. Judges, lowering, searches and engines all carry this one.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_QUESTION_H
#define MAQUETTE_QUESTION_H

#include "maquette/calib.h"
#include "maquette/cluster.h"
#include "maquette/model.h"
#include "maquette/plan.h"
#include "maquette/software.h"

/* All borrowed, for as long as the question is asked. */
struct mq_question {
	const struct mq_model *model;
	const struct mq_cluster *cluster;   /* bound to calib */
	const struct mq_calib *calib;       /* hardware alone */
	const struct mq_software *software; /* NULL = mq_software_plain() */
	const struct mq_train *train;
	double memory_high; /* see mq_question_memory_high; 0 = nothing is known */
};

/* Nine of ten measured runs take at most this many times the memory that is predicted. Where there is no index of errors
 * 1.09: what 65 published runs on systems and software that the model knows stay under. */
static inline double mq_question_memory_high(const struct mq_question *q)
{
	return q->memory_high > 0 ? q->memory_high : 1.09;
}

static inline const struct mq_software *mq_question_software(const struct mq_question *q)
{
	return q->software ? q->software : mq_software_plain();
}

/* Memory of a device that is no tensor, bytes: context, libraries, framework, communicators. Of the software
 * on a GPU, of the calibration on a CPU and under a measured model. */
MQ_API double mq_reserve_B(const struct mq_question *q, uint32_t device);

/* The question as one plan meets it: the vocabulary padded as the software does for this plan's
 * tensor-parallel degree, the work of packed documents that its ranks wait for, and a software that is not NULL. */
MQ_API struct mq_question mq_question_for(const struct mq_question *q, const struct mq_plan *plan,
					  struct mq_arena *arena);

#endif

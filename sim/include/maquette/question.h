/* question.h - the question: a model on a cluster with its calibration, run by a training software under training
 * options. Judge, lowering, search and engines all use this struct. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_QUESTION_H
#define MAQUETTE_QUESTION_H

#include "maquette/calib.h"
#include "maquette/cluster.h"
#include "maquette/model.h"
#include "maquette/plan.h"
#include "maquette/software.h"

/* Everything is borrowed for the question's lifetime. */
struct mq_question {
	const struct mq_model *model;
	const struct mq_cluster *cluster;   /* bound to calib */
	const struct mq_calib *calib;       /* hardware alone */
	const struct mq_software *software; /* NULL = mq_software_plain() */
	const struct mq_train *train;
	double memory_high; /* see mq_question_memory_high; 0 = unknown */
};

/* Nine of ten measured runs use at most this many times the predicted memory. Without an index of errors 1.09, which 65
 * published runs on known systems and software do not exceed. */
static inline double mq_question_memory_high(const struct mq_question *q)
{
	return q->memory_high > 0 ? q->memory_high : 1.09;
}

static inline const struct mq_software *mq_question_software(const struct mq_question *q)
{
	return q->software ? q->software : mq_software_plain();
}

/* Bytes of a device's memory outside tensors: context, libraries, framework, communicators. From the software on a GPU,
 * from the calibration on a CPU and for a measured model. */
MQ_API double mq_reserve_B(const struct mq_question *q, uint32_t device);

/* The question for one plan: the vocabulary padded as the software does for the plan's tensor-parallel degree, the work
 * of packed documents for which its ranks wait, and a software that is not NULL. */
MQ_API struct mq_question mq_question_for(const struct mq_question *q, const struct mq_plan *plan,
					  struct mq_arena *arena);

#endif

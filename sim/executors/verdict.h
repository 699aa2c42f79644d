/*
 * verdict.h - a judgement with all that led to it, for reports; judge.c makes it, causes.c puts it in
 * words.
 */
#ifndef MQ_EXECUTORS_VERDICT_H
#define MQ_EXECUTORS_VERDICT_H

#include "executors/executor.h"
#include "lower/lower.h"

struct mq_judged {
	struct mq_result result;
	struct mq_lowered lowered;   /* no schedule unless lowering succeeded */
	struct mq_timeline timeline; /* whole only where the verdict is ok */
	double *exposed_s;           /* [tasks] see mq_timeline_exposed; NULL unless the verdict is ok */
};

/* mq_judge_plan with everything it found. */
enum mq_status mq_judge_full(const struct mq_judge *judge, const struct mq_plan *plan,
			     struct mq_arena *arena, struct mq_judged *judged,
			     struct mq_err *err) MQ_MUST_CHECK;

/* Fills result.link_s and result.bottleneck from schedule and timeline. */
enum mq_status mq_judge_causes(const struct mq_judge *judge, struct mq_judged *judged,
			       struct mq_arena *arena, struct mq_err *err) MQ_MUST_CHECK;

#endif

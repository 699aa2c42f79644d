/* judge.h - a judgement with all that led to it, for reports; judge.c makes it, causes.c puts it in words.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_JUDGE_JUDGE_H
#define MQ_JUDGE_JUDGE_H

#include "executors/execute.h"
#include "folding/fold.h"

/* plan -> memory verdict -> views -> execute -> breakdown, bottleneck, bound: the whole judgement of one plan. */
struct mq_judge {
	const struct mq_question *q;
	mq_execute_fn *execute; /* NULL: the memory verdict alone; times stay unknown */
	bool fold, interference;
	bool keep_tasks;  /* see mq_fold_request; without, what links of a folded schedule carry is not told either */
	bool times_only;  /* the step's time, and whether it fits, are told alone, not what they are made of */
	double max_tasks; /* see mq_lower_request */
	bool time_oom;    /* plans that do not fit are timed too; their verdict stands */
	double timeout_s;
	double simulation_s;        /* that a run may take, as far as its size tells; 0 = no limit */
	struct mq_replays *replays; /* see mq_lower_request */
	struct mq_jitter jitter;    /* draws > 0: nothing is folded */
};
enum mq_status mq_judge_plan(const struct mq_judge *judge, const struct mq_plan *plan, struct mq_arena *arena,
			     struct mq_result *result, struct mq_err *err);

struct mq_judged {
	struct mq_result result;
	struct mq_lowered lowered;   /* its schedule: NULL */
	struct mq_view view;         /* what was run; no schedule unless lowering succeeded */
	struct mq_timeline timeline; /* whole only where the verdict is ok */
	double *exposed_s;           /* [tasks] see mq_timeline_exposed; NULL unless the verdict is ok */
};

/* mq_judge_plan with everything it found. */
enum mq_status mq_judge_full(const struct mq_judge *judge, const struct mq_plan *plan, struct mq_arena *arena,
			     struct mq_judged *judged, struct mq_err *err);

/* Fills result.link_s and result.bottleneck from schedule and timeline. */
enum mq_status mq_judge_causes(const struct mq_judge *judge, struct mq_judged *judged, struct mq_arena *arena,
			       struct mq_err *err);

#endif

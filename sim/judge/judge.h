/* judge.h - judges a plan, and keeps schedule, timeline and memory for reports. judge.c judges, causes.c words the
 * bottleneck. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_JUDGE_JUDGE_H
#define MQ_JUDGE_JUDGE_H

#include "executors/execute.h"
#include "folding/fold.h"

/* plan -> memory verdict -> views -> execute -> breakdown, bottleneck, bound: the whole judgement of one plan. */
struct mq_judge {
	const struct mq_question *q;
	mq_execute_fn *execute; /* NULL: the memory verdict alone; times stay unknown */
	bool fold, interference;
	bool keep_tasks;    /* see mq_fold_request; false: micro-batches that repeat others may be left out, and such a
			   * schedule, or a folded one, has no bytes per link either */
	bool times_only;    /* only step time and memory verdict; no breakdown and no bottleneck */
	bool any_memory;    /* see mq_lower_request */
	double max_tasks;   /* likewise */
	double first_tasks; /* likewise; > 0: micro-batches may be left out with keep_tasks too */
	bool time_oom;      /* also times plans that run out of memory; they keep the verdict OOM */
	double timeout_s;
	double simulation_s;      /* limit on a run's estimated clock time; 0 = none */
	struct mq_index *replays; /* see mq_lower_request */
	struct mq_jitter jitter;  /* draws > 0: no ranks are folded */
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

/* Like mq_judge_plan, and keeps everything the result came from. */
enum mq_status mq_judge_full(const struct mq_judge *judge, const struct mq_plan *plan, struct mq_arena *arena,
			     struct mq_judged *judged, struct mq_err *err);

/* Fills result.link_s and result.bottleneck from schedule and timeline. */
enum mq_status mq_judge_causes(const struct mq_judge *judge, struct mq_judged *judged, struct mq_arena *arena,
			       struct mq_err *err);

#endif

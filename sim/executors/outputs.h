/*
 * outputs.h - the files of one judged plan: what `maquette simulate` leaves.
 */
#ifndef MQ_EXECUTORS_OUTPUTS_H
#define MQ_EXECUTORS_OUTPUTS_H

#include "executors/verdict.h"

struct mq_outputs {
	const char *dir;      /* summary.csv, memory.csv and, where there is a step time, timeline.csv,
				 tasks.csv, links.csv go here; NULL = no tables */
	const char *trace;    /* Chrome / Perfetto trace, or NULL */
	const char *schedule; /* schedule file, or NULL; only of an unfolded run */
};

/* How a plan is judged for its files: timeline.csv, tasks.csv and the trace show every rank of plans of up to
 * MQ_OUTPUTS_WHOLE devices, or where there is a schedule file; of larger ones a representative of the ranks
 * that are alike, where `judge` folds. No task is fused, so that links.csv counts all bytes. */
enum { MQ_OUTPUTS_WHOLE = 64 };
struct mq_judge mq_outputs_judge(const struct mq_judge *judge, const struct mq_plan *plan,
				 const struct mq_outputs *outputs);

/* Is any file asked for? */
bool mq_outputs_any(const struct mq_outputs *outputs);
/* `judged`: as mq_outputs_judge has it. `result`: of the plan as any other is judged, which summary.csv says;
 * it learns how many devices the files show, and the verdict where `judged` has none of them to show. */
enum mq_status mq_simulate_outputs(const struct mq_judge *judge, const struct mq_judged *judged,
				   const struct mq_outputs *outputs, struct mq_result *result,
				   struct mq_err *err) MQ_MUST_CHECK;

#endif

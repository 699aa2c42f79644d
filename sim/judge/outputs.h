/* outputs.h - the files that `maquette simulate` writes for one plan. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_JUDGE_OUTPUTS_H
#define MQ_JUDGE_OUTPUTS_H

#include "judge/judge.h"

enum mq_outputs_timeline { MQ_TIMELINE_FOLDED, MQ_TIMELINE_NONE, MQ_TIMELINE_ALL };
struct mq_outputs {
	const char *dir;      /* summary.csv, memory.csv and, where there is a step time, timeline.csv,
				 tasks.csv, links.csv go here; NULL = no tables */
	const char *trace;    /* Chrome / Perfetto trace, or NULL */
	const char *schedule; /* schedule file, or NULL; only of an unfolded run */
	uint32_t timeline;    /* enum mq_outputs_timeline: ranks in timeline.csv and tasks.csv */
	double max_B; /* rough limit for each of trace, timeline.csv, tasks.csv; 0 = MQ_OUTPUTS_MAX_B, +inf = none */
};
/* Default of max_B. */
#define MQ_OUTPUTS_MAX_B 50e6
/* Row limit of memory.csv and links.csv, a fifth of max_B. Above it memory.csv has one device for all that are alike,
 * links.csv one link for all of equal class, bandwidth and bytes. */
double mq_outputs_rows(double max_B);
#define MQ_TRACED_B 340. /* estimated bytes of a task in a trace, with its flow arrows */

/* `judge`, changed to judge a plan for its files. timeline.csv, tasks.csv and the trace show every rank if the plan
 * has at most MQ_OUTPUTS_WHOLE devices, if MQ_TIMELINE_ALL is set or if a schedule file is written; else, where
 * `judge` folds, one representative of ranks that are alike. No task is fused, so links.csv counts all bytes. */
enum { MQ_OUTPUTS_WHOLE = 8 };
struct mq_judge mq_outputs_judge(const struct mq_judge *judge, const struct mq_plan *plan,
				 const struct mq_outputs *outputs);

/* For mq_judge.first_tasks: the rows of timeline.csv, 0 = all tasks are looked at. Are they, of a run that leaves out
 * micro-batches, before these? */
double mq_outputs_first_tasks(const struct mq_outputs *outputs);
bool mq_outputs_end_before(const struct mq_judged *shown, const struct mq_outputs *outputs);

/* Copies from `shown` (by mq_outputs_judge) to `result` (by the unchanged judge) what explains it: bottleneck, exposed
 * time per class of link, number of simulated devices, and the verdict where the two differ. */
void mq_outputs_explain(const struct mq_judged *shown, struct mq_result *result);
/* Writes the files. `shown`: by mq_outputs_judge. `result`: the row of summary.csv; gets n_shown and n_traced. */
enum mq_status mq_simulate_outputs(const struct mq_judge *judge, const struct mq_judged *shown,
				   const struct mq_outputs *outputs, struct mq_result *result, struct mq_err *err);

struct mq_memory_files {
	const char *snapshot; /* file for pytorch.org/memory_viz; NULL = none */
	const char *device;   /* its name; NULL = the device nearest its memory limit */
	const char *dir;      /* folder for memory_timeline.csv; NULL = none */
};
/* Lowers the plan for its memory alone and writes the files. MQ_EINPUT: no such device in the plan; a snapshot was
 * asked of inference, a CPU or a profiled model; a file cannot be written. */
enum mq_status mq_memory_outputs(const struct mq_question *q, const struct mq_plan *plan,
				 const struct mq_memory_files *outputs, struct mq_err *err);

#endif

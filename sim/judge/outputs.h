/* outputs.h - the files of one judged plan: what `maquette simulate` leaves. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_JUDGE_OUTPUTS_H
#define MQ_JUDGE_OUTPUTS_H

#include "judge/judge.h"

enum mq_outputs_timeline { MQ_TIMELINE_FOLDED, MQ_TIMELINE_NONE, MQ_TIMELINE_ALL };
struct mq_outputs {
	const char *dir;      /* summary.csv, memory.csv and, where there is a step time, timeline.csv,
				 tasks.csv, links.csv go here; NULL = no tables */
	const char *trace;    /* Chrome / Perfetto trace, or NULL */
	const char *schedule; /* schedule file, or NULL; only of an unfolded run */
	uint32_t timeline;    /* of timeline.csv and tasks.csv: enum mq_outputs_timeline */
	double max_B; /* of the trace, of timeline.csv and of tasks.csv, about; 0 = MQ_OUTPUTS_MAX_B, +inf = no limit */
};
/* As long as nobody asks for more. */
#define MQ_OUTPUTS_MAX_B 50e6
/* Beyond so many rows, a fifth of that, memory.csv has one device for all like it and links.csv one link for all of its
 * class that carry as much. */
double mq_outputs_rows(double max_B);
#define MQ_TRACED_B 340. /* bytes of a task in a trace, arrows and all */

/* How a plan is judged for its files: timeline.csv, tasks.csv and the trace show every rank of plans of up to
 * MQ_OUTPUTS_WHOLE devices, with MQ_TIMELINE_ALL, or where there is a schedule file; of larger ones a representative of
 * the ranks that are alike, where `judge` folds. No task is fused, so that links.csv counts all bytes. */
enum { MQ_OUTPUTS_WHOLE = 8 };
struct mq_judge mq_outputs_judge(const struct mq_judge *judge, const struct mq_plan *plan,
				 const struct mq_outputs *outputs);

/* Copies the words of `shown` (judged for its files) to `result` (judged for its numbers): bottleneck, exposed time
 * per class of link, number of simulated devices, and the verdict where the two differ. */
void mq_outputs_explain(const struct mq_judged *shown, struct mq_result *result);
/* `shown`: judged so. `result`: what summary.csv says; learns how many devices the timeline and the trace have. */
enum mq_status mq_simulate_outputs(const struct mq_judge *judge, const struct mq_judged *shown,
				   const struct mq_outputs *outputs, struct mq_result *result, struct mq_err *err);

#endif

/*
 * outputs.h - the files of one judged plan: what `maquette simulate` leaves.
 */
#ifndef MQ_EXECUTORS_OUTPUTS_H
#define MQ_EXECUTORS_OUTPUTS_H

#include "executors/verdict.h"

struct mq_outputs {
	const char *dir;      /* summary.csv, memory.csv and, where the verdict is ok, timeline.csv,
				 tasks.csv, links.csv go here; NULL = no tables */
	const char *trace;    /* Chrome / Perfetto trace, or NULL */
	const char *schedule; /* schedule file, or NULL; only of an unfolded run */
};

enum mq_status mq_simulate_outputs(const struct mq_judge *judge, const struct mq_judged *judged,
				   const struct mq_outputs *outputs, struct mq_err *err) MQ_MUST_CHECK;

#endif

/* traces.h - what others measured as samples of a calibration: traces of real steps, logs of nccl-tests.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_CMD_VALIDATE_TRACES_H
#define MQ_CMD_VALIDATE_TRACES_H

#include "fit/fit.h"
#include "trace/trace.h"

/* Traces of the ranks of one run. */
struct mq_traces {
	uint32_t n, n_rows;
	struct mq_trace *trace;      /* [n] */
	struct mq_trace_call **call; /* [n] */
	uint32_t *n_calls;           /* [n] */
	struct mq_trace_row *row;    /* [n_rows] all calls, waiting taken off */
};
/* Reads them, says on standard output what is in them, and writes the table of calls. */
enum mq_status mq_traces_load(const char *const *path, uint32_t n, const char *csv, struct mq_arena *arena,
			      struct mq_traces *traces, struct mq_err *err);

/* Adds observations that a calibration can be fitted to, one at least; says what it leaves out. */
enum mq_status mq_traces_observe(const struct mq_traces *traces, struct mq_arena *arena, struct mq_observations *to,
				 struct mq_err *err);

/* Logs of ranks on one node, and of ranks on several. */
enum { MQ_LOG_WITHIN, MQ_LOG_BETWEEN, MQ_N_LOG_GROUPS };
struct mq_log_group {
	struct mq_observations observed;
	uint32_t ranks, nodes;  /* nodes: 0 = not told */
	const char *link_class; /* NULL = not named */
};
struct mq_logs {
	struct mq_log_group group[MQ_N_LOG_GROUPS];
	const struct mq_log_group *first, *second; /* of mq_logs_name: those that there are, NULL = none */
};
/* A file, where folders are of samples; to be asked after mq_trace_probe. */
bool mq_logs_probe(const char *path);
/* MQ_EINPUT: a log that cannot be read, or of other ranks than those of its group before it. */
enum mq_status mq_logs_add(struct mq_logs *logs, const char *path, struct mq_arena *arena, struct mq_err *err);
/* `names`: "CLASS", "WITHIN,BETWEEN", or NULL. MQ_EINPUT: not as many as there are groups; links between nodes have no
 * usual name. */
enum mq_status mq_logs_name(struct mq_logs *logs, const char *names, struct mq_arena *arena, struct mq_err *err);

#endif

/* traces.h - samples for a calibration from other tools: traces of real steps, logs of nccl-tests.
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
	struct mq_trace_row *row;    /* [n_rows] all calls, without waiting time */
};
/* Reads traces, prints their contents, and writes the table of calls. */
enum mq_status mq_traces_load(const char *const *path, uint32_t n, const char *csv, struct mq_arena *arena,
			      struct mq_traces *traces, struct mq_err *err);

/* Adds observations for the fit of a calibration, at least one; prints what it leaves out. */
enum mq_status mq_traces_observe(const struct mq_traces *traces, struct mq_arena *arena, struct mq_observations *to,
				 struct mq_err *err);

/* Logs of ranks on one node, and of ranks on several. */
enum { MQ_LOG_WITHIN, MQ_LOG_BETWEEN, MQ_N_LOG_GROUPS };
struct mq_log_group {
	struct mq_observations observed;
	uint32_t ranks, nodes;  /* nodes: 0 = not known */
	const char *link_class; /* NULL = not named */
};
struct mq_logs {
	struct mq_log_group group[MQ_N_LOG_GROUPS];
	const struct mq_log_group *first, *second; /* of mq_logs_name; NULL = none */
};
/* Is the path a log? Folders hold samples; ask mq_trace_probe first. */
bool mq_logs_probe(const char *path);
/* MQ_EINPUT: an unreadable log, or one with other ranks than earlier logs of its group. */
enum mq_status mq_logs_add(struct mq_logs *logs, const char *path, struct mq_arena *arena, struct mq_err *err);
/* names: "CLASS", "WITHIN,BETWEEN", or NULL. MQ_EINPUT: not one name per group; only links inside a node
 * have a default. */
enum mq_status mq_logs_name(struct mq_logs *logs, const char *names, struct mq_arena *arena, struct mq_err *err);

#endif

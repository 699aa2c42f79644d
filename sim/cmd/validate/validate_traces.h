/*
 * validate_traces.h - what others measured as samples of a calibration: traces of real steps, logs of nccl-tests.
 */
#ifndef MQ_CMD_VALIDATE_VALIDATE_TRACES_H
#define MQ_CMD_VALIDATE_VALIDATE_TRACES_H

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
/* Reads them, says on standard output what is in them, and (`csv` not NULL) writes the table of calls. */
enum mq_status mq_traces_load(const char *const *path, uint32_t n, const char *csv, struct mq_arena *arena,
                              struct mq_traces *traces, struct mq_err *err) MQ_MUST_CHECK;

/* Observations that a calibration can be fitted to; says what it leaves out. */
enum mq_status mq_traces_observe(const struct mq_traces *traces, struct mq_arena *arena,
                                 struct mq_observed **observed, uint32_t *n, struct mq_err *err) MQ_MUST_CHECK;

/* Logs of one group of ranks. */
struct mq_logs {
	uint32_t n, room, ranks, nodes; /* nodes: 0 = not told */
	struct mq_observed *observed;
};
/* MQ_EINPUT: a log that cannot be read, of other ranks than those before it, or of several nodes without the name
 * of a link class. */
enum mq_status mq_logs_add(struct mq_logs *logs, const char *path, const char *link_class,
                           struct mq_arena *arena, struct mq_err *err) MQ_MUST_CHECK;

#endif

/* runs.h - runs of a template's tasks that last a time of their own: what fuse.c makes one task of.
 *
 * A line is what a device does on its COMPUTE and COMM streams, in that order; each place on it is a task. A run begins
 * and ends with compute tasks of a line, and nothing outside has a say in it:
 *   - what its tasks wait for lies inside, but for what the first waits for;
 *   - nobody outside waits for any of them but the last;
 *   - the COMM stream is idle when it begins, and all its collectives have ended when the last task starts;
 *   - no collective behind it could have begun before its end, had the run's not been in its way.
 * It lasts the longest path through the two streams: chains of a gather, a GEMM and a scatter are runs, and so are
 * the forks where a GEMM's two gradients are made beside what is gathered and scattered.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_FOLDING_RUNS_H
#define MQ_FOLDING_RUNS_H

#include "lowering/program.h"

struct mq_lines {
	const struct mq_template *t;
	uint32_t *first, *task; /* CSR: places of each schedule device -> tasks */
	uint32_t *place;        /* [tasks] MQ_NONE: on another stream */
	bool *awaited;          /* [places] by a task of another stream */
	double *seconds;        /* [places] the caller's: what the task lasts, NaN = that depends */
	/* of the run found last, and of what was looked at to find it */
	double *start_s, *finish_s; /* [places] from the start of the run */
	uint32_t *behind;           /* [places] of what its task waited for, the place that ended last */
	double *exposed_s;          /* [places] of a collective of the run: while nothing is computed */
};

/* How the templates of a device meet each other, whichever of them follow each other. */
struct mq_line_ends {
	bool busy;  /* one ends with a collective that no compute task has waited for */
	bool early; /* one has a collective that waits for no compute of its own */
};

struct mq_run {
	uint32_t from, to; /* places */
};

/* Everything lives in the arena; the template is borrowed. */
struct mq_lines mq_lines_of(const struct mq_template *t, uint32_t n_devices, struct mq_arena *arena);
/* Adds what this template says of a device's ends. */
void mq_lines_ends(const struct mq_lines *lines, uint32_t device, struct mq_line_ends *ends);
/* The next run of a device's line at or behind place `at`, the longest from its first task; false: none is left.
 * Call with at = lines->first[device], then with the place behind each run. */
bool mq_lines_run(struct mq_lines *lines, uint32_t device, const struct mq_line_ends *ends, uint32_t at,
		  struct mq_run *run);
bool mq_lines_computes(const struct mq_lines *lines, uint32_t at);

#endif

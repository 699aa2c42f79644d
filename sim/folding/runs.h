/* runs.h - finds runs of a template's tasks that last a fixed time, which fuse.c fuses into one task.
 *
 * A line lists a device's tasks on its COMPUTE and COMM streams in schedule order; a place is an index into it. A run
 * begins and ends with compute tasks of a line, and no task outside changes its duration:
 *   - all its tasks but the first wait for tasks of the run alone;
 *   - tasks outside wait for its last task alone;
 *   - the COMM stream is idle when it begins, and all its collectives have ended when the last task starts;
 *   - no later collective could start before the run's end, even if the run had none.
 * A run lasts the longest path through both streams. Chains of all-gather, GEMM and reduce-scatter are runs, and so are
 * forks in which a GEMM's two gradients overlap an all-gather and a reduce-scatter.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_FOLDING_RUNS_H
#define MQ_FOLDING_RUNS_H

#include "lowering/program.h"

struct mq_lines {
	const struct mq_template *t;
	uint32_t *first, *task; /* CSR: schedule device -> tasks, by place */
	uint32_t *place;        /* [tasks] place; MQ_NONE: on another stream */
	bool *awaited;          /* [places] a task of another stream waits for it */
	double *seconds;        /* [places] set by the caller: duration, NaN = not fixed */
	/* of the newest run, and of places tried to find it */
	double *start_s, *finish_s; /* [places] from the start of the run */
	uint32_t *behind;           /* [places] predecessor on the longest path, MQ_NONE = none */
	double *exposed_s;          /* [places] of a run's collective: time without compute */
};

/* How templates of a device may interact when one follows another, in any order. */
struct mq_line_ends {
	bool busy;  /* a template ends with a collective that no compute task waits for */
	bool early; /* a template has a collective that waits for none of its own compute tasks */
};

struct mq_run {
	uint32_t from, to; /* places */
};

/* Everything lives in the arena; the template is borrowed. */
struct mq_lines mq_lines_of(const struct mq_template *t, uint32_t n_devices, struct mq_arena *arena);
/* Adds this template to a device's ends. */
void mq_lines_ends(const struct mq_lines *lines, uint32_t device, struct mq_line_ends *ends);
/* Finds the device's next run at or after place `at`, as long as possible from its first task; false: none is left.
 * Call with at = lines->first[device], then with the place after each run. */
bool mq_lines_run(struct mq_lines *lines, uint32_t device, const struct mq_line_ends *ends, uint32_t at,
		  struct mq_run *run);
/* Fills exposed_s[] of the newest run's collectives. */
void mq_lines_expose(struct mq_lines *lines, const struct mq_run *run);
bool mq_lines_computes(const struct mq_lines *lines, uint32_t at);

#endif

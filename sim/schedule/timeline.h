/* timeline.h - start and finish of every task, from whichever executor ran the schedule, and what follows from it: step
 * time, where it goes, the critical path.
 *
 * A task starts when its stream, its dependencies and (simulated executors) all tasks that it meets are ready: a wait
 * for a peer is a bubble, not communication. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCHEDULE_TIMELINE_H
#define MQ_SCHEDULE_TIMELINE_H

#include <stdio.h>

#include "maquette/schedule.h"

struct mq_events;

struct mq_timeline {
	const char *executor;           /* name */
	const struct mq_events *events; /* of the schedule, where the executor has them; or NULL */
	uint32_t n_tasks;
	double *start_s, *finish_s; /* [n_tasks], from the start of the step */
	double step_time_s;
	uint32_t n_links;    /* cluster links, 0 where the executor knows none */
	double *link_busy_B; /* [n_links] bytes carried, or NULL */
	/* A folded schedule (folding/view.h); NULL where every device is simulated. */
	const double *weight;       /* [n_devices] ranks that each device stands for */
	const double *inner_comm_s; /* [n_tasks] exposed communication inside a compute task */
	bool inexact; /* the view did not keep its promise (folding/fold.h): the rest is not filled, run the next */
	/* Inexact: [the fold's positions] seconds of a communication that took longer in some places than in others,
	 * NAN where it has no member; or NULL. */
	double *apart_s;
};

/* Seconds of each communication or copy task during which its device computes nothing and no earlier
 * such task runs: what that task adds to the step. Array of n_tasks in the arena, 0 for compute. */
MQ_API double *mq_timeline_exposed(const struct mq_schedule *schedule, const struct mq_timeline *timeline,
				   struct mq_arena *arena);

/* Both at once, for half the work. */
struct mq_breakdown;
MQ_API struct mq_breakdown mq_timeline_account(const struct mq_schedule *schedule, const struct mq_timeline *timeline,
					       struct mq_arena *arena, double **exposed);

/* Where the step went. Times are means over the devices used, so that compute + exposed communication
 * + bubble = step time. */
struct mq_breakdown {
	double compute_s, exposed_comm_s, bubble_s;
};
MQ_API struct mq_breakdown mq_timeline_breakdown(const struct mq_schedule *schedule, const struct mq_timeline *timeline,
						 struct mq_arena *scratch);

/* The chain of tasks that ends last, walked back through what each one waited for. Returns the number
 * of tasks written (in time order) to path[n_tasks]. */
MQ_API uint32_t mq_timeline_critical_path(const struct mq_schedule *schedule, const struct mq_timeline *timeline,
					  struct mq_arena *arena, uint32_t **path);

/* The tasks that a file of at most `most` of them shows, show[n_tasks]: those of whole devices (the first, the last,
 * then in order) as long as they fit; of one that alone has more, as many as fit, in order of time. Returns how many
 * devices have tasks in it. */
MQ_API uint32_t mq_timeline_choose(const struct mq_schedule *schedule, const struct mq_timeline *timeline,
				   uint64_t most, bool *show);
/* timeline.csv: task,device,stream,kind,op,start_s,finish_s,bytes,flop,executor[,sample]; `show`: which tasks, or
 * NULL = all. */
MQ_API enum mq_status mq_timeline_save(const struct mq_schedule *schedule, const struct mq_timeline *timeline,
				       const bool *show, const char *path, struct mq_err *err);
/* Chrome / Perfetto trace: one process per device, one thread per stream; times in us. Errors of writing are the
 * caller's to find, when it closes the file. */
MQ_API void mq_timeline_trace(const struct mq_schedule *schedule, const struct mq_timeline *const *timelines,
			      uint32_t n, const bool *show, FILE *file);

#endif

/* timeline.h - start and finish of every task, as any executor fills them; step time, breakdown and critical path from
 * these.
 *
 * A task starts when its stream and its dependencies are ready and, in simulating executors, its peers are too: there a
 * wait for a peer is a bubble, not communication. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCHEDULE_TIMELINE_H
#define MQ_SCHEDULE_TIMELINE_H

#include <stdio.h>

#include "maquette/schedule.h"

struct mq_events;
struct mq_steady;

struct mq_timeline {
	const char *executor;           /* name */
	const struct mq_events *events; /* of the schedule, or NULL: the executor has none */
	uint32_t n_tasks;
	double *start_s, *finish_s; /* [n_tasks], from the start of the step */
	double step_time_s;
	uint32_t n_links;    /* cluster links; 0: the executor knows none */
	double *link_busy_B; /* [n_links] bytes carried, or NULL */
	/* A folded schedule (folding/view.h); NULL where every device is simulated. */
	const double *weight;           /* [n_devices] ranks that the device stands for */
	const double *inner_comm_s;     /* [n_tasks] exposed communication inside a compute task */
	const struct mq_steady *steady; /* micro-batches left out (schedule/events.h), or NULL */
	bool inexact;  /* the view is not exact (folding/fold.h): only apart_s is filled, run the next view */
	bool unsteady; /* inexact because micro-batches that were left out may take other times than the others */
	/* Inexact: [positions of the fold] seconds of a communication whose replicas took unequal times, NAN where it
	 * has no member; or NULL. */
	double *apart_s;
};

/* Exposed time: [n_tasks] seconds of each communication or copy task in which its device runs neither compute nor an
 * earlier such task; 0 for compute tasks. Lives in the arena. */
MQ_API double *mq_timeline_exposed(const struct mq_schedule *schedule, const struct mq_timeline *timeline,
				   struct mq_arena *arena);

/* How many times each task is left out (mq_timeline.steady), [n_tasks] in the arena; NULL: none is. */
MQ_API double *mq_timeline_repeats(const struct mq_timeline *timeline, struct mq_arena *arena);

/* Exposed times and breakdown in one pass. */
struct mq_breakdown;
MQ_API struct mq_breakdown mq_timeline_account(const struct mq_schedule *schedule, const struct mq_timeline *timeline,
					       struct mq_arena *arena, double **exposed);

/* Means over the devices used: compute + exposed communication + bubble = step time. */
struct mq_breakdown {
	double compute_s, exposed_comm_s, bubble_s;
};
MQ_API struct mq_breakdown mq_timeline_breakdown(const struct mq_schedule *schedule, const struct mq_timeline *timeline,
						 struct mq_arena *scratch);

/* The critical path: from the task that ends last, back through the one each task waited for longest. Returns the
 * number of tasks in *path, in time order. */
MQ_API uint32_t mq_timeline_critical_path(const struct mq_schedule *schedule, const struct mq_timeline *timeline,
					  struct mq_arena *arena, uint32_t **path);

/* Chooses at most `most` tasks to write, show[n_tasks]: all tasks of the first device, of the last and then of others
 * in order, as long as they fit; if the first alone has more, its earliest. Returns the number of devices shown. */
MQ_API uint32_t mq_timeline_choose(const struct mq_schedule *schedule, const struct mq_timeline *timeline,
				   uint64_t most, bool *show);
/* Writes timeline.csv: task,device,stream,kind,op,start_s,finish_s,bytes,flop,executor. `show`: NULL = all tasks. */
MQ_API enum mq_status mq_timeline_save(const struct mq_schedule *schedule, const struct mq_timeline *timeline,
				       const bool *show, const char *path, struct mq_err *err);
/* Chrome / Perfetto trace: one process per device, one thread per stream; times in us. The caller finds write errors
 * when it closes the file. */
MQ_API void mq_timeline_trace(const struct mq_schedule *schedule, const struct mq_timeline *const *timelines,
			      uint32_t n, const bool *show, FILE *file);

#endif

/*
 * timeline.h - start and finish of every task, from whichever executor ran the schedule, and what
 * follows from it: step time, where it goes, the critical path in words.
 */
#ifndef MQ_CORE_TIMELINE_H
#define MQ_CORE_TIMELINE_H

#include "core/schedule.h"

struct mq_timeline {
	const char *executor;    /* name */
	uint32_t n_tasks;
	double *start_s, *finish_s; /* [n_tasks], from the start of the step */
	double step_time_s;
	uint32_t n_links;        /* cluster links, 0 where the executor knows none */
	double *link_busy_B;     /* [n_links] bytes carried, or NULL */
};

/* Where the step went. Times are means over the devices used, so that compute + exposed communication
 * + bubble = step time. */
struct mq_breakdown {
	double compute_s, exposed_comm_s, bubble_s;
};
MQ_API struct mq_breakdown mq_timeline_breakdown(const struct mq_schedule *schedule,
						 const struct mq_timeline *timeline,
						 struct mq_arena *scratch);

/* The chain of tasks that ends last, walked back through what each one waited for. Returns the number
 * of tasks written (in time order) to path[n_tasks]. */
MQ_API uint32_t mq_timeline_critical_path(const struct mq_schedule *schedule,
					  const struct mq_timeline *timeline, struct mq_arena *arena,
					  uint32_t **path);

/* timeline.csv: task,device,stream,kind,op,start_s,finish_s,bytes,flop,executor[,sample] */
MQ_API enum mq_status mq_timeline_save(const struct mq_schedule *schedule,
				       const struct mq_timeline *timeline, const char *path,
				       struct mq_err *err) MQ_MUST_CHECK;
/* Chrome / Perfetto trace: one process per device, one thread per stream; times in us. */
MQ_API enum mq_status mq_timeline_trace(const struct mq_schedule *schedule,
					const struct mq_timeline *const *timelines, uint32_t n,
					const char *path, struct mq_err *err) MQ_MUST_CHECK;

#endif

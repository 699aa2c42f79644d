/* events.h - a schedule as a graph of events: tasks that start and end together are one event.
 *
 * A compute or copy task is an event of its own, a send and its recv are one event (rendezvous), all members' calls of
 * one collective are one event. Tasks of a group get one more event without tasks (a barrier) that comes before theirs,
 * and so does a round that waits for another. An event starts when the last event before it has ended. Every executor
 * that simulates, the check and the critical path walk this graph; it is built in O(tasks + deps).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCHEDULE_EVENTS_H
#define MQ_SCHEDULE_EVENTS_H

#include "maquette/schedule.h"

struct mq_events {
	uint32_t n; /* events: those of tasks, then barriers */
	uint32_t n_barriers;
	uint32_t *of;          /* [n_tasks] event of a task */
	uint32_t *first;       /* [n] lowest task of the event, MQ_NONE for a barrier */
	uint32_t *next;        /* [n_tasks] next task of the same event (ids grow), or MQ_NONE */
	uint32_t *n_before;    /* [n] edges into the event */
	uint32_t *after_first; /* [n + 1] into after[] */
	uint32_t *after;       /* events that wait for this one, one entry per edge */
	uint32_t *match;       /* [n_tasks] other end of a send or recv, else MQ_NONE */
	uint32_t *call;        /* [n_tasks] index of a collective among those of its communicator */
};

/* Several steps, of one job or of several, in one schedule: tasks of a round start when all tasks of the round before
 * it have ended, on every device. */
struct mq_rounds {
	uint32_t n;
	const uint32_t *of;     /* [n_tasks] round of a task */
	const uint32_t *before; /* [n] the round that it waits for, MQ_NONE = none */
};

/* A step of many micro-batches of which only some are in the schedule: the periods that are left out would come behind
 * those that are there, and do the same. */
struct mq_stretch {
	uint32_t first, n; /* tasks */
};
struct mq_steady {
	double periods;          /* that are left out */
	uint32_t n;              /* ranks of the pipeline */
	struct mq_stretch *last; /* [n] the last period of each; behind the two before it, of as many tasks each */
};

/* `rounds`: NULL = the schedule is one step. Takes indices to be in range (mq_schedule_check sees to that). MQ_EINPUT:
 * a send without recv, a communicator that some member does not call as often, a group cut in two by another task of
 * its stream, ... Does not look for cycles. */
MQ_API enum mq_status mq_events_build(const struct mq_schedule *schedule, const struct mq_rounds *rounds,
				      struct mq_arena *arena, struct mq_events *events, struct mq_err *err);

/* Writes the events to order[n] so that each comes after all it waits for; returns how many it could
 * place: fewer than n means a cycle of waits. */
MQ_API uint32_t mq_events_order(const struct mq_events *events, struct mq_arena *scratch, uint32_t *order);

/* "task 12 (send to gpu1, device gpu0)": for messages. */
MQ_API const char *mq_task_describe(const struct mq_schedule *schedule, uint32_t task, struct mq_arena *arena);

#endif

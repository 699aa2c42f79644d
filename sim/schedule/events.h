/* events.h - a schedule as a graph of events; an event is the tasks that start and end together.
 *
 * A compute or copy task is an event, a send and its recv are one (rendezvous), and all members' calls of one
 * collective are one. A group has one more event, a barrier without tasks, before the events of its tasks; so has a
 * round that waits for another. An event starts when all events before it have ended. The simulating executors,
 * mq_schedule_check and the critical path walk this graph. It is built in O(tasks + deps).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCHEDULE_EVENTS_H
#define MQ_SCHEDULE_EVENTS_H

#include "maquette/schedule.h"

struct mq_events {
	uint32_t n; /* events of tasks, then barriers */
	uint32_t n_barriers;
	uint32_t *of;          /* [n_tasks] event of a task */
	uint32_t *first;       /* [n] lowest task of the event, MQ_NONE for a barrier */
	uint32_t *next;        /* [n_tasks] next higher task of the same event, or MQ_NONE */
	uint32_t *n_before;    /* [n] edges into the event */
	uint32_t *after_first; /* [n + 1] into after[] */
	uint32_t *after;       /* events that wait for an event, one entry per edge */
	uint32_t *match;       /* [n_tasks] other end of a send or recv, else MQ_NONE */
	uint32_t *call;        /* [n_tasks] of a collective: ordinal among its device's calls of that communicator */
};

/* Several steps, of one or more jobs, in one schedule. A round is a step: its tasks start when all tasks of the round
 * before it have ended, on every device. */
struct mq_rounds {
	uint32_t n;
	const uint32_t *of;     /* [n_tasks] round of a task */
	const uint32_t *before; /* [n] the round that it waits for, MQ_NONE = none */
};

/* A step of which the schedule has only some micro-batches: the periods left out would follow one that is present and
 * repeat it. */
struct mq_stretch {
	uint32_t first, n; /* tasks */
};
struct mq_steady {
	double periods; /* left out */
	uint32_t n;     /* pipeline ranks */
	/* [n] each rank's period that they repeat: its last but one, after two of as many tasks */
	struct mq_stretch *period;
};

/* Builds the graph. `rounds`: NULL = the schedule is one step. Indices must be in range (mq_schedule_check tests them).
 * MQ_EINPUT: a send without recv, members that call a communicator unequally often, a group cut in two by another task
 * of its stream, ... Cycles are not found here. */
MQ_API enum mq_status mq_events_build(const struct mq_schedule *schedule, const struct mq_rounds *rounds,
				      struct mq_arena *arena, struct mq_events *events, struct mq_err *err);

/* Sorts the events topologically into order[n]; returns the number it could place: fewer than n means a cycle of
 * waits. */
MQ_API uint32_t mq_events_order(const struct mq_events *events, struct mq_arena *scratch, uint32_t *order);

/* A task's words for messages: "task 12 (send to gpu1, device gpu0)". */
MQ_API const char *mq_task_describe(const struct mq_schedule *schedule, uint32_t task, struct mq_arena *arena);

#endif

/* walk.h - time flowing through the event graph: an event may start when the last one before it ended.
 *
 * A caller takes events that are free to start (mq_walk_next), finds their finish time, and reports it
 * (mq_walk_finish), in any order that it likes. All state belongs to the caller's arena.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_EXECUTORS_WALK_H
#define MQ_EXECUTORS_WALK_H

#include "schedule/events.h"

struct mq_walk {
	const struct mq_events *events;
	double *start_s, *finish_s; /* [events->n]; start_s of an event is final once it is free */
	uint32_t *missing;          /* [n] events still to end before it */
	uint32_t *free_event;       /* stack of events that may start */
	uint32_t n_free, n_done;
};

void mq_walk_init(struct mq_walk *walk, const struct mq_events *events, struct mq_arena *arena);

/* The next event that is free to start, or MQ_NONE. */
static inline uint32_t mq_walk_next(struct mq_walk *w)
{
	return w->n_free ? w->free_event[--w->n_free] : MQ_NONE;
}

static inline void mq_walk_finish(struct mq_walk *w, uint32_t event, double finish_s)
{
	const struct mq_events *ev = w->events;

	w->finish_s[event] = finish_s;
	w->n_done++;
	for (uint32_t k = ev->after_first[event]; k < ev->after_first[event + 1]; k++) {
		uint32_t after = ev->after[k];
		if (w->start_s[after] < finish_s)
			w->start_s[after] = finish_s;
		if (!--w->missing[after])
			w->free_event[w->n_free++] = after;
	}
}

#endif

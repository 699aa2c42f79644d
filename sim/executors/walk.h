/* walk.h - walks the event graph in time: an event may start when all events before it have ended.
 *
 * The caller takes events that may start (mq_walk_next), finds their finish times, and reports them (mq_walk_finish) in
 * any order. All state lives in the caller's arena. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_EXECUTORS_WALK_H
#define MQ_EXECUTORS_WALK_H

#include "schedule/events.h"

struct mq_walk {
	const struct mq_events *events;
	double *start_s, *finish_s; /* [events->n]; start_s is final once the event may start */
	uint32_t *missing;          /* [n] events before it that have not ended */
	uint32_t *free_event;       /* stack of events that may start */
	uint32_t n_free, n_done;
};

void mq_walk_init(struct mq_walk *walk, const struct mq_events *events, struct mq_arena *arena);

/* The next event that may start, or MQ_NONE. */
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

/* walk.c - see walk.h. SPDX-License-Identifier: Apache-2.0 */
#include "executors/walk.h"

void mq_walk_init(struct mq_walk *w, const struct mq_events *ev, struct mq_arena *arena)
{
	*w = (struct mq_walk){ .events = ev };
	w->start_s = mq_arena_array(arena, ev->n, double);
	w->finish_s = mq_arena_array(arena, ev->n, double);
	w->missing = mq_arena_array(arena, ev->n, uint32_t);
	w->free_event = mq_arena_array(arena, ev->n, uint32_t);
	if (ev->n)
		memcpy(w->missing, ev->n_before, (size_t)ev->n * sizeof(*w->missing));
	for (uint32_t e = ev->n; e-- > 0;)
		if (!w->missing[e])
			w->free_event[w->n_free++] = e;
}

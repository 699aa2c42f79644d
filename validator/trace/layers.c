/* layers.c - what a step's layers take forward, where the program named ranges after them.
 *
 * A kernel belongs to the innermost range around its launch, on the launching thread. The backward pass runs on a
 * thread of its own, outside these ranges, and is not told apart. Collectives are not counted: they are a
 * communicator's. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "trace/trace.h"

enum { LOOK_BACK = 256, MOST_LAYERS = 4096 };

/* The ranges of layers, forward. */
static struct mq_trace_list ranges(const struct mq_trace *t, struct mq_arena *arena)
{
	struct mq_trace_list list = { 0 };

	for (uint32_t i = 0; i < t->n; i++) {
		const struct mq_event *e = &t->event[i];

		if (e->kind == MQ_EVENT_LAYER && !strcasestr(e->name, "backward") && !strcasestr(e->name, "bwd") &&
		    mq_trace_layer(e->name) < MOST_LAYERS)
			MQ_PUSH(arena, list.event, list.n, list.room, i);
	}
	return list;
}

/* The range around it that began last; events are by start. */
static const struct mq_event *innermost(const struct mq_trace *t, const struct mq_trace_list *range,
					const struct mq_event *launch)
{
	uint32_t low = mq_trace_begun(t, range, launch->start_us);

	for (uint32_t back = 0; low-- > 0 && back < LOOK_BACK; back++) {
		const struct mq_event *e = &t->event[range->event[low]];

		if (e->thread == launch->thread && mq_trace_holds(e, launch))
			return e;
	}
	return NULL;
}

uint32_t mq_trace_layers(const struct mq_trace *t, struct mq_arena *arena, double **forward_s)
{
	struct mq_trace_list range = ranges(t, arena), steps = mq_trace_steps(t, arena);
	struct mq_trace_launches launches;
	uint32_t n = 0;

	mq_trace_launches(t, arena, &launches);
	for (uint32_t i = 0; i < range.n; i++) {
		uint32_t layer = mq_trace_layer(t->event[range.event[i]].name);

		n = layer + 1 > n ? layer + 1 : n;
	}
	*forward_s = mq_arena_array(arena, n ? n : 1, double);
	for (uint32_t i = 0; n && i < t->n; i++) {
		const struct mq_event *e = &t->event[i];
		const struct mq_event *launch = e->kind == MQ_EVENT_KERNEL ? mq_trace_launch_of(&launches, e) : NULL;

		if (!launch || mq_trace_class_of(e->name, NULL) == MQ_CLASS_COMM ||
		    !mq_trace_in_step(t, &steps, launch))
			continue;
		const struct mq_event *in = innermost(t, &range, launch);
		if (in)
			(*forward_s)[mq_trace_layer(in->name)] += 1e-6 * e->dur_us / fmax(steps.n, 1);
	}
	return n;
}

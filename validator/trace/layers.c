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

struct index {
	const struct mq_trace *trace;
	struct mq_trace_launches launches;
	uint32_t *range, n_ranges, range_room;
	uint32_t *step, n_steps, step_room;
};

static void fill(struct index *x, struct mq_arena *arena)
{
	const struct mq_trace *t = x->trace;

	mq_trace_launches(t, arena, &x->launches);
	for (uint32_t i = 0; i < t->n; i++) {
		const struct mq_event *e = &t->event[i];

		if (e->kind == MQ_EVENT_LAYER && !strcasestr(e->name, "backward") && !strcasestr(e->name, "bwd") &&
		    mq_trace_layer(e->name) < MOST_LAYERS)
			MQ_PUSH(arena, x->range, x->n_ranges, x->range_room, i);
		if (e->kind == MQ_EVENT_STEP)
			MQ_PUSH(arena, x->step, x->n_steps, x->step_room, i);
	}
}

static bool holds(const struct mq_event *range, const struct mq_event *launch)
{
	return range->start_us <= launch->start_us && launch->start_us < range->start_us + range->dur_us;
}

static bool in_step(const struct index *x, const struct mq_event *launch)
{
	for (uint32_t i = 0; i < x->n_steps; i++)
		if (holds(&x->trace->event[x->step[i]], launch))
			return true;
	return !x->n_steps;
}

/* The range around it that began last; events are by start. */
static const struct mq_event *innermost(const struct index *x, const struct mq_event *launch)
{
	uint32_t low = mq_trace_begun(x->trace, x->range, x->n_ranges, launch->start_us);

	for (uint32_t back = 0; low-- > 0 && back < LOOK_BACK; back++) {
		const struct mq_event *e = &x->trace->event[x->range[low]];

		if (e->thread == launch->thread && holds(e, launch))
			return e;
	}
	return NULL;
}

uint32_t mq_trace_layers(const struct mq_trace *t, struct mq_arena *arena, double **forward_s)
{
	struct index x = { .trace = t };
	uint32_t n = 0;

	fill(&x, arena);
	for (uint32_t i = 0; i < x.n_ranges; i++) {
		uint32_t layer = mq_trace_layer(t->event[x.range[i]].name);

		n = layer + 1 > n ? layer + 1 : n;
	}
	*forward_s = mq_arena_array(arena, n ? n : 1, double);
	for (uint32_t i = 0; n && i < t->n; i++) {
		const struct mq_event *e = &t->event[i];
		const struct mq_event *launch = e->kind == MQ_EVENT_KERNEL ? mq_trace_launch_of(&x.launches, e) : NULL;

		if (!launch || mq_trace_class_of(e->name, NULL) == MQ_CLASS_COMM)
			continue;
		const struct mq_event *range = in_step(&x, launch) ? innermost(&x, launch) : NULL;
		if (range)
			(*forward_s)[mq_trace_layer(range->name)] += 1e-6 * e->dur_us / fmax(x.n_steps, 1);
	}
	return n;
}

/* baechi.c - see baechi.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/baechi.h"

#include <math.h>

static bool fits(const struct mq_tasks *t, const struct mq_schedule_state *s, uint32_t task, uint32_t device,
		 double cap)
{
	return isfinite(t->time[(size_t)task * t->n_devices + device]) &&
	       s->used[device] + t->memory[task] <= fmin(cap, t->limit[device]);
}

enum mq_status mq_baechi_topo(const struct mq_tasks *t, struct mq_arena *arena, struct mq_schedule_state *s,
			      struct mq_err *err)
{
	double total = 0, largest = 0;
	uint32_t device = 0;

	mq_schedule_begin(t, arena, s);
	for (uint32_t v = 0; v < t->n; v++) {
		total += t->memory[v];
		largest = fmax(largest, t->memory[v]);
	}
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t v = t->order[i], tried = 0;

		while (tried < t->n_devices && !fits(t, s, v, device, total / t->n_devices + largest)) {
			device = (device + 1) % t->n_devices;
			tried++;
		}
		if (tried == t->n_devices)
			return mq_fail(err, MQ_ENOPLAN,
				       "engine 'm-topo': the caps are full: %u of %u op groups are left over, the next "
				       "needs %.3g B",
				       t->n - i, t->n, t->memory[v]);
		mq_schedule_place(t, s, v, device);
	}
	return MQ_OK;
}

struct etf {
	const struct mq_tasks *t;
	struct mq_schedule_state *s;
	const uint32_t *favourite;
	uint32_t *waits;
	uint32_t *last; /* [devices] the task placed there last */
};

static bool ready(const struct etf *e, uint32_t v)
{
	return e->s->device_of[v] == MQ_NONE && e->waits[v] == 0;
}

/* Are the task's inputs on every device before this one is free? Then waiting gains nothing. */
static bool urgent(const struct etf *e, uint32_t v, uint32_t device)
{
	for (uint32_t d = 0; d < e->t->n_devices; d++)
		if (mq_schedule_ready(e->t, e->s, v, d, true) > e->s->free_at[device])
			return false;
	return true;
}

/* Is the device reserved for the favourite child of its last task, not yet placed? */
static bool reserved(const struct etf *e, uint32_t v, uint32_t device)
{
	uint32_t last = e->last[device];

	if (!e->favourite || last == MQ_NONE)
		return false;
	uint32_t child = e->favourite[last];

	return child != MQ_NONE && child != v && e->s->device_of[child] == MQ_NONE &&
	       fits(e->t, e->s, child, device, INFINITY) && !urgent(e, v, device);
}

/* The ready task and device with the earliest start; reserved devices only if `respect` is false. */
static bool choose(const struct etf *e, bool respect, uint32_t *task, uint32_t *device)
{
	double least = INFINITY;

	for (uint32_t v = 0; v < e->t->n; v++) {
		if (!ready(e, v))
			continue;
		for (uint32_t d = 0; d < e->t->n_devices; d++) {
			if (!fits(e->t, e->s, v, d, INFINITY) || (respect && reserved(e, v, d)))
				continue;
			double begin = fmax(e->s->free_at[d], mq_schedule_ready(e->t, e->s, v, d, true));

			if (begin < least) {
				least = begin;
				*task = v;
				*device = d;
			}
		}
	}
	return isfinite(least);
}

enum mq_status mq_baechi_etf(const struct mq_tasks *t, const uint32_t *favourite, struct mq_arena *arena,
			     struct mq_schedule_state *s, struct mq_err *err)
{
	struct etf e = { t, s, favourite, mq_arena_array(arena, t->n, uint32_t),
			 mq_arena_array(arena, t->n_devices, uint32_t) };

	mq_schedule_begin(t, arena, s);
	for (uint32_t d = 0; d < t->n_devices; d++)
		e.last[d] = MQ_NONE;
	for (uint32_t i = 0; i < t->n_edges; i++)
		e.waits[t->edge[i].dst]++;
	for (uint32_t n = 0; n < t->n; n++) {
		uint32_t task, device;

		if (!choose(&e, true, &task, &device) && !choose(&e, false, &task, &device)) {
			bool waiting = true;

			for (uint32_t v = 0; v < t->n && waiting; v++)
				waiting = !ready(&e, v);
			if (!waiting)
				return mq_fail(err, MQ_ENOPLAN,
					       "engine '%s': no device has room: %u of %u op groups are left over",
					       favourite ? "m-sct" : "m-etf", t->n - n, t->n);
			for (task = 0; s->device_of[task] != MQ_NONE; task++)
				continue; /* a cycle of colours: the lowest task goes first */
			e.waits[task] = 0;
			n--;
			continue;
		}
		mq_schedule_place(t, s, task, device);
		e.last[device] = task;
		for (uint32_t i = t->out_first[task]; i < t->out_first[task + 1]; i++)
			if (e.waits[t->edge[t->out[i]].dst])
				e.waits[t->edge[t->out[i]].dst]--;
	}
	return MQ_OK;
}

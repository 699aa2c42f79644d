/* window.c - see share.h: events that may meet or slow each other, by the schedule's order alone.
 *
 * Tasks of one stream never overlap. Let lo(t) be the last task of the device's compute stream that precedes t, and
 * hi(t) the first that follows it, along stream order and dependencies. Two tasks of a device cannot overlap if hi of
 * one <= lo of the other. Users of a link that have no device in common count as meeting. The same windows (lo, hi)
 * give the compute tasks that a communication may slow.
 *
 * Order that other devices impose is not seen, which only costs time: such events are simulated.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "executors/simgrid/share.h"

struct window {
	int64_t lo, hi;
	uint32_t event, colour; /* tasks of one colour never overlap */
};

/* ---- windows ----------------------------------------------------------------------------------- */

static int64_t position_from(const struct mq_sharing *f, const int64_t *known, uint32_t task)
{
	return f->position[task] >= 0 ? f->position[task] : known[task];
}

static void find_windows(struct mq_sharing *f)
{
	const struct mq_schedule *s = f->c->view.schedule;
	const struct mq_events *ev = f->ev;
	uint32_t n = s->n_tasks, n_queues = s->n_devices * MQ_N_STREAMS;
	uint32_t *order = mq_arena_array(f->arena, ev->n, uint32_t);
	uint32_t *before = mq_arena_array(f->arena, n, uint32_t);
	uint32_t *last = mq_arena_none(f->arena, n_queues);
	int64_t *count = mq_arena_array(f->arena, s->n_devices, int64_t);
	uint32_t n_order = mq_events_order(ev, f->arena, order);

	f->lo = mq_arena_array(f->arena, n, int64_t);
	f->hi = mq_arena_array(f->arena, n, int64_t);
	f->position = mq_arena_array(f->arena, n, int64_t);
	for (uint32_t i = 0; i < n; i++) {
		const struct mq_task *t = &s->task[i];
		uint32_t *queue = &last[t->device * MQ_N_STREAMS + t->stream];
		/* A group's members start together, so none precedes another. */
		before[i] =
			*queue != MQ_NONE && t->group && s->task[*queue].group == t->group ? before[*queue] : *queue;
		*queue = i;
		f->position[i] = t->stream == MQ_STREAM_COMPUTE ? count[t->device]++ : -1;
		f->lo[i] = -1;
		f->hi[i] = INT64_MAX;
	}
	for (uint32_t k = 0; k < n_order; k++)
		for (uint32_t i = ev->first[order[k]]; i != MQ_NONE; i = ev->next[i]) {
			const struct mq_task *t = &s->task[i];
			if (before[i] != MQ_NONE && position_from(f, f->lo, before[i]) > f->lo[i])
				f->lo[i] = position_from(f, f->lo, before[i]);
			for (uint32_t d = t->dep_first; d < t->dep_first + t->n_deps; d++)
				if (position_from(f, f->lo, s->dep[d]) > f->lo[i])
					f->lo[i] = position_from(f, f->lo, s->dep[d]);
		}
	for (uint32_t k = n_order; k-- > 0;)
		for (uint32_t i = ev->first[order[k]]; i != MQ_NONE; i = ev->next[i]) {
			const struct mq_task *t = &s->task[i];
			int64_t mine = position_from(f, f->hi, i);
			if (before[i] != MQ_NONE && mine < f->hi[before[i]])
				f->hi[before[i]] = mine;
			for (uint32_t d = t->dep_first; d < t->dep_first + t->n_deps; d++)
				if (mine < f->hi[s->dep[d]])
					f->hi[s->dep[d]] = mine;
		}
}

static void list_tasks(struct mq_sharing *f)
{
	const struct mq_schedule *s = f->c->view.schedule;
	uint32_t *device = mq_arena_none(f->arena, s->n_tasks);

	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (mq_task_communicates(&s->task[i]))
			device[i] = s->task[i].device;
	mq_csr_make(f->arena, s->n_devices, s->n_tasks, device, NULL, sizeof(*device), &f->task_first, &f->task_at);
}

static void need_windows(struct mq_sharing *f)
{
	if (!f->lo) {
		find_windows(f);
		list_tasks(f);
	}
}

/* ---- sharing ----------------------------------------------------------------------------------- */

MQ_COMPARE(by_lo, struct window, MQ_ORDER(a->lo, b->lo) ?: MQ_ORDER(a->event, b->event))

/* Marks every window that overlaps one of another colour. In order of lo, a window overlaps an earlier one whose hi is
 * beyond its lo; the two largest hi of different colours suffice to tell. */
static void mark_overlaps(struct mq_sharing *f, struct window *w, uint32_t n)
{
	int64_t hi1 = INT64_MIN, hi2 = INT64_MIN; /* largest hi; largest of another colour */
	uint32_t colour1 = MQ_NONE;

	qsort(w, n, sizeof(*w), by_lo);
	for (uint32_t i = 0; i < n; i++) {
		if ((w[i].colour == colour1 ? hi2 : hi1) > w[i].lo)
			mq_sharing_mark(f, w[i].event);
		if (w[i].colour == colour1) {
			hi1 = w[i].hi > hi1 ? w[i].hi : hi1;
		} else if (w[i].hi >= hi1) {
			hi2 = hi1;
			hi1 = w[i].hi;
			colour1 = w[i].colour;
		} else if (w[i].hi > hi2) {
			hi2 = w[i].hi;
		}
	}
	/* Backwards: this window overlaps a later one of another colour whose lo is before its hi. */
	uint32_t next = n, other = n; /* nearest later window; nearest of another colour than it */
	for (uint32_t i = n; i-- > 0;) {
		if (next < n && w[next].colour != w[i].colour)
			other = next;
		next = i;
		if (other < n && w[other].lo < w[i].hi)
			mq_sharing_mark(f, w[i].event);
	}
}

/* The lowest device that all users of a link have in common, or MQ_NONE. seen: [devices], all zero before and after. */
static uint32_t common_device(struct mq_sharing *f, uint32_t link, uint32_t *seen)
{
	uint32_t found = MQ_NONE, n = 0, from = f->link_first[link], to = f->link_first[link + 1];

	for (uint32_t k = from; k < to; k++, n++)
		for (uint32_t i = f->device_first[f->link_user[k]]; i < f->device_first[f->link_user[k] + 1]; i++) {
			uint32_t d = f->device[i];
			if (d == MQ_NONE || seen[d] != n)
				continue;
			seen[d] = n + 1;
			if (k + 1 == to && d < found)
				found = d;
		}
	for (uint32_t k = from; k < to; k++)
		for (uint32_t i = f->device_first[f->link_user[k]]; i < f->device_first[f->link_user[k] + 1]; i++)
			if (f->device[i] != MQ_NONE)
				seen[f->device[i]] = 0;
	return found;
}

/* Marks the events on `device`, of users in on_link[users], whose windows overlap. */
static void share_on_device(struct mq_sharing *f, uint32_t device, const bool *on_link, struct window *room)
{
	uint32_t n = 0;

	need_windows(f);
	for (uint32_t k = f->task_first[device]; k < f->task_first[device + 1]; k++) {
		uint32_t task = f->task_at[k], event = f->ev->of[task];
		const struct mq_task *t = &f->c->view.schedule->task[task];
		if (!on_link[f->user_of[f->communication[event]]])
			continue;
		room[n++] = (struct window){ .lo = f->lo[task],
					     .hi = f->hi[task],
					     .event = event,
					     .colour = t->group ? MQ_N_STREAMS + task : t->stream };
	}
	mark_overlaps(f, room, n);
}

struct all_sets {
	struct window *room; /* [tasks] */
	bool *always_met;    /* [users] taken as meeting others all the time */
	uint32_t *seen;      /* [devices] */
	bool any_always_met;
};

static void share_set(struct mq_sharing *f, uint32_t link, const bool *on_link, void *data)
{
	struct all_sets *all = data;
	uint32_t device = common_device(f, link, all->seen);

	if (device != MQ_NONE) {
		share_on_device(f, device, on_link, all->room);
		return;
	}
	for (uint32_t k = f->link_first[link]; k < f->link_first[link + 1]; k++)
		all->any_always_met = all->always_met[f->link_user[k]] = true;
}

void mq_sharing_may_contend(struct mq_sharing *f)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	const struct mq_schedule *s = f->c->view.schedule;
	struct all_sets all = { .room = mq_arena_array(&scratch, s->n_tasks, struct window),
				.always_met = mq_arena_array(&scratch, f->n_users, bool),
				.seen = mq_arena_array(&scratch, s->n_devices, uint32_t) };

	mq_sharing_each_set(f, share_set, &all);
	for (uint32_t e = 0; e < f->ev->n && all.any_always_met; e++)
		if (f->communication[e] != MQ_NONE && all.always_met[f->user_of[f->communication[e]]])
			mq_sharing_mark(f, e);
}

/* ---- interference ------------------------------------------------------------------------------ */

static void mark_slowed(struct mq_sharing *f, uint32_t event)
{
	if (!f->slowed[event]) {
		f->slowed[event] = true;
		f->n_slowed++;
	}
}

/* Marks communications that interfere, if compute tasks lie in their window, and those compute tasks. */
void mq_sharing_find_slowed(struct mq_sharing *f)
{
	const struct mq_costing *c = f->c;
	const struct mq_schedule *s = c->view.schedule;
	uint32_t *first = mq_arena_array(f->arena, s->n_devices + 2, uint32_t);
	bool any = false;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		const struct mq_device *d = &c->cluster->device[s->device[t->device]];
		first[t->device + 1] += t->stream == MQ_STREAM_COMPUTE;
		any |= mq_task_interferes(&c->calib->device[d->calib], t);
	}
	if (!any)
		return;
	need_windows(f);
	for (uint32_t d = 0; d < s->n_devices; d++)
		first[d + 1] += first[d];
	uint32_t n_compute = first[s->n_devices];
	int32_t *change = mq_arena_array(f->arena, n_compute + 1, int32_t); /* windows that begin - end here */
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		const struct mq_device *d = &c->cluster->device[s->device[t->device]];
		uint32_t from = first[t->device] + (uint32_t)(f->lo[i] + 1);
		uint32_t to = f->hi[i] == INT64_MAX ? first[t->device + 1] : first[t->device] + (uint32_t)f->hi[i];
		if (from >= to || !mq_task_interferes(&c->calib->device[d->calib], t))
			continue;
		change[from]++;
		change[to]--;
		mark_slowed(f, f->ev->of[i]);
	}
	for (uint32_t k = 1; k < n_compute; k++)
		change[k] += change[k - 1];
	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (f->position[i] >= 0 && s->task[i].kind == MQ_TASK_COMPUTE &&
		    change[first[s->task[i].device] + (uint32_t)f->position[i]] > 0)
			mark_slowed(f, f->ev->of[i]);
}

/*
 * timeline.c - where a step's time went, and the chain of tasks that made it that long.
 *
 * Exposed communication is the measure of (union of a device's communication and copies) minus (union
 * of its compute), attributed to the task that started first. The critical path walks back over the
 * events of the schedule from the last to finish to the one whose finish it waited for.
 */
#include "core/timeline.h"

#include <math.h>
#include <stdlib.h>

#include "core/events.h"

struct interval {
	double start_s, finish_s;
	uint32_t task;
};

static int by_start(const void *a, const void *b)
{
	const struct interval *x = a, *y = b;

	if (x->start_s != y->start_s)
		return x->start_s < y->start_s ? -1 : 1;
	return x->task < y->task ? -1 : x->task > y->task;
}

/* Tasks by device as a CSR, sorted by start; compute ones or the others. */
static struct interval *intervals(const struct mq_schedule *s, const struct mq_timeline *t,
				  bool compute, struct mq_arena *a, uint32_t **first)
{
	uint32_t *at = mq_arena_array(a, s->n_devices + 2, uint32_t);

	for (uint32_t i = 0; i < s->n_tasks; i++)
		at[s->task[i].device + 2] += (s->task[i].kind == MQ_TASK_COMPUTE) == compute;
	for (uint32_t d = 0; d < s->n_devices; d++)
		at[d + 2] += at[d + 1];
	struct interval *list = mq_arena_array(a, at[s->n_devices + 1], struct interval);
	for (uint32_t i = 0; i < s->n_tasks; i++)
		if ((s->task[i].kind == MQ_TASK_COMPUTE) == compute)
			list[at[s->task[i].device + 1]++] =
				(struct interval){ t->start_s[i], t->finish_s[i], i };
	for (uint32_t d = 0; d < s->n_devices; d++)
		qsort(list + at[d], at[d + 1] - at[d], sizeof(*list), by_start);
	*first = at;
	return list;
}

/* Merge what overlaps; returns the number left. */
static uint32_t merge(struct interval *list, uint32_t n)
{
	uint32_t m = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (m && list[i].start_s <= list[m - 1].finish_s)
			list[m - 1].finish_s = fmax(list[m - 1].finish_s, list[i].finish_s);
		else
			list[m++] = list[i];
	}
	return m;
}

/* busy[n_busy] is disjoint and sorted; comm[n] sorted by start. */
static void expose(const struct interval *busy, uint32_t n_busy, const struct interval *comm,
		   uint32_t n, double *exposed)
{
	double covered = -INFINITY;
	uint32_t b = 0;

	for (uint32_t i = 0; i < n; i++) {
		double from = fmax(comm[i].start_s, covered), to = comm[i].finish_s;
		if (to <= from)
			continue;
		double free_s = to - from;
		while (b < n_busy && busy[b].finish_s <= from)
			b++;
		for (uint32_t k = b; k < n_busy && busy[k].start_s < to; k++)
			free_s -= fmin(to, busy[k].finish_s) - fmax(from, busy[k].start_s);
		exposed[comm[i].task] = fmax(free_s, 0);
		covered = to;
	}
}

double *mq_timeline_exposed(const struct mq_schedule *s, const struct mq_timeline *t,
			    struct mq_arena *arena)
{
	struct mq_arena scratch = MQ_ARENA_INIT;
	double *exposed = mq_arena_array(arena, s->n_tasks, double);
	uint32_t *busy_at, *comm_at;
	struct interval *busy = intervals(s, t, true, &scratch, &busy_at);
	struct interval *comm = intervals(s, t, false, &scratch, &comm_at);

	for (uint32_t d = 0; d < s->n_devices; d++) {
		uint32_t n = merge(busy + busy_at[d], busy_at[d + 1] - busy_at[d]);
		expose(busy + busy_at[d], n, comm + comm_at[d], comm_at[d + 1] - comm_at[d],
		       exposed);
	}
	mq_arena_fini(&scratch);
	return exposed;
}

struct mq_breakdown mq_timeline_breakdown(const struct mq_schedule *s, const struct mq_timeline *t,
					  struct mq_arena *scratch)
{
	const double *exposed = mq_timeline_exposed(s, t, scratch);
	double *compute = mq_arena_array(scratch, s->n_devices, double);
	double *comm = mq_arena_array(scratch, s->n_devices, double);
	struct mq_breakdown sum = { 0 };
	double weight = 0;
	uint32_t *at;
	struct interval *busy = intervals(s, t, true, scratch, &at);

	for (uint32_t d = 0; d < s->n_devices; d++) {
		uint32_t n = merge(busy + at[d], at[d + 1] - at[d]);
		for (uint32_t i = 0; i < n; i++)
			compute[d] += busy[at[d] + i].finish_s - busy[at[d] + i].start_s;
	}
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		double inner = t->inner_comm_s ? t->inner_comm_s[i] : 0;
		comm[s->task[i].device] += exposed[i] + inner;
		compute[s->task[i].device] -= inner;
	}
	for (uint32_t d = 0; d < s->n_devices; d++) {
		double w = t->weight ? t->weight[d] : 1;
		weight += w;
		sum.compute_s += w * compute[d];
		sum.exposed_comm_s += w * comm[d];
	}
	if (weight > 0) {
		sum.compute_s /= weight;
		sum.exposed_comm_s /= weight;
	}
	sum.bubble_s = fmax(0, t->step_time_s - sum.compute_s - sum.exposed_comm_s);
	return sum;
}

/* ---- critical path --------------------------------------------------------------------------- */

struct back {
	const struct mq_schedule *s;
	const struct mq_timeline *t;
	struct mq_events ev;
	uint32_t *before_first, *before; /* CSR of the edges reversed */
	double *finish_s;                /* of events; a barrier's is that of its latest input */
	uint32_t *mark;                  /* [n_devices] task of the event at hand, by device */
};

static void reverse_edges(struct back *b, struct mq_arena *a)
{
	const struct mq_events *ev = &b->ev;

	b->before_first = mq_arena_array(a, ev->n + 2, uint32_t);
	b->before = mq_arena_array(a, ev->after_first[ev->n], uint32_t);
	for (uint32_t e = 0; e < ev->n; e++)
		b->before_first[e + 2] = b->before_first[e + 1] + ev->n_before[e];
	for (uint32_t e = 0; e < ev->n; e++)
		for (uint32_t k = ev->after_first[e]; k < ev->after_first[e + 1]; k++)
			b->before[b->before_first[ev->after[k] + 1]++] = e;
}

static void finish_events(struct back *b, struct mq_arena *a)
{
	const struct mq_events *ev = &b->ev;

	b->finish_s = mq_arena_array(a, ev->n, double);
	for (uint32_t i = 0; i < b->s->n_tasks; i++)
		b->finish_s[ev->of[i]] = fmax(b->finish_s[ev->of[i]], b->t->finish_s[i]);
	for (uint32_t e = ev->n - ev->n_barriers; e < ev->n; e++)
		for (uint32_t k = b->before_first[e]; k < b->before_first[e + 1]; k++)
			b->finish_s[e] = fmax(b->finish_s[e], b->finish_s[b->before[k]]);
}

/* The event that `event` waited for longest, looking through barriers; MQ_NONE at the start. */
static uint32_t waited_for(const struct back *b, uint32_t event)
{
	uint32_t best;

	do {
		best = MQ_NONE;
		for (uint32_t k = b->before_first[event]; k < b->before_first[event + 1]; k++) {
			uint32_t p = b->before[k];
			if (best == MQ_NONE || b->finish_s[p] > b->finish_s[best] ||
			    (b->finish_s[p] == b->finish_s[best] && p < best))
				best = p;
		}
		event = best;
	} while (best != MQ_NONE && b->ev.first[best] == MQ_NONE);
	return best;
}

/* The task of `event` on a device that `before` also has a task on: the member that came last. */
static uint32_t late_member(struct back *b, uint32_t event, uint32_t before)
{
	const struct mq_events *ev = &b->ev;
	uint32_t found = MQ_NONE;

	if (before == MQ_NONE)
		return ev->first[event];
	for (uint32_t t = ev->first[event]; t != MQ_NONE; t = ev->next[t])
		b->mark[b->s->task[t].device] = t;
	for (uint32_t t = ev->first[before]; t != MQ_NONE && found == MQ_NONE; t = ev->next[t])
		found = b->mark[b->s->task[t].device];
	for (uint32_t t = ev->first[event]; t != MQ_NONE; t = ev->next[t])
		b->mark[b->s->task[t].device] = MQ_NONE;
	return found == MQ_NONE ? ev->first[event] : found;
}

uint32_t mq_timeline_critical_path(const struct mq_schedule *s, const struct mq_timeline *t,
				   struct mq_arena *arena, uint32_t **path)
{
	struct mq_arena scratch = MQ_ARENA_INIT;
	struct back b = { .s = s, .t = t };
	uint32_t n = 0, event = MQ_NONE;

	*path = mq_arena_array(arena, s->n_tasks, uint32_t);
	if (!s->n_tasks || mq_events_build(s, &scratch, &b.ev, NULL)) {
		mq_arena_fini(&scratch);
		return 0;
	}
	reverse_edges(&b, &scratch);
	finish_events(&b, &scratch);
	b.mark = mq_arena_array(&scratch, s->n_devices, uint32_t);
	memset(b.mark, 0xff, (size_t)s->n_devices * sizeof(*b.mark));
	for (uint32_t e = 0; e < b.ev.n - b.ev.n_barriers; e++)
		if (event == MQ_NONE || b.finish_s[e] > b.finish_s[event])
			event = e;
	while (event != MQ_NONE && n < s->n_tasks) {
		uint32_t before = waited_for(&b, event);
		(*path)[n++] = late_member(&b, event, before);
		event = before;
	}
	for (uint32_t i = 0; i < n / 2; i++) {
		uint32_t swap = (*path)[i];
		(*path)[i] = (*path)[n - 1 - i];
		(*path)[n - 1 - i] = swap;
	}
	mq_arena_fini(&scratch);
	return n;
}

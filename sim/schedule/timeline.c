/* timeline.c - breakdown of a step's time, and its critical path.
 *
 * Exposed communication is the measure of (union of a device's communication and copies) minus (union of its compute),
 * attributed to the task that started first. The critical path walks back over the schedule's events, from the last to
 * finish, always to the one whose finish was waited for. SPDX-License-Identifier: Apache-2.0 */
#include "schedule/timeline.h"

#include <math.h>

#include "schedule/events.h"

struct interval {
	double start_s, finish_s;
};

struct account {
	const struct mq_schedule *s;
	const struct mq_timeline *t;
	uint32_t *first, *task; /* CSR: tasks of each (device, stream) by start */
	struct interval *busy;  /* of the current device: its compute, merged */
	double *exposed;        /* [n_tasks] */
	double *repeats;        /* [n_tasks] see mq_timeline_repeats, or NULL */
	double repeated_s;      /* compute of the device at hand, in periods that are left out */
};

static bool starts_before(const struct mq_timeline *t, uint32_t a, uint32_t b)
{
	return t->start_s[a] != t->start_s[b] ? t->start_s[a] < t->start_s[b] : a < b;
}

/* Lists each stream's tasks by start. They mostly are in that order: insertion sort. */
static void list_streams(struct account *c, struct mq_arena *a)
{
	const struct mq_schedule *s = c->s;
	uint32_t n = s->n_devices * MQ_N_STREAMS;

	c->first = mq_arena_array(a, n + 2, uint32_t);
	c->task = mq_arena_array(a, s->n_tasks, uint32_t);
	for (uint32_t i = 0; i < s->n_tasks; i++)
		c->first[s->task[i].device * MQ_N_STREAMS + s->task[i].stream + 2]++;
	for (uint32_t q = 0; q < n; q++)
		c->first[q + 2] += c->first[q + 1];
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		uint32_t q = s->task[i].device * MQ_N_STREAMS + s->task[i].stream;
		uint32_t at = c->first[q + 1]++;
		for (; at > c->first[q] && starts_before(c->t, i, c->task[at - 1]); at--)
			c->task[at] = c->task[at - 1];
		c->task[at] = i;
	}
}

/* Iterates a device's tasks across its streams in order of start: compute tasks, or all others. */
struct cursor {
	const struct account *c;
	uint32_t n; /* streams with tasks left */
	uint32_t at[MQ_N_STREAMS], end[MQ_N_STREAMS], task[MQ_N_STREAMS];
	double start_s[MQ_N_STREAMS]; /* of the next task of each */
	bool compute;
};

/* Moves stream k of the cursor to its next task; drops it if there is none. */
static void advance(struct cursor *u, uint32_t k)
{
	const struct account *c = u->c;

	while (u->at[k] < u->end[k]) {
		uint32_t i = c->task[u->at[k]++];
		if ((c->s->task[i].kind == MQ_TASK_COMPUTE) == u->compute) {
			u->task[k] = i;
			u->start_s[k] = c->t->start_s[i];
			return;
		}
	}
	u->n--;
	u->at[k] = u->at[u->n];
	u->end[k] = u->end[u->n];
	u->task[k] = u->task[u->n];
	u->start_s[k] = u->start_s[u->n];
}

static struct cursor begin(const struct account *c, uint32_t device, bool compute)
{
	struct cursor u = { .c = c, .compute = compute };

	for (uint32_t q = 0; q < MQ_N_STREAMS; q++) {
		u.at[u.n] = c->first[device * MQ_N_STREAMS + q];
		u.end[u.n++] = c->first[device * MQ_N_STREAMS + q + 1];
		advance(&u, u.n - 1);
	}
	return u;
}

static uint32_t next_task(struct cursor *u)
{
	uint32_t best = 0;

	if (!u->n)
		return MQ_NONE;
	for (uint32_t k = 1; k < u->n; k++)
		if (u->start_s[k] < u->start_s[best] ||
		    (u->start_s[k] == u->start_s[best] && u->task[k] < u->task[best]))
			best = k;
	uint32_t task = u->task[best];
	advance(u, best);
	return task;
}

/* Fills busy[] with the disjoint intervals in which the device computes; returns their number. */
static uint32_t merge_busy(struct account *c, uint32_t device)
{
	struct cursor u = begin(c, device, true);
	uint32_t n = 0, i;

	c->repeated_s = 0;
	while ((i = next_task(&u)) != MQ_NONE) {
		double from_s = n ? fmax(c->t->start_s[i], c->busy[n - 1].finish_s) : c->t->start_s[i];

		if (c->repeats)
			c->repeated_s += c->repeats[i] * fmax(c->t->finish_s[i] - from_s, 0);
		if (n && c->t->start_s[i] <= c->busy[n - 1].finish_s)
			c->busy[n - 1].finish_s = fmax(c->busy[n - 1].finish_s, c->t->finish_s[i]);
		else
			c->busy[n++] = (struct interval){ c->t->start_s[i], c->t->finish_s[i] };
	}
	return n;
}

static void find_exposed(struct account *c, uint32_t device, uint32_t n_busy)
{
	struct cursor u = begin(c, device, false);
	double covered = -INFINITY;
	uint32_t b = 0, i;

	while ((i = next_task(&u)) != MQ_NONE) {
		double from = fmax(c->t->start_s[i], covered), to = c->t->finish_s[i];
		if (to <= from)
			continue;
		double free_s = to - from;
		while (b < n_busy && c->busy[b].finish_s <= from)
			b++;
		for (uint32_t k = b; k < n_busy && c->busy[k].start_s < to; k++)
			free_s -= fmin(to, c->busy[k].finish_s) - fmax(from, c->busy[k].start_s);
		c->exposed[i] = fmax(free_s, 0);
		covered = to;
	}
}

double *mq_timeline_repeats(const struct mq_timeline *t, struct mq_arena *arena)
{
	double *repeats = t->steady ? mq_arena_array(arena, t->n_tasks, double) : NULL;

	for (uint32_t r = 0; t->steady && r < t->steady->n; r++)
		for (uint32_t i = 0; i < t->steady->period[r].n; i++)
			repeats[t->steady->period[r].first + i] = t->steady->periods;
	return repeats;
}

struct mq_breakdown mq_timeline_account(const struct mq_schedule *s, const struct mq_timeline *t,
					struct mq_arena *arena, double **exposed)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct account c = { .s = s, .t = t };
	struct mq_breakdown sum = { 0 };
	double weight = 0;

	c.exposed = *exposed = mq_arena_array(arena, s->n_tasks, double);
	list_streams(&c, &scratch);
	c.repeats = mq_timeline_repeats(t, &scratch);
	c.busy = mq_arena_array(&scratch, s->n_tasks, struct interval);
	for (uint32_t d = 0; d < s->n_devices; d++) {
		double w = t->weight ? t->weight[d] : 1, compute_s = 0, comm_s = 0;
		uint32_t n = merge_busy(&c, d);
		for (uint32_t i = 0; i < n; i++)
			compute_s += c.busy[i].finish_s - c.busy[i].start_s;
		compute_s += c.repeated_s;
		find_exposed(&c, d, n);
		for (uint32_t k = c.first[d * MQ_N_STREAMS]; k < c.first[(d + 1) * MQ_N_STREAMS]; k++) {
			double times = c.repeats ? 1 + c.repeats[c.task[k]] : 1;
			double inner_s = t->inner_comm_s ? times * t->inner_comm_s[c.task[k]] : 0;
			comm_s += times * c.exposed[c.task[k]] + inner_s;
			compute_s -= inner_s;
		}
		weight += w;
		sum.compute_s += w * compute_s;
		sum.exposed_comm_s += w * comm_s;
	}
	if (weight > 0) {
		sum.compute_s /= weight;
		sum.exposed_comm_s /= weight;
	}
	sum.bubble_s = fmax(0, t->step_time_s - sum.compute_s - sum.exposed_comm_s);
	return sum;
}

double *mq_timeline_exposed(const struct mq_schedule *s, const struct mq_timeline *t, struct mq_arena *arena)
{
	double *exposed;

	(void)mq_timeline_account(s, t, arena, &exposed);
	return exposed;
}

struct mq_breakdown mq_timeline_breakdown(const struct mq_schedule *s, const struct mq_timeline *t,
					  struct mq_arena *scratch)
{
	double *exposed;

	return mq_timeline_account(s, t, scratch, &exposed);
}

/* ---- critical path --------------------------------------------------------------------------- */

struct back {
	const struct mq_schedule *s;
	const struct mq_timeline *t;
	struct mq_events ev;
	uint32_t *before_first, *before; /* CSR of the edges reversed */
	double *finish_s;                /* of events; of a barrier: the latest event before it */
	uint32_t *mark;                  /* [n_devices] its task of the current event, MQ_NONE else */
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

/* The latest-ending event before `event`, past barriers; MQ_NONE: it waited for none. */
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

/* The task of `event` on a device that `before` runs on, too: the member that came last. */
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

uint32_t mq_timeline_critical_path(const struct mq_schedule *s, const struct mq_timeline *t, struct mq_arena *arena,
				   uint32_t **path)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct back b = { .s = s, .t = t };
	uint32_t n = 0, event = MQ_NONE;

	*path = mq_arena_array(arena, s->n_tasks, uint32_t);
	if (t->events) {
		b.ev = *t->events;
	} else if (mq_events_build(s, NULL, &scratch, &b.ev, NULL))
		return 0;
	reverse_edges(&b, &scratch);
	finish_events(&b, &scratch);
	b.mark = mq_arena_none(&scratch, s->n_devices);
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
	return n;
}

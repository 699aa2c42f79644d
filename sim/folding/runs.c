/* runs.c - see runs.h. SPDX-License-Identifier: Apache-2.0 */
#include "folding/runs.h"

#include <math.h>

static bool on_line(const struct mq_task *t)
{
	return t->stream == MQ_STREAM_COMPUTE || t->stream == MQ_STREAM_COMM;
}

static const struct mq_task *task_at(const struct mq_lines *l, uint32_t at)
{
	return &l->t->task[l->task[at]].task;
}

bool mq_lines_computes(const struct mq_lines *l, uint32_t at)
{
	return task_at(l, at)->stream == MQ_STREAM_COMPUTE;
}

/* ---- dependencies -------------------------------------------------------------------------------- */

/* Place of the k-th dependency of the task at a place; MQ_NONE: on no line of this template. */
static uint32_t dep_at(const struct mq_lines *l, uint32_t at, uint32_t k)
{
	uint32_t d = l->t->dep[task_at(l, at)->dep_first + k];

	return d >= MQ_DEP_STREAM(0) ? MQ_NONE : l->place[d];
}

static bool waits_for(const struct mq_lines *l, uint32_t at, uint32_t other)
{
	for (uint32_t k = 0; k < task_at(l, at)->n_deps && other != MQ_NONE; k++)
		if (dep_at(l, at, k) == other)
			return true;
	return false;
}

/* Does a collective wait for a compute task of its line at or after place `from`, and so for all before that one? */
static bool behind_compute(const struct mq_lines *l, uint32_t at, uint32_t from)
{
	for (uint32_t k = 0; k < task_at(l, at)->n_deps; k++) {
		uint32_t d = dep_at(l, at, k);

		if (d != MQ_NONE && d >= from && d < at && mq_lines_computes(l, d))
			return true;
	}
	return false;
}

/* Does it wait for all compute before this instance of the template? */
static bool behind_earlier(const struct mq_lines *l, uint32_t at)
{
	const struct mq_task *t = task_at(l, at);

	for (uint32_t k = 0; k < t->n_deps; k++)
		if (l->t->dep[t->dep_first + k] == MQ_DEP_STREAM(MQ_STREAM_COMPUTE))
			return true;
	return false;
}

static void note_waiters(struct mq_lines *l)
{
	for (uint32_t i = 0; i < l->t->n_tasks; i++) {
		const struct mq_task *t = &l->t->task[i].task;

		for (uint32_t k = 0; k < t->n_deps; k++) {
			uint32_t d = l->t->dep[t->dep_first + k];
			uint32_t at = d >= MQ_DEP_STREAM(0) ? MQ_NONE : l->place[d];

			if (at != MQ_NONE && l->place[i] == MQ_NONE)
				l->awaited[at] = true;
		}
	}
}

struct mq_lines mq_lines_of(const struct mq_template *t, uint32_t n_devices, struct mq_arena *arena)
{
	uint32_t n = t->n_tasks;
	struct mq_lines l = { .t = t,
			      .place = mq_arena_none(arena, n),
			      .awaited = mq_arena_array(arena, n, bool),
			      .seconds = mq_arena_array(arena, n, double),
			      .start_s = mq_arena_array(arena, n, double),
			      .finish_s = mq_arena_array(arena, n, double),
			      .behind = mq_arena_array(arena, n, uint32_t),
			      .exposed_s = mq_arena_array(arena, n, double) };

	uint32_t *device = mq_arena_none(arena, n);
	for (uint32_t i = 0; i < n; i++)
		if (on_line(&t->task[i].task))
			device[i] = t->task[i].task.device;
	mq_csr_make(arena, n_devices, n, device, NULL, sizeof(*device), &l.first, &l.task);
	for (uint32_t k = 0; k < l.first[n_devices]; k++)
		l.place[l.task[k]] = k;
	note_waiters(&l);
	return l;
}

void mq_lines_ends(const struct mq_lines *l, uint32_t device, struct mq_line_ends *ends)
{
	uint32_t first = l->first[device], last = MQ_NONE;
	bool busy = false;

	for (uint32_t at = first; at < l->first[device + 1]; at++) {
		if (!mq_lines_computes(l, at)) {
			ends->early |= last == MQ_NONE && !behind_compute(l, at, first) && !behind_earlier(l, at);
			last = at;
			busy = true;
		} else if (waits_for(l, at, last)) {
			busy = false;
		}
	}
	ends->busy |= busy;
}

/* ---- runs ---------------------------------------------------------------------------------------- */

/* Do all dependencies of a task lie inside the run that begins at `from`? False for a collective without any: it might
 * start before the run. */
static bool inside(const struct mq_lines *l, uint32_t from, uint32_t at)
{
	const struct mq_task *t = task_at(l, at);

	for (uint32_t k = 0; k < t->n_deps; k++) {
		uint32_t d = dep_at(l, at, k);

		if (d == MQ_NONE || d < from || d >= at)
			return false;
	}
	return t->n_deps > 0 || mq_lines_computes(l, at);
}

/* Can no collective after this place start before its task ends? The next collective decides, since they queue. */
static bool none_starts_early(const struct mq_lines *l, uint32_t at, uint32_t end, const struct mq_line_ends *ends)
{
	uint32_t next = at + 1;

	while (next < end && mq_lines_computes(l, next))
		next++;
	return next < end ? behind_compute(l, next, at) : !ends->early;
}

/* Times a task of a run. prev: the place before it on its stream, MQ_NONE = none in the run. */
static void time_task(struct mq_lines *l, uint32_t at, uint32_t prev, bool first)
{
	uint32_t latest = prev;

	for (uint32_t k = 0; !first && k < task_at(l, at)->n_deps; k++) {
		uint32_t d = dep_at(l, at, k);

		if (latest == MQ_NONE || l->finish_s[d] > l->finish_s[latest] ||
		    (l->finish_s[d] == l->finish_s[latest] && d < latest))
			latest = d;
	}
	l->behind[at] = latest;
	l->start_s[at] = latest == MQ_NONE ? 0 : l->finish_s[latest];
	l->finish_s[at] = l->start_s[at] + l->seconds[at];
}

/* The longest run that begins with the compute task at `from`, while the COMM stream is idle. */
static struct mq_run longest_run(struct mq_lines *l, uint32_t from, uint32_t end, const struct mq_line_ends *ends)
{
	uint32_t prev[2] = { MQ_NONE, MQ_NONE }; /* collective, compute */
	uint32_t under_way = MQ_NONE;
	struct mq_run run = { from, from };

	for (uint32_t at = from; at < end; at++) {
		bool compute = mq_lines_computes(l, at);

		if (isnan(l->seconds[at]) || (at > from && (l->awaited[at - 1] || !inside(l, from, at))))
			break;
		time_task(l, at, prev[compute], at == from);
		prev[compute] = at;
		if (!compute)
			under_way = at;
		else if (waits_for(l, at, under_way))
			under_way = MQ_NONE;
		if (compute && under_way == MQ_NONE && none_starts_early(l, at, end, ends))
			run.to = at;
	}
	return run;
}

/* Tasks of one stream never overlap. */
void mq_lines_expose(struct mq_lines *l, const struct mq_run *run)
{
	uint32_t first = run->from; /* compute tasks before it end before the collective starts */

	for (uint32_t at = run->from; at <= run->to; at++) {
		double start_s = l->start_s[at], finish_s = l->finish_s[at];

		if (mq_lines_computes(l, at))
			continue;
		l->exposed_s[at] = finish_s - start_s;
		while (first < run->to && (!mq_lines_computes(l, first) || l->finish_s[first] <= start_s))
			first++;
		for (uint32_t i = first; i <= run->to; i++) {
			if (!mq_lines_computes(l, i))
				continue;
			if (l->start_s[i] >= finish_s)
				break;
			l->exposed_s[at] -= fmin(finish_s, l->finish_s[i]) - fmax(start_s, l->start_s[i]);
		}
		l->exposed_s[at] = fmax(l->exposed_s[at], 0);
	}
}

bool mq_lines_run(struct mq_lines *l, uint32_t device, const struct mq_line_ends *ends, uint32_t at, struct mq_run *run)
{
	uint32_t last = MQ_NONE, end = l->first[device + 1];
	bool busy = at == l->first[device] && ends->busy; /* behind a run it is idle */

	for (; at < end; at++) {
		if (!mq_lines_computes(l, at)) {
			last = at;
			busy = true;
			continue;
		}
		busy = busy && !waits_for(l, at, last);
		if (busy)
			continue;
		*run = longest_run(l, at, end, ends);
		if (run->to > run->from)
			return true;
	}
	return false;
}

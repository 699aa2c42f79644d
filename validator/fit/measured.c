/* measured.c - joins a schedule with its measured timelines.
 *
 * Per call and per step, samples are dropped (and counted) in which a rank lost more than LOST_SHARE of the time to
 * other threads (involuntary context switches), the hypervisor took time, or the device throttled. The time lost
 * counts, not the number of switches: even on an idle machine threads interrupt each core some twenty times a second,
 * for microseconds. In a timeline without column lost_s any switch disturbs. A call with fewer than three clean samples
 * uses the lower half of all its samples and is marked weak. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "fit/fit.h"

enum { CLEAN_MIN = 3 };
#define LOST_SHARE .01 /* of the duration: well below a fit's error of a few per cent */

enum { TASK, START, FINISH, SAMPLE, SWITCHES, STEAL, THROTTLED, LOST, N_NUMBERS };

struct columns {
	uint32_t number[N_NUMBERS], kind;
};

static enum mq_status find_columns(const struct mq_csv *csv, struct columns *c, struct mq_err *err)
{
	static const char *const names[N_NUMBERS] = { "task",     "start_s", "finish_s",  "sample",
						      "switches", "steal_s", "throttled", "lost_s" };

	for (int i = 0; i < N_NUMBERS; i++)
		c->number[i] = mq_csv_column(csv, names[i]);
	c->kind = mq_csv_column(csv, "kind");
	if (c->number[TASK] == UINT32_MAX || c->number[START] == UINT32_MAX || c->number[FINISH] == UINT32_MAX)
		return mq_bad(err, "%s: not a timeline: the columns task, start_s and finish_s are needed", csv->path);
	return MQ_OK;
}

static void *grown(struct mq_arena *arena, const void *old, size_t used_B, size_t bytes)
{
	void *room = mq_arena_alloc(arena, bytes);

	return used_B ? memcpy(room, old, used_B) : room;
}

static void add_room(struct mq_measured *m, uint32_t samples, struct mq_arena *arena)
{
	uint32_t used = m->n_samples, n = used + samples;
	size_t row = m->schedule->n_tasks * sizeof(double);

	if (n <= m->room)
		return;
	m->room += n;
	m->start_s = grown(arena, m->start_s, used * row, m->room * row);
	m->finish_s = grown(arena, m->finish_s, used * row, m->room * row);
	m->lost_s = grown(arena, m->lost_s, used * row, m->room * row);
	m->step_s = grown(arena, m->step_s, used * sizeof(double), m->room * sizeof(double));
	m->launch = grown(arena, m->launch, used * sizeof(uint32_t), m->room * sizeof(uint32_t));
	m->disturbed = grown(arena, m->disturbed, used * sizeof(bool), m->room * sizeof(bool));
}

/* Reads a row. `seen`: [samples of the file * tasks]; with as many rows as cells and none twice, all cells are
 * filled. */
static enum mq_status take_row(struct mq_measured *m, const struct mq_csv *csv, const struct columns *c, uint32_t row,
			       bool *seen, struct mq_err *err)
{
	double v[N_NUMBERS];

	for (int i = 0; i < N_NUMBERS; i++)
		if (!mq_csv_f64(csv, row, c->number[i],
				i < SAMPLE ? (double)NAN :
				i == LOST  ? (double)INFINITY :
					     0,
				&v[i]))
			return mq_bad(err, "%s:%u: not a number", csv->path, csv->line[row]);
	double task = v[TASK], sample = v[SAMPLE], start = v[START], finish = v[FINISH];
	if (!(task >= 0 && task < m->schedule->n_tasks))
		return mq_bad(
			err, "%s:%u: task %g is not in the schedule of %u tasks: is this the timeline of another plan?",
			csv->path, csv->line[row], task, m->schedule->n_tasks);
	if (!(sample >= 0) || sample >= csv->n_rows / m->schedule->n_tasks)
		return mq_bad(
			err,
			"%s:%u: sample %g of a file whose rows make %u: are samples there twice, or parts of several "
			"files?",
			csv->path, csv->line[row], sample, csv->n_rows / m->schedule->n_tasks);
	bool *cell = &seen[(size_t)sample * m->schedule->n_tasks + (uint32_t)task];
	if (*cell)
		return mq_bad(err,
			      "%s:%u: task %g of sample %g is there twice: was the file put together from several?",
			      csv->path, csv->line[row], task, sample);
	*cell = true;
	uint32_t s = m->n_samples + (uint32_t)sample;
	/* "compute~conv+optimizer" */
	const char *imitates = c->kind == UINT32_MAX ? NULL : strchr(mq_csv_text(csv, row, c->kind), '~');
	if (imitates) {
		bool gemms = strstr(imitates, "conv") || strstr(imitates, "attention");
		bool sweeps =
			strstr(imitates, "optimizer") || strstr(imitates, "embedding") || strstr(imitates, "scan");

		m->imitated[(uint32_t)task] |= (gemms ? MQ_IMITATES_GEMMS : 0) | (sweeps ? MQ_IMITATES_SWEEPS : 0);
	}
	if (!(finish >= start))
		return mq_bad(err, "%s:%u: task %g ends before it starts", csv->path, csv->line[row], task);
	size_t at = (size_t)s * m->schedule->n_tasks + (uint32_t)task;
	m->start_s[at] = start;
	m->finish_s[at] = finish;
	m->lost_s[at] = v[STEAL] > 0 || v[THROTTLED] > 0 ? (double)INFINITY : v[SWITCHES] > 0 ? v[LOST] : 0;
	m->step_s[s] = fmax(m->step_s[s], finish);
	return MQ_OK;
}

static bool disturbs(double lost_s, double duration_s)
{
	return lost_s > LOST_SHARE * duration_s;
}

/* Marks a step as disturbed by the rank that lost most time. */
static void judge_sample(struct mq_measured *m, uint32_t sample, double *lost_s)
{
	const struct mq_schedule *s = m->schedule;

	memset(lost_s, 0, s->n_devices * sizeof(*lost_s));
	for (uint32_t t = 0; t < s->n_tasks; t++)
		lost_s[s->task[t].device] += m->lost_s[(size_t)sample * s->n_tasks + t];
	for (uint32_t d = 0; d < s->n_devices; d++)
		m->disturbed[sample] |= disturbs(lost_s[d], m->step_s[sample]);
}

enum mq_status mq_measured_add(struct mq_measured *measured, const char *path, struct mq_arena *arena,
			       struct mq_err *err)
{
	MQ_SCOPED struct mq_arena own = MQ_ARENA_INIT;
	struct mq_csv csv;
	struct columns c;
	uint32_t tasks = measured->schedule->n_tasks;

	MQ_TRY(mq_csv_load(path, &own, &csv, err));
	MQ_TRY(find_columns(&csv, &c, err));
	if (!csv.n_rows) /* the replay's budget ended before the first sample */
		return MQ_OK;
	if (csv.n_rows % tasks)
		return mq_bad(err, "%s: %u rows are not whole samples of %u tasks", path, csv.n_rows, tasks);
	add_room(measured, csv.n_rows / tasks, arena);
	if (!measured->imitated)
		measured->imitated = mq_arena_array(arena, tasks, uint8_t);
	bool *seen = mq_arena_array(&own, csv.n_rows, bool);
	for (uint32_t row = 0; row < csv.n_rows; row++)
		MQ_TRY(take_row(measured, &csv, &c, row, seen, err));
	double *lost_s = mq_arena_array(&own, measured->schedule->n_devices, double);
	for (uint32_t i = 0; i < csv.n_rows / tasks; i++) {
		measured->launch[measured->n_samples] = measured->n_launches;
		judge_sample(measured, measured->n_samples++, lost_s);
	}
	measured->n_launches++;
	return MQ_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

struct call {
	uint32_t n;
	const uint32_t *member; /* task ids */
};

/* Median of the clean values if there are enough, else of the lower half of all. */
static struct mq_median robust_median(double *value, const bool *clean, uint32_t n, double *scratch, uint32_t *dropped,
				      bool *weak)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++)
		if (clean[i])
			scratch[kept++] = value[i];
	*dropped = n - kept;
	*weak = kept < CLEAN_MIN && kept < n;
	if (!*weak)
		return mq_median_of(scratch, kept);
	mq_quantile(value, n, .5); /* sorts */
	return mq_median_of(value, n / 2 ? n / 2 : n);
}

static struct mq_observed observe(const struct mq_measured *m, const struct call *call, double *value, bool *clean,
				  double *scratch)
{
	struct mq_observed o = { .schedule = m->schedule, .task = call->member[0] };

	o.imitated = m->imitated ? m->imitated[o.task] : 0;

	for (uint32_t s = 0; s < m->n_samples; s++) {
		double start = 0, finish = 0, lost_s = 0;

		for (uint32_t i = 0; i < call->n; i++) {
			size_t at = (size_t)s * m->schedule->n_tasks + call->member[i];

			start = fmax(start, m->start_s[at]);
			finish = fmax(finish, m->finish_s[at]);
			lost_s = fmax(lost_s, m->lost_s[at]);
		}
		value[s] = finish - start;
		clean[s] = !disturbs(lost_s, value[s]);
	}
	o.time = robust_median(value, clean, m->n_samples, scratch, &o.n_dropped, &o.weak);
	return o;
}

/* The call of a task; fills `member` with its tasks. */
static struct call find_call(const struct mq_schedule *s, const uint32_t *match, const uint32_t *call, uint32_t task,
			     uint32_t *member)
{
	const struct mq_task *t = &s->task[task];
	struct call found = { 1, member };

	member[0] = task;
	if (match[task] != MQ_NONE) {
		member[1] = match[task];
		found.n = match[task] > task ? 2 : 0;
	} else if (t->kind == MQ_TASK_COLLECTIVE) {
		found.n = 0;
		for (uint32_t i = 0; i < s->n_tasks && found.n < s->comm[t->comm].n; i++)
			if (s->task[i].kind == MQ_TASK_COLLECTIVE && s->task[i].comm == t->comm &&
			    call[i] == call[task]) {
				if (i < task)
					return (struct call){ 0, member };
				member[found.n++] = i;
			}
	}
	return found;
}

enum mq_status mq_measured_calls(const struct mq_measured *m, struct mq_arena *arena, struct mq_observations *to,
				 struct mq_err *err)
{
	const struct mq_schedule *s = m->schedule;
	uint32_t *match, *call, *member = mq_arena_array(arena, (size_t)s->n_devices + 2, uint32_t);
	double *value = mq_arena_array(arena, 2 * (size_t)m->n_samples + 1, double);
	bool *clean = mq_arena_array(arena, (size_t)m->n_samples + 1, bool);

	MQ_TRY(mq_schedule_match(s, arena, &match, &call, err));
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		struct call c = find_call(s, match, call, i, member);

		if (c.n && m->n_samples)
			MQ_PUSH(arena, to->call, to->n, to->room, observe(m, &c, value, clean, value + m->n_samples));
	}
	return MQ_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct mq_median mq_measured_step(const struct mq_measured *m, struct mq_arena *scratch, uint32_t *n_dropped,
				  bool *weak)
{
	double *value = mq_arena_array(scratch, 2 * (size_t)m->n_samples + 1, double);
	bool *clean = mq_arena_array(scratch, (size_t)m->n_samples + 1, bool);

	for (uint32_t i = 0; i < m->n_samples; i++) {
		value[i] = m->step_s[i];
		clean[i] = !m->disturbed[i];
	}
	return robust_median(value, clean, m->n_samples, value + m->n_samples, n_dropped, weak);
}

uint32_t mq_measured_typical(const struct mq_measured *m, struct mq_arena *scratch)
{
	uint32_t dropped, best = 0;
	bool weak;
	double median = mq_measured_step(m, scratch, &dropped, &weak).median;

	for (uint32_t i = 1; i < m->n_samples; i++)
		if (fabs(m->step_s[i] - median) < fabs(m->step_s[best] - median))
			best = i;
	return best;
}

MQ_COMPARE(by_begin, double, MQ_ORDER(a[0], b[0]))

/* Fills interval[2 * n] with the disjoint intervals in which a device communicates; returns n. */
static uint32_t find_comm_intervals(const struct mq_measured *m, uint32_t sample, uint32_t device, double *interval)
{
	const struct mq_schedule *s = m->schedule;
	uint32_t n = 0, kept = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		uint8_t kind = s->task[i].kind;
		size_t at = (size_t)sample * s->n_tasks + i;

		if (s->task[i].device != device || kind == MQ_TASK_COMPUTE || kind == MQ_TASK_COPY)
			continue;
		interval[2 * n] = m->start_s[at];
		interval[2 * n++ + 1] = m->finish_s[at];
	}
	qsort(interval, n, 2 * sizeof(*interval), by_begin);
	for (uint32_t i = 0; i < n; i++)
		if (kept && interval[2 * i] <= interval[2 * kept - 1]) {
			interval[2 * kept - 1] = fmax(interval[2 * kept - 1], interval[2 * i + 1]);
		} else {
			interval[2 * kept] = interval[2 * i];
			interval[2 * kept++ + 1] = interval[2 * i + 1];
		}
	return kept;
}

void mq_measured_overlap(const struct mq_measured *m, struct mq_observed *observed, uint32_t n,
			 struct mq_arena *scratch)
{
	const struct mq_schedule *s = m->schedule;
	uint32_t sample = mq_measured_typical(m, scratch);
	double *interval = mq_arena_array(scratch, 2 * (size_t)s->n_tasks, double);

	for (uint32_t d = 0; d < s->n_devices; d++) {
		uint32_t count = find_comm_intervals(m, sample, d, interval);

		for (uint32_t i = 0; i < n; i++) {
			size_t at = (size_t)sample * s->n_tasks + observed[i].task;
			double begin = m->start_s[at], end = m->finish_s[at], both = 0;

			if (s->task[observed[i].task].device != d ||
			    s->task[observed[i].task].kind != MQ_TASK_COMPUTE || !(end > begin))
				continue;
			for (uint32_t k = 0; k < count && interval[2 * k] < end; k++)
				both += fmax(0, fmin(end, interval[2 * k + 1]) - fmax(begin, interval[2 * k]));
			observed[i].overlapped = both / (end - begin);
		}
	}
}

double mq_measured_drift(const struct mq_measured *m, struct mq_arena *scratch)
{
	uint32_t tasks = m->schedule->n_tasks, n = 0;
	double *own = mq_arena_array(scratch, tasks, double), *ratio = mq_arena_array(scratch, tasks, double);
	double *value = mq_arena_array(scratch, (size_t)m->n_samples + 1, double);
	double *common = mq_arena_array(scratch, (size_t)m->n_samples + 1, double);

	for (uint32_t t = 0; t < tasks; t++) {
		for (uint32_t s = 0; s < m->n_samples; s++) {
			size_t at = (size_t)s * tasks + t;

			value[s] = m->finish_s[at] - m->start_s[at];
		}
		own[t] = mq_quantile(value, m->n_samples, .5);
	}
	for (uint32_t s = 0; s < m->n_samples; s++) {
		n = 0;
		for (uint32_t t = 0; t < tasks; t++) {
			size_t at = (size_t)s * tasks + t;

			if (own[t] > 0 && !disturbs(m->lost_s[at], own[t]))
				ratio[n++] = (m->finish_s[at] - m->start_s[at]) / own[t];
		}
		common[s] = fabs(log(mq_quantile(ratio, n, .5)));
	}
	return m->n_samples < 3 ? (double)NAN : 1.4826 * mq_quantile(common, m->n_samples, .5);
}

double mq_measured_interval(const struct mq_measured *m, struct mq_arena *scratch)
{
	const struct mq_schedule *s = m->schedule;
	double *value = mq_arena_array(scratch, (size_t)m->n_samples * s->n_tasks + 1, double);
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n_samples; i++)
		for (uint32_t t = 1; t < s->n_tasks; t++) {
			const double *at = &m->start_s[(size_t)i * s->n_tasks + t];
			uint32_t work = s->task[t - 1].work, kernels = work == MQ_NONE ? 0 : s->work[work].n_kernels;

			if (s->task[t].device == s->task[t - 1].device)
				value[n++] = (at[0] - at[-1]) / (kernels ? kernels : 1);
		}
	return n ? mq_quantile(value, n, .5) : (double)NAN;
}

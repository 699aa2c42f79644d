/* plans_report.c - predicted against measured: tables, traces, summary.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cmd/validate/plans.h"
#include "judge/gzip.h"
#include "judge/outputs.h"
#include "schedule/columns.h"

/* ---- per op ---------------------------------------------------------------------------------- */

/* Repeated calls: same op, phase, device, bytes and FLOPs. */
struct op_row {
	uint32_t task, count;
	const char *kind;
	double bytes, flop, *predicted, *measured, *low, *high;
};

static bool same_row(const struct mq_schedule *s, const struct mq_task *a, const struct mq_task *b)
{
	if (a->kind != b->kind || a->device != b->device || a->op != b->op || a->phase != b->phase)
		return false;
	if (a->kind == MQ_TASK_COMPUTE)
		return a->work == b->work;
	return a->bytes <= b->bytes && a->bytes >= b->bytes && a->coll == b->coll && a->comm == b->comm;
}

/* Predicted time of a call, defined as the measured one: from the last arrival to the last finish. */
static double predicted_call(const struct mq_validated *p, const uint32_t *match, const uint32_t *call, uint32_t task)
{
	const struct mq_schedule *s = p->schedule;
	const struct mq_task *t = &s->task[task];
	double start = p->predicted.start_s[task], finish = p->predicted.finish_s[task];

	if (match[task] != MQ_NONE) {
		start = fmax(start, p->predicted.start_s[match[task]]);
		finish = fmax(finish, p->predicted.finish_s[match[task]]);
	}
	for (uint32_t i = 0; t->kind == MQ_TASK_COLLECTIVE && i < s->n_tasks; i++)
		if (s->task[i].kind == MQ_TASK_COLLECTIVE && s->task[i].comm == t->comm && call[i] == call[task]) {
			start = fmax(start, p->predicted.start_s[i]);
			finish = fmax(finish, p->predicted.finish_s[i]);
		}
	return finish - start;
}

static struct op_row *find_row(struct op_row *row, uint32_t *n, const struct mq_schedule *s, uint32_t task,
			       uint32_t room, struct mq_arena *arena)
{
	const struct mq_task *t = &s->task[task];

	for (uint32_t i = 0; i < *n; i++)
		if (same_row(s, &s->task[row[i].task], t))
			return &row[i];
	row[*n] = (struct op_row){ .task = task,
				   .kind = t->kind == MQ_TASK_COMPUTE ?
						   mq_arena_printf(arena, "compute-%s", mq_phase_name(t->phase)) :
					   t->kind == MQ_TASK_COLLECTIVE ? mq_coll_name(t->coll) :
									   mq_task_kind_name(t->kind),
				   .bytes = t->kind == MQ_TASK_COMPUTE ? s->work[t->work].bytes : t->bytes,
				   .flop = t->kind == MQ_TASK_COMPUTE ? s->work[t->work].flop : 0,
				   .predicted = mq_arena_array(arena, room, double),
				   .measured = mq_arena_array(arena, room, double),
				   .low = mq_arena_array(arena, room, double),
				   .high = mq_arena_array(arena, room, double) };
	return &row[(*n)++];
}

static enum mq_status op_rows(const struct mq_validated *p, struct mq_arena *arena, struct op_row **row, uint32_t *n,
			      struct mq_err *err)
{
	struct mq_observations observed = { 0 };
	uint32_t *match, *call;

	MQ_TRY(mq_measured_calls(p->measured, arena, &observed, err));
	MQ_TRY(mq_schedule_match(p->schedule, arena, &match, &call, err));
	*row = mq_arena_array(arena, observed.n, struct op_row);
	*n = 0;
	for (uint32_t i = 0; i < observed.n; i++) {
		const struct mq_observed *o = &observed.call[i];
		struct op_row *r = find_row(*row, n, p->schedule, o->task, observed.n, arena);

		r->predicted[r->count] = predicted_call(p, match, call, o->task);
		r->measured[r->count] = o->time.median;
		r->low[r->count] = o->time.low;
		r->high[r->count++] = o->time.high;
	}
	return MQ_OK;
}

static void put_row(struct mq_csv_writer *w, const struct mq_validated *p, const struct op_row *r)
{
	const struct mq_schedule *s = p->schedule;
	const struct mq_task *t = &s->task[r->task];
	double predicted = mq_quantile(r->predicted, r->count, .5);
	double measured = mq_quantile(r->measured, r->count, .5);

	mq_csv_row(w, "%016" PRIx64 ",%u,%s,%s,%s,%u,%g,%g,%g,%g,%g,%g,%g", s->plan_hash, r->task,
		   t->op < s->n_ops ? s->op_name[t->op] : "", r->kind, s->device_name[t->device], r->count, r->bytes,
		   r->flop, predicted, measured, mq_quantile(r->low, r->count, .5), mq_quantile(r->high, r->count, .5),
		   predicted / measured);
}

static enum mq_status write_ops(struct mq_validation *v, const char *dir, struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_table_create(&w, MQ_TABLE_validate, dir, &v->arena, err));
	enum mq_status status = MQ_OK;
	for (uint32_t i = 0; i < v->n_plans && status == MQ_OK; i++) {
		struct mq_arena_mark mark = mq_arena_mark(&v->arena);
		struct op_row *row;
		uint32_t n = 0;

		status = op_rows(&v->plan[i], &v->arena, &row, &n, err);
		for (uint32_t r = 0; r < n; r++)
			put_row(&w, &v->plan[i], &row[r]);
		const struct mq_validated *p = &v->plan[i];
		mq_csv_row(&w, "%016" PRIx64 ",%s,,,,%u,,,%g,%g,%g,%g,%g", p->schedule->plan_hash, "step", p->step.n,
			   p->predicted.step_time_s, p->step.median, p->step.low, p->step.high,
			   p->predicted.step_time_s / p->step.median);
		mq_arena_rewind(&v->arena, mark);
	}
	struct mq_err late;
	enum mq_status closed = mq_csv_close(&w, status ? &late : err);
	return status ? status : closed;
}

/* ---- per plan -------------------------------------------------------------------------------- */

static struct mq_timeline typical(const struct mq_validated *p, struct mq_arena *arena)
{
	const struct mq_measured *m = p->measured;
	size_t at = (size_t)mq_measured_typical(m, arena) * p->schedule->n_tasks;

	return (struct mq_timeline){ .executor = "measured",
				     .n_tasks = p->schedule->n_tasks,
				     .start_s = m->start_s + at,
				     .finish_s = m->finish_s + at,
				     .step_time_s = m->step_s[at / p->schedule->n_tasks] };
}

static void put_plan(struct mq_csv_writer *w, struct mq_validation *v, const struct mq_validated *p)
{
	struct mq_arena_mark mark = mq_arena_mark(&v->arena);
	struct mq_timeline real = typical(p, &v->arena);
	struct mq_breakdown said = mq_timeline_breakdown(p->schedule, &p->predicted, &v->arena);
	struct mq_breakdown seen = mq_timeline_breakdown(p->schedule, &real, &v->arena);
	const double predicted = p->predicted.step_time_s;
	double compared_B, held_B;

	mq_arena_rewind(&v->arena, mark);
	mq_validated_memory(p, &compared_B, &held_B);
	mq_csv_put(w, "%s,%016" PRIx64 ",%s,%g,%g,%g,%g,%g,%g,%g,%g,%g,%g,%g,%g,%g,%g,%u,%u,%g,%s", p->name,
		   p->schedule->plan_hash, p->plan_text, predicted, predicted * p->interval.low,
		   predicted * p->interval.high, p->step.median, p->step.low, p->step.high, predicted / p->step.median,
		   said.compute_s, seen.compute_s, said.exposed_comm_s, seen.exposed_comm_s, p->memory[p->worst].peak_B,
		   compared_B, held_B, p->step.n, p->n_dropped, p->recalibrated_s,
		   isnan(p->recalibrated_s) ? "" :
		   p->held_out              ? "held-out" :
					      "fit");
	mq_trust_put_answer(w, &p->trust.answer);
	mq_csv_end(w);
}

enum mq_status mq_validation_write(struct mq_validation *v, const char *dir, struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(write_ops(v, dir, err));
	MQ_TRY(mq_table_create(&w, MQ_TABLE_plans, dir, &v->arena, err));
	for (uint32_t i = 0; i < v->n_plans; i++)
		put_plan(&w, v, &v->plan[i]);
	MQ_TRY(mq_csv_close(&w, err));
	for (uint32_t i = 0; i < v->n_plans; i++) {
		const struct mq_validated *p = &v->plan[i];
		struct mq_timeline real = typical(p, &v->arena);
		const struct mq_timeline *lanes[2] = { &p->predicted, &real };

		const char *path = mq_arena_printf(&v->arena, "%s/trace-%s.json", dir, p->name);
		bool *show = mq_arena_array(&v->arena, p->schedule->n_tasks + 1, bool);
		FILE *file;

		mq_timeline_choose(p->schedule, lanes[0], (uint64_t)(MQ_OUTPUTS_MAX_B / (2 * MQ_TRACED_B)), show);
		MQ_TRY(mq_file_create(path, &file, err));
		mq_timeline_trace(p->schedule, lanes, 2, show, file);
		MQ_TRY(mq_file_close(file, path, err));
	}
	return MQ_OK;
}

/* ---- in words -------------------------------------------------------------------------------- */

uint32_t mq_validation_steps(struct mq_validation *v, bool recalibrated, bool held_only, double **predicted,
			     double **measured)
{
	uint32_t n = 0;

	*predicted = mq_arena_array(&v->arena, v->n_plans, double);
	*measured = mq_arena_array(&v->arena, v->n_plans, double);
	for (uint32_t i = 0; i < v->n_plans; i++) {
		const struct mq_validated *p = &v->plan[i];

		if (held_only && !p->held_out)
			continue;
		(*predicted)[n] = recalibrated ? p->recalibrated_s : p->predicted.step_time_s;
		(*measured)[n++] = p->step.median;
	}
	return n;
}

static double print_errors(const char *what, struct mq_validation *v, bool recalibrated, bool held_only)
{
	double *predicted, *measured;
	uint32_t n = mq_validation_steps(v, recalibrated, held_only, &predicted, &measured);
	struct mq_errors e = mq_errors_against(predicted, measured, n, &v->arena);

	printf("%s: %u plans, median error %.1f %%, p90 %.1f %%, mean %.1f %%, bias %+.1f %%, "
	       "Kendall's tau %.2f, regret %.3f\n",
	       what, n, 100 * e.median, 100 * e.p90, 100 * e.mean, 100 * e.bias, mq_kendall(predicted, measured, n),
	       mq_regret(predicted, measured, n));
	return e.median;
}

/* Rank correlation within each search, on which a choice depends. */
static void print_ranks(struct mq_validation *v)
{
	double *predicted = mq_arena_array(&v->arena, v->n_plans, double);
	double *measured = mq_arena_array(&v->arena, v->n_plans, double);

	for (uint32_t s = 0; s < v->n_open && v->n_open > 1; s++) {
		double tau;

		uint32_t n = 0;

		for (uint32_t i = 0; i < v->n_plans; i++)
			if (v->plan[i].session == &v->session[s]) {
				predicted[n] = v->plan[i].predicted.step_time_s;
				measured[n++] = v->plan[i].step.median;
			}
		tau = mq_kendall(predicted, measured, n);
		if (!isnan(tau)) /* NaN: one plan, or plans with equal predictions */
			printf("  %s: tau %.2f, regret %.3f over %u plans\n", v->asked[s].model, tau,
			       mq_regret(predicted, measured, n), n);
	}
}

enum { BEST_DRAWS = 2000 };

/* Step times of a plan: of undisturbed samples, or of all if those are too few. */
static uint32_t step_times(const struct mq_validated *p, struct mq_arena *arena, const double **value)
{
	const struct mq_measured *m = p->measured;
	double *v = mq_arena_array(arena, m->n_samples, double);
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n_samples; i++)
		if (!m->disturbed[i] || p->weak)
			v[n++] = m->step_s[i];
	*value = v;
	return n;
}

/* Relative uncertainty of a plan's measured step in a comparison within one replay, where common errors cancel. */
static double ranking_noise(const struct mq_validation *v)
{
	return v->drift.launches ? 1.96 * v->drift.own / sqrt(v->drift.launches) : 0;
}

/* Spread of the measured steps of a search's plans: largest / smallest - 1. */
static double spread_of_steps(const struct mq_validation *v, const struct mq_session *session)
{
	double least = INFINITY, most = 0;

	for (uint32_t i = 0; i < v->n_plans; i++)
		if (v->plan[i].session == session) {
			least = fmin(least, v->plan[i].step.median);
			most = fmax(most, v->plan[i].step.median);
		}
	return most / least - 1;
}

/* For each search: is the plan predicted best also the best replayed one? */
static void print_best(struct mq_validation *v)
{
	const double **value = mq_arena_array(&v->arena, v->n_plans, const double *);
	uint32_t *count = mq_arena_array(&v->arena, v->n_plans, uint32_t);

	for (uint32_t s = 0; s < v->n_open; s++) {
		uint32_t n = 0, best = 0, weak = 0;
		const struct mq_validated *chosen = NULL;
		struct mq_rng rng;

		for (uint32_t i = 0; i < v->n_plans; i++) {
			const struct mq_validated *p = &v->plan[i];

			if (p->session != &v->session[s])
				continue;
			if (!chosen || p->predicted.step_time_s < chosen->predicted.step_time_s) {
				chosen = p;
				best = n;
			}
			count[n] = step_times(p, &v->arena, &value[n]);
			weak += p->weak;
			n++;
		}
		if (n < 2)
			continue;
		mq_rng_seed(&rng, 1);
		double p = mq_probability_least(value, count, n, best, BEST_DRAWS, &rng, &v->arena);

		printf("%s, predicted best, is the best of the %u replayed with probability %.2f\n", chosen->name, n,
		       p);
		double gap = spread_of_steps(v, &v->session[s]);
		if (weak)
			printf("  cannot rank these %u: %u have fewer than 3 undisturbed samples; give more --launches and --reps, "
			       "or a quieter machine\n",
			       n, weak);
		else if (gap < ranking_noise(v))
			printf("  cannot rank these %u: they differ by %.1f %%, replays of one of them by %.1f %%; give more "
			       "--launches and --reps, or a quieter machine\n",
			       n, 100 * gap, 100 * ranking_noise(v));
	}
}

/* Intervals are factors, so they apply to the corrected prediction as to the first. Disturbed samples measure other
 * programs, so plans with fewer than three undisturbed ones are only counted. */
static void print_coverage(const char *what, const struct mq_validation *v, bool recalibrated)
{
	uint32_t covered = 0, with = 0, weak = 0;
	double width = 0;

	for (uint32_t i = 0; i < v->n_plans; i++) {
		const struct mq_validated *p = &v->plan[i];
		double said = recalibrated ? p->recalibrated_s : p->predicted.step_time_s;
		double ratio = p->step.median / said;

		if (!(p->interval.high > p->interval.low) || (recalibrated && !p->held_out))
			continue;
		weak += p->weak;
		if (p->weak)
			continue;
		with++;
		covered += ratio >= p->interval.low && ratio <= p->interval.high;
		width = fmax(width, (p->interval.high - p->interval.low) / 2);
	}
	if (with)
		printf("%s: %u of %u plans inside, widest +-%.1f %%\n", what, covered, with, 100 * width);
	if (weak)
		printf("%s: of %u plans nothing can be said: they had fewer than 3 undisturbed samples\n", what, weak);
}

static void print_samples(const struct mq_validation *v)
{
	uint32_t samples = 0, dropped = 0, weak = 0;

	for (uint32_t i = 0; i < v->n_plans; i++) {
		samples += v->plan[i].measured->n_samples;
		dropped += v->plan[i].n_dropped;
		weak += v->plan[i].weak;
	}
	printf("%u of %u samples dropped (over 1 %% of the step lost to other threads, steal time, throttling)\n",
	       dropped, samples);
	if (v->drift.common > 0)
		printf("the machine drifted by %.1f %% while they were replayed, a plan by %.1f %% more from launch to launch: "
		       "intervals have both in them\n",
		       100 * v->drift.common, 100 * v->drift.own);
	if (weak)
		printf("%u plans had fewer than 3 undisturbed samples: the lower half of all theirs was used\n", weak);
}

double mq_validation_print(struct mq_validation *v)
{
	printf("%-26s %10s %21s %10s %7s  %s\n", "plan", "predicted", "95 % interval", "measured", "ratio", "is");
	for (uint32_t i = 0; i < v->n_plans; i++) {
		const struct mq_validated *p = &v->plan[i];
		double s = p->predicted.step_time_s;

		printf("%-26s %7.3f ms [%7.3f, %7.3f] ms %7.3f ms %7.3f  %s\n", p->name, 1e3 * s,
		       1e3 * s * p->interval.low, 1e3 * s * p->interval.high, 1e3 * p->step.median, s / p->step.median,
		       p->plan_text);
	}
	double median = print_errors("step time", v, false, false);
	print_ranks(v);
	print_best(v);
	print_coverage("95 % intervals", v, false);
	print_samples(v);
	if (v->n_plans)
		mq_trust_print(&v->plan[0].trust, stdout);
	if (v->n_plans && !isnan(v->plan[0].recalibrated_s)) {
		print_errors("held out, before recalibration", v, false, true);
		median = print_errors("held out, after recalibration", v, true, true);
		print_coverage("held out, after recalibration: 95 % intervals", v, true);
	}
	return median;
}

/* ---- as rows of an index of errors, for --trust-with ------------------------------------------------- */

/* The prediction of a plan's replayed schedule. */
static struct mq_result result_of(const struct mq_validated *p, struct mq_arena *arena)
{
	struct mq_result r = mq_result_none(MQ_VERDICT_OK);
	struct mq_breakdown b = mq_timeline_breakdown(p->schedule, &p->predicted, arena);
	const struct mq_schedule *s = p->schedule;
	double flop = 0, peak = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].kind == MQ_TASK_COMPUTE)
			flop += s->work[s->task[i].work].flop;
	for (uint32_t d = 0; d < s->n_devices; d++) {
		uint32_t type = p->session->cluster->device[s->device[d]].calib;

		peak += type == MQ_NONE ? 0 : mq_calib_peak_flops(&p->session->calib->device[type]);
	}
	r.step_time_s = p->predicted.step_time_s;
	r.exposed_comm_s = b.exposed_comm_s;
	r.bubble_s = b.bubble_s;
	r.mfu = peak > 0 ? flop / peak / r.step_time_s : (double)NAN;
	return r;
}

enum mq_status mq_validation_trust(struct mq_validation *v, const char *dir, struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_csv_create(
		&w, mq_arena_printf(&v->arena, "%s/trust.csv", dir),
		mq_arena_printf(&v->arena, "%s%s%s", mq_trust_columns, mq_trust_header, mq_trust_columns_behind), err));
	for (uint32_t i = 0; i < v->n_plans; i++) {
		struct mq_validated *p = &v->plan[i];
		const struct mq_result result = result_of(p, &v->arena);

		p->trust = mq_session_trust(p->session, &p->plan, &result, &v->arena);
		if (!p->trust.known)
			continue;
		mq_csv_put(&w, "%s,%s,%s,%s", "replayed", p->name, p->session->asked->model, "own");
		mq_trust_put(&w, &p->trust.point);
		mq_csv_row(&w, "%g,,,,", p->step.median);
	}
	return mq_csv_close(&w, err);
}

/* fit.c - parameters fitted to step times of measured runs, see score.h.
 *
 * A prediction costs a simulation, so the search is Gauss-Newton in the logarithms: slopes by finite differences, then
 * a robust fit (Huber, fit/solve.c) with predictions as power laws of the parameters around the current point, then
 * simulations at the result; a step that is no better is halved. All tables have equal weight, whatever their number of
 * rows. The slopes also give the intervals (bootstrap over groups of rows that differ only in plan) and the fits
 * without one table; a table left out is simulated with the parameters found without it. An interval that ends at the
 * parameter's range, or at half or twice the value, is open on that side.
 * SPDX-License-Identifier: Apache-2.0 */
#include "score/score.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gsl/gsl_statistics_double.h>

#include "fit/fit.h"
#include "score/judge.h"
#include "score/set.h"

#define STEP    .05  /* in the logarithm, for slopes: far above the 9 digits of a prediction */
#define MOVES   .001 /* smaller slopes count as none */
#define REACH   .7   /* a step changes a parameter by at most e to this, since slopes are local */
#define SETTLED .005
#define INFORMS .005 /* root mean square slope over a table's rows */
#define STRONG  .8   /* larger correlations are reported: the tables cannot separate such a pair */
enum { HALVINGS = 3, LOST = 10 };

enum { MAX_PARAMS = 64 };

/* A free parameter. */
struct param {
	struct mq_score_knob knob;
	double start, value, low, high; /* 95 % interval */
	uint32_t n_rows;                /* rows whose prediction moves by over 0.1 % of its relative change */
};

/* A row of the fit. */
struct row {
	uint32_t table, row; /* table[table].run[row] */
	uint32_t group;      /* rows that differ only in plan */
	double measured_s, start_s, fitted_s;
	double left_out_s; /* prediction with the parameters found without its table */
};

struct runs {
	const struct mq_score_options *options; /* --set of the user; its calibrations are not changed */
	struct mq_judged_table *table;
	uint32_t n_tables;
	struct param *param;
	uint32_t n_params;
	struct row *row;
	uint32_t n_rows;
	double *slope;       /* [n_rows * n_params] d log(predicted) / d log(parameter) */
	double *correlation; /* [n_params^2] of the logarithms, over bootstrap draws */
	double *without;     /* [n_tables * n_params] parameters fitted to the other tables */
	uint32_t rounds, n_draws;
	uint64_t seed;
	uint32_t n_simulated; /* rows, all in all */
};

/* The last --set of a parameter of exactly this name; else `otherwise`. */
static double start_of(const struct mq_score_options *o, const char *name, double otherwise)
{
	size_t n = strlen(name);

	for (uint32_t i = o->set.n; i-- > 0;)
		if (!strncmp(o->set.item[i], name, n) && o->set.item[i][n] == '=')
			return strtod(o->set.item[i] + n + 1, NULL);
	return otherwise;
}

static enum mq_status find_params(struct runs *f, const struct mq_list *names, struct mq_err *err)
{
	f->param = mq_arena_array(f->options->arena, names->n, struct param);
	for (uint32_t i = 0; i < names->n; i++) {
		struct param *p = &f->param[i];

		MQ_TRY(mq_score_knob_find(f->options, names->item[i], &p->knob, err));
		p->start = p->value = start_of(f->options, p->knob.name, p->knob.differ ? (double)NAN : p->knob.value);
		p->low = p->high = NAN;
		if (isnan(p->start))
			return mq_bad(err,
				      "--free %s: the %u entries that it fits have different values; name fewer, or "
				      "give all one start with --set %s=VALUE",
				      p->knob.name, p->knob.n_entries, p->knob.name);
		if (!(p->start > 0))
			return mq_bad(err,
				      "--free %s: it is %g, and what is fitted must be "
				      "above 0; give a start with --set %s=VALUE",
				      p->knob.name, p->start, p->knob.name);
	}
	f->n_params = names->n;
	return MQ_OK;
}

static uint32_t group_of(const struct runs *f, const struct row *row, const char **key, uint32_t *n_keys)
{
	const char *group = mq_arena_printf(f->options->arena, "%u|%s", row->table,
					    mq_run_group(&f->table[row->table].c[row->row], f->options->arena));

	for (uint32_t k = 0; k < *n_keys; k++)
		if (!strcmp(key[k], group))
			return k;
	key[*n_keys] = group;
	return (*n_keys)++;
}

/* Collects the rows with prediction and measurement, in table order. */
static enum mq_status keep_scored(struct runs *f, struct mq_err *err)
{
	uint32_t total = 0, n_keys = 0;

	for (uint32_t t = 0; t < f->n_tables; t++)
		total += f->table[t].n;
	f->row = mq_arena_array(f->options->arena, total, struct row);
	const char **key = mq_arena_array(f->options->arena, total, const char *);
	for (uint32_t t = 0; t < f->n_tables; t++)
		for (uint32_t r = 0; r < f->table[t].n; r++) {
			struct row *row = &f->row[f->n_rows];

			if (!mq_table_scored(&f->table[t], r))
				continue;
			*row = (struct row){ .table = t, .row = r, .left_out_s = NAN };
			row->measured_s = f->table[t].run[r].step_time_s;
			row->start_s = row->fitted_s = f->table[t].step_s[r];
			row->group = group_of(f, row, key, &n_keys);
			f->n_rows++;
		}
	if (f->n_rows <= f->n_params)
		return mq_bad(err,
			      "%u rows of the tables can be scored and run on what is to be "
			      "fitted: that fixes no %u parameters",
			      f->n_rows, f->n_params);
	return MQ_OK;
}

static enum mq_status run_table(struct runs *f, const struct mq_score_options *o, uint32_t t, const bool *wanted,
				struct mq_err *err)
{
	struct mq_judged_table *table = &f->table[t];

	for (uint32_t i = 0; i < table->n; i++)
		f->n_simulated += table->ready[i] && wanted[i];
	return mq_table_judge(o, table, wanted, err);
}

static enum mq_status read_rows(struct runs *f, const struct mq_list *tables, const struct mq_list *names,
				struct mq_err *err)
{
	const struct mq_score_options *o = f->options;

	MQ_TRY(find_params(f, names, err));
	f->table = mq_arena_array(o->arena, tables->n, struct mq_judged_table);
	f->n_tables = tables->n;
	for (uint32_t t = 0; t < tables->n; t++) {
		f->table[t].path = tables->item[t];
		MQ_TRY(mq_table_load(o, &f->table[t], err));
		/* Rows that no parameter concerns are not simulated. */
		bool *wanted = mq_arena_array(o->arena, f->table[t].n, bool);
		for (uint32_t r = 0; r < f->table[t].n; r++)
			for (uint32_t p = 0; p < f->n_params && f->table[t].ready[r]; p++)
				wanted[r] |= mq_score_knob_concerns(&f->param[p].knob, &f->table[t].c[r]);
		MQ_TRY(run_table(f, o, t, wanted, err));
	}
	MQ_TRY(keep_scored(f, err));
	f->slope = mq_arena_array(o->arena, (size_t)f->n_rows * f->n_params, double);
	f->without = mq_arena_array(o->arena, (size_t)f->n_tables * f->n_params, double);
	f->correlation = mq_arena_array(o->arena, (size_t)f->n_params * f->n_params, double);
	return MQ_OK;
}

/* Applies the user's values, then those of the parameters. */
static enum mq_status set_values(const struct runs *f, const double *x, struct mq_arena *arena, struct mq_list *set,
				 struct mq_err *err)
{
	for (uint32_t i = 0; i < f->n_params; i++) {
		if (set->n == MQ_MAX_LIST)
			return mq_bad(err, "more than %d --set and --free together", MQ_MAX_LIST);
		set->item[set->n++] = mq_arena_printf(arena, "%s=%.9g", f->param[i].knob.name, x[i]);
	}
	return MQ_OK;
}

static bool concerned(const struct runs *f, const struct row *row, uint32_t table, uint32_t param)
{
	return (table == MQ_NONE || row->table == table) &&
	       (param == MQ_NONE || mq_score_knob_concerns(&f->param[param].knob, &f->table[row->table].c[row->row]));
}

static enum mq_status predict(struct runs *f, const double *x, uint32_t table, uint32_t param, double *seconds,
			      struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_score_options o = *f->options;
	enum mq_status status;

	o.arena = &scratch;
	status = set_values(f, x, &scratch, &o.set, err);
	for (uint32_t t = 0; t < f->n_tables && status == MQ_OK; t++) {
		bool *wanted = mq_arena_array(&scratch, f->table[t].n, bool), any = false;

		for (uint32_t i = 0; i < f->n_rows; i++)
			if (f->row[i].table == t && concerned(f, &f->row[i], table, param))
				any = wanted[f->row[i].row] = true;
		struct mq_case *kept = f->table[t].c;
		if (any)
			status = mq_table_renew(&o, &f->table[t], err);
		if (any && status == MQ_OK)
			status = run_table(f, &o, t, wanted, err);
		f->table[t].c = kept; /* the renewed ones go with this call */
	}
	for (uint32_t i = 0; i < f->n_rows && status == MQ_OK; i++) {
		const struct row *row = &f->row[i];

		if (concerned(f, row, table, param))
			seconds[i] = mq_table_scored(&f->table[row->table], row->row) ?
					     f->table[row->table].step_s[row->row] :
					     (double)NAN;
	}
	return status;
}

/* One column of slopes. At the upper end of the range the step goes down. */
static enum mq_status slopes_of(struct runs *f, double *x, uint32_t p, double *moved, struct mq_err *err)
{
	double here = x[p], step = here * exp(STEP) > f->param[p].knob.max ? -STEP : STEP;

	for (uint32_t i = 0; i < f->n_rows; i++)
		moved[i] = f->row[i].fitted_s;
	x[p] = here * exp(step);
	MQ_TRY(predict(f, x, MQ_NONE, p, moved, err));
	x[p] = here;
	f->param[p].n_rows = 0;
	for (uint32_t i = 0; i < f->n_rows; i++) {
		double slope = log(moved[i] / f->row[i].fitted_s) / step;

		/* A row without prediction this time (processor time) gives no slope. */
		f->slope[(size_t)i * f->n_params + p] = isfinite(slope) ? slope : 0;
		f->param[p].n_rows += fabs(slope) > MOVES;
	}
	if (!f->param[p].n_rows)
		return mq_bad(err, "--free %s: no prediction of these tables depends on it", f->param[p].knob.name);
	return MQ_OK;
}

static enum mq_status find_slopes(struct runs *f, const double *x, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	double *moved = mq_arena_array(&scratch, f->n_rows, double);
	double *copy = mq_arena_array(&scratch, f->n_params, double);

	memcpy(copy, x, f->n_params * sizeof(*x));
	for (uint32_t p = 0; p < f->n_params; p++)
		MQ_TRY(slopes_of(f, copy, p, moved, err));
	return MQ_OK;
}

/* ---- solving ------------------------------------------------------------------------------------------- */

/* Predictions of some rows as power laws of the parameters around `from`. */
struct near_by {
	const struct runs *fit;
	const double *from; /* [n_params] the point of fitted_s */
	double *x;          /* [n_params] */
	struct mq_fit problem;
	uint32_t *row; /* [problem.n_obs] */
	struct mq_fit_param free[MAX_PARAMS];
};

static void predict_near(void *context, double *predicted)
{
	const struct near_by *s = context;
	double moved[MAX_PARAMS];
	uint32_t n_params = s->fit->n_params;

	for (uint32_t p = 0; p < n_params; p++)
		moved[p] = log(s->x[p] / s->from[p]);
	for (uint32_t i = 0; i < s->problem.n_obs; i++) {
		const double *slope = s->fit->slope + (size_t)s->row[i] * n_params;
		double sum = 0;

		for (uint32_t p = 0; p < n_params; p++)
			sum += slope[p] * moved[p];
		predicted[i] = s->fit->row[s->row[i]].fitted_s * exp(sum);
	}
}

static uint32_t rows_of(const struct runs *f, uint32_t table)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n_rows; i++)
		n += f->row[i].table == table;
	return n;
}

/* The rows of all tables except `without`, with equal weight per table. */
static void take_rows(struct near_by *s, uint32_t without, struct mq_arena *arena)
{
	const struct runs *f = s->fit;
	double *measured = mq_arena_array(arena, f->n_rows, double), *weight = mq_arena_array(arena, f->n_rows, double);
	uint32_t *group = mq_arena_array(arena, f->n_rows, uint32_t), n = 0;

	s->row = mq_arena_array(arena, f->n_rows, uint32_t);
	for (uint32_t i = 0; i < f->n_rows; i++) {
		const struct row *r = &f->row[i];

		if (r->table == without || !(r->fitted_s > 0))
			continue;
		s->row[n] = i;
		measured[n] = r->measured_s;
		weight[n] = (double)f->n_rows / (f->n_tables * (double)rows_of(f, r->table));
		group[n++] = r->group;
	}
	s->problem = (struct mq_fit){ .n_obs = n,
				      .measured = measured,
				      .weight = weight,
				      .group = group,
				      .param = s->free,
				      .predict = predict_near,
				      .context = s };
}

/* Does a row of a table other than `without` depend on the parameter? */
static bool informed(const struct runs *f, uint32_t param, uint32_t without)
{
	for (uint32_t t = 0; t < f->n_tables; t++) {
		double sum = 0, n = 0;

		for (uint32_t i = 0; i < f->n_rows && t != without; i++)
			if (f->row[i].table == t) {
				sum += pow(f->slope[(size_t)i * f->n_params + param], 2);
				n++;
			}
		if (n > 0 && sqrt(sum / n) > INFORMS)
			return true;
	}
	return false;
}

static void take_params(struct near_by *s, uint32_t without)
{
	const struct runs *f = s->fit;

	for (uint32_t p = 0; p < f->n_params; p++) {
		const struct mq_score_knob *knob = &f->param[p].knob;

		if (without != MQ_NONE && !informed(f, p, without))
			continue;
		s->free[s->problem.n_params++] = (struct mq_fit_param){
			.name = knob->name,
			.value = &s->x[p],
			.min = fmax(knob->min, s->from[p] * exp(-REACH)),
			.max = fmin(knob->max, s->from[p] * exp(REACH)),
		};
	}
}

static double residual(const struct runs *f, uint32_t row, const double *seconds)
{
	/* A row that lost its prediction counts as a large error, so that no step gains by it. */
	return seconds[row] > 0 ? log(seconds[row] / f->row[row].measured_s) : LOST;
}

/* The loss that a step must reduce: that of the solver, at the scale of `reference`. */
static double loss(const struct runs *f, const double *seconds, const double *reference, struct mq_arena *scratch)
{
	double *size = mq_arena_array(scratch, f->n_rows, double), sum = 0;

	for (uint32_t i = 0; i < f->n_rows; i++)
		size[i] = fabs(residual(f, i, reference));
	double knee = mq_fit_huber * fmax(1.4826 * mq_quantile(size, f->n_rows, .5), 1e-6);
	for (uint32_t i = 0; i < f->n_rows; i++) {
		double r = fabs(residual(f, i, seconds));

		sum += (r < knee ? r * r / 2 : knee * (r - knee / 2)) / rows_of(f, f->row[i].table);
	}
	return sum;
}

/* One Gauss-Newton step from `x`; it is taken where it lessens the error, if need be halved. */
static enum mq_status step(struct runs *f, double *x, bool *taken, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	double *to = mq_arena_array(&scratch, f->n_params, double);
	double *before = mq_arena_array(&scratch, f->n_rows, double);
	double *after = mq_arena_array(&scratch, f->n_rows, double);
	struct near_by s = { .fit = f, .from = x, .x = to };
	enum mq_status status;

	*taken = false;
	memcpy(to, x, f->n_params * sizeof(*x));
	for (uint32_t i = 0; i < f->n_rows; i++)
		before[i] = f->row[i].fitted_s;
	take_rows(&s, MQ_NONE, &scratch);
	take_params(&s, MQ_NONE);
	status = mq_fit_solve(&s.problem, &scratch, err);
	for (int half = 0; half <= HALVINGS && !*taken && status == MQ_OK; half++) {
		for (uint32_t p = 0; half && p < f->n_params; p++)
			to[p] = sqrt(to[p] * x[p]);
		status = predict(f, to, MQ_NONE, MQ_NONE, after, err);
		*taken = status == MQ_OK && loss(f, after, before, &scratch) < loss(f, before, before, &scratch);
	}
	for (uint32_t i = 0; i < f->n_rows && *taken; i++)
		f->row[i].fitted_s = after[i];
	if (*taken)
		memcpy(x, to, f->n_params * sizeof(*x));
	return status;
}

static enum mq_status intervals(struct runs *f, const double *x, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	double *to = mq_arena_array(&scratch, f->n_params, double);
	double *draws = mq_arena_array(&scratch, (size_t)f->n_draws * f->n_params, double);
	struct near_by s = { .fit = f, .from = x, .x = to };
	struct mq_rng rng;

	memcpy(to, x, f->n_params * sizeof(*x));
	mq_rng_seed(&rng, f->seed);
	take_rows(&s, MQ_NONE, &scratch);
	take_params(&s, MQ_NONE);
	MQ_TRY(mq_fit_bootstrap(&s.problem, f->n_draws, &rng, &scratch, draws, err));
	for (uint32_t p = 0; p < f->n_params; p++) {
		f->param[p].low = s.free[p].low;
		f->param[p].high = s.free[p].high;
		for (uint32_t d = 0; d < f->n_draws; d++)
			draws[(size_t)d * f->n_params + p] = log(draws[(size_t)d * f->n_params + p]);
	}
	for (uint32_t a = 0; a < f->n_params; a++)
		for (uint32_t b = 0; b < f->n_params; b++)
			f->correlation[a * f->n_params + b] =
				gsl_stats_correlation(draws + a, f->n_params, draws + b, f->n_params, f->n_draws);
	return MQ_OK;
}

static enum mq_status solve(struct runs *f, struct mq_err *err)
{
	double x[MAX_PARAMS], last[MAX_PARAMS];
	bool taken = true;

	for (uint32_t p = 0; p < f->n_params; p++)
		x[p] = f->param[p].start;
	for (uint32_t round = 0; round < f->rounds && taken; round++) {
		double most = 0;

		memcpy(last, x, sizeof(last));
		MQ_TRY(find_slopes(f, x, err));
		MQ_TRY(step(f, x, &taken, err));
		for (uint32_t p = 0; p < f->n_params; p++)
			most = fmax(most, fabs(log(x[p] / last[p])));
		taken &= most > SETTLED;
	}
	for (uint32_t p = 0; p < f->n_params; p++)
		f->param[p].value = x[p];
	return intervals(f, x, err);
}

static enum mq_status leave_out(struct runs *f, bool *own, struct mq_err *err)
{
	double x[MAX_PARAMS], to[MAX_PARAMS];
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	double *seconds = mq_arena_array(&scratch, f->n_rows, double);

	for (uint32_t p = 0; p < f->n_params; p++)
		x[p] = f->param[p].value;
	for (uint32_t t = 0; t < f->n_tables && f->n_tables > 1; t++) {
		struct near_by s = { .fit = f, .from = x, .x = to };

		take_rows(&s, t, &scratch);
		take_params(&s, t);
		memcpy(to, x, sizeof(to));
		for (uint32_t p = 0; p < f->n_params; p++)
			own[t * f->n_params + p] = !informed(f, p, t);
		if (s.problem.n_params)
			MQ_TRY(mq_fit_solve(&s.problem, &scratch, err));
		memcpy(f->without + (size_t)t * f->n_params, to, f->n_params * sizeof(*to));
		MQ_TRY(predict(f, to, t, MQ_NONE, seconds, err));
		for (uint32_t i = 0; i < f->n_rows; i++)
			if (f->row[i].table == t)
				f->row[i].left_out_s = seconds[i];
	}
	return MQ_OK;
}

/* ---- output -------------------------------------------------------------------------------------------- */

enum which { START, FITTED, LEFT_OUT };

static struct mq_errors stats_of(const struct runs *f, uint32_t table, enum which which)
{
	double *error = mq_arena_array(f->options->arena, f->n_rows, double);
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n_rows; i++) {
		const struct row *row = &f->row[i];
		double seconds = which == START ? row->start_s : which == FITTED ? row->fitted_s : row->left_out_s;

		if (row->table == table && seconds > 0)
			error[n++] = seconds / row->measured_s - 1;
	}
	return mq_errors_of(error, n, f->options->arena);
}

enum { PARAMETERS, CORRELATION, WITHOUT, ROWS, TABLES, N_OUTPUTS };

static void report_params(const struct runs *f, struct mq_csv_writer *w)
{
	printf("%-32s %11s %-7s %25s %11s %6s\n", "parameter", "value", "unit", "95 % interval", "start", "rows");
	for (uint32_t p = 0; p < f->n_params; p++) {
		const struct param *q = &f->param[p];
		char interval[64];

		snprintf(interval, sizeof(interval), "[%.4g, %.4g]", q->low, q->high);
		printf("%-32s %11.4g %-7s %25s %11.4g %6u\n", q->knob.name, q->value, q->knob.unit, interval, q->start,
		       q->n_rows);
		mq_csv_row(&w[PARAMETERS], "%s,%g,%s,%g,%g,%g,%u", q->knob.name, q->value, q->knob.unit, q->low,
			   q->high, q->start, q->n_rows);
	}
	for (uint32_t a = 0; a < f->n_params; a++)
		for (uint32_t b = 0; b < f->n_params; b++) {
			double r = f->correlation[a * f->n_params + b];
			const char *one = f->param[a].knob.name, *other = f->param[b].knob.name;

			mq_csv_row(&w[CORRELATION], "%s,%s,%g", one, other, r);
			if (b < a && fabs(r) > STRONG)
				printf("  hard to tell apart (correlation %+.2f): %s, %s\n", r, other, one);
		}
}

static void report_tables(const struct runs *f, const bool *own, struct mq_csv_writer *w)
{
	printf("%-34s %5s %15s %15s %15s\n", "", "", "start", "fitted", "left out");
	printf("%-34s %5s %7s %7s %7s %7s %7s %7s  %s\n", "table", "rows", "mean %", "med %", "mean %", "med %",
	       "mean %", "med %", "parameters of its own");
	for (uint32_t t = 0; t < f->n_tables; t++) {
		const char *stem = f->table[t].stem;
		struct mq_errors of[3];

		for (enum which which = START; which <= LEFT_OUT; which++)
			of[which] = stats_of(f, t, which);
		printf("%-34s %5u", stem, of[FITTED].n);
		for (enum which which = START; which <= LEFT_OUT; which++)
			if (of[which].n)
				printf(" %7.2f %7.2f", 100 * of[which].mean, 100 * of[which].median);
			else
				printf(" %7s %7s", "-", "-");
		mq_csv_row(&w[TABLES], "%s,%u,%g,%g,%g,%g,%g,%g", stem, of[FITTED].n, of[START].mean, of[START].median,
			   of[FITTED].mean, of[FITTED].median, of[LEFT_OUT].mean, of[LEFT_OUT].median);
		for (uint32_t p = 0, n = 0; p < f->n_params; p++) {
			if (own[t * f->n_params + p])
				printf("%s%s", n++ ? ", " : "  ", f->param[p].knob.name);
			if (f->n_tables > 1) /* the substitute without the table */
				mq_csv_row(&w[WITHOUT], "%s,%s,%g", stem, f->param[p].knob.name,
					   f->without[(size_t)t * f->n_params + p]);
		}
		printf("\n");
	}
	if (f->n_tables > 1)
		printf("left out: simulated with what the other tables alone give; parameters that no "
		       "other table informs\nare a table's own and were left as fitted\n");
	printf("%u rows, %u simulations\n", f->n_rows, f->n_simulated);
}

static enum mq_status report(struct runs *f, const bool *own, struct mq_err *err)
{
	static const char *const outputs[N_OUTPUTS][2] = {
		[PARAMETERS] = { "parameters.csv", "parameter,value,unit,low,high,start,rows" },
		[CORRELATION] = { "correlation.csv", "parameter,with,correlation" },
		[WITHOUT] = { "without.csv", "table,parameter,value" },
		[ROWS] = { "rows.csv", "table,row_id,measured_s,start_s,fitted_s,left_out_s" },
		[TABLES] = { "tables.csv",
			     "table,rows,start_mean,start_median,fitted_mean,fitted_median,left_out_mean,left_out_median" },
	};
	struct mq_csv_writer w[N_OUTPUTS];

	for (int i = 0; i < N_OUTPUTS; i++)
		MQ_TRY(mq_csv_create(&w[i], mq_arena_printf(f->options->arena, "%s/%s", f->options->out, outputs[i][0]),
				     outputs[i][1], err));
	report_params(f, w);
	report_tables(f, own, w);
	for (uint32_t i = 0; i < f->n_rows; i++) {
		const struct row *r = &f->row[i];

		mq_csv_row(&w[ROWS], "%s,%s,%g,%g,%g,%g", f->table[r->table].stem, f->table[r->table].run[r->row].id,
			   r->measured_s, r->start_s, r->fitted_s, r->left_out_s);
	}
	for (int i = 0; i < N_OUTPUTS; i++)
		MQ_TRY(mq_csv_close(&w[i], err));
	return MQ_OK;
}

enum mq_status mq_score_fit(const struct mq_score_fit *ask, struct mq_err *err)
{
	struct runs f = { .options = ask->options, .rounds = ask->rounds, .n_draws = ask->draws, .seed = ask->seed };

	MQ_TRY(read_rows(&f, &ask->tables, &ask->free, err));
	MQ_TRY(solve(&f, err));
	bool *own = mq_arena_array(f.options->arena, (size_t)f.n_tables * f.n_params, bool);
	MQ_TRY(leave_out(&f, own, err));
	return report(&f, own, err);
}

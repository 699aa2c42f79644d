/* solve.c - see runs.h: steps, intervals, and one system after the other left out.
 * SPDX-License-Identifier: Apache-2.0 */
#include "score/fit/runs.h"

#include <math.h>
#include <string.h>

#include <gsl/gsl_statistics_double.h>

#include "fit/fit.h"

#define REACH   .7 /* a step changes a parameter by at most e to this: slopes hold near by only */
#define SETTLED .005
#define INFORMS .005 /* root mean square slope over a table's rows */
enum { HALVINGS = 3, LOST = 10 };

/* Predictions as power laws of the parameters around `from`, for some of the rows. */
struct near_by {
	const struct mq_runs_fit *fit;
	const double *from; /* [n_params] where fitted_s holds */
	double *x;          /* [n_params] */
	uint32_t n, *row;   /* [n] */
	double *measured, *weight;
	uint32_t *group;
	uint32_t n_free;
	struct mq_fit_param free[MQ_RUNS_FIT_MAX];
	uint32_t param_of[MQ_RUNS_FIT_MAX];
};

static void predict_near(void *context, double *predicted)
{
	const struct near_by *s = context;
	double moved[MQ_RUNS_FIT_MAX];
	uint32_t n_params = s->fit->n_params;

	for (uint32_t p = 0; p < n_params; p++)
		moved[p] = log(s->x[p] / s->from[p]);
	for (uint32_t i = 0; i < s->n; i++) {
		const double *slope = s->fit->slope + (size_t)s->row[i] * n_params;
		double sum = 0;

		for (uint32_t p = 0; p < n_params; p++)
			sum += slope[p] * moved[p];
		predicted[i] = s->fit->row[s->row[i]].fitted_s * exp(sum);
	}
}

static uint32_t rows_of(const struct mq_runs_fit *f, uint32_t table)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n_rows; i++)
		n += f->row[i].table == table;
	return n;
}

/* The rows but those of table `without`, each table with the same weight in all. */
static void take_rows(struct near_by *s, uint32_t without, struct mq_arena *arena)
{
	const struct mq_runs_fit *f = s->fit;

	s->row = mq_arena_array(arena, f->n_rows, uint32_t);
	s->measured = mq_arena_array(arena, f->n_rows, double);
	s->weight = mq_arena_array(arena, f->n_rows, double);
	s->group = mq_arena_array(arena, f->n_rows, uint32_t);
	for (uint32_t i = 0; i < f->n_rows; i++) {
		const struct mq_runs_row *r = &f->row[i];

		if (r->table == without || !(r->fitted_s > 0))
			continue;
		s->row[s->n] = i;
		s->measured[s->n] = r->measured_s;
		s->weight[s->n] = (double)f->n_rows / (f->n_tables * (double)rows_of(f, r->table));
		s->group[s->n++] = r->group;
	}
}

/* Do the rows of another table than `without` depend on a parameter? */
static bool informed(const struct mq_runs_fit *f, uint32_t param, uint32_t without)
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
	const struct mq_runs_fit *f = s->fit;

	for (uint32_t p = 0; p < f->n_params; p++) {
		const struct mq_score_knob *knob = &f->param[p].knob;

		if (without != MQ_NONE && !informed(f, p, without))
			continue;
		s->param_of[s->n_free] = p;
		s->free[s->n_free++] = (struct mq_fit_param){
			.name = knob->name,
			.value = &s->x[p],
			.min = fmax(knob->min, s->from[p] * exp(-REACH)),
			.max = fmin(knob->max, s->from[p] * exp(REACH)),
		};
	}
}

static struct mq_fit problem(struct near_by *s, uint32_t without, struct mq_arena *arena)
{
	take_rows(s, without, arena);
	take_params(s, without);
	return (struct mq_fit){ .n_obs = s->n,
				.n_params = s->n_free,
				.measured = s->measured,
				.weight = s->weight,
				.group = s->group,
				.param = s->free,
				.predict = predict_near,
				.context = s };
}

static double residual(const struct mq_runs_fit *f, uint32_t row, const double *seconds)
{
	/* A row that lost its prediction counts as far off: a step must not win by that. */
	return seconds[row] > 0 ? log(seconds[row] / f->row[row].measured_s) : LOST;
}

/* What a step has to lessen: the loss that the solver minimises, at the scale of `reference`. */
static double loss(const struct mq_runs_fit *f, const double *seconds, const double *reference,
		   struct mq_arena *scratch)
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
static enum mq_status step(struct mq_runs_fit *f, double *x, bool *taken, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	double *to = mq_arena_array(&scratch, f->n_params, double);
	double *before = mq_arena_array(&scratch, f->n_rows, double);
	double *after = mq_arena_array(&scratch, f->n_rows, double);
	struct near_by s = { .fit = f, .from = x, .x = to };
	struct mq_fit fit;
	enum mq_status status;

	*taken = false;
	memcpy(to, x, f->n_params * sizeof(*x));
	for (uint32_t i = 0; i < f->n_rows; i++)
		before[i] = f->row[i].fitted_s;
	fit = problem(&s, MQ_NONE, &scratch);
	status = mq_fit_solve(&fit, &scratch, err);
	for (int half = 0; half <= HALVINGS && !*taken && status == MQ_OK; half++) {
		for (uint32_t p = 0; half && p < f->n_params; p++)
			to[p] = sqrt(to[p] * x[p]);
		status = mq_runs_fit_predict(f, to, MQ_NONE, MQ_NONE, after, err);
		*taken = status == MQ_OK && loss(f, after, before, &scratch) < loss(f, before, before, &scratch);
	}
	for (uint32_t i = 0; i < f->n_rows && *taken; i++)
		f->row[i].fitted_s = after[i];
	if (*taken)
		memcpy(x, to, f->n_params * sizeof(*x));
	return status;
}

static enum mq_status intervals(struct mq_runs_fit *f, const double *x, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	double *to = mq_arena_array(&scratch, f->n_params, double);
	double *draws = mq_arena_array(&scratch, (size_t)f->n_draws * f->n_params, double);
	struct near_by s = { .fit = f, .from = x, .x = to };
	struct mq_rng rng;

	memcpy(to, x, f->n_params * sizeof(*x));
	mq_rng_seed(&rng, f->seed);
	struct mq_fit fit = problem(&s, MQ_NONE, &scratch);
	MQ_TRY(mq_fit_bootstrap(&fit, f->n_draws, &rng, &scratch, draws, err));
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

enum mq_status mq_runs_fit_solve(struct mq_runs_fit *f, struct mq_err *err)
{
	double x[MQ_RUNS_FIT_MAX], last[MQ_RUNS_FIT_MAX];
	bool taken = true;

	for (uint32_t p = 0; p < f->n_params; p++)
		x[p] = f->param[p].start;
	for (uint32_t round = 0; round < f->rounds && taken; round++) {
		double most = 0;

		memcpy(last, x, sizeof(last));
		MQ_TRY(mq_runs_fit_slopes(f, x, err));
		MQ_TRY(step(f, x, &taken, err));
		for (uint32_t p = 0; p < f->n_params; p++)
			most = fmax(most, fabs(log(x[p] / last[p])));
		taken &= most > SETTLED;
	}
	for (uint32_t p = 0; p < f->n_params; p++)
		f->param[p].value = x[p];
	return intervals(f, x, err);
}

enum mq_status mq_runs_fit_leave_out(struct mq_runs_fit *f, bool *own, struct mq_err *err)
{
	double x[MQ_RUNS_FIT_MAX], to[MQ_RUNS_FIT_MAX];
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	double *seconds = mq_arena_array(&scratch, f->n_rows, double);

	for (uint32_t p = 0; p < f->n_params; p++)
		x[p] = f->param[p].value;
	for (uint32_t t = 0; t < f->n_tables && f->n_tables > 1; t++) {
		struct near_by s = { .fit = f, .from = x, .x = to };
		struct mq_fit fit = problem(&s, t, &scratch);

		memcpy(to, x, sizeof(to));
		for (uint32_t p = 0; p < f->n_params; p++)
			own[t * f->n_params + p] = !informed(f, p, t);
		if (fit.n_params)
			MQ_TRY(mq_fit_solve(&fit, &scratch, err));
		memcpy(f->without + (size_t)t * f->n_params, to, f->n_params * sizeof(*to));
		MQ_TRY(mq_runs_fit_predict(f, to, t, MQ_NONE, seconds, err));
		for (uint32_t i = 0; i < f->n_rows; i++)
			if (f->row[i].table == t)
				f->row[i].left_out_s = seconds[i];
	}
	return MQ_OK;
}

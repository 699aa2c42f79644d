/* runs.c - the rows of a fit, their predictions, and how those move with the parameters.
 * SPDX-License-Identifier: Apache-2.0 */
#include "score/fit/runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP  .05  /* of a logarithm, for slopes: far above the 9 digits that a prediction has */
#define MOVES .001 /* slopes below inform nobody */

/* The number that --set gives a parameter of this very name, the last one; `otherwise` where none does. */
static double start_of(const struct mq_score_options *o, const char *name, double otherwise)
{
	size_t n = strlen(name);

	for (uint32_t i = o->set.n; i-- > 0;)
		if (!strncmp(o->set.item[i], name, n) && o->set.item[i][n] == '=')
			return strtod(o->set.item[i] + n + 1, NULL);
	return otherwise;
}

static enum mq_status find_params(struct mq_runs_fit *f, const struct mq_list *names, struct mq_err *err)
{
	f->param = mq_arena_array(f->options->arena, names->n, struct mq_runs_param);
	for (uint32_t i = 0; i < names->n; i++) {
		struct mq_runs_param *p = &f->param[i];

		MQ_TRY(mq_score_knob_find(f->options, f->tables.software_dir, names->item[i], &p->knob, err));
		p->start = p->value = start_of(f->options, p->knob.name, p->knob.differ ? (double)NAN : p->knob.value);
		p->low = p->high = NAN;
		if (isnan(p->start))
			return mq_fail(err, MQ_EINPUT,
				       "--free %s: the %u entries that it fits have different values; name fewer, or "
				       "give all one start with --set %s=VALUE",
				       p->knob.name, p->knob.n_entries, p->knob.name);
		if (!(p->start > 0))
			return mq_fail(err, MQ_EINPUT,
				       "--free %s: it is %g, and what is fitted must be "
				       "above 0; give a start with --set %s=VALUE",
				       p->knob.name, p->start, p->knob.name);
	}
	f->n_params = names->n;
	return MQ_OK;
}

static uint32_t group_of(const struct mq_runs_fit *f, const struct mq_runs_row *row, const char **key, uint32_t *n_keys)
{
	const char *group = mq_arena_printf(f->options->arena, "%u|%s", row->table,
					    mq_run_group(&f->table[row->table].c[row->row], f->options->arena));

	for (uint32_t k = 0; k < *n_keys; k++)
		if (!strcmp(key[k], group))
			return k;
	key[*n_keys] = group;
	return (*n_keys)++;
}

/* Rows that were predicted and measured, in the order of the tables. */
static enum mq_status keep_scored(struct mq_runs_fit *f, struct mq_err *err)
{
	uint32_t total = 0, n_keys = 0;

	for (uint32_t t = 0; t < f->n_tables; t++)
		total += f->table[t].n;
	f->row = mq_arena_array(f->options->arena, total, struct mq_runs_row);
	const char **key = mq_arena_array(f->options->arena, total, const char *);
	for (uint32_t t = 0; t < f->n_tables; t++)
		for (uint32_t r = 0; r < f->table[t].n; r++) {
			struct mq_runs_row *row = &f->row[f->n_rows];

			if (!mq_table_scored(&f->table[t], r))
				continue;
			*row = (struct mq_runs_row){ .table = t, .row = r, .left_out_s = NAN };
			row->measured_s = f->table[t].run[r].step_time_s;
			row->start_s = row->fitted_s = f->table[t].step_s[r];
			row->group = group_of(f, row, key, &n_keys);
			f->n_rows++;
		}
	if (f->n_rows <= f->n_params)
		return mq_fail(err, MQ_EINPUT,
			       "%u rows of the tables can be scored and run on what is to be "
			       "fitted: that fixes no %u parameters",
			       f->n_rows, f->n_params);
	return MQ_OK;
}

static enum mq_status run_table(struct mq_runs_fit *f, const struct mq_score_options *o, uint32_t t, const bool *wanted,
				struct mq_err *err)
{
	struct mq_judged_table *table = &f->table[t];

	for (uint32_t i = 0; i < table->n; i++)
		f->n_simulated += table->ready[i] && wanted[i];
	return mq_table_judge(o, table, wanted, err);
}

/* Rows that a parameter may move; the others have no part in the fit and are not simulated. */
static bool *rows_concerned(const struct mq_runs_fit *f, const struct mq_judged_table *table)
{
	bool *wanted = mq_arena_array(f->options->arena, table->n, bool);

	for (uint32_t r = 0; r < table->n; r++)
		for (uint32_t p = 0; p < f->n_params && table->ready[r]; p++)
			wanted[r] |= mq_score_knob_concerns(&f->param[p].knob, &table->c[r]);
	return wanted;
}

enum mq_status mq_runs_fit_open(struct mq_runs_fit *f, const struct mq_list *tables, const struct mq_list *names,
				struct mq_err *err)
{
	const struct mq_score_options *o = f->options;

	MQ_TRY(mq_score_tables_load(o, &f->tables, err));
	MQ_TRY(find_params(f, names, err));
	f->table = mq_arena_array(o->arena, tables->n, struct mq_judged_table);
	f->n_tables = tables->n;
	for (uint32_t t = 0; t < tables->n; t++) {
		f->table[t].path = tables->item[t];
		MQ_TRY(mq_table_load(o, &f->tables, &f->table[t], err));
		MQ_TRY(run_table(f, o, t, rows_concerned(f, &f->table[t]), err));
	}
	MQ_TRY(keep_scored(f, err));
	f->slope = mq_arena_array(o->arena, (size_t)f->n_rows * f->n_params, double);
	f->without = mq_arena_array(o->arena, (size_t)f->n_tables * f->n_params, double);
	f->correlation = mq_arena_array(o->arena, (size_t)f->n_params * f->n_params, double);
	return MQ_OK;
}

/* The user's values, then the parameters' on top. */
static enum mq_status set_values(const struct mq_runs_fit *f, const double *x, struct mq_arena *arena,
				 struct mq_list *set, struct mq_err *err)
{
	for (uint32_t i = 0; i < f->n_params; i++) {
		if (set->n == MQ_MAX_LIST)
			return mq_fail(err, MQ_EINPUT, "more than %d --set and --free together", MQ_MAX_LIST);
		set->item[set->n++] = mq_arena_printf(arena, "%s=%.9g", f->param[i].knob.name, x[i]);
	}
	return MQ_OK;
}

static bool concerned(const struct mq_runs_fit *f, const struct mq_runs_row *row, uint32_t table, uint32_t param)
{
	return (table == MQ_NONE || row->table == table) &&
	       (param == MQ_NONE || mq_score_knob_concerns(&f->param[param].knob, &f->table[row->table].c[row->row]));
}

enum mq_status mq_runs_fit_predict(struct mq_runs_fit *f, const double *x, uint32_t table, uint32_t param,
				   double *seconds, struct mq_err *err)
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
			status = mq_table_renew(&o, &f->tables, &f->table[t], err);
		if (any && status == MQ_OK)
			status = run_table(f, &o, t, wanted, err);
		f->table[t].c = kept; /* the renewed ones go with this call */
	}
	for (uint32_t i = 0; i < f->n_rows && status == MQ_OK; i++) {
		const struct mq_runs_row *row = &f->row[i];

		if (concerned(f, row, table, param))
			seconds[i] = mq_table_scored(&f->table[row->table], row->row) ?
					     f->table[row->table].step_s[row->row] :
					     (double)NAN;
	}
	return status;
}

/* One column of slopes. Where the range ends above, the step goes down. */
static enum mq_status slopes_of(struct mq_runs_fit *f, double *x, uint32_t p, double *moved, struct mq_err *err)
{
	double here = x[p], step = here * exp(STEP) > f->param[p].knob.max ? -STEP : STEP;

	for (uint32_t i = 0; i < f->n_rows; i++)
		moved[i] = f->row[i].fitted_s;
	x[p] = here * exp(step);
	MQ_TRY(mq_runs_fit_predict(f, x, MQ_NONE, p, moved, err));
	x[p] = here;
	f->param[p].n_rows = 0;
	for (uint32_t i = 0; i < f->n_rows; i++) {
		double slope = log(moved[i] / f->row[i].fitted_s) / step;

		/* A row that this once has no prediction (processor time) tells nothing. */
		f->slope[(size_t)i * f->n_params + p] = isfinite(slope) ? slope : 0;
		f->param[p].n_rows += fabs(slope) > MOVES;
	}
	if (!f->param[p].n_rows)
		return mq_fail(err, MQ_EINPUT, "--free %s: no prediction of these tables depends on it",
			       f->param[p].knob.name);
	return MQ_OK;
}

enum mq_status mq_runs_fit_slopes(struct mq_runs_fit *f, const double *x, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	double *moved = mq_arena_array(&scratch, f->n_rows, double);
	double *copy = mq_arena_array(&scratch, f->n_params, double);

	memcpy(copy, x, f->n_params * sizeof(*x));
	for (uint32_t p = 0; p < f->n_params; p++)
		MQ_TRY(slopes_of(f, copy, p, moved, err));
	return MQ_OK;
}

/* report.c - what a fit found, in words and files, see runs.h. SPDX-License-Identifier: Apache-2.0 */
#include "score/fit/runs.h"

#include <math.h>
#include <stdio.h>

#define STRONG .8 /* correlations above are told: the tables cannot tell such a pair apart */

enum which { START, FITTED, LEFT_OUT };

static double seconds_of(const struct mq_runs_row *row, enum which which)
{
	return which == START ? row->start_s : which == FITTED ? row->fitted_s : row->left_out_s;
}

static struct mq_errors stats_of(const struct mq_runs_fit *f, uint32_t table, enum which which)
{
	double *error = mq_arena_array(f->options->arena, f->n_rows, double);
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n_rows; i++) {
		double seconds = seconds_of(&f->row[i], which);

		if (f->row[i].table == table && seconds > 0)
			error[n++] = seconds / f->row[i].measured_s - 1;
	}
	return mq_errors_of(error, n, f->options->arena);
}

static void print_params(const struct mq_runs_fit *f)
{
	printf("%-32s %11s %-7s %25s %11s %6s\n", "parameter", "value", "unit", "95 % interval", "start", "rows");
	for (uint32_t p = 0; p < f->n_params; p++) {
		const struct mq_runs_param *q = &f->param[p];
		char interval[64];

		snprintf(interval, sizeof(interval), "[%.4g, %.4g]", q->low, q->high);
		printf("%-32s %11.4g %-7s %25s %11.4g %6u\n", q->knob.name, q->value, q->knob.unit, interval, q->start,
		       q->n_rows);
	}
	for (uint32_t a = 0; a < f->n_params; a++)
		for (uint32_t b = 0; b < a; b++) {
			double r = f->correlation[a * f->n_params + b];

			if (fabs(r) > STRONG)
				printf("  hard to tell apart (correlation %+.2f): %s, %s\n", r, f->param[b].knob.name,
				       f->param[a].knob.name);
		}
}

static void print_error(const struct mq_errors *s)
{
	if (s->n)
		printf(" %7.2f %7.2f", 100 * s->mean, 100 * s->median);
	else
		printf(" %7s %7s", "-", "-");
}

static void print_tables(const struct mq_runs_fit *f, const bool *own)
{
	printf("%-34s %5s %15s %15s %15s\n", "", "", "start", "fitted", "left out");
	printf("%-34s %5s %7s %7s %7s %7s %7s %7s  %s\n", "table", "rows", "mean %", "med %", "mean %", "med %",
	       "mean %", "med %", "parameters of its own");
	for (uint32_t t = 0; t < f->n_tables; t++) {
		struct mq_errors fitted = stats_of(f, t, FITTED), start = stats_of(f, t, START);
		struct mq_errors left_out = stats_of(f, t, LEFT_OUT);

		printf("%-34s %5u", f->table[t].stem, fitted.n);
		print_error(&start);
		print_error(&fitted);
		print_error(&left_out);
		for (uint32_t p = 0, n = 0; p < f->n_params; p++)
			if (own[t * f->n_params + p])
				printf("%s%s", n++ ? ", " : "  ", f->param[p].knob.name);
		printf("\n");
	}
	if (f->n_tables > 1)
		printf("left out: simulated with what the other tables alone give; parameters that no "
		       "other table informs\nare a table's own and were left as fitted\n");
	printf("%u rows, %u simulations\n", f->n_rows, f->n_simulated);
}

/* Opens DIR/name and hands it to `fill`. */
static enum mq_status write_file(struct mq_runs_fit *f, const char *name, const char *header,
				 void (*fill)(const struct mq_runs_fit *f, struct mq_csv_writer *w), struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_csv_create(&w, mq_arena_printf(f->options->arena, "%s/%s", f->options->out, name), header, err));
	fill(f, &w);
	return mq_csv_close(&w, err);
}

static void put_params(const struct mq_runs_fit *f, struct mq_csv_writer *w)
{
	for (uint32_t p = 0; p < f->n_params; p++) {
		const struct mq_runs_param *q = &f->param[p];

		mq_csv_row(w, "%s,%g,%s,%g,%g,%g,%u", q->knob.name, q->value, q->knob.unit, q->low, q->high, q->start,
			   q->n_rows);
	}
}

static void put_correlation(const struct mq_runs_fit *f, struct mq_csv_writer *w)
{
	for (uint32_t a = 0; a < f->n_params; a++)
		for (uint32_t b = 0; b < f->n_params; b++)
			mq_csv_row(w, "%s,%s,%g", f->param[a].knob.name, f->param[b].knob.name,
				   f->correlation[a * f->n_params + b]);
}

static void put_rows(const struct mq_runs_fit *f, struct mq_csv_writer *w)
{
	for (uint32_t i = 0; i < f->n_rows; i++) {
		const struct mq_runs_row *r = &f->row[i];

		mq_csv_row(w, "%s,%s,%g,%g,%g,%g", f->table[r->table].stem, f->table[r->table].run[r->row].id,
			   r->measured_s, r->start_s, r->fitted_s, r->left_out_s);
	}
}

static void put_tables(const struct mq_runs_fit *f, struct mq_csv_writer *w)
{
	for (uint32_t t = 0; t < f->n_tables; t++) {
		const struct mq_errors a = stats_of(f, t, START), b = stats_of(f, t, FITTED),
				       c = stats_of(f, t, LEFT_OUT);

		mq_csv_row(w, "%s,%u,%g,%g,%g,%g,%g,%g", f->table[t].stem, b.n, a.mean, a.median, b.mean, b.median,
			   c.mean, c.median);
	}
}

/* What stands in where a table has no say. */
static void put_without(const struct mq_runs_fit *f, struct mq_csv_writer *w)
{
	for (uint32_t t = 0; t < f->n_tables && f->n_tables > 1; t++)
		for (uint32_t p = 0; p < f->n_params; p++)
			mq_csv_row(w, "%s,%s,%g", f->table[t].stem, f->param[p].knob.name,
				   f->without[(size_t)t * f->n_params + p]);
}

enum mq_status mq_runs_fit_report(struct mq_runs_fit *f, const bool *own, struct mq_err *err)
{
	print_params(f);
	print_tables(f, own);
	MQ_TRY(write_file(f, "parameters.csv", "parameter,value,unit,low,high,start,rows", put_params, err));
	MQ_TRY(write_file(f, "correlation.csv", "parameter,with,correlation", put_correlation, err));
	MQ_TRY(write_file(f, "without.csv", "table,parameter,value", put_without, err));
	MQ_TRY(write_file(f, "rows.csv", "table,row_id,measured_s,start_s,fitted_s,left_out_s", put_rows, err));
	return write_file(f, "tables.csv",
			  "table,rows,start_mean,start_median,fitted_mean,fitted_median,left_out_mean,left_out_median",
			  put_tables, err);
}

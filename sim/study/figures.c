/* figures.c - figures of a study: tornado, scaling, cost front, heat map; gnuplot draws them with the scripts in
 * plots/. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session/pages/gnuplot.h"
#include "study/study.h"
#include "base/csv.h"

enum { MAX_TORNADO = 24, MAX_SERIES = 12, MAX_JOB_ROWS = 40 };

struct drawing {
	struct mq_drawing to;
	struct mq_arena *arena;
	const struct mq_study *study;
	struct mq_csv csv;
	struct mq_err *err;
};

static const char *path_of(struct drawing *d, const char *name)
{
	return mq_arena_printf(d->arena, "%s/%s", d->to.dir, name);
}

static const char *out_of(struct drawing *d, const char *name)
{
	return mq_arena_printf(d->arena, "%s/%s", d->to.out, name);
}

uint32_t mq_study_fastest(const struct mq_csv *csv)
{
	uint32_t best = MQ_NONE;

	for (uint32_t r = 0; r < csv->n_rows; r++)
		if (!isnan(mq_csv_number(csv, r, "samples_per_s")) &&
		    (best == MQ_NONE ||
		     mq_csv_number(csv, r, "samples_per_s") > mq_csv_number(csv, best, "samples_per_s")))
			best = r;
	return best;
}

/* ---- tornado --------------------------------------------------------------------------------------------- */

struct bar {
	const char *target;
	double down_pct, up_pct;
};

MQ_COMPARE(by_size, struct bar,
	   MQ_ORDER(fmax(fabs(b->down_pct), fabs(b->up_pct)), fmax(fabs(a->down_pct), fabs(a->up_pct))) ?:
		   strcmp(a->target, b->target))

/* Lists the nonzero bars of one point, largest first. */
static uint32_t find_bars(const struct mq_csv *s, const char *point, double base_s, struct bar *bar)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < s->n_rows; r++) {
		double pct = 100 * (mq_csv_number(s, r, "step_time_s") / base_s - 1);
		uint32_t i = 0;

		if (strcmp(mq_csv_word(s, r, "point"), point) || isnan(pct) || fabs(pct) < 1e-6 ||
		    !strcmp(mq_csv_word(s, r, "target"), "batch"))
			continue;
		while (i < n && strcmp(bar[i].target, mq_csv_word(s, r, "target")))
			i++;
		if (i == n)
			bar[n++] = (struct bar){ .target = mq_csv_word(s, r, "target") };
		*(mq_csv_number(s, r, "factor") < 1 ? &bar[i].down_pct : &bar[i].up_pct) = pct;
	}
	qsort(bar, n, sizeof(*bar), by_size);
	return n < MAX_TORNADO ? n : MAX_TORNADO;
}

static enum mq_status tornado(struct drawing *d)
{
	uint32_t best = mq_study_fastest(&d->csv);
	const char *path = out_of(d, "tornado.csv");
	struct mq_csv_writer w;
	struct mq_csv s;

	if (best == MQ_NONE)
		return MQ_OK;
	MQ_TRY(mq_csv_load(path_of(d, "sensitivity.csv"), d->arena, &s, d->err));
	struct bar *bar = mq_arena_array(d->arena, s.n_rows + 1, struct bar);
	uint32_t n =
		find_bars(&s, mq_csv_word(&d->csv, best, "point"), mq_csv_number(&d->csv, best, "step_time_s"), bar);
	if (!n)
		return MQ_OK;
	MQ_TRY(mq_csv_create(&w, path, "row,target,down_pct,up_pct", d->err));
	for (uint32_t i = 0; i < n; i++)
		mq_csv_row(&w, "%u,%s,%g,%g", i, bar[i].target, bar[i].down_pct, bar[i].up_pct);
	MQ_TRY(mq_csv_close(&w, d->err));
	const char *title = mq_arena_printf(d->arena, "What the step time depends on: point %s, the fastest",
					    mq_csv_word(&d->csv, best, "point"));
	return mq_draw(&d->to, &(struct mq_figure){ .name = "tornado", .title = title, .table = path }, d->err,
		       "rows=%u; step=%g", n, 100 * d->study->sensitivity);
}

/* ---- scaling ----------------------------------------------------------------------------------------------- */

static enum mq_status scaling(struct drawing *d)
{
	const char *path = path_of(d, "scaling.csv"), *names = "";
	const char *seen[MAX_SERIES];
	uint32_t n = 0;
	struct mq_csv s;

	MQ_TRY(mq_csv_load(path, d->arena, &s, d->err));
	for (uint32_t r = 0; r < s.n_rows && n < MAX_SERIES; r++) {
		uint32_t i = 0;

		while (i < n && strcmp(seen[i], mq_csv_word(&s, r, "series")))
			i++;
		if (i < n)
			continue;
		seen[n++] = mq_csv_word(&s, r, "series");
		names = mq_arena_printf(d->arena, "%s; name[%u]=%s", names, n, mq_gnuplot_quoted(d->arena, seen[i]));
	}
	if (!n || mq_study_fastest(&d->csv) == MQ_NONE)
		return MQ_OK;
	const char *title = d->study->weak ? "Weak scaling" : "Strong scaling";
	return mq_draw(&d->to, &(struct mq_figure){ .name = "scaling", .title = title, .table = path }, d->err,
		       "n=%u; limit=%g; array name[%u]%s", n, d->study->efficiency, n, names);
}

/* ---- heat map ---------------------------------------------------------------------------------------------- */

static uint32_t index_of(const struct mq_study *s, uint32_t axis, const char *value)
{
	uint32_t i = 0;

	while (i < s->axis[axis].n && strcmp(s->axis[axis].value[i], value))
		i++;
	return i;
}

/* Draws the last two axes with several values, the others fixed at the fastest point; a single axis as a line. */
static enum mq_status heat_map(struct drawing *d)
{
	const struct mq_study *s = d->study;
	uint32_t x = MQ_NONE, y = MQ_NONE, best = mq_study_fastest(&d->csv);
	const char *path = out_of(d, "heatmap.csv");
	struct mq_csv_writer w;

	for (uint32_t a = 0; a < s->n_axes; a++)
		if (s->axis[a].n > 1 && !s->axis[a].with) {
			y = x;
			x = a;
		}
	if (x == MQ_NONE || best == MQ_NONE)
		return MQ_OK;
	if (y == MQ_NONE)
		return mq_draw(&d->to,
			       &(struct mq_figure){ .name = "axis",
						    .title = mq_arena_printf(d->arena, "By %s", s->axis[x].key),
						    .table = d->csv.path },
			       d->err, "key=%s; low_ms=%g", mq_gnuplot_quoted(d->arena, s->axis[x].key),
			       1e3 * mq_csv_number(&d->csv, best, "step_time_s"));
	MQ_TRY(mq_csv_create(&w, path, "x,y,x_label,y_label,samples_per_s", d->err));
	for (uint32_t r = 0; r < d->csv.n_rows; r++) {
		const char *at_x = mq_csv_word(&d->csv, r, mq_axis_column(&s->axis[x])),
			   *at_y = mq_csv_word(&d->csv, r, mq_axis_column(&s->axis[y]));
		double rate = mq_csv_number(&d->csv, r, "samples_per_s");
		bool here = !isnan(rate);

		for (uint32_t a = 0; a < s->n_axes && here; a++)
			here = a == x || a == y || s->axis[a].n < 2 || s->axis[a].with ||
			       !strcmp(mq_csv_word(&d->csv, r, mq_axis_column(&s->axis[a])),
				       mq_csv_word(&d->csv, best, mq_axis_column(&s->axis[a])));
		if (here)
			mq_csv_row(&w, "%u,%u,%s,%s,%g", index_of(s, x, at_x), index_of(s, y, at_y), at_x, at_y, rate);
	}
	MQ_TRY(mq_csv_close(&w, d->err));
	const char *title = "Samples per second";
	for (uint32_t a = 0; a < s->n_axes; a++)
		if (a != x && a != y && s->axis[a].n > 1 && !s->axis[a].with)
			title = mq_arena_printf(d->arena, "%s, %s = %s", title, s->axis[a].key,
						mq_csv_word(&d->csv, best, mq_axis_column(&s->axis[a])));
	return mq_draw(&d->to, &(struct mq_figure){ .name = "heatmap", .title = title, .table = path }, d->err,
		       "x_name=%s; y_name=%s; nx=%u; ny=%u", mq_gnuplot_quoted(d->arena, s->axis[x].key),
		       mq_gnuplot_quoted(d->arena, s->axis[y].key), s->axis[x].n, s->axis[y].n);
}

/* ---- several jobs ------------------------------------------------------------------------------------------ */

static enum mq_status jobs(struct drawing *d)
{
	const char *path = out_of(d, "jobs_bars.csv");
	static const char *const columns[] = { "together_s", "shortest_s", "longest_s" };
	struct mq_csv_writer w;
	double pct[3];
	struct mq_csv s;

	MQ_TRY(mq_csv_load(path_of(d, "jobs.csv"), d->arena, &s, d->err));
	if (!s.n_rows)
		return MQ_OK;
	MQ_TRY(mq_csv_create(&w, path, "row,label,mean_pct,shortest_pct,longest_pct", d->err));
	for (uint32_t r = 0; r < s.n_rows && r < MAX_JOB_ROWS; r++) {
		mq_csv_put(&w, "%u,%s", r,
			   mq_arena_printf(d->arena, "point %s: %s", mq_csv_word(&s, r, "point"),
					   mq_csv_word(&s, r, "job")));
		for (int c = 0; c < 3; c++)
			pct[c] = 100 * (mq_csv_number(&s, r, columns[c]) / mq_csv_number(&s, r, "alone_s") - 1);
		mq_csv_row(&w, "%g,%g,%g", pct[0], pct[1], pct[2]);
	}
	MQ_TRY(mq_csv_close(&w, d->err));
	return mq_draw(
		&d->to,
		&(struct mq_figure){ .name = "jobs", .title = "Jobs at once: how much each is slowed", .table = path },
		d->err, "rows=%u", s.n_rows < MAX_JOB_ROWS ? s.n_rows : MAX_JOB_ROWS);
}

static enum mq_status all_figures(struct drawing *d)
{
	MQ_TRY(mq_csv_load(path_of(d, "whatif.csv"), d->arena, &d->csv, d->err));
	if (d->study->n_jobs)
		return jobs(d);
	if (d->study->sensitivity > 0)
		MQ_TRY(tornado(d));
	if (d->study->efficiency > 0)
		MQ_TRY(scaling(d));
	if (!access(path_of(d, "pareto.csv"), R_OK))
		MQ_TRY(mq_draw(&d->to,
			       &(struct mq_figure){ .name = "study_pareto",
						    .title = "Time against cost",
						    .table = path_of(d, "pareto.csv") },
			       d->err, "%s", ""));
	return heat_map(d);
}

enum mq_status mq_study_figures(const struct mq_study *study, const char *dir, const char *out, uint32_t *n,
				struct mq_err *err)
{
	struct drawing d = { .to = { .dir = dir, .out = out }, .arena = &d.to.arena, .study = study, .err = err };
	enum mq_status status = all_figures(&d);

	*n = d.to.n;
	mq_arena_fini(&d.to.arena);
	return status;
}

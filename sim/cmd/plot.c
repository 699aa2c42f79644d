/* plot.c - `maquette plot DIR`: figures (PNG and SVG) from the CSV files of a results folder, drawn by gnuplot with the
 * scripts in plots/. What the folder holds decides which figures there are. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session/pages/gnuplot.h"
#include "session/pages/page.h"
#include "study/study.h"
#include "base/csv.h"
#include "base/ini.h"
#include "maquette/rng.h"

enum { MAX_ROWS = 16, MAX_LINKS = 24, MAX_SERIES = 48 };

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct mq_drawing, field, __VA_ARGS__)
static const struct mq_arg options[] = {
	ROW(TEXT, "DIR", dir, NULL, NULL, .flags = MQ_ARG_POSITIONAL),
	ROW(TEXT, "output", out, "DIR", "folder for the figures (default: the results folder)", .letter = 'o'),
	ROW(TEXT, "title", title, "TEXT", "title of the figures (default: the model and the platform)", .letter = 't'),
	{ .type = MQ_ARG_END },
};
static const char doc[] =
	"Draws the figures of a results folder: timeline, links and memory of a simulation, convergence "
	"and step time against memory of a search, predictions against measurements of a "
	"validation or a score, tornado, scaling, cost, heat map or jobs of a study.";

/* The table DIR/NAME, or false where there is none; a broken one is an error in *status. */
static bool table(struct mq_drawing *p, const char *name, struct mq_csv *csv, enum mq_status *status,
		  struct mq_err *err)
{
	const char *path = mq_arena_printf(&p->arena, "%s/%s", p->dir, name);

	*status = MQ_OK;
	if (access(path, F_OK))
		return false;
	*status = mq_csv_load(path, &p->arena, csv, err);
	return *status == MQ_OK && csv->n_rows > 0;
}

/* ---- search: convergence, memory ---------------------------------------------------------------- */

static const char *add_word(struct mq_drawing *p, const char *list, const char *word)
{
	const char *padded = mq_arena_printf(&p->arena, " %s ", list);

	if (strstr(padded, mq_arena_printf(&p->arena, " %s ", word)))
		return list;
	return mq_arena_printf(&p->arena, "%s%s%s", list, *list ? " " : "", word);
}

struct contender {
	const char *engine;
	double best_s;
};

MQ_COMPARE(by_best, struct contender, MQ_ORDER(a->best_s, b->best_s) ?: strcmp(a->engine, b->engine))

/* Those with a feasible plan, the best first: the others have no points. */
static const char *engines_of(struct mq_drawing *p, const struct mq_csv *csv)
{
	struct contender *c = mq_arena_array(&p->arena, csv->n_rows + 1, struct contender);
	const char *list = "";
	uint32_t n = 0;

	for (uint32_t r = 0; r < csv->n_rows; r++) {
		uint32_t i = 0;

		if (!mq_verdict_runs(mq_csv_word(csv, r, "verdict")))
			continue;
		while (i < n && strcmp(c[i].engine, mq_csv_word(csv, r, "engine")))
			i++;
		if (i == n)
			c[n++] = (struct contender){ mq_csv_word(csv, r, "engine"), (double)INFINITY };
		c[i].best_s = fmin(c[i].best_s, mq_csv_number(csv, r, "step_time_s"));
	}
	qsort(c, n, sizeof(*c), by_best);
	for (uint32_t i = 0; i < n; i++)
		list = add_word(p, list, c[i].engine);
	return list;
}

MQ_COMPARE(by_memory, double, MQ_ORDER(a[0], b[0]) ?: MQ_ORDER(a[1], b[1]))

/* The plans that no other beats in both memory and time. */
static enum mq_status write_front(struct mq_drawing *p, const struct mq_csv *csv, const char *path, uint32_t *n,
				  struct mq_err *err)
{
	double(*point)[2] = mq_arena_alloc(&p->arena, sizeof(*point) * (csv->n_rows + 1));
	struct mq_csv_writer w;
	double best = (double)INFINITY;

	*n = 0;
	for (uint32_t r = 0; r < csv->n_rows; r++)
		if (mq_verdict_runs(mq_csv_word(csv, r, "verdict"))) {
			point[*n][0] = mq_csv_number(csv, r, "peak_memory_B");
			point[(*n)++][1] = mq_csv_number(csv, r, "step_time_s");
		}
	qsort(point, *n, sizeof(*point), by_memory);
	MQ_TRY(mq_csv_create(&w, path, "peak_memory_B,step_time_s", err));
	for (uint32_t i = 0; i < *n; i++)
		if (point[i][1] < best) {
			best = point[i][1];
			mq_csv_row(&w, "%g,%g", point[i][0], best);
		}
	return mq_csv_close(&w, err);
}

/* Least step time, and the largest worth showing: a plan that takes ten times as long must not flatten the rest. */
static void time_range(const struct mq_csv *csv, double *low_ms, double *high_ms)
{
	*low_ms = (double)INFINITY;
	for (uint32_t r = 0; r < csv->n_rows; r++)
		if (mq_verdict_runs(mq_csv_word(csv, r, "verdict")))
			*low_ms = fmin(*low_ms, 1e3 * mq_csv_number(csv, r, "step_time_s"));
	*high_ms = 1.2 * *low_ms;
	for (uint32_t r = 0; r < csv->n_rows; r++) {
		double t = 1e3 * mq_csv_number(csv, r, "step_time_s");

		if (mq_verdict_runs(mq_csv_word(csv, r, "verdict")) && t <= 10 * *low_ms)
			*high_ms = fmax(*high_ms, t);
	}
}

static enum mq_status plot_search(struct mq_drawing *p, struct mq_err *err)
{
	struct mq_csv csv, all;
	enum mq_status status;
	double low_ms, high_ms, limit_GB = 0; /* of the device nearest its limit; 0: evaluations.csv was not kept */
	uint32_t n;

	if (!table(p, "candidates.csv", &csv, &status, err))
		return status;
	const char *front = mq_arena_printf(&p->arena, "%s/pareto.csv", p->out);
	MQ_TRY(write_front(p, &csv, front, &n, err));
	if (!n) {
		printf("%s/candidates.csv has no feasible plan: nothing to draw\n", p->dir);
		return MQ_OK;
	}
	time_range(&csv, &low_ms, &high_ms);
	bool kept = table(p, "evaluations.csv", &all, &status, err);
	MQ_TRY(status);
	for (uint32_t r = 0; kept && r < all.n_rows; r++)
		limit_GB = fmax(limit_GB, mq_csv_number(&all, r, "memory_limit_B") / 1e9);
	for (const char *const *name = (const char *const[]){ "convergence", "memory", NULL }; *name; name++)
		MQ_TRY(mq_draw(p, &(struct mq_figure){ .name = *name, .table = csv.path }, err,
			       "engines=%s; pareto=%s; low_ms=%.9g; high_ms=%.9g; limit_GB=%.4g",
			       mq_gnuplot_quoted(&p->arena, engines_of(p, &csv)), mq_gnuplot_path(&p->arena, front),
			       low_ms, high_ms, limit_GB));
	return MQ_OK;
}

/* ---- simulation: links, timeline ---------------------------------------------------------------- */

MQ_COMPARE(by_use, double, MQ_ORDER(b[0], a[0]) ?: MQ_ORDER(a[1], b[1])) /* utilisation, row */

/* "n0nic0_UP x16": the first of n equal links; with a non-breaking blank. */
static const char *like_it(struct mq_drawing *p, const char *name, uint32_t n)
{
	return n > 1 ? mq_arena_printf(&p->arena, "%s\u00a0x%u", name, n) : name;
}

static enum mq_status plot_links(struct mq_drawing *p, struct mq_err *err)
{
	const char *names = "", *classes = "";
	struct mq_csv csv;
	struct mq_csv_writer w;
	enum mq_status status;
	uint32_t n = 0, rows = 0;

	if (!table(p, "links.csv", &csv, &status, err))
		return status;
	double(*link)[2] = mq_arena_alloc(&p->arena, sizeof(*link) * (csv.n_rows + 1));
	for (uint32_t r = 0; r < csv.n_rows; r++)
		if (mq_csv_number(&csv, r, "utilisation") > 0) {
			link[n][0] = mq_csv_number(&csv, r, "utilisation");
			link[n++][1] = r;
		}
	if (!n) {
		printf("%s/links.csv: no link carried anything\n", p->dir);
		return MQ_OK;
	}
	qsort(link, n, sizeof(*link), by_use);
	const char *file = mq_arena_printf(&p->arena, "%s/links_busiest.csv", p->out);
	MQ_TRY(mq_csv_create(&w, file, "link,class,utilisation", err));
	for (uint32_t i = 0, alike = 1; i < n && rows < MAX_LINKS; i += alike, rows++) { /* equal links share a bar */
		const char *class = mq_csv_word(&csv, (uint32_t)link[i][1], "class");

		alike = 1;
		while (i + alike < n && link[i + alike][0] == link[i][0] &&
		       !strcmp(mq_csv_word(&csv, (uint32_t)link[i + alike][1], "class"), class))
			alike++;
		const char *name = like_it(p, mq_csv_word(&csv, (uint32_t)link[i][1], "link"), alike);
		names = add_word(p, names, name);
		classes = add_word(p, classes, class);
		mq_csv_row(&w, "%s,%s,%g", name, class, link[i][0]);
	}
	MQ_TRY(mq_csv_close(&w, err));
	return mq_draw(p, &(struct mq_figure){ .name = "links", .table = file }, err, "rows=%u; names=%s; classes=%s",
		       rows, mq_gnuplot_quoted(&p->arena, names), mq_gnuplot_quoted(&p->arena, classes));
}

/* The class of a task, for its colour; timeline.gp has the labels. */
static int task_class(const char *kind, const char *stream, const char *phase)
{
	if (!strcmp(kind, "send") || !strcmp(kind, "recv"))
		return 6;
	if (!strcmp(kind, "copy"))
		return 7;
	if (!strcmp(kind, "compute"))
		return !strcmp(phase, "backward") ? 1 : !strcmp(phase, "update") ? 3 : 0;
	return !strcmp(stream, "grad") ? 5 : 4;
}

/* A device and the following ones with the same tasks at the same times. */
struct band {
	const char *device;
	uint64_t does; /* hash of its tasks */
	uint32_t n, row;
};

/* Devices in order of appearance; `of` says which is a row's. */
static uint32_t find_bands(struct mq_drawing *p, const struct mq_csv *csv, struct band **band, uint32_t *of)
{
	struct band *b = *band = mq_arena_array(&p->arena, csv->n_rows, struct band);
	uint32_t n = 0, rows = 0;

	for (uint32_t r = 0; r < csv->n_rows; r++) {
		const char *device = mq_csv_word(csv, r, "device");
		const double when[2] = { mq_csv_number(csv, r, "start_s"), mq_csv_number(csv, r, "finish_s") };

		for (of[r] = 0; of[r] < n && strcmp(b[of[r]].device, device) != 0; of[r]++)
			continue;
		if (of[r] == n)
			b[n++] = (struct band){ .device = device };
		b[of[r]].does = mq_hash(b[of[r]].does, when, sizeof(when));
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = 0;

		while (b[k].does != b[i].does)
			k++;
		b[k].n++;
		b[i].row = k == i ? rows++ : b[k].row;
	}
	return n;
}

struct bands {
	double last_ms;
	bool has[8]; /* by class */
};

static enum mq_status write_bands(const struct mq_csv *csv, const struct mq_csv *tasks, const char *path,
				  const struct band *band, const uint32_t *of, struct bands *bands, struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_csv_create(&w, path, "row,lane,start_ms,finish_ms,class", err));
	for (uint32_t r = 0; r < csv->n_rows; r++) {
		const char *stream = mq_csv_word(csv, r, "stream");
		double finish_ms = 1e3 * mq_csv_number(csv, r, "finish_s");

		bands->last_ms = fmax(bands->last_ms, finish_ms);
		if (!band[of[r]].n || band[of[r]].row >= MAX_ROWS)
			continue;
		int class =
			task_class(mq_csv_word(csv, r, "kind"), stream, tasks ? mq_csv_word(tasks, r, "phase") : "");

		bands->has[class] = true;
		mq_csv_row(&w, "%u,%u,%g,%g,%u", band[of[r]].row, mq_page_lane(stream),
			   1e3 * mq_csv_number(csv, r, "start_s"), finish_ms, (unsigned)class);
	}
	return mq_csv_close(&w, err);
}

static enum mq_status plot_timeline(struct mq_drawing *p, struct mq_err *err)
{
	struct mq_csv csv, tasks;
	const char *names = "", *classes = "";
	struct bands bands = { 0 };
	struct band *band;
	uint32_t rows = 0;
	enum mq_status status;

	if (!table(p, "timeline.csv", &csv, &status, err))
		return status;
	bool have_tasks = table(p, "tasks.csv", &tasks, &status, err);
	MQ_TRY(status);
	if (have_tasks && tasks.n_rows != csv.n_rows)
		have_tasks = false; /* tasks of another run, or samples: phases are unknown */
	uint32_t *of = mq_arena_array(&p->arena, csv.n_rows, uint32_t), n = find_bands(p, &csv, &band, of);
	for (uint32_t i = 0; i < n && rows < MAX_ROWS; i++)
		if (band[i].n)
			names = mq_arena_printf(&p->arena, "%s%s%s", names, rows++ ? " " : "",
						like_it(p, band[i].device, band[i].n));
	const char *file = mq_arena_printf(&p->arena, "%s/timeline_bands.csv", p->out);
	MQ_TRY(write_bands(&csv, have_tasks ? &tasks : NULL, file, band, of, &bands, err));
	for (int c = 0; c < 8; c++)
		if (bands.has[c])
			classes = mq_arena_printf(&p->arena, "%s%s%d", classes, *classes ? " " : "", c);
	return mq_draw(p, &(struct mq_figure){ .name = "timeline", .table = file }, err,
		       "rows=%u; names=%s; last_ms=%.9g; classes='%s'", rows, mq_gnuplot_quoted(&p->arena, names),
		       bands.last_ms, classes);
}

/* ---- simulation: memory ---------------------------------------------------------------------------- */

static enum mq_status plot_memory_timeline(struct mq_drawing *p, struct mq_err *err)
{
	static const char *const purposes[] = { "parameter_B", "gradient_B", "optimizer_B", "activation_B",
						"buffer_B" };
	struct mq_csv csv;
	enum mq_status status;
	double peak_B = 0, event = 0, top_B = 0, reserve_B, limit_B;

	if (!table(p, "memory_timeline.csv", &csv, &status, err))
		return status;
	for (uint32_t r = 0; r < csv.n_rows; r++) {
		double live_B = 0;

		for (size_t i = 0; i < sizeof(purposes) / sizeof(*purposes); i++)
			live_B += mq_csv_number(&csv, r, purposes[i]);
		event = live_B > peak_B ? mq_csv_number(&csv, r, "event") : event;
		peak_B = fmax(peak_B, live_B);
		top_B = fmax(top_B, mq_csv_number(&csv, r, "reserved_B"));
	}
	reserve_B = mq_csv_number(&csv, 0, "reserve_B");
	limit_B = mq_csv_number(&csv, 0, "limit_B");
	/* A folder with both a search and a simulation has both memory figures. */
	bool both = !access(mq_arena_printf(&p->arena, "%s/candidates.csv", p->dir), F_OK);
	return mq_draw(p,
		       &(struct mq_figure){ .name = both ? "memory_timeline" : "memory",
					    .script = "memory_timeline",
					    .table = csv.path },
		       err, "events=%.9g; peak=%.9g; peak_GB=%.9g; peak_top=%.9g; top_GB=%.9g; limit_GB=%.9g",
		       mq_csv_number(&csv, csv.n_rows - 1, "event"), event, peak_B / 1e9, (peak_B + reserve_B) / 1e9,
		       (top_B + reserve_B) / 1e9, limit_B / 1e9);
}

/* ---- validation: predicted against measured ------------------------------------------------------ */

/* Times of plans, or of the classes of a step (`validate --against`). */
static enum mq_status plot_measured(struct mq_drawing *p, const char *name, const char *from, struct mq_err *err)
{
	struct mq_csv csv;
	enum mq_status status;

	if (!table(p, from, &csv, &status, err))
		return status;
	return mq_draw(p, &(struct mq_figure){ .name = name, .table = csv.path }, err, "rows=%u", csv.n_rows);
}

/* ---- score: predictions against tables of measurements ------------------------------------------- */

/* The table of a row: its column, or the part of its name before ':' or '-'. */
static const char *series_of(struct mq_drawing *p, const struct mq_csv *csv, uint32_t row)
{
	const char *id = mq_csv_word(csv, row, "row_id"), *table_name = mq_csv_word(csv, row, "table");

	return *table_name ? table_name : mq_arena_printf(&p->arena, "%.*s", (int)strcspn(id, ":-"), id);
}

struct points {
	const char *name[MAX_SERIES];
	double error[MAX_SERIES]; /* sum of |error| */
	uint32_t count[MAX_SERIES];
	uint32_t n;
	double low, high;
};

/* The measured value; a condensed table has prediction and error instead. */
static double measured_of(const struct mq_csv *csv, uint32_t row, const char *predicted, const char *measured)
{
	if (mq_csv_column(csv, measured) != UINT32_MAX)
		return mq_csv_number(csv, row, measured);
	return strcmp(predicted, "predicted_s") ?
		       (double)NAN :
		       mq_csv_number(csv, row, predicted) / (1 + mq_csv_number(csv, row, "error"));
}

static uint32_t find_series(struct points *s, const char *name)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (!strcmp(s->name[i], name))
			return i;
	if (s->n == MAX_SERIES)
		return s->n - 1;
	s->name[s->n] = s->n < MAX_SERIES - 1 ? name : "others";
	return s->n++;
}

static void write_points(struct mq_drawing *p, const struct mq_csv *csv, const char *predicted, const char *measured,
			 struct mq_csv_writer *w, struct points *s)
{
	for (uint32_t r = 0; r < csv->n_rows; r++) {
		double said = mq_csv_number(csv, r, predicted);
		double seen = measured_of(csv, r, predicted, measured);

		if (!(said > 0 && seen > 0))
			continue;
		uint32_t i = find_series(s, series_of(p, csv, r));
		s->error[i] += fabs(said / seen - 1);
		s->count[i]++;
		s->low = fmin(s->low, fmin(said, seen));
		s->high = fmax(s->high, fmax(said, seen));
		mq_csv_row(w, "%u,%g,%g", i, seen, said);
	}
}

/* A figure of two columns of score.csv, if any row has both. */
static enum mq_status score_figure(struct mq_drawing *p, const struct mq_csv *csv, const char *name,
				   const char *const column[2], const char *unit, struct mq_err *err)
{
	const char *file = mq_arena_printf(&p->arena, "%s/%s_points.csv", p->out, name), *names = "";
	struct points s = { .low = (double)INFINITY };
	struct mq_csv_writer w;

	MQ_TRY(mq_csv_create(&w, file, "series,measured,predicted", err));
	write_points(p, csv, column[0], column[1], &w, &s);
	MQ_TRY(mq_csv_close(&w, err));
	if (!s.n) {
		unlink(file);
		return MQ_OK;
	}
	for (uint32_t i = 0; i < s.n; i++)
		names = mq_arena_printf(&p->arena, "%s\"%s: %u rows, %.1f %%\" ", names, s.name[i], s.count[i],
					100 * s.error[i] / s.count[i]);
	return mq_draw(p, &(struct mq_figure){ .name = name, .script = "score", .table = file }, err,
		       "series=%u; names=%s; low=%.9g; high=%.9g; unit='%s'", s.n, mq_gnuplot_quoted(&p->arena, names),
		       s.low, s.high, unit);
}

static enum mq_status plot_score(struct mq_drawing *p, struct mq_err *err)
{
	static const char *const seconds[2] = { "predicted_s", "measured_s" };
	static const char *const memory[2] = { "predicted_mem_GB", "measured_mem_GB" };
	struct mq_csv csv;
	enum mq_status status;

	if (!table(p, "score.csv", &csv, &status, err))
		return status;
	MQ_TRY(score_figure(p, &csv, "score", seconds, "s", err));
	return score_figure(p, &csv, "score_memory", memory, "GB", err);
}

/* ---- studies ------------------------------------------------------------------------------------- */

static enum mq_status plot_study(struct mq_drawing *p, struct mq_err *err)
{
	const char *file = mq_arena_printf(&p->arena, "%s/study.ini", p->dir);
	struct mq_study study;
	struct mq_csv csv;
	enum mq_status status;
	uint32_t n;

	if (!table(p, "whatif.csv", &csv, &status, err))
		return status;
	MQ_TRY(mq_study_load(file, true, &p->arena, &study, err));
	MQ_TRY(mq_study_figures(&study, p->dir, p->out, &n, err));
	p->n += n;
	printf("%u figures of the study in %s\n", n, p->out);
	return MQ_OK;
}

/* ---- the command -------------------------------------------------------------------------------- */

struct asked {
	const char *model, *platform;
};

static enum mq_status take_asked(void *context, const struct mq_ini_item *item, struct mq_err *err)
{
	struct asked *asked = context;

	(void)err;
	if (!strcmp(item->key, "model"))
		asked->model = item->value;
	if (!strcmp(item->key, "platform"))
		asked->platform = item->value;
	return MQ_OK;
}

/* "gpt:layers=24 on cloud_v100_t4" from the folder's job file. */
static const char *title_of(struct mq_drawing *p)
{
	const char *path = mq_arena_printf(&p->arena, "%s/run.ini", p->dir), *slash;
	struct asked asked = { "", "" };
	struct mq_err lost;

	if (access(path, R_OK) || mq_ini_read(path, &p->arena, take_asked, &asked, &lost) != MQ_OK)
		return "";
	slash = strrchr(asked.platform, '/');
	const char *base = slash ? slash + 1 : asked.platform;
	slash = strrchr(asked.model, '/');
	return mq_arena_printf(&p->arena, "%s on %.*s", slash ? slash + 1 : asked.model, (int)strcspn(base, "."), base);
}

static enum mq_status plot_all(struct mq_drawing *p, struct mq_err *err)
{
	if (access(p->dir, R_OK | X_OK))
		return mq_bad(err, "%s: cannot open the results folder: %s", p->dir, strerror(errno));
	p->out = p->out ? p->out : p->dir;
	p->title = p->title ? p->title : title_of(p);
	MQ_TRY(mq_make_dir(p->out, err));
	MQ_TRY(plot_timeline(p, err));
	MQ_TRY(plot_memory_timeline(p, err));
	MQ_TRY(plot_links(p, err));
	MQ_TRY(plot_search(p, err));
	MQ_TRY(plot_measured(p, "validate", "plans.csv", err));
	MQ_TRY(plot_measured(p, "against", "against.csv", err));
	MQ_TRY(plot_score(p, err));
	MQ_TRY(plot_study(p, err));
	if (!p->n)
		return mq_bad(err,
			      "%s: nothing to draw; a results folder of `search`, `simulate`, "
			      "`validate`, `score` or `whatif` has candidates.csv, timeline.csv, "
			      "plans.csv, against.csv, score.csv or whatif.csv",
			      p->dir);
	return MQ_OK;
}

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	struct mq_drawing p = { .arena = MQ_ARENA_INIT, .says = true };
	const struct mq_args args = { .table = { { options, &p } }, .args_doc = "DIR", .doc = doc };

	MQ_TRY(mq_args_parse(&args, argc, argv, err));
	if (!p.dir)
		return mq_bad(err, "give a results folder: maquette plot DIR");
	enum mq_status status = plot_all(&p, err);
	mq_arena_fini(&p.arena);
	return status;
}

MQ_DEFINE_COMMAND(plot, "figures (PNG, SVG) of a results folder");

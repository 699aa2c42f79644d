/* rows.c - reading a table of measured runs, see row.h. SPDX-License-Identifier: Apache-2.0 */
#include "score/row.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

struct column {
	const char *name;
	size_t offset;
	bool number;
};

/* clang-format off */
#define TEXT(name)            { #name, offsetof(struct mq_run, name), false }
#define TEXT_AS(name, field)   { name, offsetof(struct mq_run, field), false }
#define NUMBER(name)          { #name, offsetof(struct mq_run, name), true }
#define NUMBER_AS(name, field) { name, offsetof(struct mq_run, field), true }
static const struct column columns[] = {
	TEXT_AS("row_id", id), TEXT(model), TEXT(model_spec), TEXT(mode), TEXT(gpu), TEXT(platform), TEXT(change),
	TEXT(software), TEXT_AS("software_options", options), TEXT(precision), TEXT_AS("train", tuning), TEXT(zero),
	TEXT(stage_layers), TEXT(placement), TEXT(schedule), TEXT(recompute), TEXT(unit), TEXT(status), TEXT(provenance), TEXT(source),
	TEXT(memory_basis), TEXT(memory_rank),
	NUMBER(params_b), NUMBER(layers), NUMBER(hidden), NUMBER(ffn), NUMBER(heads), NUMBER(kv_heads), NUMBER(seq),
	NUMBER(vocab), NUMBER(gpus), NUMBER(gpus_per_node), NUMBER(nodes), NUMBER(tp), NUMBER(pp), NUMBER(dp),
	NUMBER(vp), NUMBER(cp), NUMBER(ulysses), NUMBER(ep), NUMBER(mbs), NUMBER(gbs), NUMBER_AS("grad_accum", accum),
	NUMBER(value), NUMBER(step_time_s), NUMBER_AS("max_mem_gb", max_mem_GB),
};
/* Columns for readers of the table, not used here. */
static const char told[] = "metric step_time_basis locator notes";
/* clang-format on */

enum {
	N_COLUMNS = sizeof(columns) / sizeof(columns[0]),
	MOST_ROWS = 20000, /* rows are compared pairwise */
};

/* Does a row have it? */
static bool is_own(const char *name)
{
	for (int i = 0; i < N_COLUMNS; i++)
		if (!strcmp(columns[i].name, name))
			return true;
	return false;
}

/* An unread column of the table with a similar name; NULL = none. */
static const char *near_column(const struct mq_csv *csv, const char *name)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	const char **names = mq_arena_array(&scratch, csv->n_columns + 1, const char *);
	uint32_t n = 0;

	for (uint32_t c = 0; c < csv->n_columns; c++)
		if (!is_own(csv->header[c]) && mq_software_field_find(csv->header[c]) == UINT32_MAX &&
		    !mq_text_has_word(told, csv->header[c]))
			names[n++] = csv->header[c];
	return mq_nearest(name, names);
}

const char *mq_runs_unread(const struct mq_csv *csv, struct mq_arena *arena)
{
	const char *text = NULL, *near;

	for (int i = 0; i < N_COLUMNS; i++)
		if (mq_csv_column(csv, columns[i].name) == UINT32_MAX && (near = near_column(csv, columns[i].name)))
			text = mq_arena_printf(arena, "%s%s%s (did you mean %s?)", text ? text : "", text ? ", " : "",
					       near, columns[i].name);
	return text;
}

enum mq_status mq_run_lacks(const struct mq_run *r, const char *column, const char *remedy, struct mq_err *err)
{
	const char *near = r->table ? near_column(r->table, column) : NULL;

	if (r->table && mq_csv_column(r->table, column) != UINT32_MAX)
		return mq_bad(err, "no %s: the cell is empty; %s", column, remedy);
	return mq_bad(err, "no column '%s'%s%s%s; %s", column, near ? " (is it '" : "", near ? near : "",
		      near ? "'?)" : "", remedy);
}

enum mq_status mq_run_unknown(const char *column, const char *cell, const char *const *names, struct mq_err *err)
{
	const char *near = mq_nearest(cell, names);

	return mq_bad(err, "%s '%s' is not known; %s%s%s", column, cell,
		      near ? "did you mean '" : "results/published/README.md has the words", near ? near : "",
		      near ? "'?" : "");
}

/* Also reads "250k", as a number of tokens. */
static bool read_count(const char *text, double *value)
{
	char k = 0, rest = 0;
	int n = sscanf(text, "%lf%c%c", value, &k, &rest);

	if (n == 2 && k == 'k')
		*value *= 1000;
	return n == 1 || (n == 2 && k == 'k');
}

static void read_cell(const struct mq_csv *csv, uint32_t row, const struct column *c, struct mq_run *run,
		      struct mq_arena *arena)
{
	const char *text = mq_csv_text(csv, row, mq_csv_column(csv, c->name));
	double *x = (double *)(void *)((char *)run + c->offset);

	if (!c->number) {
		*(const char **)(void *)((char *)run + c->offset) = text;
		return;
	}
	*x = NAN;
	if (!*text || (read_count(text, x) && isfinite(*x) && *x >= 0))
		return;
	*x = NAN; /* a partial number is no number */
	run->bad = mq_arena_printf(arena, "%s%s%s '%.60s' is not a number of at least 0", run->bad ? run->bad : "",
				   run->bad ? "; " : "", c->name, text);
}

/* Columns named after software fields: appends "key=value" to software_options. */
static void read_fields(const struct mq_csv *csv, uint32_t row, struct mq_run *run, struct mq_arena *arena)
{
	for (uint32_t c = 0; c < csv->n_columns; c++) {
		const char *value = mq_csv_text(csv, row, c), *name = csv->header[c];

		if (*value && !is_own(name) && mq_software_field_find(name) != UINT32_MAX)
			run->options = mq_arena_printf(arena, "%s%s%s=%s", run->options, *run->options ? ";" : "", name,
						       value);
	}
}

/* The path of a model file: as for -m, or beside the table. */
static const char *model_file(const char *model, const char *table, struct mq_arena *arena)
{
	int folder = (int)(basename(table) - table);
	const char *beside = mq_arena_printf(arena, "%.*s%s", folder, table, model);

	return *model && access(model, R_OK) && !access(beside, R_OK) ? beside : model;
}

/* Samples or tokens per second of all devices; 0: another unit. */
static double per_second(const struct mq_run *r, bool *tokens)
{
	static const char *const samples[] = { "seq", "sample", "sentence", "im", NULL };
	double each = strcasestr(r->unit, "/gpu") ? r->gpus : 1;
	bool known = *tokens = !strncasecmp(r->unit, "tok", 3);

	for (const char *const *word = samples; *word; word++)
		known |= !strncasecmp(r->unit, *word, strlen(*word));
	return known && strstr(r->unit, "/s") ? r->value * each : 0;
}

static enum mq_status check_table(const struct mq_csv *csv, struct mq_err *err)
{
	static const char *const needed[] = { "model", "gpu", "gpus", "gbs" };

	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++) {
		const char *near = near_column(csv, needed[i]);

		if (mq_csv_column(csv, needed[i]) == UINT32_MAX)
			return mq_bad(err,
				      "%s: no column '%s'%s%s%s; a table of runs has at least model, gpu, gpus, gbs "
				      "and step_time_s",
				      csv->path, needed[i], near ? ", but '" : "", near ? near : "", near ? "'" : "");
	}
	if (mq_csv_column(csv, "mem_basis") != UINT32_MAX)
		return mq_bad(err, "%s: column 'mem_basis' is now memory_basis, its 'first' memory_rank", csv->path);
	if (!csv->n_rows)
		return mq_bad(err, "%s: a header and no rows; write a row per run", csv->path);
	if (csv->n_rows > MOST_ROWS)
		return mq_bad(err, "%s: %u rows; at most %d, divide the table", csv->path, csv->n_rows, MOST_ROWS);
	return MQ_OK;
}

enum mq_status mq_runs_load(const char *path, struct mq_arena *arena, struct mq_run **runs, uint32_t *n,
			    struct mq_err *err)
{
	struct mq_csv *csv = mq_arena_array(arena, 1, struct mq_csv);
	bool tokens;

	MQ_TRY(mq_csv_load(path, arena, csv, err));
	MQ_TRY(check_table(csv, err));
	*n = csv->n_rows;
	*runs = mq_arena_array(arena, csv->n_rows, struct mq_run);
	for (uint32_t r = 0; r < csv->n_rows; r++) {
		struct mq_run *run = &(*runs)[r];

		run->table = csv;
		run->line = csv->line[r];
		for (int i = 0; i < N_COLUMNS; i++)
			read_cell(csv, r, &columns[i], run, arena);
		read_fields(csv, r, run, arena);
		run->model = model_file(run->model, path, arena);
		if (!*run->id)
			run->id = mq_arena_printf(arena, "row-%u", r + 1);
		double rate = per_second(run, &tokens);
		if (isnan(run->step_time_s) && rate > 0)
			run->step_time_s = run->gbs * (tokens ? run->seq : 1) / rate;
	}
	return MQ_OK;
}

const char *mq_run_group(const struct mq_case *c, struct mq_arena *arena)
{
	const struct mq_run *r = c->run;

	return mq_arena_printf(arena, "%s|%g|%g|%g|%g|%g|%s|%g|%s|%s|%g|%s", r->model, r->layers, r->hidden, r->heads,
			       r->seq, r->vocab, r->gpu, r->gpus, c->links ? c->links : "", r->precision, r->gbs,
			       r->tuning);
}

void mq_case_assume(struct mq_case *c, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	c->assumed =
		c->assumed ? mq_arena_printf(c->arena, "%s; %s", c->assumed, text) : mq_arena_strdup(c->arena, text);
}

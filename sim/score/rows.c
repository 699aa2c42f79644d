/*
 * rows.c - reading a table of measured runs, see row.h.
 */
#include "score/row.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct text_column {
	const char *name;
	size_t offset;
};

#define TEXT(name, field)                            \
	{                                            \
		name, offsetof(struct mq_run, field) \
	}
static const struct text_column text_columns[] = {
	TEXT("row_id", id),
	TEXT("model", model),
	TEXT("gpu", gpu),
	TEXT("intra_link", intra),
	TEXT("inter_link", inter),
	TEXT("precision", precision),
	TEXT("zero", zero),
	TEXT("mem_basis", mem_basis),
	TEXT("stage_layers", stage_layers),
	TEXT("placement", placement),
	TEXT("schedule", schedule),
	TEXT("recompute", recompute),
	TEXT("metric", metric),
	TEXT("unit", unit),
	TEXT("step_time_basis", basis),
	TEXT("status", status),
	TEXT("source", source),
	TEXT("provenance", provenance),
	TEXT("notes", notes),
	TEXT("locator", locator),
	TEXT("software", software),
	TEXT("software_options", options),
	TEXT("platform", platform),
};

static const struct text_column number_columns[] = {
	TEXT("params_b", params_b),
	TEXT("layers", layers),
	TEXT("hidden", hidden),
	TEXT("ffn", ffn),
	TEXT("heads", heads),
	TEXT("kv_heads", kv_heads),
	TEXT("seq", seq),
	TEXT("gpus", gpus),
	TEXT("gpus_per_node", gpus_per_node),
	TEXT("nodes", nodes),
	TEXT("tp", tp),
	TEXT("pp", pp),
	TEXT("dp", dp),
	TEXT("vp", vp),
	TEXT("cp", cp),
	TEXT("ep", ep),
	TEXT("mbs", mbs),
	TEXT("gbs", gbs),
	TEXT("grad_accum", accum),
	TEXT("value", value),
	TEXT("step_time_s", step_time_s),
	TEXT("max_mem_gb", max_mem_GB),
};
#undef TEXT

enum {
	N_TEXTS = sizeof(text_columns) / sizeof(text_columns[0]),
	MOST_ROWS = 20000, /* they are compared with each other */
	N_NUMBERS = sizeof(number_columns) / sizeof(number_columns[0])
};

/* "250k" is a number of tokens too. */
static bool read_count(const char *text, double *value)
{
	char k = 0, rest = 0;
	int n = sscanf(text, "%lf%c%c", value, &k, &rest);

	if (!*text) {
		*value = NAN;
		return true;
	}
	if (n == 2 && k == 'k')
		*value *= 1000;
	return (n == 1 || (n == 2 && k == 'k')) && isfinite(*value) && *value > 0;
}

static const char **text_at(struct mq_run *run, int i)
{
	return (const char **)(void *)((char *)run + text_columns[i].offset);
}

static double *number_at(struct mq_run *run, int i)
{
	return (double *)(void *)((char *)run + number_columns[i].offset);
}

bool mq_run_put(struct mq_run *run, const char *column, const char *value, bool force, struct mq_arena *arena)
{
	for (int i = 0; i < N_TEXTS; i++)
		if (!strcmp(text_columns[i].name, column)) {
			if (force || !**text_at(run, i))
				*text_at(run, i) = value;
			return true;
		}
	for (int i = 0; i < N_NUMBERS; i++)
		if (!strcmp(number_columns[i].name, column)) {
			if (force || isnan(*number_at(run, i)))
				*number_at(run, i) = strtod(value, NULL);
			return true;
		}
	if (!strcmp(column, "vocab")) {
		if (force || isnan(run->vocab))
			read_count(value, &run->vocab);
		return true;
	}
	if (mq_software_field_find(column) == UINT32_MAX)
		return false;
	run->options = mq_arena_printf(arena, "%s%s%s=%s", run->options, *run->options ? ";" : "", column, value);
	return true;
}

/* Columns that a software has as fields, and the row as nothing else. */
static void read_fields(const struct mq_csv *csv, uint32_t row, struct mq_run *run, struct mq_arena *arena)
{
	for (uint32_t c = 0; c < csv->n_columns; c++) {
		const char *value = mq_csv_text(csv, row, c);
		bool own = false;

		for (int i = 0; i < N_TEXTS; i++)
			own |= !strcmp(text_columns[i].name, csv->header[c]);
		if (*value && !own && mq_software_field_find(csv->header[c]) != UINT32_MAX)
			mq_run_put(run, csv->header[c], value, true, arena);
	}
}

static enum mq_status read_run(const struct mq_csv *csv, uint32_t row, const uint32_t column[N_TEXTS + N_NUMBERS],
			       struct mq_run *run, struct mq_err *err)
{
	uint32_t vocab = mq_csv_column(csv, "vocab");

	run->line = csv->line[row];
	for (int i = 0; i < N_TEXTS; i++)
		*text_at(run, i) = mq_csv_text(csv, row, column[i]);
	for (int i = 0; i < N_NUMBERS; i++) {
		double *x = number_at(run, i);

		if (!mq_csv_f64(csv, row, column[N_TEXTS + i], NAN, x) || isinf(*x) || *x < 0)
			return mq_fail(err, MQ_EINPUT, "%s:%u: %s '%s' is not a number", csv->path, run->line,
				       number_columns[i].name, mq_csv_text(csv, row, column[N_TEXTS + i]));
	}
	if (!read_count(mq_csv_text(csv, row, vocab), &run->vocab))
		return mq_fail(err, MQ_EINPUT, "%s:%u: vocab '%s' is not a number", csv->path, run->line,
			       mq_csv_text(csv, row, vocab));
	return MQ_OK;
}

/* A model that is a file: as -m would find it, or beside the table. */
static const char *model_file(const char *model, const char *table, struct mq_arena *arena)
{
	const char *slash = strrchr(table, '/');

	if (!*model || !access(model, R_OK) || !slash)
		return model;
	const char *beside = mq_arena_printf(arena, "%.*s/%s", (int)(slash - table), table, model);
	return access(beside, R_OK) ? model : beside;
}

enum mq_status mq_runs_load(const char *path, struct mq_arena *arena, struct mq_run **runs, uint32_t *n,
			    struct mq_err *err)
{
	static const char *const needed[] = { "model", "gpu", "gpus", "gbs", NULL };
	uint32_t column[N_TEXTS + N_NUMBERS];
	struct mq_csv csv;

	MQ_TRY(mq_csv_load(path, arena, &csv, err));
	for (const char *const *name = needed; *name; name++)
		if (mq_csv_column(&csv, *name) == UINT32_MAX)
			return mq_fail(err, MQ_EINPUT,
				       "%s: no column '%s'; a table of runs has at "
				       "least model, gpu, gpus, gbs and step_time_s",
				       path, *name);
	for (int i = 0; i < N_TEXTS; i++)
		column[i] = mq_csv_column(&csv, text_columns[i].name);
	for (int i = 0; i < N_NUMBERS; i++)
		column[N_TEXTS + i] = mq_csv_column(&csv, number_columns[i].name);
	if (csv.n_rows > MOST_ROWS)
		return mq_fail(err, MQ_EINPUT, "%s: %u rows; at most %d, divide the table", path, csv.n_rows,
			       MOST_ROWS);
	*n = csv.n_rows;
	*runs = mq_arena_array(arena, csv.n_rows, struct mq_run);
	for (uint32_t r = 0; r < csv.n_rows; r++) {
		MQ_TRY(read_run(&csv, r, column, &(*runs)[r], err));
		read_fields(&csv, r, &(*runs)[r], arena);
		(*runs)[r].model = model_file((*runs)[r].model, path, arena);
		(*runs)[r].open_batches =
			mq_csv_column(&csv, "mbs") != UINT32_MAX || mq_csv_column(&csv, "grad_accum") != UINT32_MAX;
		if (!*(*runs)[r].id)
			(*runs)[r].id = mq_arena_printf(arena, "row-%u", r + 1);
	}
	return MQ_OK;
}

const char *mq_run_group(const struct mq_case *c, struct mq_arena *arena)
{
	const struct mq_run *r = c->run;

	return mq_arena_printf(arena, "%s|%g|%g|%g|%g|%g|%s|%g|%s|%s|%s|%g", r->model, r->layers, r->hidden, r->heads,
			       r->seq, r->vocab, r->gpu, r->gpus, r->inter, c->system.name, r->precision, r->gbs);
}

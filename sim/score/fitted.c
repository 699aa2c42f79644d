/* fitted.c - see fitted.h. SPDX-License-Identifier: Apache-2.0 */
#include "score/fitted.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/quantity.h"

static const char constant_prefix[] = "constant:";

/* The substitute of a value: a number, or another value. */
static enum mq_status find_stand_in(const struct mq_score_options *o, const struct mq_ledger *ledger,
				    struct mq_fitted *f, struct mq_err *err)
{
	const char *path = *f->models ? ledger->parts_path : ledger->path;
	struct mq_score_knob other;

	f->stand_in = NAN;
	if (!*f->without)
		return MQ_OK;
	if (mq_parse_f64(f->without, &f->stand_in)) {
		if (f->stand_in >= f->knob.min && f->stand_in <= f->knob.max)
			return MQ_OK;
		return mq_bad(err, "%s:%u: without '%s': give a number from %g to %g, or the name of another value",
			      path, f->line, f->without, f->knob.min, f->knob.max);
	}
	if (mq_score_knob_find(o, f->without, &other, err))
		return mq_wrap(err, "%s:%u: ", path, f->line);
	f->stand_in = other.value;
	for (uint32_t i = 0; i < ledger->n; i++)
		if (!strcmp(ledger->line[i].value, f->without) && !strcmp(ledger->line[i].tables, f->tables) &&
		    !strcmp(ledger->line[i].models, f->models))
			return mq_bad(err, "%s:%u: %s rests on %s, too: it cannot stand in for %s", path, f->line,
				      f->without, f->tables, f->value);
	return MQ_OK;
}

static enum mq_status read_line(const struct mq_score_options *o, const struct mq_csv *csv, uint32_t row,
				struct mq_fitted *f, struct mq_err *err)
{
	*f = (struct mq_fitted){ .value = mq_csv_word(csv, row, "value"),
				 .tables = mq_csv_word(csv, row, "tables"),
				 .without = mq_csv_word(csv, row, "without"),
				 .models = mq_csv_word(csv, row, "models"),
				 .line = csv->line[row] };
	f->constant = !strncmp(f->value, constant_prefix, strlen(constant_prefix));
	if (!*f->tables)
		return mq_bad(err, "%s:%u: '%s' rests on no table; name them in 'tables'", csv->path, f->line,
			      f->value);
	if (!f->constant && mq_score_knob_find(o, f->value, &f->knob, err))
		return mq_wrap(err, "%s:%u: ", csv->path, f->line);
	return MQ_OK;
}

static enum mq_status read_lines(const struct mq_score_options *o, const struct mq_csv *csv, struct mq_ledger *ledger,
				 struct mq_err *err)
{
	for (uint32_t r = 0; r < csv->n_rows; r++) {
		bool known = false;

		MQ_TRY(read_line(o, csv, r, &ledger->line[ledger->n], err));
		for (uint32_t k = 0; k < ledger->n; k++)
			known |= !strcmp(ledger->line[k].value, ledger->line[ledger->n].value);
		ledger->n_values += !known;
		ledger->n++;
	}
	return MQ_OK;
}

enum mq_status mq_ledger_load(const struct mq_score_options *o, struct mq_ledger *ledger, struct mq_err *err)
{
	const char *parts_path = mq_arena_printf(o->arena, "%s/fitted-models.csv", o->platforms);
	struct mq_csv csv, parts = { .n_rows = 0 };

	MQ_TRY(mq_csv_load(mq_arena_printf(o->arena, "%s/fitted.csv", o->platforms), o->arena, &csv, err));
	if (!access(parts_path, F_OK))
		MQ_TRY(mq_csv_load(parts_path, o->arena, &parts, err));
	*ledger = (struct mq_ledger){ .path = csv.path,
				      .parts_path = parts_path,
				      .line = mq_arena_array(o->arena, csv.n_rows + parts.n_rows, struct mq_fitted) };
	MQ_TRY(read_lines(o, &csv, ledger, err));
	MQ_TRY(read_lines(o, &parts, ledger, err));
	for (uint32_t i = 0; i < ledger->n; i++)
		MQ_TRY(find_stand_in(o, ledger, &ledger->line[i], err));
	return MQ_OK;
}

const char *mq_ledger_part(const struct mq_ledger *ledger, uint32_t i, const char *table)
{
	const struct mq_fitted *f = &ledger->line[i];

	if (!*f->models || !mq_pattern_fits(f->tables, table))
		return NULL;
	for (uint32_t k = 0; k < i; k++)
		if (!strcmp(ledger->line[k].models, f->models) && mq_pattern_fits(ledger->line[k].tables, table))
			return NULL;
	return f->models;
}

enum mq_status mq_ledger_without(const struct mq_ledger *ledger, const char *table, const char *models,
				 struct mq_arena *arena, struct mq_list *stand_in, struct mq_err *err)
{
	for (uint32_t i = 0; i < ledger->n; i++) {
		const struct mq_fitted *f = &ledger->line[i];

		if (isnan(f->stand_in) || strcmp(f->models, models) || !mq_pattern_fits(f->tables, table))
			continue;
		if (stand_in->n == MQ_MAX_LIST)
			return mq_bad(err, "%s: more than %d values rest on %s", ledger->path, MQ_MAX_LIST, table);
		stand_in->item[stand_in->n++] = mq_arena_printf(arena, "%s=%.9g", f->value, f->stand_in);
	}
	return MQ_OK;
}

uint32_t mq_ledger_rows(const struct mq_fitted *f, const struct mq_judged_table *t)
{
	uint32_t n = 0;

	if (f->constant || *f->models || !mq_pattern_fits(f->tables, t->stem))
		return 0;
	for (uint32_t i = 0; i < t->n; i++)
		n += mq_table_scored(t, i) && mq_score_value_reaches(&f->knob, &t->c[i]);
	return n;
}

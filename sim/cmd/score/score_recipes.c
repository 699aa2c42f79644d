/*
 * score_recipes.c - recipes.csv: what a published recipe sets otherwise than its software's row of
 * stacks.csv. A recipe is found by source, release (in the row's locator), model, gpu and precision; its
 * `settings` are cells of stacks.csv, "overlap_experts=1,graphs=1". The first row that fits wins.
 */
#include <string.h>

#include "cmd/score/score_tables.h"

static bool fits(const struct mq_csv *csv, uint32_t row, const struct mq_run *run)
{
	return mq_pattern_fits(mq_table_text(csv, row, "source"), run->source) &&
	       mq_pattern_fits(mq_table_text(csv, row, "release"), run->locator) &&
	       mq_pattern_fits(mq_table_text(csv, row, "model"), run->model) &&
	       mq_pattern_fits(mq_table_text(csv, row, "gpu"), run->gpu) &&
	       mq_pattern_fits(mq_table_text(csv, row, "precision"), run->precision);
}

/* One "column=value". */
static enum mq_status set_cell(const struct mq_csv *recipes, uint32_t row, struct mq_csv *stack,
			       const char *setting, struct mq_arena *arena, struct mq_err *err)
{
	size_t n = strcspn(setting, "=");
	uint32_t column = mq_csv_column(stack, mq_arena_printf(arena, "%.*s", (int)n, setting));

	if (!setting[n] || column == UINT32_MAX)
		return mq_fail(err, MQ_EINPUT, "%s:%u: setting '%s' is not COLUMN=VALUE of a column of "
			       "stacks.csv", recipes->path, recipes->line[row], setting);
	stack->cell[column] = mq_arena_printf(arena, "%s", setting + n + 1);
	return MQ_OK;
}

enum mq_status mq_recipe_apply(const struct mq_score_tables *t, const struct mq_run *run,
			       struct mq_csv *stack, struct mq_arena *arena, struct mq_err *err)
{
	const struct mq_csv *csv = &t->recipes;
	uint32_t row = 0;

	while (row < csv->n_rows && !fits(csv, row, run))
		row++;
	if (row == csv->n_rows)
		return MQ_OK;
	for (const char *s = mq_table_text(csv, row, "settings"); *s;) {
		size_t n = strcspn(s, ",");

		MQ_TRY(set_cell(csv, row, stack, mq_arena_printf(arena, "%.*s", (int)n, s), arena,
				err));
		s += n + (s[n] == ',');
	}
	return MQ_OK;
}

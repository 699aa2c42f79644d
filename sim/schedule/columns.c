/* columns.c - see columns.h. SPDX-License-Identifier: Apache-2.0 */
#include "schedule/columns.h"

#include <string.h>

/* clang-format off */
#define MQ_RESULT(name, unit, about) { #name, offsetof(struct mq_result, name) },
const struct mq_column mq_result_column[] = {
#include "maquette/result.def"
};
const uint32_t mq_n_result_columns = sizeof(mq_result_column) / sizeof(*mq_result_column);

#define MQ_TABLE(id, file, about) static const struct mq_column columns_of_##id[] = {
#define MQ_COLUMN(name, unit, about) { #name, MQ_NONE },
#define MQ_AGAIN(name) { #name, MQ_NONE },
#define MQ_NUMBER(name) { #name, offsetof(struct mq_result, name) },
#define MQ_TABLE_END };
#include "maquette/result.def"

/* Each name comes with a comma before it; `1 +` skips the first. */
#define MQ_TABLE(id, name, about) [MQ_TABLE_##id] = { .file = name, .column = columns_of_##id, \
	.n = sizeof(columns_of_##id) / sizeof(*columns_of_##id), .header = 1 + ""
#define MQ_COLUMN(name, unit, about) "," #name
#define MQ_AGAIN(name) "," #name
#define MQ_NUMBER(name) "," #name
#define MQ_TABLE_END },
const struct mq_table mq_table[MQ_N_TABLES] = {
#include "maquette/result.def"
};
/* clang-format on */

double *mq_result_number(struct mq_result *r, const struct mq_column *column)
{
	return (double *)(void *)((char *)r + column->offset);
}

uint32_t mq_table_numbers(enum mq_table_id id, const char *first, const struct mq_column **column)
{
	const struct mq_table *t = &mq_table[id];
	uint32_t from = 0, to;

	while (from < t->n && strcmp(t->column[from].name, first))
		from++;
	for (to = from; to < t->n && t->column[to].offset != MQ_NONE; to++)
		continue;
	mq_assert(to > from);
	*column = &t->column[from];
	return to - from;
}

enum mq_status mq_table_create(struct mq_csv_writer *w, enum mq_table_id id, const char *dir, struct mq_arena *arena,
			       struct mq_err *err)
{
	return mq_csv_create(w, mq_arena_printf(arena, "%s/%s", dir, mq_table[id].file), mq_table[id].header, err);
}

void mq_table_put(struct mq_csv_writer *w, enum mq_table_id id, const char *first, const struct mq_result *result)
{
	struct mq_result r = *result;
	const struct mq_column *column;
	uint32_t n = mq_table_numbers(id, first, &column);

	for (uint32_t i = 0; i < n; i++)
		mq_csv_put_f64(w, *mq_result_number(&r, &column[i]));
}

/* columns.h - the columns of the output tables, as maquette/result.def lists them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCHEDULE_COLUMNS_H
#define MQ_SCHEDULE_COLUMNS_H

#include "base/csv.h"
#include "maquette/result.h"

enum mq_table_id {
#define MQ_TABLE(id, file, about) MQ_TABLE_##id,
#include "maquette/result.def"
	MQ_N_TABLES,
};

struct mq_column {
	const char *name;
	uint32_t offset; /* of the number in struct mq_result; MQ_NONE: no number of a result */
};
struct mq_table {
	const char *file, *header; /* "candidates.csv", "engine,index,..." */
	const struct mq_column *column;
	uint32_t n;
};
extern const struct mq_table mq_table[MQ_N_TABLES];

/* All numbers of a result, as columns. */
extern const struct mq_column mq_result_column[];
extern const uint32_t mq_n_result_columns;
double *mq_result_number(struct mq_result *result, const struct mq_column *column);
/* Sets *column to the run of a table's columns from `first` on that are numbers of a result; returns its length. */
uint32_t mq_table_numbers(enum mq_table_id table, const char *first, const struct mq_column **column);

/* Opens DIR/FILE of a table for writing and writes its header. The path lives in the arena. */
enum mq_status mq_table_create(struct mq_csv_writer *w, enum mq_table_id table, const char *dir, struct mq_arena *arena,
			       struct mq_err *err);
/* Writes the cells of the columns that mq_table_numbers finds. */
void mq_table_put(struct mq_csv_writer *w, enum mq_table_id table, const char *first, const struct mq_result *result);

#endif

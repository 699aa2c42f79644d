/* csv.h - tables: read whole; written with unquoted numbers and headers, and text quoted if CSV needs it.
 * Columns are found by name, so files may have more columns than a reader uses. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_BASE_CSV_H
#define MQ_BASE_CSV_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "maquette/arena.h"
#include "maquette/err.h"

struct mq_csv {
	uint32_t n_rows, n_columns; /* without the header */
	const char **header;        /* [n_columns] */
	const char **cell;          /* row after row, each of the length that it has in the file */
	uint32_t *first;            /* [n_rows + 1] index of a row's first cell */
	uint32_t *line;             /* [n_rows] line number in the file, for messages */
	const char *path;
};

/* Reads a whole file. MQ_EINPUT: it cannot be opened, is larger than 1 GB or no text; broken quoting, no header, a row
 * with more cells than the header. Everything lives in the arena. */
MQ_API enum mq_status mq_csv_load(const char *path, struct mq_arena *arena, struct mq_csv *csv, struct mq_err *err);
/* The same for a shipped table. MQ_EINPUT too: other columns than these ("a,b,c"), or no row. */
MQ_API enum mq_status mq_csv_load_of(const char *path, const char *columns, struct mq_arena *arena, struct mq_csv *csv,
				     struct mq_err *err);
/* Index of a column, or UINT32_MAX. */
MQ_API uint32_t mq_csv_column(const struct mq_csv *csv, const char *name);
/* Has the table all of these columns ("a b c")? *lacks: start of the first missing one in `columns`. */
MQ_API bool mq_csv_has(const struct mq_csv *csv, const char *columns, const char **lacks);
/* Cell text; "" if the column is absent (UINT32_MAX) or the row ends before it. */
MQ_API const char *mq_csv_text(const struct mq_csv *csv, uint32_t row, uint32_t column);
/* A number; `missing` for an empty or absent cell; false: not a number. */
MQ_API bool mq_csv_f64(const struct mq_csv *csv, uint32_t row, uint32_t column, double missing, double *value);
/* A number from `least` to `most`, by the column's name. MQ_EINPUT: no number, or one outside. */
MQ_API enum mq_status mq_csv_range(const struct mq_csv *csv, uint32_t row, const char *column, double missing,
				   double least, double most, double *value, struct mq_err *err);

/* Text and number by the column's name; NaN: no number. */
MQ_API const char *mq_csv_word(const struct mq_csv *csv, uint32_t row, const char *column);
MQ_API double mq_csv_number(const struct mq_csv *csv, uint32_t row, const char *column);

/* A table being written cell by cell: mq_csv_put..., then an end of row. Numbers are "%.9g"; NaN and infinity are empty
 * cells. mq_csv_close returns the first error. */
struct mq_csv_writer {
	FILE *file;
	const char *path; /* borrowed until close */
	uint32_t column;
	uint32_t n_columns; /* of the header, with which rows are compared; 0 = unknown */
	int error;          /* errno of the first row that failed */
};

/* Opens a new file and writes its header, given as "a,b,c". */
MQ_API enum mq_status mq_csv_create(struct mq_csv_writer *w, const char *path, const char *header, struct mq_err *err);
MQ_API void mq_csv_put_text(struct mq_csv_writer *w, const char *text);
MQ_API void mq_csv_put_f64(struct mq_csv_writer *w, double value);
/* Writes cells by a printf format with commas: %s (NULL: empty), %g, %u and %lu, %.0u (0: empty), %016lx; nothing
 * between two commas is an empty cell. mq_csv_row writes a whole row. */
MQ_API void mq_csv_put(struct mq_csv_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define mq_csv_row(writer, ...) (mq_csv_put(writer, __VA_ARGS__), mq_csv_end(writer))
MQ_API void mq_csv_end(struct mq_csv_writer *w);
/* Ends the row and flushes it to the file, so that a killed run keeps it. */
MQ_API enum mq_status mq_csv_end_row(struct mq_csv_writer *w, struct mq_err *err);
MQ_API enum mq_status mq_csv_close(struct mq_csv_writer *w, struct mq_err *err);

#endif

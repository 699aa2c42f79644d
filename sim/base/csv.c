/* csv.c - see csv.h. SPDX-License-Identifier: Apache-2.0 */
#include "base/csv.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/quantity.h"
#include "base/text.h"

enum { MOST_MB = 1024, MOST_COLUMNS = 4096 };

struct reader {
	struct mq_arena *arena;
	struct mq_csv *csv;
	char *at; /* in the text, in which the cells are built */
	uint32_t header_room, cell_room, line_room, first_room;
	uint32_t n_cells, n_firsts, line;
	uint32_t long_line; /* the first row that has more cells than the header, or 0 */
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Moves a quoted text to the place of its quote. False: unterminated. */
static bool unquote(struct reader *r, char **to)
{
	for (char *at = r->at + 1; *at; *(*to)++ = *at++) {
		if (*at == '"' && *++at != '"') {
			r->at = at + strspn(at, " \t");
			return true;
		}
		r->line += *at == '\n';
	}
	return false;
}

/* Terminates the next cell in place, without surrounding blanks; *end: the character after it. */
static enum mq_status next_cell(struct reader *r, const char **cell, char *end, struct mq_err *err)
{
	char *from = r->at, *to;

	while (is_blank(*from))
		from++;
	r->at = to = from;
	if (*from == '"') {
		if (!unquote(r, &to))
			return mq_bad(err, "%s: a quoted cell is not closed", r->csv->path);
	} else {
		while (*r->at && *r->at != ',' && *r->at != '"' && *r->at != '\n' && *r->at != '\r')
			r->at++;
		for (to = r->at; to > from && is_blank(to[-1]);)
			to--;
	}
	*end = *r->at;
	if (*end && !strchr(",\n\r", *end))
		return mq_bad(err, "%s:%u: a quote inside a cell; quote the whole cell, and double it there",
			      r->csv->path, r->line);
	*to = '\0';
	r->at += *end != '\0';
	*cell = from;
	return MQ_OK;
}

static enum mq_status read_row(struct reader *r, bool header, struct mq_err *err)
{
	struct mq_csv *csv = r->csv;
	uint32_t line = r->line, column = 0;
	const char *cell = NULL;
	char end;

	do {
		MQ_TRY(next_cell(r, &cell, &end, err));
		if (header)
			MQ_PUSH(r->arena, csv->header, csv->n_columns, r->header_room, cell);
		else if (column < csv->n_columns)
			MQ_PUSH(r->arena, csv->cell, r->n_cells, r->cell_room, cell);
		else if (!r->long_line)
			r->long_line = r->line;
		column++;
	} while (end == ',');
	r->line += end == '\n';
	if (!header)
		MQ_PUSH(r->arena, csv->line, csv->n_rows, r->line_room, line);
	MQ_PUSH(r->arena, csv->first, r->n_firsts, r->first_room, r->n_cells);
	return MQ_OK;
}

static enum mq_status read_all(struct reader *r, struct mq_err *err)
{
	for (bool header = true;; header = false) {
		for (; is_blank(*r->at) || *r->at == '\r' || *r->at == '\n'; r->at++)
			r->line += *r->at == '\n';
		if (!*r->at)
			return MQ_OK;
		MQ_TRY(read_row(r, header, err));
	}
}

enum mq_status mq_csv_load(const char *path, struct mq_arena *arena, struct mq_csv *csv, struct mq_err *err)
{
	struct reader r = { .arena = arena, .csv = csv, .line = 1 };
	size_t size;

	memset(csv, 0, sizeof(*csv));
	csv->path = mq_arena_strdup(arena, path);
	MQ_TRY(mq_text_read(path, MOST_MB, arena, &r.at, &size, err));
	if (!strncmp(r.at, "\xef\xbb\xbf", 3)) /* the byte-order mark of spreadsheets */
		r.at += 3;
	MQ_TRY(read_all(&r, err));
	if (csv->n_columns > MOST_COLUMNS)
		return mq_bad(err, "%s: %u columns; at most %d", path, csv->n_columns, MOST_COLUMNS);
	if (!csv->n_columns)
		return mq_bad(err, "%s: the table is empty; a header line is needed", path);
	if (csv->n_columns == 1 && strpbrk(csv->header[0], ";\t"))
		return mq_bad(err, "%s:1: cells are separated by %s; write commas between them, and decimal points",
			      path, strchr(csv->header[0], ';') ? "semicolons" : "tabs");
	if (r.long_line)
		return mq_bad(err, "%s:%u: more cells than the %u of the header", path, r.long_line, csv->n_columns);
	return MQ_OK;
}

enum mq_status mq_csv_load_of(const char *path, const char *columns, struct mq_arena *arena, struct mq_csv *csv,
			      struct mq_err *err)
{
	char *list = mq_arena_strdup(arena, columns), *rest = NULL;
	uint32_t n = 0;

	MQ_TRY(mq_csv_load(path, arena, csv, err));
	for (const char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest), n++)
		if (mq_csv_column(csv, name) == UINT32_MAX)
			return mq_bad(err, "%s:1: no column '%s'; it has %s", path, name, columns);
	if (csv->n_columns != n)
		return mq_bad(err, "%s:1: %u columns; it has the %u of %s", path, csv->n_columns, n, columns);
	return csv->n_rows ? MQ_OK : mq_bad(err, "%s: no rows", path);
}

uint32_t mq_csv_column(const struct mq_csv *csv, const char *name)
{
	for (uint32_t i = 0; i < csv->n_columns; i++)
		if (!strcmp(csv->header[i], name))
			return i;
	return UINT32_MAX;
}

bool mq_csv_has(const struct mq_csv *csv, const char *columns, const char **lacks)
{
	for (*lacks = columns; **lacks; *lacks += strspn(*lacks, " ")) {
		size_t n = strcspn(*lacks, " ");
		uint32_t i = 0;

		while (i < csv->n_columns && (strlen(csv->header[i]) != n || strncmp(csv->header[i], *lacks, n)))
			i++;
		if (i == csv->n_columns)
			return false;
		*lacks += n;
	}
	return true;
}

const char *mq_csv_text(const struct mq_csv *csv, uint32_t row, uint32_t column)
{
	if (row >= csv->n_rows || column >= csv->first[row + 1] - csv->first[row])
		return "";
	return csv->cell[csv->first[row] + column];
}

bool mq_csv_f64(const struct mq_csv *csv, uint32_t row, uint32_t column, double missing, double *value)
{
	const char *text = mq_csv_text(csv, row, column);

	*value = missing;
	return !*text || mq_parse_f64(text, value);
}

enum mq_status mq_csv_range(const struct mq_csv *csv, uint32_t row, const char *column, double missing, double least,
			    double most, double *value, struct mq_err *err)
{
	if (mq_csv_f64(csv, row, mq_csv_column(csv, column), missing, value) && *value >= least && *value <= most)
		return MQ_OK;
	return mq_bad(err, "%s:%u: %s '%s' is not a number from %g to %g", csv->path, csv->line[row], column,
		      mq_csv_word(csv, row, column), least, most);
}

const char *mq_csv_word(const struct mq_csv *csv, uint32_t row, const char *column)
{
	return mq_csv_text(csv, row, mq_csv_column(csv, column));
}

double mq_csv_number(const struct mq_csv *csv, uint32_t row, const char *column)
{
	double v;

	return mq_csv_f64(csv, row, mq_csv_column(csv, column), (double)NAN, &v) ? v : (double)NAN;
}

static void separate(struct mq_csv_writer *w)
{
	if (w->column++)
		fputc(',', w->file);
}

void mq_csv_put_text(struct mq_csv_writer *w, const char *text)
{
	separate(w);
	if (!text || !*text)
		return;
	if (!strpbrk(text, ",\"\n\r")) {
		fputs(text, w->file);
		return;
	}
	fputc('"', w->file);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', w->file);
		fputc(*text, w->file);
	}
	fputc('"', w->file);
}

void mq_csv_put_f64(struct mq_csv_writer *w, double value)
{
	separate(w);
	if (isfinite(value))
		fprintf(w->file, "%.9g", value);
}

void mq_csv_put(struct mq_csv_writer *w, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	for (const char *f = format;; f++) {
		size_t n = strcspn(f, ",");
		char type = n ? f[n - 1] : '\0', text[24];

		if (type == 's') {
			mq_csv_put_text(w, va_arg(args, const char *));
		} else if (type == 'g') {
			mq_csv_put_f64(w, va_arg(args, double));
		} else if (type) {
			uint64_t v = f[n - 2] == 'l' ? va_arg(args, unsigned long) : va_arg(args, unsigned);

			snprintf(text, sizeof(text), type == 'x' ? "%016" PRIx64 : "%" PRIu64, v);
			mq_csv_put_text(w, !v && f[1] == '.' ? "" : text);
		} else {
			mq_csv_put_text(w, "");
		}
		f += n;
		if (!*f)
			break;
	}
	va_end(args);
}

void mq_csv_end(struct mq_csv_writer *w)
{
	mq_assert(!w->n_columns || w->column == w->n_columns);
	fputc('\n', w->file);
	w->column = 0;
	if (fflush(w->file) && !w->error)
		w->error = errno;
}

static enum mq_status cannot_write(const struct mq_csv_writer *w, int error, struct mq_err *err)
{
	return mq_bad(err, "%s: cannot write: %s; free some space and run again", w->path, strerror(error));
}

enum mq_status mq_csv_end_row(struct mq_csv_writer *w, struct mq_err *err)
{
	fputc('\n', w->file);
	w->column = 0;
	return fflush(w->file) || ferror(w->file) ? cannot_write(w, errno, err) : MQ_OK;
}

enum mq_status mq_csv_create(struct mq_csv_writer *w, const char *path, const char *header, struct mq_err *err)
{
	*w = (struct mq_csv_writer){ .path = path, .file = fopen(path, "w") };
	if (!w->file)
		return mq_bad(err, "%s: cannot write: %s", path, strerror(errno));
	fprintf(w->file, "%s\n", header);
	w->n_columns = 1;
	for (const char *c = header; *c; c++)
		w->n_columns += *c == ',';
	return MQ_OK;
}

enum mq_status mq_csv_close(struct mq_csv_writer *w, struct mq_err *err)
{
	FILE *file = w->file;

	w->file = NULL;
	if (!file)
		return MQ_OK;
	bool bad = ferror(file) != 0;
	return fclose(file) || bad ? cannot_write(w, w->error ? w->error : errno, err) : MQ_OK;
}

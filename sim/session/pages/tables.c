/* tables.c - see page.h. SPDX-License-Identifier: Apache-2.0 */
#include "session/pages/page.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "session/trust.h"

enum { MOST_ROWS = 2000 };

/* Is the cell a number? A plan_hash may look like one. */
static bool is_number(const struct mq_csv *csv, uint32_t r, uint32_t c, double *v)
{
	return mq_csv_f64(csv, r, c, NAN, v) && strcmp(csv->header[c], "plan_hash") != 0;
}

static const char *id_of(struct mq_arena *arena, const char *file)
{
	return mq_arena_printf(arena, "%.*s", (int)strcspn(file, "."), file);
}

static void put_table(struct mq_page *p, const struct mq_csv *csv, const char *id)
{
	const char **heads = mq_arena_array(&p->arena, csv->n_columns + 1, const char *);

	memcpy(heads, csv->header, csv->n_columns * sizeof(*heads));
	mq_page_table_begin(p, id, heads);
	for (uint32_t r = 0; r < csv->n_rows && r < MOST_ROWS; r++) {
		fputs("<tr>", p->f);
		for (uint32_t c = 0; c < csv->n_columns; c++) {
			double v;

			if (is_number(csv, r, c, &v) && isfinite(v))
				mq_page_number(p, v, mq_arena_printf(&p->arena, "%.*g", v == rint(v) ? 9 : 5, v));
			else
				mq_page_cell(p, mq_csv_text(csv, r, c));
		}
		fputs("</tr>\n", p->f);
	}
	mq_page_table_end(p);
	if (csv->n_rows > MOST_ROWS)
		fprintf(p->f, "<p>The first %d of %u rows.</p>\n", MOST_ROWS, csv->n_rows);
}

static void put_plot(struct mq_page *p, const struct mq_csv *csv, const char *label)
{
	struct mq_page_point *point = mq_arena_array(&p->arena, csv->n_rows, struct mq_page_point);
	uint32_t x = mq_csv_column(csv, "measured_s"), y = mq_csv_column(csv, "predicted_s"), n = 0;

	for (uint32_t r = 0; r < csv->n_rows; r++) {
		struct mq_page_point *q = &point[n];

		if (!mq_csv_f64(csv, r, x, NAN, &q->x) || !mq_csv_f64(csv, r, y, NAN, &q->y) || !(q->x > 0) ||
		    !(q->y > 0))
			continue;
		q->tip = mq_arena_printf(&p->arena, "%s: measured %.4g s, predicted %.4g s (%+.1f %%)",
					 mq_csv_word(csv, r, label), q->x, q->y, 100 * (q->y / q->x - 1));
		n++;
	}
	mq_page_put_plot(p, &(struct mq_page_plot){
				    .title = "Predicted and measured step times",
				    .x = { "measured", "s" },
				    .y = { "predicted", "s" },
				    .point = point,
				    .n = n,
				    .against = true,
			    });
}

void mq_page_tables(struct mq_page *p, const struct mq_shown_table *table)
{
	struct mq_csv csv;

	for (const struct mq_shown_table *t = table; t->title; t++)
		if (t->label && mq_page_load(p, t->file, &csv))
			put_plot(p, &csv, t->label);
	for (const struct mq_shown_table *t = table; t->title; t++) {
		if (!mq_page_load(p, t->file, &csv))
			continue;
		fprintf(p->f, "<h2>%s</h2>\n", t->title);
		put_table(p, &csv, id_of(&p->arena, t->file));
	}
}

enum mq_status mq_tables_page(const char *dir, const char *title, const struct mq_shown_table *table, const char *words,
			      struct mq_err *err)
{
	struct mq_page p;

	mq_page_open(&p, dir, title);
	if (words) {
		fputs("<h2>In words</h2>\n", p.f);
		mq_page_words(&p, words);
	}
	mq_page_tables(&p, table);
	mq_page_command(&p);
	return mq_page_close(&p, MQ_OK, err);
}

static void put_cell(const struct mq_csv *csv, uint32_t r, uint32_t c, FILE *f)
{
	const char *text = mq_csv_text(csv, r, c);
	double v;

	mq_json_put_text(f, csv->header[c]);
	fputs(": ", f);
	if (!*text)
		fputs("null", f);
	else if (is_number(csv, r, c, &v))
		mq_json_put_f64(f, v);
	else
		mq_json_put_text(f, text);
}

static void put_json(const char *dir, const struct mq_shown_table *table, FILE *f)
{
	struct mq_page p = { .arena = MQ_ARENA_INIT, .dir = dir };
	struct mq_csv csv;
	const size_t n_first = strcspn(mq_trust_answer_columns, ",");
	const char *last = strrchr(mq_trust_answer_columns, ',') + 1;
	bool any = false;

	fputc('{', f);
	for (const struct mq_shown_table *t = table; t->title; t++) {
		if (!mq_page_load(&p, t->file, &csv))
			continue;
		fprintf(f, "%s\"%s\": [", any ? ",\n" : "", id_of(&p.arena, t->file));
		any = true;
		for (uint32_t r = 0; r < csv.n_rows; r++) {
			fputs(r ? ",\n {" : "\n {", f);
			for (uint32_t c = 0; c < csv.n_columns; c++) {
				bool trust = strlen(csv.header[c]) == n_first &&
					     !strncmp(csv.header[c], mq_trust_answer_columns, n_first);

				fprintf(f, "%s%s", c ? ", " : "", trust ? "\"trust\": {" : "");
				put_cell(&csv, r, c, f);
				fputs(!strcmp(csv.header[c], last) ? "}" : "", f);
			}
			fputc('}', f);
		}
		fputc(']', f);
	}
	fputs("}\n", f);
	mq_arena_fini(&p.arena);
}

int mq_json_begin(bool json)
{
	if (!json)
		return -1;
	fflush(stdout);
	int saved = dup(STDOUT_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	return saved;
}

void mq_json_done(int saved, const char *dir, const struct mq_shown_table *table)
{
	if (saved < 0)
		return;
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	if (table)
		put_json(dir, table, stdout);
}

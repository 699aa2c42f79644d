/* tables.c - see tables.h. */
#include "session/pages/tables.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "session/pages/page.h"
#include "base/csv.h"

enum { MOST_ROWS = 2000 };

static bool load(const char *dir, const char *file, struct mq_arena *arena, struct mq_csv *csv)
{
	struct mq_err none = MQ_ERR_INIT;

	return mq_csv_load(mq_arena_printf(arena, "%s/%s", dir, file), arena, csv, &none) == MQ_OK && csv->n_rows;
}

/* ---- the page --------------------------------------------------------------------------------------- */

static void put_table(const struct mq_csv *csv, const char *id, FILE *f)
{
	fprintf(f, "<div class=\"wide\"><table class=\"sorts\" id=\"%.*s\"><thead><tr>", (int)strcspn(id, "."), id);
	for (uint32_t c = 0; c < csv->n_columns; c++) {
		fputs("<th>", f);
		mq_page_text(f, csv->header[c]);
		fputs("</th>", f);
	}
	fputs("</tr></thead><tbody>\n", f);
	for (uint32_t r = 0; r < csv->n_rows && r < MOST_ROWS; r++) {
		fputs("<tr>", f);
		for (uint32_t c = 0; c < csv->n_columns; c++) {
			double v;
			bool number = mq_csv_f64(csv, r, c, NAN, &v);

			if (number && isfinite(v)) {
				fprintf(f, "<td class=\"n\" data-v=\"%.9g\">%.5g</td>", v, v);
				continue;
			}
			fputs("<td>", f);
			mq_page_text(f, mq_csv_text(csv, r, c));
			fputs("</td>", f);
		}
		fputs("</tr>\n", f);
	}
	fputs("</tbody></table></div>\n", f);
	if (csv->n_rows > MOST_ROWS)
		fprintf(f, "<p>The first %d of %u rows.</p>\n", MOST_ROWS, csv->n_rows);
}

static void put_plot(const struct mq_csv *csv, const char *label, struct mq_arena *arena, FILE *f)
{
	struct mq_page_point *point = mq_arena_array(arena, csv->n_rows, struct mq_page_point);
	uint32_t x = mq_csv_column(csv, "measured_s"), y = mq_csv_column(csv, "predicted_s"), n = 0;

	for (uint32_t r = 0; r < csv->n_rows; r++) {
		struct mq_page_point *p = &point[n];

		if (!mq_csv_f64(csv, r, x, NAN, &p->x) || !mq_csv_f64(csv, r, y, NAN, &p->y) || !(p->x > 0) ||
		    !(p->y > 0))
			continue;
		p->tip = mq_arena_printf(arena, "%s: measured %.4g s, predicted %.4g s (%+.1f %%)",
					 mq_csv_text(csv, r, mq_csv_column(csv, label)), p->x, p->y,
					 100 * (p->y / p->x - 1));
		n++;
	}
	mq_page_put_plot(f,
			 &(struct mq_page_plot){ "Predicted and measured step times", "measured, s", "predicted, s",
						 point, n, .against = true },
			 arena);
}

static void put_tables(const char *dir, const struct mq_shown_table *table, FILE *f)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_csv csv;

	for (const struct mq_shown_table *t = table; t->title; t++)
		if (t->label && load(dir, t->file, &arena, &csv))
			put_plot(&csv, t->label, &arena, f);
	for (const struct mq_shown_table *t = table; t->title; t++) {
		if (!load(dir, t->file, &arena, &csv))
			continue;
		fprintf(f, "<h2>%s</h2>\n", t->title);
		put_table(&csv, t->file, f);
	}
	fputs("<p>A click on a column's head sorts by it.</p>\n", f);
	mq_arena_fini(&arena);
}

enum mq_status mq_tables_page(const char *dir, const char *title, const struct mq_shown_table *table, const char *words,
			      struct mq_err *err)
{
	FILE *f = mq_page_open(dir, title, err);

	if (!f)
		return MQ_EINPUT;
	put_tables(dir, table, f);
	if (words) {
		fputs("<h2>In words</h2>\n", f);
		mq_page_words(f, words);
	}
	return mq_page_close(f, dir, err);
}

/* ---- JSON ------------------------------------------------------------------------------------------- */

static void put_cell(const struct mq_csv *csv, uint32_t r, uint32_t c, FILE *f)
{
	const char *text = mq_csv_text(csv, r, c);
	double v;

	mq_json_put_text(f, csv->header[c]);
	fputs(": ", f);
	if (!*text)
		fputs("null", f);
	else if (mq_csv_f64(csv, r, c, NAN, &v) && strcmp(csv->header[c], "plan_hash"))
		mq_json_put_f64(f, v);
	else
		mq_json_put_text(f, text);
}

void mq_tables_json(const char *dir, const struct mq_shown_table *table, FILE *f)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_csv csv;
	bool any = false;

	fputc('{', f);
	for (const struct mq_shown_table *t = table; t->title; t++) {
		if (!load(dir, t->file, &arena, &csv))
			continue;
		fprintf(f, "%s\"%.*s\": [", any ? ",\n" : "", (int)strcspn(t->file, "."), t->file);
		any = true;
		for (uint32_t r = 0; r < csv.n_rows; r++) {
			fputs(r ? ",\n {" : "\n {", f);
			for (uint32_t c = 0; c < csv.n_columns; c++) {
				fputs(c ? ", " : "", f);
				put_cell(&csv, r, c, f);
			}
			fputc('}', f);
		}
		fputc(']', f);
	}
	fputs("}\n", f);
	mq_arena_fini(&arena);
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

void mq_json_done(int saved)
{
	if (saved < 0)
		return;
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
}

/* page.c - see page.h. SPDX-License-Identifier: Apache-2.0 */
#include "session/pages/page.h"

#include <math.h>
#include <unistd.h>

#include "base/template.h"
#include "session/session.h"

/* ---- escaping ---------------------------------------------------------------------------------------- */

const char *mq_html(struct mq_page *p, const char *text)
{
	static const char *const entity[256] = {
		['<'] = "&lt;", ['>'] = "&gt;", ['&'] = "&amp;", ['"'] = "&quot;", ['\''] = "&#39;"
	};
	char *to = mq_arena_alloc(&p->arena, 6 * strlen(text) + 1), *at = to;

	for (; *text; text++)
		if (entity[(unsigned char)*text])
			at = stpcpy(at, entity[(unsigned char)*text]);
		else
			*at++ = *text;
	*at = '\0';
	return to;
}

void mq_page_put_string(struct mq_page *p, const char *text)
{
	mq_json_put_but(p->f, text, "<>&");
}

void mq_json_put_f64(FILE *f, double value)
{
	if (isfinite(value))
		fprintf(f, "%.9g", value);
	else
		fputs("null", f);
}

void mq_json_add_text(FILE *f, const char *key, const char *text)
{
	fprintf(f, ", \"%s\": ", key);
	mq_json_put_text(f, text);
}

void mq_json_add_f64(FILE *f, const char *key, double value)
{
	fprintf(f, ", \"%s\": ", key);
	mq_json_put_f64(f, value);
}

void mq_json_add_numbers(FILE *f, enum mq_table_id table, const char *first, const struct mq_result *result)
{
	struct mq_result r = *result;
	const struct mq_column *column;
	uint32_t n = mq_table_numbers(table, first, &column);

	for (uint32_t i = 0; i < n; i++)
		mq_json_add_f64(f, column[i].name, *mq_result_number(&r, &column[i]));
}

/* ---- the frame --------------------------------------------------------------------------------------- */

enum { MOST_MB = 4 }; /* limit for a file of plots/ */

void mq_page_open(struct mq_page *p, const char *dir, const char *title)
{
	*p = (struct mq_page){ .arena = MQ_ARENA_INIT, .dir = dir, .title = title };
	p->f = mq_words_open(&p->body);
}

static enum mq_status write_page(struct mq_page *p, struct mq_err *err)
{
	static const char *const parts[] = { "report.css", "report.js" };
	struct mq_template t = { .arena = &p->arena };
	const char *dir, *page;
	char *text;
	size_t size;

	mq_template_set(&t, "title", "%s", mq_html(p, p->title));
	mq_template_set(&t, "body", "%s", p->body.text);
	MQ_TRY(mq_find_dir("plots", &p->arena, &dir, err));
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		const char *path = mq_arena_printf(&p->arena, "%s/%s", dir, parts[i]);

		MQ_TRY(mq_text_read(path, MOST_MB, &p->arena, &text, &size, err));
		mq_template_set(&t, parts[i], "%s", text);
	}
	MQ_TRY(mq_template_text(&t, "plots", "report.html", &page, err));
	return mq_file_put(mq_arena_printf(&p->arena, "%s/report.html", p->dir), page, err);
}

enum mq_status mq_page_close(struct mq_page *p, enum mq_status status, struct mq_err *err)
{
	fclose(p->f);
	if (status == MQ_OK)
		status = write_page(p, err);
	mq_words_free(&p->body);
	mq_arena_fini(&p->arena);
	return status;
}

bool mq_page_load(struct mq_page *p, const char *name, struct mq_csv *csv)
{
	struct mq_err none = MQ_ERR_INIT;

	return mq_csv_load(mq_arena_printf(&p->arena, "%s/%s", p->dir, name), &p->arena, csv, &none) == MQ_OK &&
	       csv->n_rows;
}

/* ---- text and tables --------------------------------------------------------------------------------- */

void mq_page_words(struct mq_page *p, const char *words)
{
	fprintf(p->f, "<pre id=\"words\">%s</pre>\n", mq_html(p, words));
}

void mq_page_file(struct mq_page *p, const char *path)
{
	struct mq_err none = MQ_ERR_INIT;
	char *text = NULL;
	size_t size;

	(void)!mq_text_read(path, MOST_MB, &p->arena, &text, &size, &none);
	fprintf(p->f, "<pre>%s</pre>\n", mq_html(p, text ? text : ""));
}

void mq_page_command(struct mq_page *p)
{
	const char *path = mq_arena_printf(&p->arena, "%s/run.ini", p->dir);

	if (access(path, R_OK))
		return;
	fputs("<h2>The command</h2>\n", p->f);
	mq_page_file(p, path);
}

void mq_page_table_begin(struct mq_page *p, const char *id, const char *const *heads)
{
	fprintf(p->f, "<div class=\"wide\"><table class=\"sorts\" id=\"%s\"><thead><tr>", id);
	while (*heads)
		fprintf(p->f, "<th>%s</th>", mq_html(p, *heads++));
	fputs("</tr></thead><tbody>\n", p->f);
}

void mq_page_number(struct mq_page *p, double value, const char *text)
{
	if (isfinite(value))
		fprintf(p->f, "<td class=\"n\" data-v=\"%.9g\">%s</td>", value, text);
	else
		fputs("<td class=\"n\" data-v=\"0\">-</td>", p->f);
}

void mq_page_cell(struct mq_page *p, const char *text)
{
	fprintf(p->f, "<td>%s</td>", mq_html(p, text));
}

void mq_page_table_end(struct mq_page *p)
{
	fputs("</tbody></table></div>\n", p->f);
}

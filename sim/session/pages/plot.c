/* plot.c - data for report.js: scatter plots and the timeline. See page.h. SPDX-License-Identifier: Apache-2.0 */
#include "session/pages/page.h"

#include <math.h>
#include <string.h>

/* ---- plots ------------------------------------------------------------------------------------------ */

enum { MOST_POINTS = 3000 };

static void put_strings(struct mq_page *p, const char *const *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		fputs(i ? "," : "", p->f);
		if (text[i])
			mq_page_put_string(p, text[i]);
		else
			fputs("null", p->f);
	}
}

void mq_page_put_plot(struct mq_page *p, const struct mq_page_plot *plot)
{
	if (!plot->n)
		return;
	fprintf(p->f, "<h2>%s</h2>\n<figure class=\"plot\"><script type=\"application/json\">{\"title\":",
		mq_html(p, plot->title));
	mq_page_put_string(p, plot->title);
	fputs(",\"x\":[", p->f);
	put_strings(p, plot->x, 2);
	fputs("],\"y\":[", p->f);
	put_strings(p, plot->y, 2);
	fprintf(p->f, "],\"against\":%s,\"limit\":%.9g,\"points\":[", plot->against ? "true" : "false", plot->limit);
	for (uint32_t i = 0; i < plot->n && i < MOST_POINTS; i++) {
		const struct mq_page_point *q = &plot->point[i];

		fputs(i ? ",\n[" : "\n[", p->f);
		if (q->at)
			mq_page_put_string(p, q->at);
		else
			mq_json_put_f64(p->f, q->x);
		fprintf(p->f, ",%.9g,", q->y);
		put_strings(p, (const char *const[]){ q->label, q->tip, q->series }, 3);
		fputs("]", p->f);
	}
	fputs("]}</script></figure>\n", p->f);
	if (plot->n > MOST_POINTS)
		fprintf(p->f, "<p>The first %d of %u points are drawn.</p>\n", MOST_POINTS, plot->n);
}

/* ---- the timeline ------------------------------------------------------------------------------------ */

enum { MOST_TASKS = 60000, MOST_BANDS = 32, MOST_KINDS = 8, N_LANES = 3 };

static uint32_t find_word(const char **list, uint32_t *n, uint32_t room, const char *word)
{
	uint32_t i = 0;

	while (i < *n && strcmp(list[i], word))
		i++;
	if (i == *n && *n < room)
		list[(*n)++] = word;
	return i;
}

static void put_names(struct mq_page *p, const char *key, const char **name, uint32_t n)
{
	fprintf(p->f, "],\"%s\":[", key);
	put_strings(p, name, n);
}

struct span {
	double start_s, finish_s;
};

static bool span_of(const struct mq_csv *csv, uint32_t row, struct span *span)
{
	return mq_csv_f64(csv, row, mq_csv_column(csv, "start_s"), NAN, &span->start_s) &&
	       mq_csv_f64(csv, row, mq_csv_column(csv, "finish_s"), NAN, &span->finish_s) && isfinite(span->start_s) &&
	       isfinite(span->finish_s);
}

uint32_t mq_page_lane(const char *stream)
{
	return !strcmp(stream, "compute") ? 0 : !strcmp(stream, "comm") || !strcmp(stream, "grad") ? 1 : 2;
}

void mq_page_put_timeline(struct mq_page *p, const struct mq_csv *csv)
{
	const char *band[MOST_BANDS], *kind[MOST_KINDS];
	uint32_t n_bands = 0, n_kinds = 0, n = 0;
	double end_s = 0, drawn_s[MOST_BANDS * N_LANES] = { 0 };
	struct span t;

	for (uint32_t i = 0; i < csv->n_rows; i++)
		if (span_of(csv, i, &t))
			end_s = fmax(end_s, t.finish_s);
	if (!(end_s > 0))
		return;
	/* Leaves out tasks that end within the least visible time of the one drawn before. */
	double least_s = csv->n_rows > MOST_TASKS ? end_s * MOST_BANDS * N_LANES / MOST_TASKS : 0;
	fputs("<div class=\"wide\"><canvas id=\"timeline\"></canvas></div>\n"
	      "<script type=\"application/json\" id=\"tasks\">{\"tasks\":[",
	      p->f);
	for (uint32_t i = 0; i < csv->n_rows; i++) {
		uint32_t b = find_word(band, &n_bands, MOST_BANDS, mq_csv_word(csv, i, "device"));
		uint32_t lane = mq_page_lane(mq_csv_word(csv, i, "stream"));

		if (b >= MOST_BANDS || !span_of(csv, i, &t) || t.finish_s < drawn_s[b * N_LANES + lane] + least_s)
			continue;
		drawn_s[b * N_LANES + lane] = least_s > 0 ? t.finish_s : 0;
		fprintf(p->f, "%s[%u,%u,%.6g,%.6g,%u,", n++ ? "," : "", b, lane, t.start_s, t.finish_s - t.start_s,
			find_word(kind, &n_kinds, MOST_KINDS, mq_csv_word(csv, i, "kind")));
		mq_page_put_string(p, mq_csv_word(csv, i, "op"));
		fputc(']', p->f);
	}
	put_names(p, "bands", band, n_bands);
	put_names(p, "kinds", kind, n_kinds);
	fprintf(p->f,
		"],\"end\":%.9g}</script>\n<p>The wheel, two fingers or + and - zoom, dragging and the arrows move, a double "
		"click shows all. %u of %u tasks, at most %d devices.</p>\n",
		end_s, n, csv->n_rows, MOST_BANDS);
}

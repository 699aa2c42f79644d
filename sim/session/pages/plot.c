/* plot.c - points in a plane as SVG, and the timeline: see page.h. SPDX-License-Identifier: Apache-2.0 */
#include "session/pages/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- plots ------------------------------------------------------------------------------------------ */

enum { WIDTH = 760, HEIGHT = 420, LEFT = 70, BELOW = 50, MARGIN = 20, MOST_POINTS = 3000 };

/* 1, 2 or 5 times a power of ten: so that about five of them make the span. */
static double step_of(double span)
{
	double p = pow(10, floor(log10(span / 5))), s = span / 5 / p;

	return p * (s < 1.5 ? 1 : s < 3.5 ? 2 : s < 7.5 ? 5 : 10);
}

struct axes {
	double x0, x1, y0, y1;
	bool logarithmic; /* these are powers of ten */
};

static double at_x(const struct axes *a, double x)
{
	x = a->logarithmic ? log10(x) : x;
	return LEFT + (x - a->x0) / (a->x1 - a->x0) * (WIDTH - LEFT - MARGIN);
}

static double at_y(const struct axes *a, double y)
{
	y = a->logarithmic ? log10(y) : y;
	return HEIGHT - BELOW - (y - a->y0) / (a->y1 - a->y0) * (HEIGHT - BELOW - MARGIN);
}

static struct axes axes_of(const struct mq_page_plot *plot)
{
	struct axes a = { INFINITY, -INFINITY, INFINITY, -INFINITY, false };

	for (uint32_t i = 0; i < plot->n; i++) {
		a.x0 = fmin(a.x0, plot->point[i].x);
		a.x1 = fmax(a.x1, plot->point[i].x);
		a.y0 = fmin(a.y0, plot->point[i].y);
		a.y1 = fmax(a.y1, plot->point[i].y);
	}
	if (plot->against) {
		double low = log10(fmin(a.x0, a.y0)), high = log10(fmax(a.x1, a.y1)), edge = .05 * fmax(high - low, .1);

		return (struct axes){ low - edge, high + edge, low - edge, high + edge, true };
	}
	double w = a.x1 > a.x0 ? a.x1 - a.x0 : fmax(fabs(a.x1), 1e-12),
	       h = a.y1 > a.y0 ? a.y1 - a.y0 : fmax(fabs(a.y1), 1e-12);
	return (struct axes){ a.x0 - .05 * w, a.x1 + .15 * w, a.y0 - .08 * h, a.y1 + .08 * h, false };
}

static void put_tick(FILE *f, const struct axes *a, bool across, double v)
{
	if (across)
		fprintf(f,
			"<path class=\"axis\" d=\"M%.1f,%dv5\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.6g</text>\n",
			at_x(a, v), HEIGHT - BELOW, at_x(a, v), HEIGHT - BELOW + 18, v);
	else
		fprintf(f,
			"<path class=\"axis\" d=\"M%d,%.1fh-5\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n",
			LEFT, at_y(a, v), LEFT - 8, at_y(a, v) + 4, v);
}

/* 1, 2 and 5 of each power of ten; where there are many powers, the powers alone. */
static void put_log_ticks(FILE *f, const struct axes *a, bool across, double low, double high)
{
	static const double part[] = { 1, 2, 5 };

	for (double p = floor(low); p <= high; p++)
		for (int k = 0; k < (high - low > 3 ? 1 : 3); k++)
			if (p + log10(part[k]) >= low && p + log10(part[k]) <= high)
				put_tick(f, a, across, part[k] * pow(10, p));
}

static void put_ticks(FILE *f, const struct axes *a, bool across, double low, double high)
{
	double step = step_of(high - low);

	if (a->logarithmic) {
		put_log_ticks(f, a, across, low, high);
		return;
	}
	for (double v = ceil(low / step) * step; v <= high; v += step)
		put_tick(f, a, across, fabs(v) < step / 1e6 ? 0 : v);
}

static void put_axes(struct mq_page *p, const struct mq_page_plot *plot, const struct axes *a)
{
	fprintf(p->f, "<path class=\"axis\" d=\"M%d,%dV%dH%d\"/>\n", LEFT, MARGIN, HEIGHT - BELOW, WIDTH - MARGIN);
	put_ticks(p->f, a, true, a->x0, a->x1);
	put_ticks(p->f, a, false, a->y0, a->y1);
	fprintf(p->f,
		"<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>"
		"<text x=\"14\" y=\"%d\" transform=\"rotate(-90 14 %d)\" text-anchor=\"middle\">%s</text>\n",
		(LEFT + WIDTH) / 2, HEIGHT - 10, mq_html(p, plot->x), HEIGHT / 2, HEIGHT / 2, mq_html(p, plot->y));
}

MQ_COMPARE(by_x, struct mq_page_point, MQ_ORDER(a->x, b->x) ?: MQ_ORDER(a->y, b->y))

static void put_front(FILE *f, const struct axes *a, struct mq_page_point *sorted, uint32_t n)
{
	double low = INFINITY;

	qsort(sorted, n, sizeof(*sorted), by_x);
	fputs("<path class=\"front\" d=\"", f);
	for (uint32_t i = 0; i < n; i++)
		if (sorted[i].y < low) {
			fprintf(f, "%s%.1f,%.1f", isinf(low) ? "M" : "L", at_x(a, sorted[i].x), at_y(a, sorted[i].y));
			low = sorted[i].y;
		}
	fputs("\"/>\n", f);
}

void mq_page_put_plot(struct mq_page *p, const struct mq_page_plot *plot)
{
	if (!plot->n)
		return;
	struct axes a = axes_of(plot);
	struct mq_page_point *sorted = mq_arena_array(&p->arena, plot->n, struct mq_page_point);

	memcpy(sorted, plot->point, plot->n * sizeof(*sorted));
	fprintf(p->f, "<h2>%s</h2>\n<svg viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\">\n", mq_html(p, plot->title),
		WIDTH, HEIGHT, WIDTH);
	put_axes(p, plot, &a);
	if (plot->against)
		fprintf(p->f, "<path class=\"front\" d=\"M%d,%dL%d,%d\"/>\n", LEFT, HEIGHT - BELOW, WIDTH - MARGIN,
			MARGIN);
	else
		put_front(p->f, &a, sorted, plot->n);
	for (uint32_t i = 0; i < plot->n && i < MOST_POINTS; i++) {
		const struct mq_page_point *q = &plot->point[i];

		fprintf(p->f, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>%s</title></circle>\n",
			q->label ? "b" : "p", at_x(&a, q->x), at_y(&a, q->y), q->label ? 5 : 3, mq_html(p, q->tip));
		if (q->label)
			fprintf(p->f, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", at_x(&a, q->x) + 8, at_y(&a, q->y) - 4,
				mq_html(p, q->label));
	}
	fputs("</svg>\n", p->f);
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
	for (uint32_t i = 0; i < n; i++) {
		fputs(i ? "," : "", p->f);
		mq_page_put_string(p, name[i]);
	}
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

/* Lanes of a device: compute; collectives; sends, receives and copies. */
static uint32_t lane_of(const char *stream)
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
	/* A task that ends within the least width of one drawn before would not be seen. */
	double least_s = csv->n_rows > MOST_TASKS ? end_s * MOST_BANDS * N_LANES / MOST_TASKS : 0;
	fputs("<div class=\"wide\"><canvas id=\"timeline\"></canvas></div>\n"
	      "<script type=\"application/json\" id=\"tasks\">{\"tasks\":[",
	      p->f);
	for (uint32_t i = 0; i < csv->n_rows; i++) {
		uint32_t b = find_word(band, &n_bands, MOST_BANDS, mq_csv_word(csv, i, "device"));
		uint32_t lane = lane_of(mq_csv_word(csv, i, "stream"));

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
		"],\"end\":%.9g}</script>\n<p>Blue: compute; orange: collectives; green and light blue: send and receive; "
		"pink: copies. The wheel zooms, dragging moves, a double click shows all. %u of %u tasks, at most %d "
		"devices.</p>\n",
		end_s, n, csv->n_rows, MOST_BANDS);
}

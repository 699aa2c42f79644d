/* page.c - see page.h. */
#include "session/pages/page.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void mq_page_text(FILE *f, const char *text)
{
	for (; *text; text++) {
		const char *entity = *text == '<'  ? "&lt;" :
				     *text == '>'  ? "&gt;" :
				     *text == '&'  ? "&amp;" :
				     *text == '"'  ? "&quot;" :
				     *text == '\'' ? "&#39;" :
						     NULL;

		if (entity)
			fputs(entity, f);
		else
			fputc(*text, f);
	}
}

void mq_json_put_text(FILE *f, const char *text)
{
	fputc('"', f);
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			fprintf(f, "\\%c", *text);
		else if ((unsigned char)*text < 0x20)
			fprintf(f, "\\u%04x", (unsigned)*text);
		else
			fputc(*text, f);
	fputc('"', f);
}

void mq_json_put_f64(FILE *f, double value)
{
	if (isfinite(value))
		fprintf(f, "%.9g", value);
	else
		fputs("null", f);
}

/* ---- pages ------------------------------------------------------------------------------------------ */

static const char STYLE[] =
	":root{color-scheme:light dark;--ink:#222;--paper:#fff;--line:#ccc;--pale:#f4f4f4;--mark:#0072b2;--best:#d55e00}"
	"@media(prefers-color-scheme:dark){:root{--ink:#ddd;--paper:#161616;--line:#444;--pale:#222;--mark:#56b4e9;"
	"--best:#e69f00}}"
	"body{font:15px/1.5 sans-serif;max-width:75em;margin:2em auto;padding:0 1em;color:var(--ink);background:var(--paper)}"
	"h1,h2,p,li{overflow-wrap:anywhere}pre{background:var(--pale);padding:.8em;overflow-x:auto}div.wide{overflow-x:auto}"
	"table{border-collapse:collapse;font-size:13px}td,th{border:1px solid var(--line);padding:2px 6px;text-align:left;"
	"white-space:nowrap}th{cursor:pointer;background:var(--pale)}td.n{text-align:right}"
	"svg{max-width:100%;height:auto}svg text{font:11px sans-serif;fill:var(--ink)}"
	"svg .axis{stroke:var(--line);fill:none}svg .p{fill:var(--mark);fill-opacity:.6}svg .b{fill:var(--best)}"
	"svg .front{stroke:var(--best);fill:none}";

/* Numbers sort as such: a cell's data-v where it has one, else its text. */
static const char SORT[] =
	"<script>\n\"use strict\";\n"
	"document.querySelectorAll('table.sorts').forEach(function(t){var up=1;"
	"t.querySelectorAll('th').forEach(function(h,i){h.addEventListener('click',function(){up=-up;"
	"var b=t.tBodies[0],r=Array.from(b.rows),v=function(x){var c=x.cells[i];return c.dataset.v||c.textContent;};"
	"r.sort(function(x,y){var p=v(x),q=v(y),d=parseFloat(p)-parseFloat(q);"
	"return up*(isNaN(d)?p.localeCompare(q):d);});r.forEach(function(x){b.appendChild(x);});});});});\n"
	"</script>\n";

static void page_path(const char *dir, const char *file, char path[4096])
{
	snprintf(path, 4096, "%s/%s", dir, file);
}

static enum mq_status cannot_write(const char *path, struct mq_err *err)
{
	return mq_fail(err, MQ_EINPUT, "%s: cannot write: %s; is the disk full?", path, strerror(errno));
}

FILE *mq_page_open(const char *dir, const char *title, struct mq_err *err)
{
	char path[4096];

	page_path(dir, "report.html", path);
	FILE *f = fopen(path, "w");
	if (!f) {
		(void)!cannot_write(path, err);
		return NULL;
	}
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
	      "<meta name=\"viewport\" content=\"width=device-width\"/><title>",
	      f);
	mq_page_text(f, title);
	fprintf(f, "</title><style>%s</style></head><body>\n<h1>", STYLE);
	mq_page_text(f, title);
	fputs("</h1>\n", f);
	return f;
}

static void put_command(FILE *f, const char *dir)
{
	char path[4096], line[4096];

	page_path(dir, "run.ini", path);
	FILE *from = fopen(path, "r");
	if (!from)
		return;
	fputs("<h2>The command</h2>\n<pre>", f);
	while (fgets(line, sizeof(line), from))
		mq_page_text(f, line);
	fputs("</pre>\n", f);
	fclose(from);
}

enum mq_status mq_page_close(FILE *f, const char *dir, struct mq_err *err)
{
	char path[4096];

	put_command(f, dir);
	fputs(SORT, f);
	fputs("</body></html>\n", f);
	bool bad = ferror(f) != 0;
	page_path(dir, "report.html", path);
	return fclose(f) || bad ? cannot_write(path, err) : MQ_OK;
}

void mq_page_words(FILE *f, const char *words)
{
	fputs("<pre id=\"words\">", f);
	mq_page_text(f, words);
	fputs("</pre>\n", f);
}

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

static void put_axes(FILE *f, const struct mq_page_plot *plot, const struct axes *a)
{
	fprintf(f, "<path class=\"axis\" d=\"M%d,%dV%dH%d\"/>\n", LEFT, MARGIN, HEIGHT - BELOW, WIDTH - MARGIN);
	put_ticks(f, a, true, a->x0, a->x1);
	put_ticks(f, a, false, a->y0, a->y1);
	fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + WIDTH) / 2, HEIGHT - 10);
	mq_page_text(f, plot->x);
	fprintf(f, "</text><text x=\"%d\" y=\"%d\" transform=\"rotate(-90 14 %d)\" text-anchor=\"middle\">", 14,
		HEIGHT / 2, HEIGHT / 2);
	mq_page_text(f, plot->y);
	fputs("</text>\n", f);
}

static int by_x(const void *a, const void *b)
{
	const struct mq_page_point *p = a, *q = b;

	if (p->x != q->x)
		return p->x < q->x ? -1 : 1;
	return p->y < q->y ? -1 : p->y > q->y;
}

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

void mq_page_put_plot(FILE *f, const struct mq_page_plot *plot, struct mq_arena *arena)
{
	if (!plot->n)
		return;
	struct axes a = axes_of(plot);
	struct mq_page_point *sorted = mq_arena_array(arena, plot->n, struct mq_page_point);

	memcpy(sorted, plot->point, plot->n * sizeof(*sorted));
	fputs("<h2>", f);
	mq_page_text(f, plot->title);
	fprintf(f, "</h2>\n<svg viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\">\n", WIDTH, HEIGHT, WIDTH);
	put_axes(f, plot, &a);
	if (plot->against)
		fprintf(f, "<path class=\"front\" d=\"M%d,%dL%d,%d\"/>\n", LEFT, HEIGHT - BELOW, WIDTH - MARGIN,
			MARGIN);
	else
		put_front(f, &a, sorted, plot->n);
	for (uint32_t i = 0; i < plot->n && i < MOST_POINTS; i++) {
		const struct mq_page_point *p = &plot->point[i];

		fprintf(f, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>", p->label ? "b" : "p",
			at_x(&a, p->x), at_y(&a, p->y), p->label ? 5 : 3);
		mq_page_text(f, p->tip);
		fputs("</title></circle>\n", f);
		if (!p->label)
			continue;
		fprintf(f, "<text x=\"%.1f\" y=\"%.1f\">", at_x(&a, p->x) + 8, at_y(&a, p->y) - 4);
		mq_page_text(f, p->label);
		fputs("</text>\n", f);
	}
	fputs("</svg>\n", f);
	if (plot->n > MOST_POINTS)
		fprintf(f, "<p>The first %d of %u points are drawn.</p>\n", MOST_POINTS, plot->n);
}

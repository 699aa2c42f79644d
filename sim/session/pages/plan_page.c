/*
 * plan_page.c - report.html of one simulated plan, from the tables that `simulate` leaves: the step as a
 * timeline of a device per class, memory by purpose, the busiest links, the words and the command.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "session/pages/page.h"
#include "base/csv.h"

enum { LEFT = 150, WIDTH = 1100, LANE = 11, MOST_DEVICES = 32, MOST_ROWS = 64 };

static const struct {
	const char *kind, *colour;
} colours[] = {
	{ "compute", "#0072b2" }, { "send", "#009e73" }, { "recv", "#56b4e9" },
	{ "copy", "#cc79a7" },    { NULL, "#e69f00" }, /* collectives */
};

static const char *colour_of(const char *kind)
{
	size_t i = 0;

	while (colours[i].kind && strcmp(colours[i].kind, kind))
		i++;
	return colours[i].colour;
}

struct page {
	FILE *f;
	struct mq_arena *arena;
	const char *dir;
};

/* A table of the folder; false where it is not there. */
static bool load(const struct page *p, const char *name, struct mq_csv *csv)
{
	struct mq_err none = MQ_ERR_INIT;

	return mq_csv_load(mq_arena_printf(p->arena, "%s/%s", p->dir, name), p->arena, csv, &none) == MQ_OK;
}

static double cell(const struct mq_csv *csv, uint32_t row, const char *column)
{
	double v = 0;

	return mq_csv_f64(csv, row, mq_csv_column(csv, column), 0, &v) && isfinite(v) ? v : 0;
}

static const char *word(const struct mq_csv *csv, uint32_t row, const char *column)
{
	return mq_csv_text(csv, row, mq_csv_column(csv, column));
}

/* ---- the timeline ----------------------------------------------------------------------------------- */

struct lane {
	const char *device;
	double drawn[2]; /* how far compute and communication are painted, in pixels */
};

static uint32_t lane_of(struct lane *lane, uint32_t *n, const char *device)
{
	for (uint32_t i = 0; i < *n; i++)
		if (!strcmp(lane[i].device, device))
			return i;
	if (*n == MOST_DEVICES)
		return MOST_DEVICES;
	lane[*n] = (struct lane){ device, { -1, -1 } };
	return (*n)++;
}

/* Tasks that begin in a pixel that is painted already are left out: they would not be seen. */
static void put_task(FILE *f, struct lane *lane, uint32_t at, const struct mq_csv *csv, uint32_t row, double end_s)
{
	const char *kind = word(csv, row, "kind");
	bool moves = strcmp(kind, "compute") != 0;
	double a = cell(csv, row, "start_s") / end_s * (WIDTH - LEFT),
	       b = cell(csv, row, "finish_s") / end_s * (WIDTH - LEFT);

	if (b < lane[at].drawn[moves] + .5)
		return;
	lane[at].drawn[moves] = b;
	fprintf(f, "<rect x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"%d\" fill=\"%s\"><title>", LEFT + a,
		at * 2 * LANE + 4 + (moves ? LANE - 1 : 0), fmax(b - a, .4), LANE - 2, colour_of(kind));
	mq_page_text(f, kind);
	fputc(' ', f);
	mq_page_text(f, word(csv, row, "op"));
	fprintf(f, " %.6g to %.6g ms</title></rect>\n", 1e3 * cell(csv, row, "start_s"),
		1e3 * cell(csv, row, "finish_s"));
}

static void put_timeline(const struct page *p)
{
	struct lane lane[MOST_DEVICES];
	struct mq_csv csv;
	uint32_t n = 0;
	double end_s = 0;

	if (!load(p, "timeline.csv", &csv))
		return;
	for (uint32_t i = 0; i < csv.n_rows; i++) {
		lane_of(lane, &n, word(&csv, i, "device"));
		end_s = fmax(end_s, cell(&csv, i, "finish_s"));
	}
	if (!n || !(end_s > 0))
		return;
	fprintf(p->f,
		"<h2>The step</h2>\n<p>Above: compute; below: communication (sends green, receives light blue, collectives "
		"orange, copies pink). %u device%s.</p>\n<div class=\"wide\"><svg id=\"timeline\" viewBox=\"0 0 %d %u\" "
		"width=\"%d\">\n",
		n, n == 1 ? "" : "s, each for those like it", WIDTH, n * 2 * LANE + 34, WIDTH);
	for (uint32_t i = 0; i < n; i++) {
		fprintf(p->f, "<text x=\"0\" y=\"%u\">", i * 2 * LANE + 17);
		mq_page_text(p->f, lane[i].device);
		fputs("</text>\n", p->f);
	}
	for (uint32_t i = 0; i < csv.n_rows; i++) {
		uint32_t at = lane_of(lane, &n, word(&csv, i, "device"));

		if (at < MOST_DEVICES)
			put_task(p->f, lane, at, &csv, i, end_s);
	}
	for (int i = 0; i <= 5; i++)
		fprintf(p->f, "<text x=\"%.1f\" y=\"%u\" text-anchor=\"%s\">%.4g ms</text>\n",
			LEFT + i / 5. * (WIDTH - LEFT), n * 2 * LANE + 24, i == 5 ? "end" : "middle",
			1e3 * end_s * i / 5);
	fputs("</svg></div>\n", p->f);
}

/* ---- memory and links ------------------------------------------------------------------------------- */

static void put_memory(const struct page *p)
{
	static const struct {
		const char *column, *name, *colour;
	} parts[] = {
		{ "parameter_B", "parameters", "#0072b2" }, { "gradient_B", "gradients", "#56b4e9" },
		{ "optimizer_B", "optimizer", "#009e73" },  { "activation_B", "activations", "#e69f00" },
		{ "buffer_B", "buffers", "#cc79a7" },       { "fragmentation_B", "fragmentation", "#999999" },
		{ "reserve_B", "reserve", "#666666" },
	};
	struct mq_csv csv;
	double most = 0;
	uint32_t n = 0;

	if (!load(p, "memory.csv", &csv) || !csv.n_rows)
		return;
	for (uint32_t i = 0; i < csv.n_rows; i++)
		most = fmax(most, fmax(cell(&csv, i, "limit_B"), cell(&csv, i, "peak_B")));
	n = csv.n_rows < MOST_DEVICES ? csv.n_rows : MOST_DEVICES;
	fputs("<h2>Memory at its peak</h2>\n<p>", p->f);
	for (size_t k = 0; k < sizeof(parts) / sizeof(*parts); k++)
		fprintf(p->f, "<span style=\"color:%s\">&#9632;</span> %s ", parts[k].colour, parts[k].name);
	fprintf(p->f, "; the line is the limit.</p>\n<svg id=\"memory\" viewBox=\"0 0 %d %u\" width=\"%d\">\n", WIDTH,
		n * 16 + 4, WIDTH);
	for (uint32_t i = 0; i < n; i++) {
		double x = LEFT, scale = most > 0 ? (WIDTH - LEFT - 10) / most : 0;

		fprintf(p->f, "<text x=\"0\" y=\"%u\">", i * 16 + 13);
		mq_page_text(p->f, word(&csv, i, "device"));
		fputs("</text>", p->f);
		for (size_t k = 0; k < sizeof(parts) / sizeof(*parts); k++) {
			double B = cell(&csv, i, parts[k].column);

			fprintf(p->f,
				"<rect x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"12\" fill=\"%s\"><title>%s %.4g GB</title>"
				"</rect>",
				x, i * 16 + 3, B * scale, parts[k].colour, parts[k].name, B / 1e9);
			x += B * scale;
		}
		fprintf(p->f, "<path class=\"front\" d=\"M%.1f,%uv14\"/>\n", LEFT + cell(&csv, i, "limit_B") * scale,
			i * 16 + 2);
	}
	fputs("</svg>\n", p->f);
	if (n < csv.n_rows)
		fprintf(p->f, "<p>The first %u of %u devices.</p>\n", n, csv.n_rows);
}

struct busy {
	uint32_t row;
	double utilisation;
};

static int by_use(const void *a, const void *b)
{
	const struct busy *x = a, *y = b;

	if (x->utilisation != y->utilisation)
		return x->utilisation > y->utilisation ? -1 : 1;
	return x->row < y->row ? -1 : 1;
}

static void put_links(const struct page *p)
{
	struct busy *busy;
	struct mq_csv csv;

	if (!load(p, "links.csv", &csv) || !csv.n_rows)
		return;
	busy = mq_arena_array(p->arena, csv.n_rows, struct busy);
	for (uint32_t i = 0; i < csv.n_rows; i++)
		busy[i] = (struct busy){ i, cell(&csv, i, "utilisation") };
	qsort(busy, csv.n_rows, sizeof(*busy), by_use);
	fputs("<h2>The busiest links</h2>\n<div class=\"wide\"><table class=\"sorts\" id=\"links\"><thead><tr><th>link</th>"
	      "<th>class</th><th>GB/s</th><th>GB carried</th><th>used %</th></tr></thead><tbody>\n",
	      p->f);
	for (uint32_t i = 0; i < csv.n_rows && i < MOST_ROWS; i++) {
		uint32_t row = busy[i].row;

		fputs("<tr><td>", p->f);
		mq_page_text(p->f, word(&csv, row, "link"));
		fputs("</td><td>", p->f);
		mq_page_text(p->f, word(&csv, row, "class"));
		fprintf(p->f, "</td><td class=\"n\">%.4g</td><td class=\"n\">%.4g</td><td class=\"n\">%.1f</td></tr>\n",
			cell(&csv, row, "bandwidth_Bps") / 1e9, cell(&csv, row, "bytes") / 1e9,
			100 * busy[i].utilisation);
	}
	fputs("</tbody></table></div>\n", p->f);
}

enum mq_status mq_plan_page(const char *dir, const char *title, const char *words, struct mq_err *err)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct page p = { mq_page_open(dir, title, err), &arena, dir };

	if (!p.f)
		return MQ_EINPUT;
	mq_page_words(p.f, words);
	put_timeline(&p);
	put_memory(&p);
	put_links(&p);
	mq_arena_fini(&arena);
	return mq_page_close(p.f, dir, err);
}

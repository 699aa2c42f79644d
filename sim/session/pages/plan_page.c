/* plan_page.c - report.html of one simulated plan, from the tables that `simulate` leaves: the step as a timeline of a
 * device per class, memory by purpose, the busiest links, the words and the command.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "session/pages/page.h"

enum { LEFT = 150, WIDTH = 1100, MOST_DEVICES = 32, MOST_ROWS = 64 };

static double cell(const struct mq_csv *csv, uint32_t row, const char *column)
{
	double v = 0;

	return mq_csv_f64(csv, row, mq_csv_column(csv, column), 0, &v) && isfinite(v) ? v : 0;
}

static void put_step(struct mq_page *p)
{
	struct mq_csv csv;

	if (!mq_page_load(p, "timeline.csv", &csv))
		return;
	fputs("<h2>The step</h2>\n", p->f);
	mq_page_put_timeline(p, &csv);
}

static void put_memory(struct mq_page *p)
{
	static const struct {
		const char *column, *name, *colour;
	} parts[] = {
		{ "parameter_B", "parameters", "#0072b2" }, { "gradient_B", "gradients", "#56b4e9" },
		{ "optimizer_B", "optimizer", "#009e73" },  { "activation_B", "activations", "#e69f00" },
		{ "buffer_B", "buffers", "#cc79a7" },       { "fragmentation_B", "fragmentation", "#999999" },
		{ "reserve_B", "reserve", "#666666" },
	};
	enum { N_PARTS = sizeof(parts) / sizeof(*parts) };
	struct mq_csv csv;
	double most = 0;

	if (!mq_page_load(p, "memory.csv", &csv))
		return;
	for (uint32_t i = 0; i < csv.n_rows; i++)
		most = fmax(most, fmax(cell(&csv, i, "limit_B"), cell(&csv, i, "peak_B")));
	uint32_t n = csv.n_rows < MOST_DEVICES ? csv.n_rows : MOST_DEVICES;
	double scale = most > 0 ? (WIDTH - LEFT - 10) / most : 0;
	fputs("<h2>Memory at its peak</h2>\n<p>", p->f);
	for (size_t k = 0; k < N_PARTS; k++)
		fprintf(p->f, "<span style=\"color:%s\">&#9632;</span> %s ", parts[k].colour, parts[k].name);
	fprintf(p->f, "; the line is the limit.</p>\n<svg id=\"memory\" viewBox=\"0 0 %d %u\" width=\"%d\">\n", WIDTH,
		n * 16 + 4, WIDTH);
	for (uint32_t i = 0; i < n; i++) {
		double x = LEFT;

		fprintf(p->f, "<text x=\"0\" y=\"%u\">%s</text>", i * 16 + 13,
			mq_html(p, mq_csv_word(&csv, i, "device")));
		for (size_t k = 0; k < N_PARTS; k++) {
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

MQ_COMPARE(by_use, struct busy, MQ_ORDER(b->utilisation, a->utilisation) ?: MQ_ORDER(a->row, b->row))

static void put_links(struct mq_page *p)
{
	static const char *const heads[] = { "link", "class", "GB/s", "GB carried", "used %", NULL };
	struct mq_csv csv;

	if (!mq_page_load(p, "links.csv", &csv))
		return;
	struct busy *busy = mq_arena_array(&p->arena, csv.n_rows, struct busy);
	for (uint32_t i = 0; i < csv.n_rows; i++)
		busy[i] = (struct busy){ i, cell(&csv, i, "utilisation") };
	qsort(busy, csv.n_rows, sizeof(*busy), by_use);
	fputs("<h2>The busiest links</h2>\n", p->f);
	mq_page_table_begin(p, "links", heads);
	for (uint32_t i = 0; i < csv.n_rows && i < MOST_ROWS; i++) {
		const double GBps = cell(&csv, busy[i].row, "bandwidth_Bps") / 1e9;
		const double GB = cell(&csv, busy[i].row, "bytes") / 1e9, used = 100 * busy[i].utilisation;

		fputs("<tr>", p->f);
		mq_page_cell(p, mq_csv_word(&csv, busy[i].row, "link"));
		mq_page_cell(p, mq_csv_word(&csv, busy[i].row, "class"));
		mq_page_number(p, GBps, mq_arena_printf(&p->arena, "%.4g", GBps));
		mq_page_number(p, GB, mq_arena_printf(&p->arena, "%.4g", GB));
		mq_page_number(p, used, mq_arena_printf(&p->arena, "%.1f", used));
		fputs("</tr>\n", p->f);
	}
	mq_page_table_end(p);
}

enum mq_status mq_plan_page(const char *dir, const char *title, const char *words, struct mq_err *err)
{
	struct mq_page p;

	MQ_TRY(mq_page_open(&p, dir, title, err));
	mq_page_words(&p, words);
	put_step(&p);
	put_memory(&p);
	put_links(&p);
	mq_page_command(&p);
	return mq_page_close(&p, MQ_OK, err);
}

/* plan_page.c - report.html of one simulated plan, from the tables that `simulate` writes: a timeline of one device per
 * class, stages, memory by purpose, the busiest links, the printed text and the command.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "session/pages/page.h"
#include "session/session.h"

/* MOST_DEVICES: simulating more devices, none folded, takes minutes and gigabytes. */
enum { MOST_DEVICES = 512, MOST_ROWS = 64, MOST_STAGES = 256 };

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

/* A pipeline stage, as its first device in the timeline ran it. */
struct stage {
	const char *device, *first; /* its first operator */
	double compute_s;
};

static void put_stages(struct mq_page *p)
{
	static const char *const heads[] = { "stage", "device", "first operator", "compute", NULL };
	struct mq_csv csv, tasks;
	struct stage stage[MOST_STAGES] = { 0 };
	uint32_t n = 0;

	if (!mq_page_load(p, "timeline.csv", &csv) || !mq_page_load(p, "tasks.csv", &tasks) ||
	    csv.n_rows != tasks.n_rows)
		return;
	for (uint32_t r = 0; r < csv.n_rows; r++) {
		const char *device = mq_csv_word(&csv, r, "device");
		const uint32_t i = (uint32_t)cell(&tasks, r, "stage");

		if (strcmp(mq_csv_word(&csv, r, "kind"), "compute") != 0 || i >= MOST_STAGES)
			continue;
		n = i < n ? n : i + 1;
		if (!stage[i].device)
			stage[i] = (struct stage){ device, mq_csv_word(&csv, r, "op"), 0 };
		if (!strcmp(stage[i].device, device))
			stage[i].compute_s += cell(&csv, r, "finish_s") - cell(&csv, r, "start_s");
	}
	if (n < 2)
		return;
	fputs("<h2>Its stages</h2>\n", p->f);
	mq_page_table_begin(p, "stages", heads);
	for (uint32_t i = 0; i < n; i++) {
		char text[32];

		if (!stage[i].device)
			continue;
		fputs("<tr>", p->f);
		mq_page_number(p, i, mq_arena_printf(&p->arena, "%u", i));
		mq_page_cell(p, stage[i].device);
		mq_page_cell(p, stage[i].first);
		mq_page_number(p, stage[i].compute_s, mq_text_s(stage[i].compute_s, text));
		fputs("</tr>\n", p->f);
	}
	mq_page_table_end(p);
}

static void put_memory(struct mq_page *p)
{
	static const char *const parts[][2] = {
		{ "parameter_B", "parameters" }, { "gradient_B", "gradients" },
		{ "optimizer_B", "optimizer" },  { "activation_B", "activations" },
		{ "buffer_B", "buffers" },       { "fragmentation_B", "fragmentation" },
		{ "reserve_B", "reserve" },
	};
	enum { N_PARTS = sizeof(parts) / sizeof(*parts) };
	struct mq_csv csv;

	if (!mq_page_load(p, "memory.csv", &csv))
		return;
	fputs("<h2>Memory at its peak</h2>\n<div><script type=\"application/json\" id=\"memory_parts\">{\"parts\":[",
	      p->f);
	for (size_t i = 0; i < N_PARTS; i++)
		fprintf(p->f, "%s\"%s\"", i ? "," : "", parts[i][1]);
	fputs("],\"devices\":[", p->f);
	for (uint32_t r = 0; r < csv.n_rows; r++) {
		fputs(r ? ",\n[" : "\n[", p->f);
		mq_page_put_string(p, mq_csv_word(&csv, r, "device"));
		fprintf(p->f, ",%.9g,[", cell(&csv, r, "limit_B"));
		for (size_t i = 0; i < N_PARTS; i++)
			fprintf(p->f, "%s%.9g", i ? "," : "", cell(&csv, r, parts[i][0]));
		fputs("]]", p->f);
	}
	fputs("]}</script></div>\n", p->f);
}

struct busy {
	uint32_t row;
	double utilisation, Bps;
};

MQ_COMPARE(by_use, struct busy,
	   MQ_ORDER(b->utilisation, a->utilisation) ?:
		   MQ_ORDER(b->Bps, a->Bps)         ?:
						      MQ_ORDER(a->row, b->row))

/* A row per group of links of equal class and bytes. */
static void put_links(struct mq_page *p)
{
	static const char *const heads[] = { "link", "links alike", "class", "GB/s", "GB carried", "used %", NULL };
	static const char *const same[] = { "class", "bandwidth_Bps", "bytes" };
	struct mq_csv csv;

	if (!mq_page_load(p, "links.csv", &csv))
		return;
	struct busy *busy = mq_arena_array(&p->arena, csv.n_rows, struct busy);
	for (uint32_t i = 0; i < csv.n_rows; i++)
		busy[i] = (struct busy){ i, cell(&csv, i, "utilisation"), cell(&csv, i, "bandwidth_Bps") };
	qsort(busy, csv.n_rows, sizeof(*busy), by_use);
	fputs("<h2>The busiest links</h2>\n", p->f);
	mq_page_table_begin(p, "links", heads);
	for (uint32_t i = 0, n = 1, rows = 0; i < csv.n_rows && rows < MOST_ROWS && busy[i].utilisation > 0;
	     i += n, n = 1, rows++) {
		const uint32_t r = busy[i].row;
		const double GBps = busy[i].Bps / 1e9;
		const double GB = cell(&csv, r, "bytes") / 1e9, used = 100 * busy[i].utilisation;
		bool alike = true;

		for (; i + n < csv.n_rows && alike; n += alike)
			for (size_t k = 0; k < 3 && alike; k++)
				alike = !strcmp(mq_csv_word(&csv, busy[i + n].row, same[k]),
						mq_csv_word(&csv, r, same[k]));
		fputs("<tr>", p->f);
		mq_page_cell(p, mq_csv_word(&csv, r, "link"));
		mq_page_number(p, n, mq_arena_printf(&p->arena, "%u", n));
		mq_page_cell(p, mq_csv_word(&csv, r, "class"));
		mq_page_number(p, GBps, mq_arena_printf(&p->arena, "%.4g", GBps));
		mq_page_number(p, GB, mq_arena_printf(&p->arena, "%.4g", GB));
		mq_page_number(p, used, mq_arena_printf(&p->arena, "%.1f", used));
		fputs("</tr>\n", p->f);
	}
	mq_page_table_end(p);
}

static void put_source(struct mq_page *p, const char *kind, const char *name, const char *source)
{
	fputs("<tr>", p->f);
	mq_page_cell(p, kind);
	mq_page_cell(p, name);
	mq_page_cell(p, source && *source ? source : "see the file's values");
	fputs("</tr>\n", p->f);
}

void mq_page_put_sources(struct mq_page *p, const struct mq_session *s)
{
	static const char *const heads[] = { "kind", "calibration", "source", NULL };
	const struct mq_cluster *c = s->cluster;

	fprintf(p->f,
		"<h2 id=\"provenance\">Where the numbers come from</h2>\n<p>Software: %s. Every parameter has its unit and "
		"source in platforms/calib and platforms/software.</p>\n",
		mq_html(p, s->q.software->name));
	mq_page_table_begin(p, "sources", heads);
	uint32_t *n = mq_arena_array(&p->arena, s->calib->n_devices + s->calib->n_links, uint32_t);
	uint32_t *n_links = n + s->calib->n_devices;

	for (uint32_t d = 0; d < c->n_devices; d++)
		n[c->device[d].calib]++;
	for (uint32_t i = 0; i < c->n_links; i++) {
		const char *class = mq_calib_link_class(&c->link[i]);
		const struct mq_link_calib *l = class ? mq_session_link(s, class) : NULL;

		if (l)
			n_links[l - s->calib->link]++;
	}
	for (uint32_t i = 0; i < s->calib->n_devices; i++)
		if (n[i])
			put_source(p, mq_arena_printf(&p->arena, "%u devices", n[i]), s->calib->device[i].name,
				   s->calib->device[i].source);
	for (uint32_t i = 0; i < s->calib->n_links; i++)
		if (n_links[i])
			put_source(p, mq_arena_printf(&p->arena, "%u links", n_links[i]), s->calib->link[i].name,
				   s->calib->link[i].source);
	mq_page_table_end(p);
}

static void put_tables(struct mq_page *p)
{
	put_step(p);
	put_stages(p);
	put_memory(p);
	put_links(p);
}

enum mq_status mq_page_put_best(struct mq_page *p, struct mq_session *s, const struct mq_plan *plan, struct mq_err *err)
{
	const char *dir = p->dir, *best = mq_arena_printf(&p->arena, "%s/best", dir);

	fprintf(p->f, "<p id=\"best\">%s</p>\n", mq_html(p, mq_plan_describe(plan, s->cluster, &p->arena)));
	if (mq_plan_degrees(plan).n_devices > MOST_DEVICES) {
		fprintf(p->f, "<p>Its timeline is not drawn: it has more than %d devices.</p>\n", MOST_DEVICES);
		return MQ_OK;
	}
	MQ_TRY(mq_session_detail(s, plan, best, err));
	p->dir = best;
	put_tables(p);
	p->dir = dir;
	return MQ_OK;
}

enum mq_status mq_plan_page(const char *dir, const char *title, const char *words, struct mq_err *err)
{
	struct mq_page p;

	mq_page_open(&p, dir, title);
	mq_page_words(&p, words);
	put_tables(&p);
	mq_page_command(&p);
	return mq_page_close(&p, MQ_OK, err);
}

/* report.c - report.html of a study, one file that loads nothing: question, answers, tables, figures as inline SVG,
 * each axis, the fastest point's plan, assumptions, sources of parameters, and the command that makes it again.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "hardware/platform/graph.h"
#include "session/pages/page.h"
#include "study/study.h"

struct report {
	struct mq_page p;
	const struct mq_study *study;
	struct mq_err *err;
};

static const char *path_of(struct report *r, const char *name)
{
	return mq_arena_printf(&r->p.arena, "%s/%s", r->p.dir, name);
}

/* Embeds a figure as an image, so that ids of several SVGs do not clash. */
static void put_figure(struct report *r, const char *name)
{
	FILE *f = fopen(path_of(r, mq_arena_printf(&r->p.arena, "%s.svg", name)), "r");
	int c;

	if (!f)
		return;
	fprintf(r->p.f, "<figure class=\"drawn\" id=\"figure-%s\"><img alt=\"%s\" src=\"data:image/svg+xml,", name,
		name);
	while ((c = fgetc(f)) != EOF)
		fprintf(r->p.f, strchr("%#\"<>&\n", c) ? "%%%02X" : "%c", c);
	fputs("\"></figure>\n", r->p.f);
	fclose(f);
}

static void put_assumptions(struct report *r)
{
	fputs("<h2 id=\"assumptions\">Assumptions</h2>\n<ul><li>One training step in steady state; input, checkpoints "
	      "and failures in time are not in it.</li><li>Each row is the best plan that its engines found within "
	      "their budget, not a proof.</li><li>Prices and powers are those of the devices used, at full load, for "
	      "the length of the step; hosts, network and cooling are not in them.</li><li>Sensitivities and "
	      "break-even points judge the same plan again; a new search may do better.</li><li>Of several jobs at "
	      "once, each repeats its step, which starts when the one before has ended on all its devices; the mean "
	      "counts steps during which all jobs run.</li><li>A factor on a link or device acts on the nominal "
	      "value; software overheads stay.</li></ul>\n",
	      r->p.f);
}

/* Draws the cluster's topology; nothing without graphviz. */
static enum mq_status put_topology(struct report *r, const struct mq_session *s)
{
	struct mq_err why = MQ_ERR_INIT;
	enum mq_status status = mq_platform_draw(s->cluster, path_of(r, "topology.svg"), &why);

	if (status == MQ_ENODEV)
		return MQ_OK;
	if (status != MQ_OK)
		return mq_fail(r->err, status, "%s", why.text);
	fprintf(r->p.f,
		"<h2 id=\"topology\">The cluster</h2>\n<p>%s: machines and their links, the first and the last where there "
		"are many.</p>\n",
		mq_html(&r->p, s->cluster->name));
	put_figure(r, "topology");
	return MQ_OK;
}

/* Opens the fastest point again for its plan, cluster and parameters. With several jobs: only the first job's
 * cluster. */
static enum mq_status put_best(struct report *r, const struct mq_point *point, const char *plan_path)
{
	struct mq_asked asked = point->job ? point->job[0].asked : point->asked;
	enum mq_status status = MQ_OK;
	struct mq_session s;
	struct mq_plan plan;

	if (point->job)
		asked.devices = asked.start = NULL;
	MQ_TRY(mq_session_open(&s, &asked, r->study->shipped, r->err));
	if (!point->job) {
		fprintf(r->p.f, "<h2>The fastest point: %u</h2>\n", point->index);
		status = mq_plan_load(plan_path, s.model, s.cluster, &s.arena, &plan, r->err);
		if (status == MQ_OK)
			status = mq_page_put_best(&r->p, &s, &plan, r->err);
	}
	if (status == MQ_OK)
		status = put_topology(r, &s);
	if (status == MQ_OK)
		mq_page_put_sources(&r->p, &s);
	mq_session_close(&s);
	return status;
}

/* Draws the ranking figure over one axis; a line for each combination of the other axes. */
static void put_axis(struct report *r, const struct mq_csv *csv, uint32_t x, const char *const column[3])
{
	const struct mq_study *s = r->study;
	struct mq_page_point *point = mq_arena_array(&r->p.arena, csv->n_rows, struct mq_page_point);
	uint32_t n = 0;

	for (uint32_t i = 0; i < csv->n_rows; i++) {
		struct mq_page_point *q = &point[n];

		if (!mq_csv_f64(csv, i, mq_csv_column(csv, column[0]), NAN, &q->y) || !isfinite(q->y))
			continue;
		q->at = mq_csv_text(csv, i, mq_csv_column(csv, mq_axis_column(&s->axis[x])));
		q->series = "";
		for (uint32_t a = 0; a < s->n_axes; a++)
			if (a != x && s->axis[a].n > 1)
				q->series = mq_arena_printf(&r->p.arena, "%s%s%s %s", q->series, *q->series ? ", " : "",
							    s->axis[a].key,
							    mq_csv_word(csv, i, mq_axis_column(&s->axis[a])));
		q->tip = mq_arena_printf(&r->p.arena, "%s %s%s%s: %.5g %s, %s", s->axis[x].key, q->at,
					 *q->series ? ", " : "", q->series, q->y, column[1],
					 mq_csv_word(csv, i, "plan"));
		n++;
	}
	mq_page_put_plot(&r->p, &(struct mq_page_plot){
					.title = mq_arena_printf(&r->p.arena, "By %s", s->axis[x].key),
					.x = { s->axis[x].key, "" },
					.y = { column[2], column[1] },
					.point = point,
					.n = n,
				});
}

static void put_axes(struct report *r)
{
	static const char *const time[] = { "step_time_s", "s", "step time" };
	static const char *const price[] = { "usd_per_Mtoken", "$", "price of a million tokens" };
	const struct mq_study *s = r->study;
	bool priced = false;
	struct mq_csv csv;

	if (!mq_page_load(&r->p, "whatif.csv", &csv) || s->n_jobs)
		return;
	for (uint32_t a = 0; a < s->n_axes; a++)
		priced |= !strcmp(s->axis[a].key, "objective") && !strcmp(s->axis[a].value[0], "cost");
	for (uint32_t i = 0; i < csv.n_rows; i++) /* one without a price would be left out */
		priced &= isnan(mq_csv_number(&csv, i, time[0])) || !isnan(mq_csv_number(&csv, i, price[0]));
	for (uint32_t a = 0; a < s->n_axes; a++)
		if (s->axis[a].n > 1)
			put_axis(r, &csv, a, priced ? price : time);
}

static enum mq_status put_all(struct report *r, const struct mq_point *point, const char *plan)
{
	static const char *const figures[] = { "tornado", "scaling", "study_pareto", "heatmap", "jobs" };
	static const struct mq_shown_table tables[] = {
		{ "whatif.csv", "Points", NULL },
		{ "jobs.csv", "Jobs", NULL },
		{ "job_links.csv", "Links that jobs share", NULL },
		{ "sensitivity.csv", "Sensitivity", NULL },
		{ "breakeven.csv", "Break-even", NULL },
		{ "scaling.csv", "Scaling", NULL },
		{ "losses.csv", "Losses", NULL },
		{ "pareto.csv", "Time against cost", NULL },
		{ NULL, NULL, NULL },
	};
	FILE *f = r->p.f;

	fputs("<h2 id=\"question\">The question</h2>\n", f);
	mq_page_file(&r->p, r->study->path);
	fputs("<h2 id=\"answers\">Answers</h2>\n", f);
	mq_page_file(&r->p, path_of(r, "answers.txt"));
	fputs("<h2 id=\"figures\">Figures</h2>\n", f);
	for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++)
		put_figure(r, figures[i]);
	put_axes(r);
	if (point)
		MQ_TRY(put_best(r, point, plan));
	fputs("<div id=\"tables\">\n", f);
	mq_page_tables(&r->p, tables);
	fputs("</div>\n", f);
	put_assumptions(r);
	fprintf(f, "<h2 id=\"command\">Make it again</h2>\n<pre>maquette whatif %s -o %s</pre>\n",
		mq_html(&r->p, r->study->path), mq_html(&r->p, r->p.dir));
	return MQ_OK;
}

enum mq_status mq_study_report(const struct mq_study *study, const char *dir, const struct mq_point *point,
			       const char *plan, struct mq_err *err)
{
	struct report r = { .study = study, .err = err };

	mq_page_open(&r.p, dir, "What-if study");
	return mq_page_close(&r.p, put_all(&r, point, plan), err);
}

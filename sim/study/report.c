/* report.c - report.html of a study: one file, nothing fetched: the question, the answers, tables, figures as inline
 * SVG, the timeline of the fastest point's plan on a canvas to zoom into, assumptions, where every parameter comes
 * from, and the command that makes it again. SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "hardware/platform/graph.h"
#include "session/pages/tables.h"
#include "study/study.h"
#include "judge/pool.h"

enum { MAX_DETAIL = 512 }; /* devices: more take minutes and gigabytes one by one */

struct report {
	struct mq_page p;
	const struct mq_study *study;
	struct mq_err *err;
};

static const char *path_of(struct report *r, const char *name)
{
	return mq_arena_printf(&r->p.arena, "%s/%s", r->p.dir, name);
}

/* SVG with the figure's name before every id and every mention of one: several figures in one document
 * must not take each other's. */
static void put_prefixed(FILE *f, const char *text, const char *name)
{
	static const char *const marks[] = { " id=\"", " id='", "href=\"#", "href='#", "url(#" };

	static const char plot[] = " id=\"gnuplot_plot_"; /* gnuplot repeats some ids; they are dropped */

	while (*text) {
		size_t n = 0;

		if (!strncmp(text, plot, sizeof(plot) - 1)) {
			text += sizeof(plot) - 1;
			text += strcspn(text, "\"");
			text += *text == '"';
			continue;
		}
		for (size_t i = 0; i < sizeof(marks) / sizeof(*marks) && !n; i++)
			if (!strncmp(text, marks[i], strlen(marks[i])))
				n = strlen(marks[i]);
		if (n)
			fprintf(f, "%.*s%s-", (int)n, text, name);
		else
			fputc(*text, f);
		text += n ? n : 1;
	}
}

/* The figure from its <svg> tag on: what stands before it is not for HTML. */
static void put_figure(struct report *r, const char *name)
{
	char *line = NULL;
	size_t room = 0;
	bool inside = false;
	FILE *f = fopen(path_of(r, mq_arena_printf(&r->p.arena, "%s.svg", name)), "r");

	if (!f)
		return;
	fprintf(r->p.f, "<figure id=\"figure-%s\">\n", name);
	while (getline(&line, &room, f) > 0) {
		const char *from = inside ? line : strstr(line, "<svg");

		inside |= from != NULL;
		if (from)
			put_prefixed(r->p.f, from, name);
	}
	fputs("</figure>\n", r->p.f);
	free(line);
	fclose(f);
}

/* ---- provenance ---------------------------------------------------------------------------------------------- */

static void put_source(struct mq_page *p, const char *what, const char *name, const char *source)
{
	fprintf(p->f, "<tr><td>%s</td><td>%s</td><td>%s</td></tr>\n", what, mq_html(p, name),
		mq_html(p, source && *source ? source : "see the file's values"));
}

static void put_provenance(struct report *r, const struct mq_session *s)
{
	static const char *const heads[] = { "kind", "calibration", "source", NULL };
	const struct mq_cluster *c = s->cluster;

	fputs("<h2 id=\"provenance\">Where the numbers come from</h2>\n<p>Every parameter has its unit and "
	      "source in platforms/calib/NAME.json; of the fastest point's devices, and of the links:</p>\n",
	      r->p.f);
	mq_page_table_begin(&r->p, "sources", heads);
	for (uint32_t i = 0; i < s->calib->n_devices; i++) {
		bool used = false;

		for (uint32_t d = 0; d < c->n_devices && !used; d++)
			used = c->device[d].calib == i;
		if (used)
			put_source(&r->p, "device", s->calib->device[i].name, s->calib->device[i].source);
	}
	for (uint32_t i = 0; i < s->calib->n_links; i++)
		put_source(&r->p, "link", s->calib->link[i].name, s->calib->link[i].source);
	mq_page_table_end(&r->p);
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

/* What is wired to what; nothing where graphviz is not there. */
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

/* Of a study with several jobs: the cluster of its first point. */
static enum mq_status put_whole(struct report *r, const struct mq_point *point)
{
	struct mq_asked whole = point->job[0].asked;
	struct mq_session s;

	whole.devices = NULL;
	whole.start = NULL;
	MQ_TRY(mq_session_open(&s, &whole, r->err));
	enum mq_status status = put_topology(r, &s);
	if (status == MQ_OK)
		put_provenance(r, &s);
	mq_session_close(&s);
	return status;
}

/* The timeline, from a simulation of every device; of large plans the judgement alone. */
static enum mq_status put_plan(struct report *r, struct mq_session *s, const struct mq_plan *plan, uint32_t point)
{
	const char *dir = path_of(r, "best");
	const struct mq_outputs outputs = { .dir = dir };
	bool large = mq_plan_degrees(plan).n_devices > MAX_DETAIL;
	struct mq_csv timeline;
	struct mq_result result;

	MQ_TRY(mq_make_dir(dir, r->err));
	MQ_TRY(large ? mq_session_judge(s, &plan, 1, &result, r->err) :
		       mq_pool_detail(s->pool, plan, &outputs, &result, r->err));
	if (result.verdict != MQ_VERDICT_OK)
		return mq_fail(r->err, mq_verdict_status(result.verdict), "the report: point %u: %s: %s", point,
			       mq_verdict_name(result.verdict), result.message);
	fprintf(r->p.f,
		"<h2 id=\"best\">The fastest point: %u</h2>\n<p>%s: %.6g s a step, MFU %.1f %%. Bottleneck: %s</p>\n",
		point, mq_html(&r->p, mq_plan_describe(plan, s->cluster, &s->arena)), result.step_time_s,
		100 * result.mfu, mq_html(&r->p, result.bottleneck));
	if (large) {
		fprintf(r->p.f, "<p>Its timeline is not drawn: it has more than %d devices.</p>\n", MAX_DETAIL);
		return MQ_OK;
	}
	MQ_TRY(mq_csv_load(mq_arena_printf(&r->p.arena, "%s/timeline.csv", dir), &r->p.arena, &timeline, r->err));
	mq_page_put_timeline(&r->p, &timeline);
	return MQ_OK;
}

/* The fastest point once more: its timeline, and what it was made of. */
static enum mq_status put_best(struct report *r, const struct mq_point *point, const char *plan_path)
{
	struct mq_session s;
	struct mq_plan plan;

	MQ_TRY(mq_session_open(&s, &point->asked, r->err));
	enum mq_status status = mq_plan_load(plan_path, s.model, s.cluster, &s.arena, &plan, r->err);
	if (status == MQ_OK)
		status = put_plan(r, &s, &plan, point->index);
	if (status == MQ_OK)
		status = put_topology(r, &s);
	if (status == MQ_OK)
		put_provenance(r, &s);
	mq_session_close(&s);
	return status;
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
	if (point)
		MQ_TRY(point->job ? put_whole(r, point) : put_best(r, point, plan));
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

	MQ_TRY(mq_page_open(&r.p, dir, "What-if study", err));
	return mq_page_close(&r.p, put_all(&r, point, plan), err);
}

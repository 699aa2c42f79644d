/*
 * report.c - report.html of a study: one file, nothing fetched: the question, the answers,
 * tables, figures as inline SVG, the timeline of the fastest point's plan on a canvas to zoom into,
 * assumptions, where every parameter comes from, and the command that makes it again.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hardware/platform/graph.h"
#include "study/study.h"
#include "base/csv.h"
#include "judge/pool.h"

enum {
	MAX_TASKS = 20000,
	MAX_BANDS = 32,
	MAX_DETAIL = 512, /* devices: more take minutes and gigabytes one by one */
};

struct report {
	struct mq_arena arena;
	const struct mq_study *study;
	const char *dir;
	FILE *f;
	struct mq_err *err;
};

static const char head[] =
	"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>What-if study</title><style>"
	"body{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}"
	"pre{background:#f4f4f4;padding:.8em;overflow-x:auto}div.wide{overflow-x:auto}"
	"table{border-collapse:collapse;font-size:13px}td,th{border:1px solid #ccc;padding:2px 6px;"
	"text-align:left;white-space:nowrap}svg{max-width:100%;height:auto}canvas{border:1px solid #ccc;"
	"width:100%}</style></head><body>\n";

/* Wheel zooms at the pointer, dragging moves, double click shows all. Tasks: [band, lane, start, length,
 * kind]. */
static const char script[] =
	"<script>\n\"use strict\";\n(function(){\n"
	"var d=JSON.parse(document.getElementById('tasks').textContent),c=document.getElementById('timeline'),"
	"g=c.getContext('2d'),a=0,b=d.end,drag=null,h=26,left=110;\n"
	"c.width=1100;c.height=h*d.bands.length+30;\n"
	"var col={compute:'#0072b2',send:'#009e73',recv:'#56b4e9',copy:'#cc79a7'};\n" /* else a collective */
	"function x(t){return left+(t-a)/(b-a)*(c.width-left);}\n"
	"function draw(){g.fillStyle='#fff';g.fillRect(0,0,c.width,c.height);\n"
	"d.tasks.forEach(function(t){var u=x(t[2]),w=Math.max(x(t[2]+t[3])-u,.5);"
	"if(u>c.width||u+w<left)return;u=Math.max(u,left);g.fillStyle=col[d.kinds[t[4]]]||'#e69f00';"
	"g.fillRect(u,t[0]*h+2+t[1]*8,w,7);});\n"
	"g.fillStyle='#fff';g.fillRect(0,0,left,c.height);g.fillStyle='#222';g.font='11px sans-serif';\n"
	"d.bands.forEach(function(n,i){g.fillText(n,4,i*h+16);});\n"
	"for(var i=0;i<=5;i++){var t=a+(b-a)*i/5;g.fillText((1e3*t).toPrecision(4)+' ms',"
	"Math.min(x(t),c.width-60),c.height-8);}}\n"
	"function at(e){var r=c.getBoundingClientRect();"
	"return a+((e.clientX-r.left)*c.width/r.width-left)/(c.width-left)*(b-a);}\n"
	"c.addEventListener('wheel',function(e){e.preventDefault();var t=at(e),z=e.deltaY<0?.8:1.25;"
	"a=t-(t-a)*z;b=t+(b-t)*z;draw();});\n"
	"c.addEventListener('mousedown',function(e){drag=at(e);});\n"
	"window.addEventListener('mouseup',function(){drag=null;});\n"
	"c.addEventListener('mousemove',function(e){if(drag===null)return;var s=drag-at(e);a+=s;b+=s;draw();});\n"
	"c.addEventListener('dblclick',function(){a=0;b=d.end;draw();});\ndraw();\n})();\n</script>\n";

static void put_escaped(FILE *f, const char *text)
{
	for (; *text; text++) {
		const char *entity = *text == '<' ? "&lt;" :
				     *text == '>' ? "&gt;" :
				     *text == '&' ? "&amp;" :
				     *text == '"' ? "&quot;" :
						    NULL;

		if (entity)
			fputs(entity, f);
		else
			fputc(*text, f);
	}
}

static const char *path_of(struct report *r, const char *name)
{
	return mq_arena_printf(&r->arena, "%s/%s", r->dir, name);
}

/* A text file as it is; nothing where it is not there. */
static void put_file(struct report *r, const char *path)
{
	char line[4096];
	FILE *f = fopen(path, "r");

	fputs("<pre>", r->f);
	while (f && fgets(line, sizeof(line), f))
		put_escaped(r->f, line);
	fputs("</pre>\n", r->f);
	if (f)
		fclose(f);
}

static enum mq_status put_table(struct report *r, const char *name, const char *title)
{
	const char *path = path_of(r, name);
	struct mq_csv csv;

	if (access(path, R_OK))
		return MQ_OK;
	MQ_TRY(mq_csv_load(path, &r->arena, &csv, r->err));
	fprintf(r->f, "<h3>%s</h3><div class=\"wide\"><table id=\"%s\"><thead><tr>", title, name);
	for (uint32_t c = 0; c < csv.n_columns; c++) {
		fputs("<th>", r->f);
		put_escaped(r->f, csv.header[c]);
		fputs("</th>", r->f);
	}
	fputs("</tr></thead><tbody>\n", r->f);
	for (uint32_t i = 0; i < csv.n_rows; i++) {
		fputs("<tr>", r->f);
		for (uint32_t c = 0; c < csv.n_columns; c++) {
			fputs("<td>", r->f);
			put_escaped(r->f, mq_csv_text(&csv, i, c));
			fputs("</td>", r->f);
		}
		fputs("</tr>\n", r->f);
	}
	fputs("</tbody></table></div>\n", r->f);
	return MQ_OK;
}

/* SVG with the figure's name before every id and every mention of one: several figures in one document
 * must not take each other's. */
static void put_prefixed(FILE *f, const char *text, const char *name)
{
	static const char *const marks[] = { " id=\"", " id='", "href=\"#", "href='#", "url(#" };

	static const char plot[] = " id=\"gnuplot_plot_"; /* gnuplot gives some twice, and nobody asks */

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
	FILE *f = fopen(path_of(r, mq_arena_printf(&r->arena, "%s.svg", name)), "r");

	if (!f)
		return;
	fprintf(r->f, "<figure id=\"figure-%s\">\n", name);
	while (getline(&line, &room, f) > 0) {
		const char *from = inside ? line : strstr(line, "<svg");

		inside |= from != NULL;
		if (from)
			put_prefixed(r->f, from, name);
	}
	fputs("</figure>\n", r->f);
	free(line);
	fclose(f);
}

/* ---- timeline ---------------------------------------------------------------------------------------------- */

static uint32_t find_word(const char **list, uint32_t *n, uint32_t room, const char *word)
{
	uint32_t i = 0;

	while (i < *n && strcmp(list[i], word))
		i++;
	if (i == *n && *n < room)
		list[(*n)++] = word;
	return i;
}

/* A JSON text inside a script, which its end tag would end whatever stands around it. */
static void put_string(FILE *f, const char *text)
{
	fputc('"', f);
	for (const unsigned char *c = (const unsigned char *)text; *c; c++)
		if (*c < ' ' || strchr("\"\\<>&", *c))
			fprintf(f, "\\u%04x", *c);
		else
			fputc(*c, f);
	fputc('"', f);
}

static void put_names(FILE *f, const char *key, const char **name, uint32_t n)
{
	fprintf(f, "\"%s\":[", key);
	for (uint32_t i = 0; i < n; i++) {
		if (i)
			fputc(',', f);
		put_string(f, name[i]);
	}
	fputs("]", f);
}

static enum mq_status put_tasks(struct report *r, const char *path)
{
	const char *band[MAX_BANDS], *kind[8];
	uint32_t n_bands = 0, n_kinds = 0, n = 0;
	double end = 0;
	struct mq_csv csv;

	MQ_TRY(mq_csv_load(path, &r->arena, &csv, r->err));
	uint32_t device = mq_csv_column(&csv, "device"), stream = mq_csv_column(&csv, "stream");
	uint32_t what = mq_csv_column(&csv, "kind"), from = mq_csv_column(&csv, "start_s");
	uint32_t to = mq_csv_column(&csv, "finish_s");
	fputs("<canvas id=\"timeline\"></canvas>\n<script type=\"application/json\" id=\"tasks\">{\"tasks\":[", r->f);
	for (uint32_t i = 0; i < csv.n_rows && n < MAX_TASKS; i++) {
		uint32_t b = find_word(band, &n_bands, MAX_BANDS, mq_csv_text(&csv, i, device));
		const char *s = mq_csv_text(&csv, i, stream);
		double start, finish;

		if (b >= MAX_BANDS || !mq_csv_f64(&csv, i, from, 0, &start) || !mq_csv_f64(&csv, i, to, 0, &finish))
			continue;
		end = fmax(end, finish);
		fprintf(r->f, "%s[%u,%d,%.6g,%.6g,%u]", n++ ? "," : "", b,
			!strcmp(s, "compute")                    ? 0 :
			!strcmp(s, "comm") || !strcmp(s, "grad") ? 1 :
								   2,
			start, finish - start, find_word(kind, &n_kinds, 8, mq_csv_text(&csv, i, what)));
	}
	fprintf(r->f, "],\"end\":%.9g,", end);
	put_names(r->f, "bands", band, n_bands);
	fputc(',', r->f);
	put_names(r->f, "kinds", kind, n_kinds);
	fprintf(r->f,
		"}</script>\n%s<p>Blue: compute, orange: collectives, green and light blue: send and "
		"receive, pink: copies. Wheel zooms, dragging moves, double click shows all. %u of %u tasks, at "
		"most %d devices.</p>\n",
		script, n, csv.n_rows, MAX_BANDS);
	return MQ_OK;
}

/* ---- provenance ---------------------------------------------------------------------------------------------- */

static void put_source(FILE *f, const char *what, const char *name, const char *source)
{
	fprintf(f, "<tr><td>%s</td><td>", what);
	put_escaped(f, name);
	fputs("</td><td>", f);
	put_escaped(f, source && *source ? source : "see the file's values");
	fputs("</td></tr>\n", f);
}

static void put_provenance(struct report *r, const struct mq_session *s)
{
	const struct mq_cluster *c = s->cluster;

	fputs("<h2 id=\"provenance\">Where the numbers come from</h2>\n<p>Every parameter has its unit and "
	      "source in platforms/calib/NAME.json; of the fastest point's devices, and of the links:</p>\n"
	      "<div class=\"wide\"><table><tr><th>kind</th><th>calibration</th><th>source</th></tr>\n",
	      r->f);
	for (uint32_t i = 0; i < s->calib->n_devices; i++) {
		bool used = false;

		for (uint32_t d = 0; d < c->n_devices && !used; d++)
			used = c->device[d].calib == i;
		if (used)
			put_source(r->f, "device", s->calib->device[i].name, s->calib->device[i].source);
	}
	for (uint32_t i = 0; i < s->calib->n_links; i++)
		put_source(r->f, "link", s->calib->link[i].name, s->calib->link[i].source);
	fputs("</table></div>\n", r->f);
}

static void put_assumptions(struct report *r)
{
	fputs("<h2 id=\"assumptions\">Assumptions</h2>\n<ul>"
	      "<li>One training step in steady state; input, checkpoints and failures in time are not in it.</li>"
	      "<li>Each row is the best plan that its engines found within their budget, not a proof.</li>"
	      "<li>Prices and powers are those of the devices used, at full load, for the length of the step; "
	      "hosts, network and cooling are not in them.</li>"
	      "<li>Sensitivities and break-even points judge the same plan again; a new search may do "
	      "better.</li>"
	      "<li>Of several jobs at once, each repeats its step, which starts when the one before has ended on "
	      "all its devices; the mean counts steps during which all jobs run.</li>"
	      "<li>A factor on a link or device acts on the nominal value; software overheads stay.</li></ul>\n",
	      r->f);
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
	fprintf(r->f, "<h2 id=\"topology\">The cluster</h2>\n<p>");
	put_escaped(r->f, s->cluster->name);
	fputs(": machines and their links, the first and the last where there are many.</p>\n", r->f);
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
	struct mq_result result;

	MQ_TRY(mq_make_dir(dir, r->err));
	MQ_TRY(large ? mq_session_judge(s, &plan, 1, &result, r->err) :
		       mq_pool_detail(s->pool, plan, &outputs, &result, r->err));
	if (result.verdict != MQ_VERDICT_OK)
		return mq_fail(r->err, mq_verdict_status(result.verdict), "the report: point %u: %s: %s", point,
			       mq_verdict_name(result.verdict), result.message);
	fprintf(r->f, "<h2 id=\"best\">The fastest point: %u</h2>\n<p>", point);
	put_escaped(r->f, mq_plan_describe(plan, s->cluster, &s->arena));
	fprintf(r->f, ": %.6g s a step, MFU %.1f %%. Bottleneck: ", result.step_time_s, 100 * result.mfu);
	put_escaped(r->f, result.bottleneck);
	fputs("</p>\n", r->f);
	if (!large)
		return put_tasks(r, mq_arena_printf(&r->arena, "%s/timeline.csv", dir));
	fprintf(r->f, "<p>Its timeline is not drawn: it has more than %d devices.</p>\n", MAX_DETAIL);
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

	fprintf(r->f, "%s<h1>What-if study</h1>\n<h2 id=\"question\">The question</h2>\n", head);
	put_file(r, r->study->path);
	fputs("<h2 id=\"answers\">Answers</h2>\n", r->f);
	put_file(r, path_of(r, "answers.txt"));
	fputs("<h2 id=\"figures\">Figures</h2>\n", r->f);
	for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++)
		put_figure(r, figures[i]);
	if (point)
		MQ_TRY(point->job ? put_whole(r, point) : put_best(r, point, plan));
	fputs("<h2 id=\"tables\">Tables</h2>\n", r->f);
	MQ_TRY(put_table(r, "whatif.csv", "Points"));
	MQ_TRY(put_table(r, "jobs.csv", "Jobs"));
	MQ_TRY(put_table(r, "job_links.csv", "Links that jobs share"));
	MQ_TRY(put_table(r, "sensitivity.csv", "Sensitivity"));
	MQ_TRY(put_table(r, "breakeven.csv", "Break-even"));
	MQ_TRY(put_table(r, "scaling.csv", "Scaling"));
	MQ_TRY(put_table(r, "losses.csv", "Losses"));
	MQ_TRY(put_table(r, "pareto.csv", "Time against cost"));
	put_assumptions(r);
	fputs("<h2 id=\"command\">Make it again</h2>\n<pre>maquette whatif ", r->f);
	put_escaped(r->f, r->study->path);
	fputs(" -o ", r->f);
	put_escaped(r->f, r->dir);
	fputs("</pre>\n</body></html>\n", r->f);
	return MQ_OK;
}

enum mq_status mq_study_report(const struct mq_study *study, const char *dir, const struct mq_point *point,
			       const char *plan, struct mq_err *err)
{
	struct report r = { .study = study, .dir = dir, .err = err };
	const char *path = path_of(&r, "report.html");

	r.f = fopen(path, "w");
	enum mq_status status =
		r.f ? put_all(&r, point, plan) : mq_fail(err, MQ_EINPUT, "%s: cannot write: %s", path, strerror(errno));
	if (r.f) {
		bool bad = ferror(r.f) != 0;

		if ((fclose(r.f) || bad) && status == MQ_OK)
			status = mq_fail(err, MQ_EINPUT, "%s: cannot write: %s", path, strerror(errno));
	}
	mq_arena_fini(&r.arena);
	return status;
}

/* jobs.c - a point of a study with several jobs: searches each job's plan (or takes the given one) on the job's devices
 * alone, then simulates all jobs at once (judge/coscheduled.h).
 *
 * whatif.csv has one row per point (the worst slowdown and its job), jobs.csv one per job, and job_links.csv one per
 * shared link and job that uses it: the job's bytes per step, and their share of what the link could carry in a step of
 * the job. At most MOST_LINKS links, those with most bytes first. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "study/study.h"
#include "base/csv.h"
#include "judge/pool.h"

enum { MOST_LINKS = 64 };

struct jobs {
	const struct mq_study *study;
	const struct mq_point *point;
	const char *plan_path;
	struct mq_arena arena;
	struct mq_session *session; /* [n_jobs]; `open` counts those opened */
	bool *open;
	struct mq_search_outcome *outcome;
	struct mq_session whole; /* the platform with all its devices */
	bool whole_open;
	struct mq_coscheduled together;
	bool crashed; /* a simulator died while judging a plan */
	struct mq_err *err;
};

/* ---- plans -------------------------------------------------------------------------------------------- */

/* Finds every job's plan; sets *verdict and *why if a job has none. */
static enum mq_status find_plans(struct jobs *g, const char **verdict, const char **why)
{
	*verdict = NULL;
	for (uint32_t j = 0; j < g->study->n_jobs && !*verdict; j++) {
		enum mq_status status =
			mq_study_search(g->study, &g->point->job[j], &g->session[j], &g->outcome[j], g->err);

		g->open[j] = g->session[j].pool != NULL;
		g->crashed |= status == MQ_OK && g->outcome[j].crashed;
		if (status == MQ_ETIME)
			return mq_wrap(g->err, "job %s", g->study->job[j]);
		if (status != MQ_OK) {
			*verdict = "refused";
			*why = mq_arena_printf(&g->arena, "job %s: %s", g->study->job[j], g->err->text);
		} else if (!g->outcome[j].n_best) {
			*verdict = mq_study_no_plan(&g->outcome[j], &g->arena, why);
			*why = mq_arena_printf(&g->arena, "job %s: %s", g->study->job[j], *why);
		} else if (g->plan_path) {
			int stem = (int)(strlen(g->plan_path) - strlen(".json"));
			const char *path =
				mq_arena_printf(&g->arena, "%.*s.%s.json", stem, g->plan_path, g->study->job[j]);

			MQ_TRY(mq_plan_save(g->outcome[j].best[0].plan, g->session[j].model, g->session[j].cluster,
					    path, g->err));
		}
	}
	return MQ_OK;
}

static enum mq_status run_all(struct jobs *g)
{
	struct mq_asked *whole = mq_arena_alloc(&g->arena, sizeof(*whole));
	struct mq_coscheduled_job *job = mq_arena_array(&g->arena, g->study->n_jobs, struct mq_coscheduled_job);

	*whole = g->point->job[0].asked;
	whole->devices = NULL;
	whole->start = NULL;
	MQ_TRY(mq_session_open(&g->whole, whole, g->study->shipped, g->err));
	g->whole_open = true;
	for (uint32_t j = 0; j < g->study->n_jobs; j++)
		job[j] = (struct mq_coscheduled_job){ mq_session_job(&g->session[j]), g->outcome[j].best[0].plan,
						      g->point->job[j].start_s };
	return mq_pool_coscheduled(g->whole.pool, job, g->study->n_jobs, g->study->job_steps, &g->arena, &g->together,
				   g->err);
}

/* ---- rows --------------------------------------------------------------------------------------------- */

static double slowdown(const struct mq_coscheduled_score *s)
{
	return s->together_s / s->alone_s;
}

static void put_row(struct mq_csv_writer *w, const struct jobs *g)
{
	const struct mq_coscheduled *t = &g->together;
	uint32_t worst = 0;
	double sum = 0;

	for (uint32_t j = 0; j < t->n_jobs; j++) {
		sum += slowdown(&t->job[j]);
		if (slowdown(&t->job[j]) > slowdown(&t->job[worst]))
			worst = j;
	}
	mq_csv_put(w, "%s,%u,%g,%s,%g,%u,", "ok", t->n_jobs, slowdown(&t->job[worst]), g->study->job[worst],
		   sum / t->n_jobs, t->n_links);
}

void mq_study_jobs_nothing(struct mq_csv_writer *w, const struct mq_study *study, const char *verdict, const char *why)
{
	mq_csv_put(w, "%s,%u,,,,,%s", verdict, study->n_jobs, why);
}

static void put_job(struct mq_csv_writer *w, struct jobs *g, uint32_t j)
{
	const struct mq_coscheduled *t = &g->together;
	const struct mq_coscheduled_score *s = &t->job[j];
	const struct mq_link *busiest = NULL;
	double shared_B = 0, most_B = 0;

	for (uint32_t l = 0; l < t->n_links; l++) {
		double B = t->link_B[(size_t)l * t->n_jobs + j];

		shared_B += B;
		if (B > most_B) {
			most_B = B;
			busiest = &g->whole.cluster->link[t->link[l]];
		}
	}
	fputs("\nJ,", w->file);
	w->column = 0;
	mq_csv_put(w, "%s,%s,%s,%g,%g,%g,%g,%g,%u,%g,%s,%s", g->study->job[j], g->point->job[j].asked.devices,
		   mq_verdict_name(s->verdict), s->alone_s, s->together_s, slowdown(s), s->shortest_s, s->longest_s,
		   s->steps, shared_B, busiest ? busiest->name : "",
		   mq_plan_describe(g->outcome[j].best[0].plan, g->session[j].cluster, &g->arena));
}

static void put_link(struct mq_csv_writer *w, const struct jobs *g, uint32_t l, uint32_t j)
{
	const struct mq_link *link = &g->whole.cluster->link[g->together.link[l]];
	double B = g->together.link_B[(size_t)l * g->together.n_jobs + j];

	if (!(B > 0))
		return;
	fputs("\nL,", w->file);
	w->column = 0;
	mq_csv_put(w, "%s,%s,%g,%s,%g,%g", link->name, mq_link_class_name(link->class), link->bw_Bps, g->study->job[j],
		   B, B / (mq_link_usable_Bps(link) * g->together.job[j].together_s));
}

static enum mq_status ask_all(struct mq_csv_writer *w, struct jobs *g)
{
	const char *verdict, *why;

	MQ_TRY(find_plans(g, &verdict, &why));
	enum mq_status status = verdict ? MQ_OK : run_all(g);
	if (status == MQ_ETIME)
		return status;
	if (status != MQ_OK) {
		verdict = "refused";
		why = g->err->text;
	}
	for (uint32_t j = 0; j < g->together.n_jobs && !verdict; j++)
		if (g->together.job[j].verdict != MQ_VERDICT_OK) {
			verdict = mq_verdict_name(g->together.job[j].verdict);
			why = g->together.job[j].message;
		}
	if (verdict) {
		mq_study_jobs_nothing(w, g->study, verdict, why);
		return MQ_OK;
	}
	for (uint32_t j = 0; j < g->together.n_jobs; j++) { /* round as tables do, so that equal cells are equal */
		struct mq_coscheduled_score *s = &g->together.job[j];

		s->alone_s = mq_round9(s->alone_s);
		s->together_s = mq_round9(s->together_s);
	}
	put_row(w, g);
	for (uint32_t j = 0; j < g->study->n_jobs; j++)
		put_job(w, g, j);
	for (uint32_t l = 0; l < g->together.n_links && l < MOST_LINKS; l++)
		for (uint32_t j = 0; j < g->study->n_jobs; j++)
			put_link(w, g, l, j);
	return MQ_OK;
}

enum mq_status mq_study_jobs(struct mq_csv_writer *w, const struct mq_study *study, const struct mq_point *point,
			     const char *plan_path, bool *crashed, struct mq_err *err)
{
	struct jobs g = { .study = study, .point = point, .plan_path = plan_path, .err = err };

	g.session = mq_arena_array(&g.arena, study->n_jobs, struct mq_session);
	g.open = mq_arena_array(&g.arena, study->n_jobs, bool);
	g.outcome = mq_arena_array(&g.arena, study->n_jobs, struct mq_search_outcome);
	enum mq_status status = ask_all(w, &g);
	*crashed = g.crashed;
	for (uint32_t j = 0; j < study->n_jobs; j++)
		if (g.open[j])
			mq_session_close(&g.session[j]);
	if (g.whole_open)
		mq_session_close(&g.whole);
	mq_arena_fini(&g.arena);
	return status;
}

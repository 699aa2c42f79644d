/* judge.c - see judge.h. SPDX-License-Identifier: Apache-2.0 */
#include "score/judge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/index.h"
#include "base/text.h"
#include "judge/job.h"
#include "judge/pool.h"

static void refuse(struct mq_judged_table *t, uint32_t i, const char *reason)
{
	t->verdict[i] = MQ_VERDICT_REFUSED;
	t->message[i] = reason;
}

enum mq_status mq_table_load(const struct mq_score_options *o, struct mq_judged_table *t, struct mq_err *err)
{
	t->stem = mq_score_stem(t->path, o->arena);
	MQ_TRY(mq_runs_load(t->path, o->arena, &t->run, &t->n, err));
	t->c = mq_arena_array(o->arena, t->n, struct mq_case);
	t->verdict = mq_arena_array(o->arena, t->n, enum mq_verdict);
	t->step_s = mq_arena_array(o->arena, t->n, double);
	t->peak_B = mq_arena_array(o->arena, t->n, double);
	t->result = mq_arena_array(o->arena, t->n, struct mq_result);
	t->message = mq_arena_array(o->arena, t->n, const char *);
	t->ready = mq_arena_array(o->arena, t->n, bool);
	for (uint32_t i = 0; i < t->n; i++) {
		struct mq_err why = MQ_ERR_INIT;

		t->step_s[i] = t->peak_B[i] = NAN;
		t->verdict[i] = MQ_N_VERDICTS;
		if (o->only && !strstr(t->run[i].id, o->only) && !strstr(t->run[i].model, o->only))
			continue;
		if (o->software && !*t->run[i].software)
			t->run[i].software = o->software;
		t->ready[i] = mq_case_build(o, &t->run[i], &t->c[i], &why) == MQ_OK;
		if (!t->ready[i])
			refuse(t, i, mq_arena_strdup(o->arena, why.text));
	}
	return MQ_OK;
}

enum mq_status mq_table_renew(const struct mq_score_options *o, struct mq_judged_table *t, struct mq_err *err)
{
	t->c = mq_arena_array(o->arena, t->n, struct mq_case);
	for (uint32_t i = 0; i < t->n; i++)
		if (t->ready[i])
			MQ_TRY(mq_case_build(o, &t->run[i], &t->c[i], err));
	return MQ_OK;
}

const struct mq_memory *mq_table_memory(const struct mq_judged_table *t, uint32_t i)
{
	return *t->run[i].memory_rank ? &t->result[i].first : &t->result[i].memory;
}

const char *mq_table_verdict(const struct mq_judged_table *t, uint32_t i)
{
	return mq_result_tight(&t->result[i]) ? "tight" : mq_verdict_name(t->verdict[i]);
}

bool mq_table_scored(const struct mq_judged_table *t, uint32_t i)
{
	return (t->verdict[i] == MQ_VERDICT_OK || t->verdict[i] == MQ_VERDICT_OOM) && t->step_s[i] > 0 &&
	       t->run[i].step_time_s > 0;
}

/* ---- one pool per platform ---------------------------------------------------------------------------- */

/* The rows that one pool judges. */
struct group {
	uint32_t *row;
	uint32_t n;
};

/* Do two jobs run on the same machines? */
static bool same_machines(const struct mq_job *a, const struct mq_job *b)
{
	if (strcmp(a->asked.platform, b->asked.platform) || a->n_change != b->n_change)
		return false;
	for (uint32_t i = 0; i < a->n_change; i++)
		if (strcmp(a->change[i], b->change[i]))
			return false;
	return true;
}

static void take(struct mq_judged_table *t, uint32_t row, const struct mq_result *r, struct mq_arena *arena)
{
	const char *basis = t->run[row].memory_basis;
	const struct mq_memory *m = mq_table_memory(t, row);

	t->result[row] = *r;
	t->verdict[row] = r->verdict;
	t->step_s[row] = r->step_time_s;
	t->peak_B[row] = !strcmp(basis, "allocated") ? mq_memory_allocated_B(m) :
			 !strcmp(basis, "reserved")  ? mq_memory_reserved_B(m) :
			 *t->run[row].memory_rank    ? m->peak_B :
						       r->peak_memory_B;
	t->message[row] = mq_arena_strdup(arena, r->verdict == MQ_VERDICT_OK ? r->bottleneck : r->message);
}

static enum mq_status judge_group(const struct mq_score_options *o, struct mq_judged_table *t, const struct group *g,
				  struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	const struct mq_job **job = mq_arena_array(&scratch, g->n, const struct mq_job *);
	const struct mq_plan **plan = mq_arena_array(&scratch, g->n, const struct mq_plan *);
	struct mq_result *result = mq_arena_array(&scratch, g->n, struct mq_result);
	struct mq_index *questions = mq_index_new(&scratch);
	uint32_t *answer = mq_arena_array(&scratch, g->n, uint32_t), n = 0; /* a row's index among n questions */
	const char *calib = mq_arena_printf(&scratch, "%s/calib", o->platforms);
	struct mq_job first = t->c[g->row[0]].job;
	struct mq_pool *pool = NULL;
	struct mq_platform_file file;
	struct mq_err why = MQ_ERR_INIT;

	for (uint32_t i = 0; i < g->n; i++) {
		const struct mq_case *c = &t->c[g->row[i]];
		size_t size;
		const void *question = mq_job_pack(&c->job, &c->plan, &scratch, &size);
		bool found;

		answer[i] = mq_index_put(questions, question, size, n, &found);
		if (found) /* an earlier row has the same question */
			continue;
		job[n] = &c->job;
		plan[n++] = &c->plan;
	}
	first.calib = &calib;
	first.n_calib = 1;
	enum mq_status status = mq_platform_open(first.asked.platform, o->calib, &scratch, &file, &why);
	first.asked.platform = file.path;
	first.type = file.type;
	if (status == MQ_OK)
		status = mq_pool_open(&first, o->jobs < n ? o->jobs : n, &scratch, &pool, &why);
	if (status != MQ_OK) /* a platform that cannot be built refuses its rows, not the table */
		for (uint32_t i = 0; i < g->n; i++)
			refuse(t, g->row[i], mq_arena_strdup(o->arena, why.text));
	else
		status = mq_pool_judge_jobs(pool, job, plan, n, result, err);
	for (uint32_t i = 0; i < g->n && pool && status == MQ_OK; i++)
		take(t, g->row[i], &result[answer[i]], o->arena);
	mq_pool_close(pool);
	mq_platform_file_close(&file);
	return pool ? status : MQ_OK;
}

enum mq_status mq_table_judge(const struct mq_score_options *o, struct mq_judged_table *t, const bool *wanted,
			      struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	bool *done = mq_arena_array(&scratch, t->n, bool);
	struct group g = { .row = mq_arena_array(&scratch, t->n, uint32_t) };

	for (uint32_t i = 0; i < t->n; i++) {
		if (done[i] || !t->ready[i] || (wanted && !wanted[i]))
			continue;
		g.n = 0;
		for (uint32_t k = i; k < t->n; k++)
			if (!done[k] && t->ready[k] && (!wanted || wanted[k]) &&
			    same_machines(&t->c[i].job, &t->c[k].job)) {
				done[k] = true;
				g.row[g.n++] = k;
			}
		MQ_TRY(judge_group(o, t, &g, err));
	}
	return MQ_OK;
}

/* ---- job files ------------------------------------------------------------------------------------------ */

static enum mq_status write_job(const struct mq_score_options *o, const struct mq_judged_table *t, uint32_t i,
				const char *dir, struct mq_err *err)
{
	const struct mq_case *c = &t->c[i];
	char *name = mq_arena_strdup(o->arena, c->run->id);

	for (char *slash = name; (slash = strchr(slash, '/'));)
		*slash = '_'; /* a row's id must not name another folder */
	const char *plan = mq_arena_printf(o->arena, "%s/%s.plan.json", dir, name);
	const char *path = mq_arena_printf(o->arena, "%s/%s.ini", dir, name);
	const struct mq_cluster cluster = { .name = c->platform };

	MQ_TRY(mq_plan_save(&c->plan, c->model, &cluster, plan, err));
	FILE *file;
	MQ_TRY(mq_file_open(path, &file, err));
	fputs("command = simulate\n", file);
	mq_args_print(mq_question_args, &c->job.asked, 0, file);
	for (uint32_t k = 0; k < c->job.n_change; k++)
		fprintf(file, "change = %s\n", c->job.change[k]);
	fprintf(file, "plan = %s\nexecutor = %s\noutput = build/runs\n", plan, o->executor);
	return mq_file_close(file, path, err);
}

enum mq_status mq_table_write_jobs(const struct mq_score_options *o, const struct mq_judged_table *t, const char *dir,
				   struct mq_err *err)
{
	MQ_TRY(mq_make_dir(dir, err));
	for (uint32_t i = 0; i < t->n; i++) {
		if (!t->ready[i])
			continue;
		if (strchr(t->run[i].id, '/'))
			return mq_bad(err, "%s:%u: row_id '%s' cannot name a file: it has a '/'", t->path,
				      t->run[i].line, t->run[i].id);
		MQ_TRY(write_job(o, t, i, dir, err));
	}
	return MQ_OK;
}

/* ---- groups ----------------------------------------------------------------------------------------------- */

const char mq_score_groups_header[] = "table,model,gpu,gpus,batch,rows,spearman,regret,ranked_first,"
				      "ranked_first_measured_s,best,best_measured_s";

/* The group of the rows in `row` [n], n >= 1. */
static struct mq_score_group group_of(const struct mq_judged_table *t, const uint32_t *row, uint32_t n,
				      struct mq_arena *arena)
{
	struct mq_score_group g = { .n = n, .regret = NAN, .first = row[0], .best = row[0] };
	double *predicted = mq_arena_array(arena, n, double), *measured = mq_arena_array(arena, n, double);

	for (uint32_t i = 0; i < n; i++) {
		predicted[i] = t->step_s[row[i]];
		measured[i] = t->run[row[i]].step_time_s;
		if (predicted[i] < t->step_s[g.first])
			g.first = row[i];
		if (measured[i] < t->run[g.best].step_time_s)
			g.best = row[i];
	}
	g.spearman = mq_spearman(predicted, measured, n, arena);
	if (n >= 2)
		g.regret = mq_regret(predicted, measured, n);
	return g;
}

static double mean_of(const struct mq_score_groups *s, bool regret)
{
	double sum = 0, weight = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		double value = regret ? s->group[i].regret : s->group[i].spearman;

		if (isnan(value))
			continue;
		sum += value * s->group[i].n;
		weight += s->group[i].n;
	}
	return weight > 0 ? sum / weight : (double)NAN;
}

struct mq_score_groups mq_score_groups(const struct mq_judged_table *t, struct mq_arena *arena)
{
	struct mq_score_groups s = { .table = t, .group = mq_arena_array(arena, t->n, struct mq_score_group) };
	const char **key = mq_arena_array(arena, t->n, const char *);
	uint32_t *row = mq_arena_array(arena, t->n, uint32_t);

	for (uint32_t i = 0; i < t->n; i++)
		key[i] = mq_table_scored(t, i) ? mq_run_group(&t->c[i], arena) : NULL;
	for (uint32_t i = 0; i < t->n; i++) {
		const char *mine = key[i];
		uint32_t n = 0;

		for (uint32_t k = i; k < t->n && mine; k++)
			if (key[k] && !strcmp(key[k], mine)) {
				row[n++] = k;
				key[k] = NULL;
			}
		if (n)
			s.group[s.n++] = group_of(t, row, n, arena);
	}
	s.spearman = mean_of(&s, false);
	s.regret = mean_of(&s, true);
	return s;
}

void mq_score_put_groups(const struct mq_score_groups *s, struct mq_csv_writer *w)
{
	for (uint32_t i = 0; i < s->n; i++) {
		const struct mq_score_group *g = &s->group[i];
		const struct mq_run *r = &s->table->run[g->first], *best = &s->table->run[g->best];

		if (g->n > 1)
			mq_csv_row(w, "%s,%s,%s,%g,%g,%u,%g,%g,%s,%g,%s,%g", s->table->stem, r->model, r->gpu, r->gpus,
				   r->gbs, g->n, g->spearman, g->regret, r->id, r->step_time_s, best->id,
				   best->step_time_s);
		if (!isnan(g->spearman))
			printf("  plans of %s on %.0f %s, batch %.0f: %u rows, rank %.2f, regret %.3f (ranked first %s: %.4g s; "
			       "best %s: %.4g s)\n",
			       r->model, r->gpus, r->gpu, r->gbs, g->n, g->spearman, g->regret, r->id, r->step_time_s,
			       best->id, best->step_time_s);
	}
}

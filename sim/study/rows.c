/* rows.c - writes the row of a study's point: searches it (or judges its plan) and reports the result.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/study.h"
#include "session/trust.h"
#include "schedule/columns.h"

const char *mq_axis_column(const struct mq_axis *axis)
{
	return strcmp(axis->key, "devices") ? axis->key : "only_devices";
}

/* Does a row have these columns (a table of result.def)? */
static bool has_part(const struct mq_study *study, enum mq_table_id part)
{
	switch (part) {
	case MQ_TABLE_whatif:
	case MQ_TABLE_whatif_trust:
	case MQ_TABLE_whatif_assumed:
		return !study->n_jobs;
	case MQ_TABLE_whatif_epoch:
		return !study->n_jobs && study->epoch > 0;
	case MQ_TABLE_whatif_jitter:
		return !study->n_jobs && study->jitters;
	case MQ_TABLE_whatif_failures:
		return !study->n_jobs && study->fails;
	case MQ_TABLE_whatif_jobs:
		return study->n_jobs;
	default:
		return false;
	}
}

void mq_study_put_head(struct mq_csv_writer *w, const struct mq_study *study, const struct mq_point *point)
{
	if (point)
		mq_csv_put(w, "%u", point->index);
	else
		mq_csv_put_text(w, "point");
	for (uint32_t i = 0; i < study->n_axes; i++)
		if (study->axis[i].n > 1)
			mq_csv_put_text(w, point ? point->value[i] : mq_axis_column(&study->axis[i]));
}

const char *mq_study_header(const struct mq_study *study, struct mq_arena *arena)
{
	const char *text = "point";

	for (uint32_t i = 0; i < study->n_axes; i++)
		if (study->axis[i].n > 1)
			text = mq_arena_printf(arena, "%s,%s", text, mq_axis_column(&study->axis[i]));
	for (enum mq_table_id t = 0; t < MQ_N_TABLES; t++)
		if (has_part(study, t))
			text = mq_arena_printf(arena, "%s,%s", text, mq_table[t].header);
	return text;
}

/* The row of a point without a plan: its verdict, and the reason in column `plan`. */
static void put_nothing(struct mq_csv_writer *w, const struct mq_study *study, const char *verdict, const char *why)
{
	for (enum mq_table_id t = 0; t < MQ_N_TABLES; t++)
		for (uint32_t c = 0; c < mq_table[t].n && has_part(study, t); c++)
			mq_csv_put_text(w, !strcmp(mq_table[t].column[c].name, "verdict") ? verdict :
					   !strcmp(mq_table[t].column[c].name, "plan")    ? why :
											    "");
}

static void put_best(struct mq_answering *a)
{
	const struct mq_session *s = &a->session;
	const struct mq_candidate *best = &a->outcome.best[0];
	const struct mq_result *r = &best->result;
	struct mq_degrees g = mq_plan_degrees(best->plan);
	const struct mq_config *c = &best->plan->config[best->plan->config_of[0]];

	double tokens = r->samples_per_s * r->step_time_s * s->model->tokens_per_sample / 1e6;
	double usd = mq_step_usd(s->cluster, best->plan, r->step_time_s);
	double kWh = mq_step_kWh(s->cluster, best->plan, r->step_time_s);

	if (!(tokens > 0))
		tokens = (double)NAN;
	mq_csv_put(a->row, "%s", mq_verdict_name(r->verdict));
	mq_table_put(a->row, MQ_TABLE_whatif, "step_time_s", r);
	mq_csv_put(a->row, "%u,%g,%g,%g,%g", g.n_devices, usd, kWh, usd / tokens, kWh / tokens);
	mq_table_put(a->row, MQ_TABLE_whatif, "compute_s", r);
	mq_csv_put(a->row, "%s,%s,%lu,%016lx,%.0u,%.0u,%.0u,%u,%s,%s,%s", r->bottleneck, best->engine,
		   (unsigned long)a->outcome.proposals, best->hash, g.dp, g.tp, g.pp, best->plan->micro_batches,
		   mq_pipeline_name(best->plan->pipeline), mq_recompute_name(c->recompute),
		   mq_plan_describe(best->plan, s->cluster, &a->session.arena));
}

/* Quantiles of the step over jitter samples; empty if simulating every rank is too much. */
static enum mq_status put_jitter(struct mq_answering *a)
{
	struct mq_jitter_samples d;

	MQ_TRY(mq_session_jitter_sample(&a->session, a->outcome.best[0].plan, &a->point->jitter, false, &d, a->err));
	if (d.none)
		mq_csv_put(a->row, ",,,");
	else
		mq_csv_put(a->row, "%g,%g,%g,%g", d.p50_s, d.p90_s, d.p99_s, mq_round9(d.mean_s));
	return MQ_OK;
}

static struct mq_goodput goodput(const struct mq_answering *a)
{
	const struct mq_candidate *best = &a->outcome.best[0];

	return mq_session_goodput(&a->session, best->plan, &best->result, &a->point->failures);
}

/* Time, price and energy of an epoch; with failures, their cost included. */
static void put_epoch(const struct mq_answering *a)
{
	const struct mq_candidate *best = &a->outcome.best[0];
	const struct mq_session *s = &a->session;
	double epoch_s = a->study->epoch / best->result.samples_per_s /
			 (a->study->epoch_tokens ? s->model->tokens_per_sample : 1);

	if (a->study->fails)
		epoch_s /= goodput(a).goodput;
	mq_csv_put(a->row, "%g,%g,%g", epoch_s, mq_step_usd(s->cluster, best->plan, epoch_s),
		   mq_step_kWh(s->cluster, best->plan, epoch_s));
}

/* Writes the row and further lines of a point that has a plan. */
static enum mq_status put_answer(struct mq_answering *a)
{
	const struct mq_candidate *best = &a->outcome.best[0];
	struct mq_session *s = &a->session;

	put_best(a);
	if (a->study->epoch > 0)
		put_epoch(a);
	if (a->study->jitters)
		MQ_TRY(put_jitter(a));
	if (a->study->fails) {
		struct mq_goodput g = goodput(a);

		mq_csv_put(a->row, "%g,%g,%g,%g,%g", g.goodput, g.interval_s, g.mtbf_s, g.checkpoint_B, g.checkpoint_s);
	}
	struct mq_session_trust trust = mq_session_trust(s, best->plan, &best->result, &s->arena);
	mq_trust_put_answer(a->row, &trust.answer);
	mq_csv_put_text(a->row, mq_session_assumed(s, &best->result, &s->arena));
	if (a->study->sensitivity > 0)
		MQ_TRY(mq_study_sensitivity(a));
	return a->study->breakeven_target ? mq_study_breakeven(a) : MQ_OK;
}

static enum mq_status put_point(struct mq_answering *a, const char *plan_path, bool *crashed)
{
	struct mq_session *s = &a->session;
	const char *why, *verdict;
	enum mq_status status = mq_study_search(a->study, a->point, s, &a->outcome, a->err);

	if (status == MQ_ETIME)
		return status;
	if (status != MQ_OK) {
		put_nothing(a->row, a->study, "refused", a->err->text);
		return MQ_OK;
	}
	*crashed = a->outcome.crashed > 0;
	if (!a->outcome.n_best) {
		verdict = mq_study_no_plan(&a->outcome, &s->arena, &why);
		put_nothing(a->row, a->study, verdict, why);
		return MQ_OK;
	}
	if (plan_path)
		MQ_TRY(mq_plan_save(a->outcome.best[0].plan, s->model, s->cluster, plan_path, a->err));
	return put_answer(a);
}

enum mq_status mq_study_run(const struct mq_study *study, const struct mq_point *point, const char *plan_path,
			    struct mq_arena *arena, const char **row, struct mq_err *err)
{
	bool crashed = false;
	char *text;
	size_t size;
	struct mq_csv_writer w = { .file = open_memstream(&text, &size), .path = "row" };
	struct mq_answering a = { .study = study, .point = point, .row = &w, .err = err };

	mq_assert(w.file);
	mq_study_put_head(&w, study, point);
	enum mq_status status = study->n_jobs ? mq_study_jobs(&w, study, point, plan_path, &crashed, err) :
						put_point(&a, plan_path, &crashed);
	mq_session_close(&a.session);
	if (status == MQ_ETIME) { /* every simulator died over it */
		rewind(w.file);
		w.column = 0;
		mq_study_put_head(&w, study, point);
		(study->n_jobs ? mq_study_jobs_nothing : put_nothing)(&w, study, mq_verdict_name(MQ_VERDICT_CRASH),
								      err->text);
		crashed = true;
		status = MQ_OK;
	}
	if (crashed)
		fputs("\n" MQ_STUDY_CRASHED, w.file);
	if (fclose(w.file))
		return mq_fail(err, MQ_EBUG, "out of memory for a row");
	*row = mq_arena_printf(arena, "%.*s", (int)size, text);
	free(text);
	return status;
}

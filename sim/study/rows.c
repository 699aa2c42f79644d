/* rows.c - the row of a study's point: search (or judge) it, and say what came of it.
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

/* The parts of a row behind the axes. */
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

/* A point without a plan: the verdict says why, the column `plan` in words. */
static void put_nothing(struct mq_csv_writer *w, const struct mq_study *study, const char *verdict, const char *why)
{
	for (enum mq_table_id t = 0; t < MQ_N_TABLES; t++)
		for (uint32_t c = 0; c < mq_table[t].n && has_part(study, t); c++)
			mq_csv_put_text(w, !strcmp(mq_table[t].column[c].name, "verdict") ? verdict :
					   !strcmp(mq_table[t].column[c].name, "plan")    ? why :
											    "");
}

static void put_best(struct mq_csv_writer *w, const struct mq_session *s, const struct mq_search_outcome *outcome,
		     struct mq_arena *arena)
{
	const struct mq_candidate *best = &outcome->best[0];
	const struct mq_result *r = &best->result;
	struct mq_degrees g = mq_plan_degrees(best->plan);
	const struct mq_config *c = &best->plan->config[best->plan->config_of[0]];

	double tokens = r->samples_per_s * r->step_time_s * s->model->tokens_per_sample / 1e6;
	double usd = mq_step_usd(s->cluster, best->plan, r->step_time_s);
	double kWh = mq_step_kWh(s->cluster, best->plan, r->step_time_s);

	if (!(tokens > 0))
		tokens = (double)NAN;
	mq_csv_put(w, "%s", mq_verdict_name(r->verdict));
	mq_table_put(w, MQ_TABLE_whatif, "step_time_s", r);
	mq_csv_put(w, "%u,%g,%g,%g,%g", g.n_devices, usd, kWh, usd / tokens, kWh / tokens);
	mq_table_put(w, MQ_TABLE_whatif, "compute_s", r);
	mq_csv_put(w, "%s,%s,%lu,%016lx,%.0u,%.0u,%.0u,%u,%s,%s,%s", r->bottleneck, best->engine,
		   (unsigned long)outcome->proposals, best->hash, g.dp, g.tp, g.pp, best->plan->micro_batches,
		   mq_pipeline_name(best->plan->pipeline), mq_recompute_name(c->recompute),
		   mq_plan_describe(best->plan, s->cluster, arena));
}

/* Quantiles of the step over draws; empty where every rank for itself is too much to simulate. */
static enum mq_status put_jitter(struct mq_csv_writer *w, const struct mq_point *point, struct mq_session *s,
				 const struct mq_candidate *best, struct mq_err *err)
{
	struct mq_jitter_samples d;

	MQ_TRY(mq_session_jitter_sample(s, best->plan, &point->jitter, false, &d, err));
	if (d.none)
		mq_csv_put(w, ",,,");
	else
		mq_csv_put(w, "%g,%g,%g,%g", d.p50_s, d.p90_s, d.p99_s, mq_round9(d.mean_s));
	return MQ_OK;
}

static void put_failures(struct mq_csv_writer *w, const struct mq_point *point, const struct mq_session *s,
			 const struct mq_candidate *best)
{
	struct mq_goodput g = mq_session_goodput(s, best->plan, &best->result, &point->failures);

	mq_csv_put(w, "%g,%g,%g,%g,%g", g.goodput, g.interval_s, g.mtbf_s, g.checkpoint_B, g.checkpoint_s);
}

/* With all that failures cost, where they are asked for. */
static void put_epoch(struct mq_csv_writer *w, const struct mq_study *study, const struct mq_point *point,
		      const struct mq_session *s, const struct mq_candidate *best)
{
	double epoch_s =
		study->epoch / best->result.samples_per_s / (study->epoch_tokens ? s->model->tokens_per_sample : 1);

	if (study->fails)
		epoch_s /= mq_session_goodput(s, best->plan, &best->result, &point->failures).goodput;

	mq_csv_put(w, "%g,%g,%g", epoch_s, mq_step_usd(s->cluster, best->plan, epoch_s),
		   mq_step_kWh(s->cluster, best->plan, epoch_s));
}

/* Row and further lines of a point that has a plan. */
static enum mq_status put_answer(struct mq_csv_writer *w, const struct mq_study *study, const struct mq_point *point,
				 struct mq_session *session, const struct mq_search_outcome *outcome,
				 struct mq_err *err)
{
	put_best(w, session, outcome, &session->arena);
	if (study->epoch > 0)
		put_epoch(w, study, point, session, &outcome->best[0]);
	if (study->jitters)
		MQ_TRY(put_jitter(w, point, session, &outcome->best[0], err));
	if (study->fails)
		put_failures(w, point, session, &outcome->best[0]);
	struct mq_session_trust trust =
		mq_session_trust(session, outcome->best[0].plan, &outcome->best[0].result, &session->arena);
	mq_trust_put_answer(w, &trust.answer);
	mq_csv_put_text(w, mq_session_assumed(session, &session->arena));
	if (study->sensitivity > 0)
		MQ_TRY(mq_study_sensitivity(study, point, session, &outcome->best[0], w->file, err));
	if (study->breakeven_target)
		MQ_TRY(mq_study_breakeven(study, point, session, outcome, w->file, err));
	return MQ_OK;
}

static enum mq_status put_point(struct mq_csv_writer *w, const struct mq_study *study, const struct mq_point *point,
				struct mq_session *session, const char *plan_path, bool *crashed, struct mq_err *err)
{
	struct mq_search_outcome outcome;
	const char *why, *verdict;
	enum mq_status status = mq_study_search(study, point, session, &outcome, err);

	if (status == MQ_ETIME)
		return status;
	if (status != MQ_OK) {
		put_nothing(w, study, "refused", err->text);
		return MQ_OK;
	}
	*crashed = outcome.crashed > 0;
	if (!outcome.n_best) {
		verdict = mq_study_no_plan(&outcome, &session->arena, &why);
		put_nothing(w, study, verdict, why);
		return MQ_OK;
	}
	if (plan_path)
		MQ_TRY(mq_plan_save(outcome.best[0].plan, session->model, session->cluster, plan_path, err));
	return put_answer(w, study, point, session, &outcome, err);
}

/* The row of a point that no simulator lived through. */
static void put_crash(struct mq_csv_writer *w, const struct mq_study *study, const char *why)
{
	if (study->n_jobs)
		mq_study_jobs_nothing(w, study, mq_verdict_name(MQ_VERDICT_CRASH), why);
	else
		put_nothing(w, study, mq_verdict_name(MQ_VERDICT_CRASH), why);
}

enum mq_status mq_study_run(const struct mq_study *study, const struct mq_point *point, const char *plan_path,
			    struct mq_arena *arena, const char **row, struct mq_err *err)
{
	struct mq_session session = { 0 };
	bool crashed = false;
	char *text;
	size_t size;
	struct mq_csv_writer w = { .file = open_memstream(&text, &size), .path = "row" };

	mq_assert(w.file);
	mq_study_put_head(&w, study, point);
	enum mq_status status = study->n_jobs ? mq_study_jobs(&w, study, point, plan_path, &crashed, err) :
						put_point(&w, study, point, &session, plan_path, &crashed, err);
	mq_session_close(&session);
	if (status == MQ_ETIME) {
		rewind(w.file);
		w.column = 0;
		mq_study_put_head(&w, study, point);
		put_crash(&w, study, err->text);
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

/*
 * rows.c - the row of a study's point: search (or judge) it, and say what came of it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/study.h"
#include "base/csv.h"

static const char columns[] =
	"verdict,step_time_s,samples_per_s,mfu,peak_memory_B,devices,usd_per_step,kWh_per_step,"
	"usd_per_Mtoken,kWh_per_Mtoken,compute_s,exposed_comm_s,bubble_s,lower_bound_s,bottleneck,engine,plans,plan_hash,dp,tp,pp,"
	"micro_batches,schedule,recompute,plan";
static const char epoch_columns[] = ",epoch_s,usd_per_epoch,kWh_per_epoch";
static const char jitter_columns[] = ",step_p50_s,step_p90_s,step_p99_s,step_mean_s";
static const char failure_columns[] = ",goodput,checkpoint_interval_s,mtbf_s,checkpoint_B,checkpoint_s";

static bool varies(const struct mq_axis *axis)
{
	return axis->n > 1;
}

const char *mq_study_header(const struct mq_study *study, struct mq_arena *arena)
{
	const char *text = "point";

	for (uint32_t i = 0; i < study->n_axes; i++)
		if (varies(&study->axis[i]))
			text = mq_arena_printf(arena, "%s,%s", text, study->axis[i].key);
	if (study->n_jobs)
		return mq_arena_printf(arena, "%s,%s", text, MQ_JOBS_COLUMNS);
	return mq_arena_printf(arena, "%s,%s%s%s%s", text, columns, study->epoch > 0 ? epoch_columns : "",
			       study->jitters ? jitter_columns : "", study->fails ? failure_columns : "");
}

static void put_head(struct mq_csv_writer *w, const struct mq_study *study, const struct mq_point *point)
{
	mq_csv_put_u64(w, point->index);
	for (uint32_t i = 0; i < study->n_axes; i++)
		if (varies(&study->axis[i]))
			mq_csv_put_text(w, point->value[i]);
}

/* A point without a plan: the verdict says why, the last column in words. */
static void put_nothing(struct mq_csv_writer *w, const struct mq_study *study, const char *verdict, const char *why)
{
	mq_csv_put_text(w, verdict);
	for (const char *c = columns; (c = strchr(c, ',')) && strcmp(c, ",plan"); c++)
		mq_csv_put_empty(w);
	mq_csv_put_text(w, why);
	for (int i = 0; i < 3 && study->epoch > 0; i++)
		mq_csv_put_empty(w);
	for (int i = 0; i < 4 && study->jitters; i++)
		mq_csv_put_empty(w);
	for (int i = 0; i < 5 && study->fails; i++)
		mq_csv_put_empty(w);
}

static void put_degree(struct mq_csv_writer *w, uint32_t degree)
{
	if (degree)
		mq_csv_put_u64(w, degree);
	else
		mq_csv_put_empty(w);
}

static void put_best(struct mq_csv_writer *w, const struct mq_session *s, const struct mq_search_outcome *outcome,
		     struct mq_arena *arena)
{
	const struct mq_candidate *best = &outcome->best[0];
	const struct mq_result *r = &best->result;
	struct mq_degrees g = mq_plan_degrees(best->plan);
	const struct mq_config *c = &best->plan->config[best->plan->config_of[0]];

	mq_csv_put_text(w, mq_verdict_name(r->verdict));
	mq_csv_put_f64(w, r->step_time_s);
	mq_csv_put_f64(w, r->samples_per_s);
	mq_csv_put_f64(w, r->mfu);
	mq_csv_put_f64(w, r->peak_memory_B);
	mq_csv_put_u64(w, g.n_devices);
	mq_csv_put_f64(w, mq_step_usd(s->cluster, best->plan, r->step_time_s));
	mq_csv_put_f64(w, mq_step_kWh(s->cluster, best->plan, r->step_time_s));
	double tokens = r->samples_per_s * r->step_time_s * s->model->tokens_per_sample / 1e6;
	if (!(tokens > 0))
		tokens = (double)NAN;
	mq_csv_put_f64(w, mq_step_usd(s->cluster, best->plan, r->step_time_s) / tokens);
	mq_csv_put_f64(w, mq_step_kWh(s->cluster, best->plan, r->step_time_s) / tokens);
	mq_csv_put_f64(w, r->compute_s);
	mq_csv_put_f64(w, r->exposed_comm_s);
	mq_csv_put_f64(w, r->bubble_s);
	mq_csv_put_f64(w, r->lower_bound_s);
	mq_csv_put_text(w, r->bottleneck);
	mq_csv_put_text(w, best->engine);
	mq_csv_put_u64(w, outcome->proposals);
	mq_csv_put_text(w, mq_arena_printf(arena, "%016llx", (unsigned long long)best->hash));
	put_degree(w, g.dp);
	put_degree(w, g.tp);
	put_degree(w, g.pp);
	mq_csv_put_u64(w, best->plan->micro_batches);
	mq_csv_put_text(w, mq_pipeline_name(best->plan->pipeline));
	mq_csv_put_text(w, mq_recompute_name(c->recompute));
	mq_csv_put_text(w, mq_plan_describe(best->plan, s->cluster, arena));
}

/* Quantiles of the step over draws; empty where every rank for itself is too much to simulate. */
static enum mq_status put_jitter(struct mq_csv_writer *w, const struct mq_point *point, struct mq_session *s,
				 const struct mq_candidate *best, struct mq_err *err)
{
	struct mq_jitter_samples d;

	MQ_TRY(mq_session_jitter_sample(s, best->plan, &point->jitter, false, &d, err));
	const double value[] = { d.p50_s, d.p90_s, d.p99_s, mq_round9(d.mean_s) };
	for (int i = 0; i < 4; i++)
		mq_csv_put_f64(w, d.none ? (double)NAN : value[i]);
	return MQ_OK;
}

static void put_failures(struct mq_csv_writer *w, const struct mq_point *point, const struct mq_session *s,
			 const struct mq_candidate *best)
{
	struct mq_goodput g = mq_session_goodput(s, best->plan, &best->result, &point->failures);

	mq_csv_put_f64(w, g.goodput);
	mq_csv_put_f64(w, g.interval_s);
	mq_csv_put_f64(w, g.mtbf_s);
	mq_csv_put_f64(w, g.checkpoint_B);
	mq_csv_put_f64(w, g.checkpoint_s);
}

/* With all that failures cost, where they are asked for. */
static void put_epoch(struct mq_csv_writer *w, const struct mq_study *study, const struct mq_point *point,
		      const struct mq_session *s, const struct mq_candidate *best)
{
	double epoch_s = study->epoch / best->result.samples_per_s;

	if (study->fails)
		epoch_s /= mq_session_goodput(s, best->plan, &best->result, &point->failures).goodput;

	mq_csv_put_f64(w, epoch_s);
	mq_csv_put_f64(w, mq_step_usd(s->cluster, best->plan, epoch_s));
	mq_csv_put_f64(w, mq_step_kWh(s->cluster, best->plan, epoch_s));
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
	enum mq_status status = mq_study_search(point, session, &outcome, err);

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
	put_head(&w, study, point);
	enum mq_status status = study->n_jobs ? mq_study_jobs(&w, study, point, plan_path, &crashed, err) :
						put_point(&w, study, point, &session, plan_path, &crashed, err);
	mq_session_close(&session);
	if (status == MQ_ETIME) {
		rewind(w.file);
		w.column = 0;
		put_head(&w, study, point);
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

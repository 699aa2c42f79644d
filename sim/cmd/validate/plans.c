/* plans.c - opens the plans of search folders and predicts them. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/validate/plans.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "folding/fold.h"
#include "schedule/columns.h"

/* ---- plans ----------------------------------------------------------------------------------- */

static enum mq_status lower_plan(struct mq_validation *v, struct mq_session *session, struct mq_validated *p,
				 struct mq_err *err)
{
	struct mq_lower_request request = { .q = &session->q, .plan = &p->plan, .held = true };
	struct mq_lowered lowered;

	MQ_TRY(mq_lower(&request, &v->arena, &lowered, err));
	if (lowered.verdict != MQ_VERDICT_OK)
		return mq_bad(err, "%s: the plan is '%s': %s", p->name, mq_verdict_name(lowered.verdict),
			      lowered.message);
	p->schedule = lowered.schedule;
	p->memory = lowered.memory;
	p->worst = lowered.worst;
	return mq_schedule_check(p->schedule, NULL, err);
}

/* Early check: are there GPUs, if a plan needs them for its replay? */
static enum mq_status meet_gpus(struct mq_validation *v, const struct mq_session *session, const struct mq_plan *plan,
				struct mq_err *err)
{
	const char *text;
	bool gpu = false;
	uint32_t n;

	for (uint32_t i = 0; i < plan->n_configs && v->replays; i++)
		for (uint32_t k = 0; k < plan->config[i].n_devices && !gpu; k++)
			gpu = session->cluster->device[plan->config[i].device[k]].kind == MQ_GPU;
	if (!gpu)
		return MQ_OK;
	v->replays = false;
	return mq_replay_devices("cuda", &v->arena, &n, &text, err);
}

static const char *base_name(const char *dir, struct mq_arena *arena)
{
	char *copy = mq_arena_strdup(arena, dir);
	size_t n = strlen(copy);

	while (n > 1 && copy[n - 1] == '/')
		copy[--n] = '\0';
	char *slash = strrchr(copy, '/');
	copy = slash ? slash + 1 : copy;
	for (char *c = copy; *c; c++)
		if (*c == '.')
			*c = '_';
	return copy;
}

static enum mq_status add_plans(struct mq_validation *v, const char *dir, uint32_t top, struct mq_session *session,
				struct mq_err *err)
{
	uint32_t found = 0;

	for (uint32_t i = 1; i <= top; i++) {
		const char *path = mq_arena_printf(&v->arena, "%s/plan-%u.json", dir, i);
		struct mq_validated p = { .session = session, .recalibrated_s = NAN };

		if (access(path, R_OK))
			break;
		p.name = mq_arena_printf(&v->arena, "%s-plan-%u", base_name(dir, &v->arena), i);
		mq_plan_init(&p.plan, &v->arena, session->model->n_ops);
		MQ_TRY(mq_plan_load(path, session->model, session->cluster, &v->arena, &p.plan, err));
		p.plan_text = mq_plan_describe(&p.plan, session->cluster, &v->arena);
		MQ_TRY(meet_gpus(v, session, &p.plan, err));
		MQ_TRY(lower_plan(v, session, &p, err));
		MQ_PUSH(&v->arena, v->plan, v->n_plans, v->room, p);
		found++;
	}
	if (!found)
		return mq_bad(err, "%s: no plan-1.json: did the search find a plan?", dir);
	return MQ_OK;
}

enum mq_status mq_validation_add(struct mq_validation *v, const char *dir, uint32_t top, int argc, char **argv,
				 struct mq_err *err)
{
	struct mq_asked *asked = &v->asked[v->n_open];
	struct mq_session *session = &v->session[v->n_open];

	MQ_TRY(mq_asked_of_folder(dir, argc, argv, &v->arena, asked, err));
	asked->no_fold = true;
	MQ_TRY(mq_session_open(session, asked, NULL, err));
	v->n_open++;
	return add_plans(v, dir, top, session, err);
}

void mq_validation_close(struct mq_validation *v)
{
	for (uint32_t i = 0; i < v->n_open; i++)
		mq_session_close(&v->session[i]);
	mq_arena_fini(&v->arena);
}

/* ---- predicting ------------------------------------------------------------------------------ */

enum mq_status mq_validation_predict(const struct mq_schedule *schedule, const struct mq_cluster *cluster,
				     const struct mq_calib *calib, struct mq_arena *arena, struct mq_timeline *timeline,
				     struct mq_err *err)
{
	struct mq_exec_request request = { .view.schedule = schedule,
					   .cluster = cluster,
					   .calib = calib,
					   .timeout_s = INFINITY,
					   .interference = true };
	enum mq_verdict verdict;

	MQ_TRY(mq_execute_analytic(&request, arena, timeline, &verdict, err));
	if (verdict != MQ_VERDICT_OK)
		return mq_bad(err, "the schedule ends with the verdict '%s'", mq_verdict_name(verdict));
	return MQ_OK;
}

/* The `run` of mq_interval_request; context: a scratch arena. */
static double run_draw(void *context, const struct mq_schedule *schedule, const struct mq_cluster *cluster,
		       const struct mq_calib *calib)
{
	struct mq_arena *arena = context;
	struct mq_arena_mark mark = mq_arena_mark(arena);
	struct mq_timeline timeline;
	struct mq_err ignored;
	enum mq_status status = mq_validation_predict(schedule, cluster, calib, arena, &timeline, &ignored);

	mq_arena_rewind(arena, mark);
	return status == MQ_OK ? timeline.step_time_s : (double)NAN;
}

enum mq_status mq_validation_predict_all(struct mq_validation *v, uint32_t n_draws, uint64_t seed, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;

	for (uint32_t i = 0; i < v->n_plans; i++) {
		struct mq_validated *p = &v->plan[i];
		struct mq_uncertainty uncertainty = { 0 };
		struct mq_interval_request request = { .cluster = p->session->cluster,
						       .calib = p->session->calib,
						       .uncertainty = &uncertainty,
						       .n_draws = n_draws,
						       .seed = seed,
						       .run = run_draw,
						       .context = &scratch };

		MQ_TRY(mq_validation_predict(p->schedule, p->session->cluster, p->session->calib, &v->arena,
					     &p->predicted, err));
		const struct mq_list *files = &p->session->asked->calib;
		for (uint32_t f = 0; f < files->n; f++)
			MQ_TRY(mq_uncertainty_load(&uncertainty, files->item[f], &v->arena, err));
		MQ_TRY(mq_interval_of(&request, p->schedule, &v->arena, &p->interval, err));
	}
	return MQ_OK;
}

void mq_validation_drift(struct mq_validation *v, uint32_t n_draws, uint64_t seed)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	const struct mq_measured **measured = mq_arena_array(&scratch, v->n_plans, const struct mq_measured *);
	double *median = mq_arena_array(&scratch, v->n_plans, double);

	for (uint32_t i = 0; i < v->n_plans; i++) {
		measured[i] = v->plan[i].measured;
		median[i] = v->plan[i].step.median;
	}
	v->drift = mq_drift_of(measured, median, v->n_plans, &scratch);
	for (uint32_t i = 0; i < v->n_plans; i++)
		if (v->plan[i].interval.high > v->plan[i].interval.low)
			mq_interval_widen(&v->plan[i].interval, n_draws, &v->drift, seed, i, &scratch);
}

/* ---- `simulate --intervals` ---------------------------------------------------------------------
 *
 * The spread of a step time due to the calibration's uncertainties, and the probability that one plan beats another.
 * The analytic executor runs the draws, which give factors around the simulated step time. */

static enum mq_status spread_of(const struct mq_session *session, const struct mq_plan *plan,
				const struct mq_uncertainty *uncertainty, struct mq_arena *arena,
				struct mq_interval *interval, struct mq_err *err)
{
	struct mq_lower_request lower = { .q = &session->q, .plan = plan };
	struct mq_lowered lowered;
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_interval_request request = { .cluster = session->cluster,
					       .calib = session->calib,
					       .uncertainty = uncertainty,
					       .n_draws = MQ_INTERVAL_DRAWS,
					       .seed = session->asked->seed,
					       .run = run_draw,
					       .context = &scratch };

	MQ_TRY(mq_lower(&lower, arena, &lowered, err));
	if (lowered.verdict != MQ_VERDICT_OK)
		return mq_fail(err, MQ_ENOPLAN, "no interval: the plan is '%s': %s", mq_verdict_name(lowered.verdict),
			       lowered.message);
	return mq_interval_of(&request, lowered.schedule, arena, interval, err);
}

enum mq_status mq_plans_intervals(const struct mq_session *session, const struct mq_ranked *plan, uint32_t n,
				  const char *dir, struct mq_err *err)
{
	const struct mq_list *files = &session->asked->calib;
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_uncertainty uncertainty = { 0 };
	struct mq_interval *interval = mq_arena_array(&arena, n, struct mq_interval);
	struct mq_csv_writer w;
	char low[32], high[32];

	for (uint32_t f = 0; f < files->n; f++)
		MQ_TRY(mq_uncertainty_load(&uncertainty, files->item[f], &arena, err));
	if (!uncertainty.n)
		return mq_bad(err, "--intervals: no calibration says how sure it is: give one "
				   "that maquette calibrate wrote (--calib FILE)");
	for (uint32_t i = 0; i < n; i++)
		MQ_TRY(spread_of(session, plan[i].plan, &uncertainty, &arena, &interval[i], err));
	if (dir)
		MQ_TRY(mq_table_create(&w, MQ_TABLE_intervals, dir, &arena, err));
	for (uint32_t i = 0; i < n; i++) {
		const double s = plan[i].step_time_s, low_s = s * interval[i].low, high_s = s * interval[i].high;
		double faster = i ? mq_probability_less(plan[0].step_time_s, interval[0].factor, s, interval[i].factor,
							MQ_INTERVAL_DRAWS) :
				    (double)NAN;

		printf("%s: step time between %s and %s (95 %%)\n", plan[i].path, mq_text_s(low_s, low),
		       mq_text_s(high_s, high));
		if (interval[i].n_extrapolated)
			printf("  %u kernels are outside the sizes that were measured\n", interval[i].n_extrapolated);
		if (i)
			printf("  %s is faster with probability %.2f\n", plan[0].path, faster);
		if (dir)
			mq_csv_row(&w, "%s,%g,%g,%g,%g", plan[i].path, s, low_s, high_s, faster);
	}
	return dir ? mq_csv_close(&w, err) : MQ_OK;
}

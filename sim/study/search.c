/* search.c - finds the plan of a study's point, by search or as given, or the reason why there is none.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "study/study.h"

/* Opens the point's session; *plan: the given plan, or NULL. */
static enum mq_status open_point(const struct mq_study *study, const struct mq_point *point, struct mq_session *s,
				 struct mq_plan **plan, struct mq_err *err)
{
	MQ_TRY(mq_session_open(s, &point->asked, study->shipped, err));
	if (study->epoch_tokens && !(s->model->tokens_per_sample > 0))
		return mq_bad(err, "epoch: samples of model '%s' have no tokens; give epoch = SAMPLES", s->model->name);
	*plan = point->plan ? mq_arena_alloc(&s->arena, sizeof(**plan)) : NULL;
	if (!*plan)
		return MQ_OK;
	MQ_TRY(mq_plan_load(point->plan, s->model, s->cluster, &s->arena, *plan, err));
	return mq_plan_check(*plan, s->model, s->cluster, &s->train, err);
}

/* Judges a given plan; the outcome has it as its one candidate. */
static enum mq_status judge_given(struct mq_plan *given, struct mq_session *s, struct mq_search_outcome *outcome,
				  struct mq_err *err)
{
	struct mq_candidate *c = mq_arena_alloc(&s->arena, sizeof(*c));
	const struct mq_plan *plan = given;

	memset(outcome, 0, sizeof(*outcome));
	*c = (struct mq_candidate){ .plan = given, .engine = "plan", .hash = mq_plan_hash(given) };
	MQ_TRY(mq_session_judge(s, &plan, 1, &c->result, err));
	outcome->proposals = 1;
	if (c->result.verdict == MQ_VERDICT_OK) {
		outcome->best = c;
		outcome->n_best = 1;
	} else {
		outcome->crashed = c->result.verdict == MQ_VERDICT_CRASH;
		outcome->nearest = *c;
		outcome->have_nearest = true;
	}
	return MQ_OK;
}

enum mq_status mq_study_search(const struct mq_study *study, const struct mq_point *point, struct mq_session *session,
			       struct mq_search_outcome *outcome, struct mq_err *err)
{
	struct mq_plan *plan;

	MQ_TRY(open_point(study, point, session, &plan, err));
	return plan ? judge_given(plan, session, outcome, err) :
		      mq_search_session(session, &point->search, NULL, outcome, err);
}

/* With several jobs: of the first that is refused. */
const char *mq_study_refused(const struct mq_study *study, const struct mq_point *point, struct mq_arena *arena)
{
	const char *why = NULL;

	for (uint32_t j = 0; j < (study->n_jobs ? study->n_jobs : 1) && !why; j++) {
		const struct mq_point *p = study->n_jobs ? &point->job[j] : point;
		struct mq_search_options none = p->search;
		struct mq_session session = { 0 };
		struct mq_search_outcome outcome;
		struct mq_err err = MQ_ERR_INIT;
		struct mq_plan *plan;

		none.evals = 0;
		enum mq_status status = open_point(study, p, &session, &plan, &err);
		if (status == MQ_OK && !plan)
			status = mq_search_session(&session, &none, NULL, &outcome, &err);
		mq_session_close(&session);
		if (status != MQ_OK)
			why = mq_arena_printf(arena, "%s%s%s%s", study->n_jobs ? "job " : "",
					      study->n_jobs ? study->job[j] : "", study->n_jobs ? ": " : "", err.text);
	}
	return why;
}

/* The engines' reasons if they proposed nothing. */
static const char *why_none(const struct mq_search_outcome *outcome, struct mq_arena *arena)
{
	const char *text = "no feasible plan";

	for (uint32_t i = 0; i < outcome->n_reports; i++) {
		const struct mq_engine_report *r = &outcome->report[i];

		if (*r->stopped)
			text = mq_arena_printf(arena, "%s; %s: %s", text, r->engine, r->stopped);
		for (uint32_t k = 0; k < r->n_said; k++)
			text = mq_arena_printf(arena, "%s; %s: %s", text, r->engine, r->said[k]);
	}
	return text;
}

const char *mq_study_no_plan(const struct mq_search_outcome *outcome, struct mq_arena *arena, const char **why)
{
	const struct mq_candidate *c = outcome->have_nearest ? &outcome->nearest :
				       outcome->have_refused ? &outcome->refused :
							       NULL;

	*why = c ? c->result.message : why_none(outcome, arena);
	return c ? mq_verdict_name(c->result.verdict) : "none";
}

/* search.c - the plan of a point of a study: searched for or given; or why there is none.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "study/study.h"

/* A given plan instead of a search: an outcome of one candidate. */
static enum mq_status judge_given(const struct mq_point *point, struct mq_session *s, struct mq_search_outcome *outcome,
				  struct mq_err *err)
{
	struct mq_candidate *c = mq_arena_alloc(&s->arena, sizeof(*c));

	memset(outcome, 0, sizeof(*outcome));
	c->plan = mq_arena_alloc(&s->arena, sizeof(*c->plan));
	c->engine = "plan";
	MQ_TRY(mq_plan_load(point->plan, s->model, s->cluster, &s->arena, c->plan, err));
	MQ_TRY(mq_plan_check(c->plan, s->model, s->cluster, &s->train, err));
	c->hash = mq_plan_hash(c->plan);
	const struct mq_plan *plan = c->plan;
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

enum mq_status mq_study_search(const struct mq_point *point, struct mq_session *session,
			       struct mq_search_outcome *outcome, struct mq_err *err)
{
	MQ_TRY(mq_session_open(session, &point->asked, err));
	if (point->plan)
		return judge_given(point, session, outcome, err);
	return mq_search_session(session, &point->search, NULL, outcome, err);
}

/* What the engines said, where they proposed nothing. */
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

/* proof.c - a lower bound over all candidates of the hybrid planner: see hybrid.h.
 *
 * Branch and bound over all candidates seen, lowest floors first. A candidate's floor (compute and bubble in closed
 * form) is replaced by its screened time, which has no contention and so is a lower bound of the simulated time, or by
 * the simulated time if it was judged. What does not fit bounds nothing. It ends when the lowest floor left is above
 * the lowest time found, or after MOST candidates: then that floor is the bound. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "hybrid/hybrid.h"
#include "lib/plans.h"

enum { ROOM = 1 << 15, MOST = 4096 };
/* times are rounded to nine digits */
static const double ROUNDING = 1e-8;

struct open {
	struct mq_hybrid_item item;
	double floor_s;
	uint64_t order;
};

struct mq_hybrid_proof {
	struct open *open; /* [ROOM] */
	uint32_t n;
	double cut_s;         /* the lowest floor dropped for lack of room */
	struct mq_map judged; /* mq_plan_effect of judged plans of the list; index into judged_s */
	double *judged_s;
	uint32_t room;
};

void mq_hybrid_proof_init(struct mq_hybrid *s, const struct mq_problem *problem)
{
	if (!problem->bound)
		return;
	s->proof = mq_arena_array(problem->arena, 1, struct mq_hybrid_proof);
	s->proof->open = mq_arena_array(problem->arena, ROOM, struct open);
	s->proof->cut_s = INFINITY;
	mq_map_init(&s->proof->judged, problem->arena, 512);
}

MQ_COMPARE(lower, struct open, MQ_ORDER(a->floor_s, b->floor_s) ?: MQ_ORDER(a->order, b->order))

void mq_hybrid_seen(struct mq_hybrid *s, const struct mq_hybrid_item *item, double floor_s)
{
	struct mq_hybrid_proof *p = s->proof;

	if (!p || floor_s >= p->cut_s)
		return;
	if (p->n == ROOM) {
		qsort(p->open, p->n, sizeof(*p->open), lower);
		p->n = ROOM / 2;
		p->cut_s = p->open[p->n].floor_s;
	}
	p->open[p->n++] = (struct open){ *item, floor_s, s->seen };
}

void mq_hybrid_judged(struct mq_hybrid *s, const struct mq_plan *plan, const struct mq_result *result)
{
	struct mq_hybrid_proof *p = s->proof;
	bool fits = result->verdict == MQ_VERDICT_OK;

	if (!p)
		return;
	uint32_t before = p->judged.n;
	uint32_t i = mq_map_add(&p->judged, mq_plan_effect(&s->refine.space, plan, &s->refine.scratch));

	if (i == before)
		MQ_PUSH(s->space.problem->arena, p->judged_s, i, p->room,
			fits ? result->step_time_s : (double)INFINITY);
}

/* Lower bound of the candidate's simulated time; +inf: it does not fit, or there is no such plan. */
static double time_of(struct mq_hybrid *s, const struct mq_problem *problem, const struct open *o,
		      struct mq_arena *scratch)
{
	struct mq_arena_mark mark = mq_arena_mark(scratch);
	struct mq_result result;
	struct mq_plan plan;
	double time_s = INFINITY;

	if (s->make(s, &o->item, scratch, &plan)) {
		uint32_t known =
			mq_map_find(&s->proof->judged, mq_plan_effect(&s->refine.space, &plan, &s->refine.scratch));

		if (known != MQ_NONE)
			time_s = s->proof->judged_s[known];
		else if (!problem->costs->screen(problem->costs->screen_context, &plan, &result))
			time_s = o->floor_s;
		else if (result.verdict == MQ_VERDICT_OK)
			time_s = result.step_time_s * (1 - ROUNDING);
	}
	mq_arena_rewind(scratch, mark);
	return time_s;
}

double mq_hybrid_prove(struct mq_hybrid *s, const struct mq_problem *problem)
{
	struct mq_hybrid_proof *p = s->proof;
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	double least_s = INFINITY;
	uint32_t i = 0;

	qsort(p->open, p->n, sizeof(*p->open), lower);
	while (i < p->n && i < MOST && p->open[i].floor_s < least_s && problem->costs->screen &&
	       mq_tick(problem, (double)NAN, "proving")) {
		least_s = fmin(least_s, fmax(p->open[i].floor_s, time_of(s, problem, &p->open[i], &scratch)));
		i++;
	}
	mq_say(problem, "hybrid: %u of %u candidates timed for the proof", i, p->n);
	double any_s = problem->costs->least_s ? problem->costs->least_s(problem->costs->context) : 0;

	return fmax(any_s, fmin(least_s, i < p->n ? p->open[i].floor_s : p->cut_s));
}

/* local_search.c - local search for the least max-load from random starts: steepest descent by moves of one op group (a
 * baseline of Tarnawski et al., NeurIPS 2020, with ten starts).
 *
 * Objective: max-load over contiguous or other sets (lib/place/place.h). One proposal per start; starts are seeded. If
 * no start fits, or the simulator finds every plan too large, repeats all starts with twice as many micro-batches.
 * O(groups x devices x signals of a group) per move. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/engine.h"
#include "local_search/local.h"
#include "lib/place/model.h"
#include "lib/plans.h"

struct local_search {
	uint32_t starts, round, refused, too_large, micro_batches;
	double best;
};

static const struct mq_opt opts[] = { MQ_U32(struct local_search, starts, 10, 1, 1e6, "random starts, one plan each"),
				      MQ_END };

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct local_search *s = state;

	s->best = INFINITY;
	s->micro_batches = 1;
	if (problem->q->model->devices.time_unit_s > 0) /* one sample per micro-batch */
		s->micro_batches = (uint32_t)fmax(1, fmin(floor(problem->q->train->batch), 1e6));
	return MQ_OK;
}

/* Restarts with twice as many micro-batches; false: not at the end, no such number, or it would not help. */
static bool start_again(struct local_search *s, const struct mq_problem *problem)
{
	double m = 2.0 * s->micro_batches;

	if (s->round < s->starts || s->refused + s->too_large < s->starts ||
	    problem->q->model->devices.time_unit_s > 0 || m > problem->q->train->batch ||
	    fmod(problem->q->train->batch, m) != 0)
		return false;
	s->micro_batches = (uint32_t)m;
	s->round = s->refused = s->too_large = 0;
	return true;
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct local_search *s = state;
	struct mq_place_model model;
	struct mq_local_result r;
	enum mq_status status = MQ_DONE;

	do {
		MQ_TRY(mq_place_from_problem(problem, s->micro_batches, 1, arena, &model, err));
		while (s->round < s->starts && status != MQ_OK) {
			s->round++;
			status = mq_local_search(&model.place, problem->rng, arena, &r, err);
			if (status != MQ_OK && status != MQ_ENOPLAN)
				return status;
			s->refused += status == MQ_ENOPLAN;
		}
	} while (status != MQ_OK && start_again(s, problem));
	if (status != MQ_OK)
		return s->refused == s->starts ?
			       mq_fail(err, MQ_ENOPLAN,
				       "engine 'local-search' places whole ops: none of %u random starts with %u "
				       "micro-batches fits the memory",
				       s->starts, s->micro_batches) :
			       MQ_DONE;
	mq_place_plan_free(&model, &r.placement, problem, arena, plan);
	plan->engine_objective = r.placement.max_load;
	s->best = fmin(s->best, r.placement.max_load);
	if (s->round == s->starts && model.own_units)
		mq_say(problem, "max-load %.9g", s->best);
	return MQ_OK;
}

static void observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		    const struct mq_result *result)
{
	struct local_search *s = state;

	s->too_large += result->verdict == MQ_VERDICT_OOM;
}

MQ_ENGINE(local_search) = {
	MQ_ENGINE_HEAD("local-search"),
	.summary = "best single move of an op group until none gains, from random starts",
	.paper = "Tarnawski et al., NeurIPS 2020 (baseline)",
	MQ_ENGINE_OWN(struct local_search),
	.lacks = MQ_LACKS_ALL,
	.observe = observe,
};

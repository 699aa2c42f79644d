/* usual.c - see usual.h. SPDX-License-Identifier: Apache-2.0 */
#include "portfolio/usual.h"

#include <math.h>
#include <stdlib.h>

#include "lib/plans.h"

static bool make(const struct shape_space *space, const struct shape_point *p, struct mq_arena *arena,
		 struct mq_plan *plan)
{
	struct mq_err none = MQ_ERR_INIT;

	return shapes_valid(space, p) && shapes_plan(space, p, arena, plan, &none) == MQ_OK;
}

/* Completes a point: dp takes all remaining devices; as many micro-batches as can be, or a `few`, about 4 a stage. */
static struct shape_point complete(const struct shape_space *space, struct shape_point p, bool few)
{
	const struct mq_limits *limits = space->problem->limits;
	double batch = floor(space->problem->q->train->batch);
	bool infer = space->problem->q->train->infer;

	p.cp = p.cp ? p.cp : mq_or_1(limits->fix_cp);
	p.ep = mq_or_1(limits->fix_ep);
	p.virtual = 1;
	p.pipeline = MQ_PIPE_1F1B;
	p.sequence_parallel = shapes_sequence(space, p.tp, p.cp);
	p.dp = space->set[p.set].n / (p.tp * p.pp * p.cp);
	p.micro_batches = p.dp ? (uint32_t)fmax(1, batch / p.dp / mq_or_1(limits->fix_mbs)) : 1;
	while (p.micro_batches > 1 && fmod(batch, (double)p.micro_batches * (p.balanced ? 1 : p.dp)) != 0)
		p.micro_batches--;
	while (few && !limits->fix_mbs && p.micro_batches > 4 * p.pp && p.micro_batches % 2 == 0)
		p.micro_batches /= 2;
	if (infer)
		p.recompute = MQ_RECOMPUTE_NONE;
	if (infer || p.dp * p.cp < 2)
		p.sync = MQ_SYNC_ALLREDUCE;
	return p;
}

/* ---- usual plans -------------------------------------------------------------------------------------- */

enum { DEFAULT, ZERO1, ZERO3, TENSOR };

/* The plan of a family and whether it fits; false: software, model or constraints leave none, or an earlier family has
 * the same. */
static bool family_plan(const struct shape_space *space, uint32_t which, struct mq_arena *arena, struct mq_plan *plan,
			bool *fits)
{
	static const char *const name[] = { "defaults of the software", "data parallel, ZeRO-1",
					    "data parallel, ZeRO-3", "tensor parallel in a machine" };
	static const uint8_t wanted[] = { [ZERO1] = MQ_SYNC_ZERO1, [ZERO3] = MQ_SYNC_ZERO3 };
	const double batch = space->problem->q->train->batch;
	const uint8_t own = space->software->sync;
	const uint8_t sync = which == DEFAULT ? own :
			     which == TENSOR  ? (uint8_t)fmax(own, MQ_SYNC_ZERO1) :
						wanted[which];
	const bool exchanges = space->set[0].n > 1 && !space->problem->q->train->infer; /* is there a gradient sync */
	bool any = false;

	*fits = false;
	if ((which == ZERO1 || which == ZERO3) && (sync <= own || !exchanges))
		return false;
	/* the largest tensor degree within a machine that the model allows */
	for (uint32_t tp = which == TENSOR ? space->set[0].per_node : 1; !any && tp > (which == TENSOR); tp /= 2)
		for (uint32_t r = space->software->recompute; r < MQ_N_RECOMPUTES; r++) {
			struct shape_point p = complete(
				space, (struct shape_point){ .tp = tp, .pp = 1, .sync = sync, .recompute = (uint8_t)r },
				true);

			for (; p.micro_batches <= batch && make(space, &p, arena, plan); p.micro_batches *= 2) {
				any = true;
				plan->usual = name[which];
				*fits = mq_fits(space->problem, plan);
				if (*fits)
					return true;
			}
		}
	return any;
}

/* ---- a plan that fits ----------------------------------------------------------------------------------- */

/* Tries the points of a set, those last that slow a step most; *valid: software, model and constraints allow some. */
static bool set_fitting(struct shape_space *space, uint32_t set, struct mq_arena *arena, struct mq_plan *plan,
			bool *valid)
{
	enum { SHARDED = 1, CONTEXT = 2, HOST = 4, BALANCED = 8 }; /* bits of a way to save memory */
	const struct mq_limits *l = space->problem->limits;
	const uint32_t most = space->set[set].per_node;
	const uint32_t degree[2] = { l->fix_tp ? l->fix_tp : 1, l->max_tp && l->max_tp < most ? l->max_tp : most };
	const uint32_t n_tp = degree[1] > degree[0] ? 2 : 1;
	const uint32_t never = (mq_context_pays(space->problem) ? 0 : CONTEXT) | (shapes_can_host(space) ? 0 : HOST);
	uint32_t stages[16], n = shapes_divisors(space->set[set].n, stages, 16) * n_tp * 2;

	for (uint32_t i = 0; i < 2 * BALANCED * n; i++) {
		const uint32_t way = i / n;
		struct shape_point p = { .set = set,
					 .tp = degree[i / 2 % n_tp],
					 .pp = stages[i % n / 2 / n_tp],
					 .balanced = way & BALANCED };

		if (way & never)
			continue;
		p.sync = l->fix_sync >= 0 ? (uint8_t)l->fix_sync : way & SHARDED ? MQ_SYNC_ZERO3 : MQ_SYNC_ZERO1;
		p.recompute = l->fix_recompute >= 0 ? (uint8_t)l->fix_recompute :
			      i % 2                 ? MQ_RECOMPUTE_FULL :
						      MQ_RECOMPUTE_NONE;
		p.cp = way & CONTEXT ? space->set[set].n / (p.tp * p.pp) : 0;
		space->host = way & HOST;
		p = complete(space, p, false);
		if (!mq_tick(space->problem, (double)NAN, "a first plan"))
			return false;
		if (!make(space, &p, arena, plan))
			continue;
		*valid = true;
		if (!mq_fits(space->problem, plan))
			continue;
		const struct shape_point few = complete(space, p, true);

		return (make(space, &few, arena, plan) && mq_fits(space->problem, plan)) ||
		       make(space, &p, arena, plan);
	}
	return false;
}

MQ_COMPARE(larger, struct shape_set,
	   MQ_ORDER(a->mixed, b->mixed) ?:
		   MQ_ORDER(b->n, a->n) ?:
					  MQ_ORDER(*a->device, *b->device))

/* Searches equal devices before mixed ones, and fewer of them only if more have no valid point; reorders the sets. */
static bool first_fitting(struct shape_space *space, struct mq_arena *arena, struct mq_plan *plan)
{
	qsort(space->set, space->n_sets, sizeof(*space->set), larger);
	for (uint32_t i = 0, tried = 0; i < space->n_sets; i++) {
		bool valid = false;

		if (space->set[i].n >= tried && set_fitting(space, i, arena, plan, &valid))
			return true;
		if (valid)
			tried = space->set[i].n;
	}
	return false;
}

bool mq_usual_next(struct mq_usual *u, const struct mq_problem *problem, bool ran, struct mq_arena *arena,
		   struct mq_plan *plan)
{
	struct mq_err none = MQ_ERR_INIT;
	bool fits;

	if (!u->started) {
		u->started = true;
		u->space.problem = problem;
		if (!problem->costs->fits || shapes_init(&u->space, problem, &none) != MQ_OK)
			u->next = MQ_USUAL_FAMILIES + 1;
	}
	while (u->next < MQ_USUAL_FAMILIES)
		if (family_plan(&u->space, u->next++, arena, plan, &fits)) {
			if (fits)
				return true;
			mq_plan_copy(&u->unfit[u->n_unfit++], plan, problem->arena);
		}
	return u->next++ == MQ_USUAL_FAMILIES && !ran && first_fitting(&u->space, arena, plan);
}

bool mq_usual_unfit(struct mq_usual *u, struct mq_arena *arena, struct mq_plan *plan)
{
	if (u->n_told == u->n_unfit)
		return false;
	mq_plan_copy(plan, &u->unfit[u->n_told++], arena);
	return true;
}

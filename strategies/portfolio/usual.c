/* usual.c - see usual.h. SPDX-License-Identifier: Apache-2.0 */
#include "portfolio/usual.h"

#include <math.h>

#include "lib/plans.h"

static bool make(const struct shape_space *space, const struct shape_point *p, struct mq_arena *arena,
		 struct mq_plan *plan)
{
	struct mq_err none = MQ_ERR_INIT;

	return shapes_valid(space, p) && shapes_plan(space, p, arena, plan, &none) == MQ_OK;
}

/* Sets dp to all remaining devices, and many micro-batches of few samples, to save memory. */
static void set_batch(const struct shape_space *space, struct shape_point *p)
{
	double batch = floor(space->problem->q->train->batch);

	p->dp = space->set[p->set].n / (p->tp * p->pp);
	p->micro_batches = p->dp ? (uint32_t)fmax(1, batch / p->dp) : 1;
	while (p->micro_batches > 1 && fmod(batch, (double)p->micro_batches * (p->balanced ? 1 : p->dp)) != 0)
		p->micro_batches--;
	/* at most about four micro-batches per stage */
	while (p->micro_batches > 4 * p->pp && p->micro_batches % 2 == 0)
		p->micro_batches /= 2;
}

static struct shape_point point_of(const struct shape_space *space, uint32_t set, uint32_t tp, uint32_t pp,
				   uint8_t sync, uint8_t recompute, bool balanced)
{
	bool infer = space->problem->q->train->infer;
	struct shape_point p = { .set = set,
				 .tp = tp,
				 .pp = pp,
				 .cp = 1,
				 .ep = 1,
				 .virtual = 1,
				 .pipeline = MQ_PIPE_1F1B,
				 .recompute = infer ? MQ_RECOMPUTE_NONE : recompute,
				 .sequence_parallel = shapes_sequence(space, tp, 1),
				 .balanced = balanced };

	set_batch(space, &p);
	p.sync = p.dp > 1 && !infer ? sync : MQ_SYNC_ALLREDUCE;
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
			struct shape_point p = point_of(space, 0, tp, 1, sync, (uint8_t)r, false);

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

static bool first_fitting(struct shape_space *space, struct mq_arena *arena, struct mq_plan *plan)
{
	static const struct {
		uint8_t sync, recompute;
		bool host, balanced;
	} way[] = { { MQ_SYNC_ZERO1, MQ_RECOMPUTE_NONE, false, false },
		    { MQ_SYNC_ZERO1, MQ_RECOMPUTE_FULL, false, false },
		    { MQ_SYNC_ZERO3, MQ_RECOMPUTE_FULL, false, false },
		    { MQ_SYNC_ZERO3, MQ_RECOMPUTE_FULL, true, false },
		    /* replicas of unlike samples, where no division of the devices divides the batch */
		    { MQ_SYNC_ZERO1, MQ_RECOMPUTE_FULL, false, true },
		    { MQ_SYNC_ZERO3, MQ_RECOMPUTE_FULL, false, true } };
	uint32_t set = MQ_NONE; /* the largest set of equal devices */
	uint32_t stages[16], n;

	for (uint32_t i = 0; i < space->n_sets; i++)
		if (!space->set[i].mixed && (set == MQ_NONE || space->set[i].n > space->set[set].n))
			set = i;
	n = set == MQ_NONE ? 0 : shapes_divisors(space->set[set].n, stages, 16);
	/* choices that slow a step down most come last */
	for (uint32_t i = 0; i < 3 * n; i++)
		for (uint32_t t = 0; t < 2; t++)
			for (uint32_t w = i / n * 2; w < i / n * 2 + 2; w++) {
				uint32_t tp = t ? space->set[set].per_node : 1;
				struct shape_point p = point_of(space, set, tp, stages[i % n], way[w].sync,
								way[w].recompute, way[w].balanced);

				if ((t && tp == 1) || (way[w].host && !shapes_can_host(space)))
					continue;
				space->host = way[w].host;
				if (make(space, &p, arena, plan) && mq_fits(space->problem, plan))
					return true;
				if (!mq_tick(space->problem, (double)NAN, "a first plan"))
					return false;
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

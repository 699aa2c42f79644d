/* first.c - see first.h. SPDX-License-Identifier: Apache-2.0 */
#include "portfolio/first.h"

#include <math.h>

#include "lib/shapes.h"
#include "lib/plans.h"

static bool fits(const struct shape_space *space, const struct shape_point *p, struct mq_arena *arena,
		 struct mq_plan *plan)
{
	struct mq_err none = MQ_ERR_INIT;

	return shapes_valid(space, p) && shapes_plan(space, p, arena, plan, &none) == MQ_OK &&
	       mq_fits(space->problem, plan);
}

/* As many replicas as there are samples for, and few samples in each micro-batch: memory first. */
static void divide(const struct shape_space *space, uint32_t parts, struct shape_point *p)
{
	double batch = floor(space->problem->q->train->batch);

	p->dp = space->set[p->set].n / parts;
	p->micro_batches = p->dp ? (uint32_t)fmax(1, batch / p->dp) : 1;
	while (p->micro_batches > 1 && fmod(batch, (double)p->micro_batches * p->dp) != 0)
		p->micro_batches--;
	/* stages want several micro-batches, and no more than a few of them */
	while (p->micro_batches > 4 * p->pp && p->micro_batches % 2 == 0)
		p->micro_batches /= 2;
}

bool mq_first_plan(const struct mq_problem *problem, struct mq_arena *arena, struct mq_plan *plan)
{
	static const struct {
		uint8_t sync, recompute;
		bool host;
	} way[] = { { MQ_SYNC_ZERO1, MQ_RECOMPUTE_NONE, false },
		    { MQ_SYNC_ZERO1, MQ_RECOMPUTE_FULL, false },
		    { MQ_SYNC_ZERO3, MQ_RECOMPUTE_FULL, false },
		    { MQ_SYNC_ZERO3, MQ_RECOMPUTE_FULL, true } };
	struct shape_space space = { .problem = problem };
	struct mq_err none = MQ_ERR_INIT;

	if (!problem->costs->fits || shapes_init(&space, problem, &none) != MQ_OK)
		return false;
	uint32_t set = MQ_NONE; /* the largest of equal devices */

	for (uint32_t i = 0; i < space.n_sets; i++)
		if (!space.set[i].mixed && (set == MQ_NONE || space.set[i].n > space.set[set].n))
			set = i;

	/* what slows a step down most comes after all else */
	for (uint32_t i = 0; set != MQ_NONE && i < 2 * 7; i++)
		for (uint32_t t = 0; t < 2; t++)
			for (uint32_t w = i / 7 * 2; w < i / 7 * 2 + 2; w++) {
				uint32_t pp = 1u << i % 7;
				struct shape_point p = { .set = set,
							 .tp = t ? space.set[set].per_node : 1,
							 .pp = pp,
							 .cp = 1,
							 .ep = 1,
							 .virtual = 1,
							 .pipeline = MQ_PIPE_1F1B,
							 .recompute = way[w].recompute };

				if ((t && p.tp == 1) || (way[w].host && !shapes_can_host(&space)))
					continue;
				space.host = way[w].host;
				divide(&space, p.tp * p.pp, &p);
				p.sync = p.dp > 1 && !problem->q->train->infer ? way[w].sync : MQ_SYNC_ALLREDUCE;
				p.sequence_parallel = shapes_sequence(&space, p.tp, 1);
				if (problem->q->train->infer)
					p.recompute = MQ_RECOMPUTE_NONE;
				if (fits(&space, &p, arena, plan))
					return true;
				if (!mq_tick(problem, (double)NAN, "a first plan"))
					return false;
			}
	return false;
}

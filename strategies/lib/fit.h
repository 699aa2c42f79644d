/* fit.h - memory for engines whose plans are one stage: how far a plan exceeds it, and the gradient accumulation and
 * recomputation with which a plan of theirs fits at all.
 *
 * A placement holds the activations of the whole batch. Where that does not fit, micro-batches (whose gradients
 * accumulate) divide what must be held, and recomputation drops it; both cost time. Neither is a decision of the
 * placement papers, so it is settled once, before their search begins. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_FIT_H
#define MQ_STRATEGIES_LIB_FIT_H

#include "maquette/engine.h"

struct mq_fit {
	uint32_t micro_batches;
	uint8_t recompute; /* enum mq_recompute */
	bool fits;
	double least; /* bytes needed / there, of the nearest setting */
};

/* Screens `plan` as it is, then with 2, 4, ... `most` micro-batches and every recomputation, within --fix and --max:
 * the first if it fits, else the fastest that does. Does not change the plan. Where there is no screen (or it cannot
 * judge the plan), the plan's own setting counts as fitting. */
struct mq_fit mq_fit_find(const struct mq_problem *problem, const struct mq_plan *plan, double most);
void mq_fit_apply(const struct mq_fit *fit, struct mq_plan *plan);
/* Says through problem->say what was settled, or by how much `space` ("a placement with memory shared evenly") does
 * not fit; nothing where the plain setting does. */
void mq_fit_say(const struct mq_problem *problem, const char *engine, const char *space, const struct mq_fit *fit);

/* How far a plan is from being one: 0 where it is feasible, else bytes needed / bytes there (> 1), or MQ_FIT_FAILED
 * where it failed in another way. */
#define MQ_FIT_FAILED 10.0
double mq_fit_excess(const struct mq_result *result);

#endif

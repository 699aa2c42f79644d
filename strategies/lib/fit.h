/* fit.h - memory of single-stage plans: by how much a plan exceeds it, and the gradient accumulation and recomputation
 * with which it fits.
 *
 * A placement holds the activations of the whole batch. If that does not fit, micro-batches (with accumulated
 * gradients) divide them, and recomputation drops them; both cost time. The placement papers decide neither, so both
 * are fixed once, before the search begins. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_FIT_H
#define MQ_STRATEGIES_LIB_FIT_H

#include "maquette/engine.h"

struct mq_fit {
	uint32_t micro_batches;
	uint8_t recompute; /* enum mq_recompute */
	bool fits;
	double least; /* bytes needed / available if it does not fit */
};

/* Judges `plan` as it is and, if it runs out of memory, with 1, 2, 4, ... `most` micro-batches and every recomputation,
 * within --fix and --max: returns the fastest setting that fits, else the one that exceeds memory least. Does not
 * change the plan. Without a screen, or if it cannot judge the plan, the plan's own setting counts as fitting. */
struct mq_fit mq_fit_find(const struct mq_problem *problem, const struct mq_plan *plan, double most);
void mq_fit_apply(const struct mq_fit *fit, struct mq_plan *plan);
/* Reports through problem->say the setting, or by how much `space` (MQ_COARSE_EVEN) does not fit; nothing if the plain
 * setting fits. */
void mq_fit_say(const struct mq_problem *problem, const char *engine, const char *space, const struct mq_fit *fit);

/* By how much a plan is infeasible: 0 if it is feasible, else bytes needed / available (> 1), or MQ_FIT_FAILED if it
 * failed in another way. */
#define MQ_FIT_FAILED 10.0
double mq_fit_excess(const struct mq_result *result);

#endif

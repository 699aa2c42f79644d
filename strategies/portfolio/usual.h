/* usual.h - the plans that every user of a training software knows, and soon one that fits, as other engines' first
 * plan takes long on large clusters. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_PORTFOLIO_USUAL_H
#define MQ_PORTFOLIO_USUAL_H

#include "lib/shapes.h"

enum { MQ_USUAL_FAMILIES = 4 };

struct mq_usual {
	struct shape_space space;
	uint32_t next, n_unfit, n_told;
	struct mq_plan unfit[MQ_USUAL_FAMILIES];
	bool started;
};

/* The next plan that passes the memory check: data parallelism with the software's own sync and recomputation, the same
 * with ZeRO-1 and ZeRO-3, tensor parallelism inside machines; each with the least recomputation and then the fewest
 * micro-batches, from about four on, that fit. Then, unless a plan `ran`, the first that fits of a list by expected
 * slowdown: ZeRO-1 without and with recomputation, under tensor parallelism inside machines and any number of stages
 * that divides the devices; then ZeRO-3, samples divided by context parallelism, an offloaded optimizer; then unlike
 * devices or replicas. It obeys fixed degrees. False: no more. */
bool mq_usual_next(struct mq_usual *usual, const struct mq_problem *problem, bool ran, struct mq_arena *arena,
		   struct mq_plan *plan);
/* The next of those that did not fit, in the form that saves most memory: users want to know how much is missing. */
bool mq_usual_unfit(struct mq_usual *usual, struct mq_arena *arena, struct mq_plan *plan);

#endif

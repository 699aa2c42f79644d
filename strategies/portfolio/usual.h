/* usual.h - the plans that every user of a training software knows, and one that fits, at once: for engines whose own
 * first plan takes long on large clusters. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_PORTFOLIO_USUAL_H
#define MQ_PORTFOLIO_USUAL_H

#include "lib/shapes.h"

struct mq_usual {
	struct shape_space space;
	uint32_t next;
	bool started;
};

/* The next plan: data parallelism with the software's own sync and recompute, the same with ZeRO-1 and ZeRO-3, tensor
 * parallelism inside machines; each with the least recomputation and, from about four on, the fewest micro-batches
 * that fit by the analytic executor, or the one that saves most memory. Then, unless one of these `ran`, the fastest
 * that fits: the first of a few, from data parallelism alone to tensor parallelism inside machines, stages and
 * recomputation; then ZeRO-3, and the optimizer on the host. False: no more. */
bool mq_usual_next(struct mq_usual *usual, const struct mq_problem *problem, bool ran, struct mq_arena *arena,
		   struct mq_plan *plan);

#endif

/* first.h - a plan that fits, found at once: for engines whose own first plan takes long on large clusters.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_PORTFOLIO_FIRST_H
#define MQ_PORTFOLIO_FIRST_H

#include "maquette/engine.h"

/* A usual plan on equal devices, the fastest, that fits by the analytic executor: the first of a few, from data
 * parallelism alone to tensor parallelism inside machines, stages and recomputation; then ZeRO-3, and the optimizer
 * on the host. False: none of them does. */
bool mq_first_plan(const struct mq_problem *problem, struct mq_arena *arena, struct mq_plan *plan);

#endif

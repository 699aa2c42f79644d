/* pool_order.h - in which order plans are handed out to workers. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_JUDGE_POOL_ORDER_H
#define MQ_JUDGE_POOL_ORDER_H

#include "maquette/arena.h"
#include "maquette/plan.h"

/* Indices of the plans, the longest to simulate first, so that the workers end together (Graham 1969). */
uint32_t *mq_pool_order(const struct mq_plan *const *plan, uint32_t n, struct mq_arena *arena);

#endif

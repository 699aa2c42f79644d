/* pool_order.h - the order in which plans are handed to workers. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_JUDGE_POOL_ORDER_H
#define MQ_JUDGE_POOL_ORDER_H

#include "maquette/arena.h"
#include "maquette/plan.h"

/* Indices of the plans, longest estimated simulation first, to balance the workers (LPT rule, Graham 1969). */
uint32_t *mq_pool_order(const struct mq_plan *const *plan, uint32_t n, struct mq_arena *arena);

#endif

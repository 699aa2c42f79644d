/* engine_costs.h - the cost queries of search engines (engine.h), answered by the models that the simulation uses.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_COSTING_ENGINE_COSTS_H
#define MQ_COSTING_ENGINE_COSTS_H

#include "maquette/engine.h"
#include "maquette/question.h"

/* The cost queries of engine.h without `screen`, which the caller fills in. Allocated in the arena; the question must
 * outlive it. */
struct mq_costs *mq_costs_new(const struct mq_question *q, struct mq_arena *arena);

#endif

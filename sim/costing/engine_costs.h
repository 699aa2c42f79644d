/* engine_costs.h - what search engines may ask about costs (engine.h), answered by the models that the simulation uses.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_COSTING_ENGINE_COSTS_H
#define MQ_COSTING_ENGINE_COSTS_H

#include "maquette/engine.h"
#include "maquette/question.h"

/* The cost queries of engine.h, but for `screen`, which the caller fills. Lives in the arena; borrows what the
 * question points to. */
struct mq_costs *mq_costs_new(const struct mq_question *q, struct mq_arena *arena);

#endif

/* switches.h - decisions of a plan that no config holds (decisions.h) as moves: a part of moves.h.
 *
 * Tried where the software has a setting for it and the plan has what it takes: overlaps, scatter-gather, the optimizer
 * on the host, broadcast of parameters, early stop, the collective algorithm, groups that ZeRO shards over (none, one,
 * two, four machines), buckets (four times, a quarter, one in all), quarters of the layers computed again. Not tried:
 * NCCL's protocol. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_MOVES_SWITCHES_H
#define MQ_LIB_MOVES_SWITCHES_H

#include "lib/moves/moves.h"

enum { MQ_SWITCH_VALUES = 8 };

/* Other values than the plan's present one that are worth a try; how many. Some may be refused by the software. */
uint32_t mq_switch_values(const struct mq_problem *problem, const struct mq_plan *plan, enum mq_decision_id id,
			  double value[MQ_SWITCH_VALUES]);
void mq_switch_set(const struct mq_problem *problem, struct mq_plan *plan, enum mq_decision_id id, double value);
/* Gives the plan the decisions of another, as far as they are moves that change something. */
void mq_switches_like(const struct mq_problem *problem, struct mq_plan *plan, const struct mq_plan *other);

#endif

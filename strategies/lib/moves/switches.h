/* switches.h - decisions of the whole plan (decisions.h) as moves: a part of moves.h.
 *
 * Tried if the software has a setting for it and the plan has what it needs: every on/off decision (overlaps,
 * scatter-gather, optimizer offload, ...), the collective algorithm, the group that ZeRO shards over (all, or one, two
 * or four machines), gradient buckets (a quarter, four times, per stage), the number of recomputed layers (quarters,
 * and a few fewer). Not tried: NCCL's protocol. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_MOVES_SWITCHES_H
#define MQ_LIB_MOVES_SWITCHES_H

#include "lib/moves/moves.h"

enum { MQ_SWITCH_VALUES = 8 };

/* Candidate values other than the plan's current one; returns how many. The software may refuse some. */
uint32_t mq_switch_values(const struct mq_problem *problem, const struct mq_plan *plan, enum mq_decision_id id,
			  double value[MQ_SWITCH_VALUES]);
void mq_switch_set(const struct mq_problem *problem, struct mq_plan *plan, enum mq_decision_id id, double value);
/* Copies the decisions of `other` where mq_switch_values has any for the plan. */
void mq_switches_like(const struct mq_problem *problem, struct mq_plan *plan, const struct mq_plan *other);

#endif

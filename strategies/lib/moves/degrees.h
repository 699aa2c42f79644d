/* degrees.h - plans of one shape with other degrees: a part of moves.h. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_MOVES_DEGREES_H
#define MQ_LIB_MOVES_DEGREES_H

#include "lib/moves/moves.h"

/* What grows, and what becomes smaller for it; chunks; experts; ranks that exchange heads. By two, or by one chunk. */
enum mq_factor {
	TP_DP,
	DP_TP,
	TP_PP,
	PP_TP,
	PP_DP,
	DP_PP,
	MORE_CHUNKS,
	FEWER_CHUNKS,
	V_CHUNKS,
	WHOLE_EXPERTS,
	SPLIT_EXPERTS,
	MORE_EP,
	FEWER_EP,
	MORE_HEADS,
	FEWER_HEADS,
	MQ_N_FACTORS
};
enum mq_order { AS_IT_IS, STAGE_MAJOR, REPLICA_MAJOR, MQ_N_ORDERS };

/* The shape's plan after that, its layers cut by work and its devices in an order; false: there is none, or the plan
 * is not one shape. */
bool mq_move_degrees(const struct mq_move_space *space, const struct mq_plan *from, enum mq_factor factor,
		     enum mq_order order, struct mq_arena *arena, struct mq_plan *out);

#endif

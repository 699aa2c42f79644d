/* degrees.h - moves to other degrees of a shape: a part of moves.h. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_MOVES_DEGREES_H
#define MQ_LIB_MOVES_DEGREES_H

#include "lib/moves/moves.h"

/* X_Y: X grows by the factor (2 or 3) that Y loses; chunks per device; etp, ep and Ulysses degree (by 2). */
enum mq_factor {
	TP_DP,
	DP_TP,
	TP_PP,
	PP_TP,
	PP_DP,
	DP_PP,
	TP_CP,
	CP_TP,
	PP_CP,
	CP_PP,
	DP_CP,
	CP_DP,
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

/* The plan of the changed shape, its layers cut by work, its devices in `order`, its decisions those of `from`; false:
 * there is no such plan, or `from` has more than one shape. */
bool mq_move_degrees(const struct mq_move_space *space, const struct mq_plan *from, enum mq_factor factor,
		     enum mq_order order, struct mq_arena *arena, struct mq_plan *out);

#endif

/* stages.h - the stages of a plan, and moves that change them: see moves.h. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_MOVES_STAGES_H
#define MQ_LIB_MOVES_STAGES_H

#include "lib/moves/moves.h"

struct mq_stages {
	uint32_t stages, ranks; /* ranks: stages / chunks per device */
	uint32_t *some;         /* [stages] the config with most devices */
	uint32_t *layers;       /* [stages] number of layers, by their first op */
};

uint32_t mq_stages_of_op(const struct mq_plan *plan, uint32_t op);
void mq_stages_look(const struct mq_move_space *space, const struct mq_plan *plan, struct mq_arena *arena,
		    struct mq_stages *v);
/* Speed of replica i of a config: of its slowest device. */
double mq_stages_speed(const struct mq_move_space *space, const struct mq_config *c, uint32_t i);

/* The following edit the plan in place; false: not possible, and the plan is then invalid. */

/* Moves layers (or ops) from one stage to another, through the stages between them. */
bool mq_stages_boundary(const struct mq_move_space *space, struct mq_plan *plan, uint32_t from, uint32_t goal,
			uint32_t layers, const struct mq_stages *v, struct mq_arena *arena);
/* Moves the devices of one replica from stage a to stage b. */
bool mq_stages_width(struct mq_plan *plan, const struct mq_stages *v, uint32_t a, uint32_t b, struct mq_arena *arena);
/* Balances the layers among the stages that have some, by speed. */
bool mq_stages_deal(const struct mq_move_space *space, struct mq_plan *plan, struct mq_arena *arena);
/* Splits a stage: its first layers, and the ops before them, go to its first replicas; then balances all layers. layers
 * = 0: the ops before the first layer (an embedding) get a stage of their own. */
bool mq_stages_divide(const struct mq_move_space *space, struct mq_plan *plan, uint32_t stage, uint32_t layers,
		      uint32_t replicas, struct mq_arena *arena);
/* Merges a stage and the next on the devices of both; then balances all layers. */
bool mq_stages_merge(const struct mq_move_space *space, struct mq_plan *plan, const struct mq_stages *v, uint32_t a,
		     struct mq_arena *arena);

#endif

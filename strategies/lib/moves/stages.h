/* stages.h - the stages of a plan, and plans with others: a part of moves.h. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_MOVES_STAGES_H
#define MQ_LIB_MOVES_STAGES_H

#include "lib/moves/moves.h"

struct mq_stages {
	uint32_t stages, ranks; /* ranks: stages / chunks per device */
	uint32_t *some;         /* [stages] a config of each with most devices */
	uint32_t *layers;       /* [stages] layers with an op there */
};

uint32_t mq_stages_of_op(const struct mq_plan *plan, uint32_t op);
void mq_stages_look(const struct mq_move_space *space, const struct mq_plan *plan, struct mq_arena *arena,
		    struct mq_stages *v);
/* Speed of a batch coordinate: of its slowest device. */
double mq_stages_speed(const struct mq_move_space *space, const struct mq_config *c, uint32_t i);

/* The following edit the plan; false: it cannot be, and the plan is no longer one. */

/* So many layers (or ops) go from a stage to another; between stages that are no neighbours they are handed on from
 * each to the next. */
bool mq_stages_boundary(const struct mq_move_space *space, struct mq_plan *plan, uint32_t from, uint32_t goal,
			uint32_t layers, const struct mq_stages *v, struct mq_arena *arena);
/* Stage a gives a replica's devices to stage b. */
bool mq_stages_width(struct mq_plan *plan, const struct mq_stages *v, uint32_t a, uint32_t b, struct mq_arena *arena);
/* Layers dealt out anew among the stages that have some, by how fast these are. */
bool mq_stages_deal(const struct mq_move_space *space, struct mq_plan *plan, struct mq_arena *arena);
/* A stage in two, its first layers and what comes before them on its first replicas; all layers are then dealt out by
 * speed. Without layers it is an embedding's own stage, which exchanges no gradients. */
bool mq_stages_divide(const struct mq_move_space *space, struct mq_plan *plan, uint32_t stage, uint32_t layers,
		      uint32_t replicas, struct mq_arena *arena);
/* A stage and the next in one, on the devices of both; all layers are then dealt out by speed. */
bool mq_stages_merge(const struct mq_move_space *space, struct mq_plan *plan, const struct mq_stages *v, uint32_t a,
		     struct mq_arena *arena);

#endif

/* moves.h - the plans next to a plan: what refinement tries.
 *
 * A move edits a plan as it is, whoever made it: the boundary between two stages, the micro-batches, the schedule,
 * gradient sync and recomputation (of all stages or of one), the decisions that no config holds (switches.h),
 * activations on the host, samples from a slow replica to a fast one, the devices of two stages exchanged, two devices,
 * all dealt out anew, a replica from one stage to another, a stage into two and two into one, layers by speed, degrees
 * of a shape by factors of two, the split of one heavy op outside of layers, and the device of a run of ops.
 * What a move makes is a sound plan inside of --fix, --max and the software's space, or there is no such move.
 *
 * Not tried: two changes at once that are no gain alone. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_MOVES_MOVES_H
#define MQ_LIB_MOVES_MOVES_H

#include "maquette/engine.h"
#include "lib/classes.h"
#include "lib/layers.h"
#include "lib/moves/symmetry.h"

struct mq_move {
	uint8_t kind;
	uint32_t a, b, n; /* what they mean depends on the kind: moves.c */
};

struct mq_move_space {
	const struct mq_problem *problem;
	struct mq_classes classes;
	struct mq_symmetry symmetry;
	double *speed;                    /* [classes] samples per second of the whole model */
	struct mq_layers layers;          /* on a device of the first class */
	uint32_t *layer_first, *layer_op; /* CSR: ops of each layer, rising */
	uint32_t n_heavy, *heavy;         /* ops whose split is worth a move of its own */
	bool both_ways;                   /* the graph has backward ops: stages are not cut anew */
	bool selective;                   /* selective recomputation would save something */
};

void mq_move_space_make(const struct mq_problem *problem, struct mq_move_space *space);

/* The moves of a sound plan, in a fixed order; some of them may not apply. */
uint32_t mq_moves_list(const struct mq_move_space *space, const struct mq_plan *plan, struct mq_arena *arena,
		       struct mq_move **moves);

/* Does the move change which devices do it, and nothing else? What such a plan gains may be contention alone. */
bool mq_move_places(const struct mq_move *move);

/* Does it move samples between replicas or layers between stages? Which of equal ones has more, contention tells. */
bool mq_move_deals(const struct mq_move *move);

/* Gives what comes before the first layer a stage of its own; not listed, as most plans lose by it. */
extern const struct mq_move mq_move_alone;

/* Splits the op outside of layers with most parameters, an embedding by its width, over all devices of its stage. Asked
 * where the space has such ops (n_heavy). */
struct mq_move mq_move_apart(const struct mq_move_space *space);

/* Does it divide an op of a model of layers as nobody would who gains nothing by it? */
bool mq_move_odd(const struct mq_move_space *space, const struct mq_move *move);

/* Does it divide or merge stages, or deal out layers anew? */
bool mq_move_reshapes(const struct mq_move *move);

/* Does it leave alone which device does what, and how gradients travel? The screened time of such is near the truth. */
bool mq_move_quiet(const struct mq_move *move);

/* The plan after the move, in `arena`; false where there is none. */
bool mq_move_apply(const struct mq_move_space *space, const struct mq_plan *plan, const struct mq_move *move,
		   struct mq_arena *arena, struct mq_plan *out);

/* The plan with the micro-batches, the gradient sync and the decisions (switches.h) of another; false where there is
 * none. */
bool mq_move_like(const struct mq_move_space *space, const struct mq_plan *plan, const struct mq_plan *other,
		  struct mq_arena *arena, struct mq_plan *out);

/* Hash of what a plan does: equal for plans that lower to the same schedule because they differ only in what has no
 * effect there (sync without replicas, schedule without stages, selective recomputation of nothing, shares that are
 * equal), and for those that differ by devices that may be exchanged (symmetry.h). */
uint64_t mq_plan_effect(const struct mq_move_space *space, const struct mq_plan *plan, struct mq_arena *scratch);

#endif

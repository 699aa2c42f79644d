/* moves.h - the neighbourhood of a plan for local search.
 *
 * A move edits any plan: the boundary between two stages, the number of micro-batches, the schedule, gradient sync and
 * recomputation (of all stages or of one), decisions of the whole plan (switches.h), activation offload, samples per
 * replica, the devices of two stages, single devices, the numbering of all devices, a replica's devices from one stage
 * to another, split and merge of stages, layers by speed, degrees of a shape by a factor of 2 or 3 (context parallelism
 * included, where sequences are long), the split of one large op outside of layers, and the device of a run of ops. A
 * move applies only if the new plan is valid and within --fix, --max and what the software can run.
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
	uint32_t a, b, n; /* by kind: enum kind in moves.c */
};

struct mq_move_space {
	const struct mq_problem *problem;
	struct mq_classes classes;
	struct mq_symmetry symmetry;
	double *speed;                    /* [classes] samples per second of the whole model */
	struct mq_layers layers;          /* times on a device of the first class */
	uint32_t *layer_first, *layer_op; /* CSR: ops of each layer and between it and the one before, ascending */
	uint32_t n_heavy, *heavy;         /* ops that SPLIT moves are listed for */
	bool both_ways;                   /* the graph has backward ops: BOUNDARY moves are not listed */
	bool selective;                   /* see mq_selective_saves */
};

void mq_move_space_make(const struct mq_problem *problem, struct mq_move_space *space);

/* The moves of a valid plan, in a fixed order; some may not apply. */
uint32_t mq_moves_list(const struct mq_move_space *space, const struct mq_plan *plan, struct mq_arena *arena,
		       struct mq_move **moves);

/* Does it only change which devices do the work? It may gain by contention alone, which screening ignores. */
bool mq_move_places(const struct mq_move *move);

/* Does it move samples between replicas or layers between stages? Such plans may differ by contention alone. */
bool mq_move_deals(const struct mq_move *move);

/* Gives the ops before the first layer a stage of their own; not listed, as most plans lose by it. */
extern const struct mq_move mq_move_alone;

/* Splits the largest op outside of layers (an embedding, by its width) over all devices of its stage; needs n_heavy >
 * 0. */
struct mq_move mq_move_apart(const struct mq_move_space *space);

/* Does it split a single op of a layered model, which is unusual and needs a clear gain? */
bool mq_move_odd(const struct mq_move_space *space, const struct mq_move *move);

/* Does it split or merge stages, or rebalance layers? */
bool mq_move_reshapes(const struct mq_move *move);

/* Does it keep the assignment of work to devices and the gradient sync? Screening predicts such moves well. */
bool mq_move_quiet(const struct mq_move *move);

/* The plan after the move, in `arena`; false: the move does not apply. */
bool mq_move_apply(const struct mq_move_space *space, const struct mq_plan *plan, const struct mq_move *move,
		   struct mq_arena *arena, struct mq_plan *out);

/* A variant of a plan that fits and takes little more time: with its states sharded as they are, or by ZeRO-1, 2 or 3
 * (way / 5), and with nothing else, small gradient buckets, more micro-batches, the fewest layers that suffice with
 * their activations on the host, or computed again (way % 5). False: it changes nothing, is invalid, or does not fit. */
enum { MQ_MOVE_RELIEFS = 20 };
bool mq_move_relieve(const struct mq_move_space *space, const struct mq_plan *plan, uint32_t way,
		     struct mq_arena *arena, struct mq_plan *out);
/* Does it hold all activations on the device, in as many micro-batches? Where such a way fits, those after it take more
 * time. */
bool mq_relief_holds(uint32_t way);

/* The plan with the micro-batches, gradient sync and decisions (switches.h) of `other`; false: the result is not
 * valid. */
bool mq_move_like(const struct mq_move_space *space, const struct mq_plan *plan, const struct mq_plan *other,
		  struct mq_arena *arena, struct mq_plan *out);

/* Hash of what a plan does: equal for plans that lower to the same schedule because they differ only in what has no
 * effect (sync without replicas, schedule without stages, selective recomputation that saves nothing, equal shares), or
 * by devices that are interchangeable (symmetry.h). */
uint64_t mq_plan_effect(const struct mq_move_space *space, const struct mq_plan *plan, struct mq_arena *scratch);

#endif

/* engine.h - shared by the placement engines ideal-dp and dpl, in part by ip: options, rounds, plans.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_PLACE_ENGINE_H
#define MQ_LIB_PLACE_ENGINE_H

#include "lib/place/ideal.h"
#include "lib/place/model.h"

/* Pipelines with edges that skip stages exchange tensors out of order: some deadlock under 1F1B, none under GPipe. A
 * plan that deadlocked is proposed again under GPipe. */
struct mq_place_again {
	bool wanted;
	struct mq_plan plan;
};
/* In observe: remembers a plan that deadlocked under 1F1B. */
void mq_place_again_note(struct mq_place_again *again, const struct mq_problem *problem, const struct mq_plan *plan,
			 const struct mq_result *result);
/* In propose: the plan under GPipe; false: none is waiting. */
bool mq_place_again_take(struct mq_place_again *again, struct mq_arena *arena, struct mq_plan *plan);

/* MQ_EINPUT: an objective that placement engines do not have. */
enum mq_status mq_place_objective(const struct mq_problem *problem, const char *name, struct mq_err *err);
bool mq_place_latency_asked(const struct mq_problem *problem);
/* Leaves `left` devices, first types first. */
void mq_place_limit(struct mq_place *place, uint32_t left, struct mq_arena *arena);

struct mq_place_engine {
	uint32_t ideals, replicas, micro_batches; /* options */
	bool linearize;
	uint32_t round, n_rounds;
	uint32_t sizes[24]; /* [n_rounds] micro-batches, each tried with two memory bounds */
	struct mq_place_again again;
};

/* Option rows that both share. */
#define MQ_PLACE_ENGINE_OPTS                                                                         \
	MQ_U32(struct mq_place_engine, replicas, 0, 0, 65536,                                        \
	       "most devices that may share a stage; 0 = 1 for graphs with their own devices, else " \
	       "any"),                                                                               \
		MQ_U32(struct mq_place_engine, micro_batches, 0, 0, 1e6,                             \
		       "micro-batches per step; 0 = one per sample, or powers of two in turn")

/* Fills `sizes`, the micro-batch counts to try. `linearize`: along one topological order (dpl). MQ_EINPUT: an
 * unsupported objective. */
enum mq_status mq_place_engine_start(struct mq_place_engine *engine, const char *name, bool linearize,
				     const struct mq_problem *problem, struct mq_err *err);

/* Members of struct mq_engine that both share. */
#define MQ_PLACE_ENGINE                                                                                        \
	.paper = "Tarnawski et al., NeurIPS 2020", .opts = opts, .state_size = sizeof(struct mq_place_engine), \
	.lacks = MQ_LACKS_SPLITS | MQ_LACKS_SHAPES, .proves = true, .start = start,                            \
	.propose = mq_place_engine_propose, .observe = mq_place_engine_observe

/* The engines' hooks; `state` is a mq_place_engine. propose: the plan of the next round that fits, else MQ_DONE. */
enum mq_status mq_place_engine_propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
				       struct mq_plan *plan, struct mq_err *err);
void mq_place_engine_observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
			     const struct mq_result *result);

#endif

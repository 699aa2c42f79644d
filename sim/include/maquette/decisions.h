/* decisions.h - what a plan decides besides its configs and schedule: one row for each decision.
 *
 * Plan files, canonical form and hash, packing, checks, the description, the defaults of software, the `switches` of
 * its space, imports and refusals of exports read these rows. A new decision is a row here, a field of the software
 * (software.h, software.c), and what it does where it is used.
 *
 * X(ID, BIT, TYPE, FIELD, DEFAULT, ...): BIT is the bit of mq_plan.explicit and of `switches`, FIELD the member of
 * mq_plan and the key of a plan file, DEFAULT what the software `s` does where a plan leaves the decision open. The
 * others are members of struct mq_decision. Rows are in the order of a plan file.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_DECISIONS_H
#define MAQUETTE_DECISIONS_H

#include <stddef.h>
#include <stdint.h>

#include "maquette/types.h"

/* Properties of a plan that a decision can need. */
enum {
	MQ_NEEDS_REPLICAS = 1 << 0,  /* more than one replica */
	MQ_NEEDS_TENSOR = 1 << 1,    /* ops split along features or heads */
	MQ_NEEDS_SEQUENCE = 1 << 2,  /* ops split along the sequence */
	MQ_NEEDS_STAGES = 1 << 3,    /* more than one pipeline rank */
	MQ_NEEDS_EXPERTS = 1 << 4,   /* ops split along experts */
	MQ_NEEDS_TURNS = 1 << 5,     /* a forward and a backward pass that can take turns */
	MQ_NEEDS_ZERO12 = 1 << 6,    /* zero1 or zero2 */
	MQ_NEEDS_RECOMPUTE = 1 << 7, /* full recomputation */
	MQ_NEEDS_GROUP = 1 << 8,     /* data-parallel ranks that divide into groups of the software's size */
};

typedef const char *mq_name_of(int value);

#define MQ_DECISIONS(X)                                                                                                 \
	/* the collective algorithm and protocol that all collectives use; auto = NCCL chooses */                       \
	X(ALGO, 10, uint8_t, algo, MQ_ALGO_AUTO, .word = 7, .zero_is_open = true,                                       \
	  .name_of = (mq_name_of *)mq_algo_name, .n_names = MQ_N_ALGOS)                                                 \
	X(PROTO, 10, uint8_t, proto, s->nccl_proto, .word = 8, .zero_is_open = true,                                    \
	  .name_of = (mq_name_of *)mq_proto_name, .n_names = MQ_N_PROTOS)                                               \
	/* ranks over which ZeRO shards; 0 = all data-parallel ranks */                                                 \
	X(ZERO_GROUP, 9, uint32_t, zero_group, s->shard_group, .word = 4, .zero_is_open = true,                         \
	  .defaults_need = MQ_NEEDS_GROUP)                                                                              \
	/* gradients are reduced while the last backward pass runs */                                                   \
	X(OVERLAP_GRADS, 0, bool, overlap_grads, s->overlap_grads, .word = 9, .matters = MQ_NEEDS_REPLICAS)             \
	/* between stages, replicas of a tensor send a part each, then gather */                                        \
	X(SCATTER_GATHER, 1, bool, scatter_gather, s->scatter_gather, .word = 10, .defaults_need = MQ_NEEDS_TENSOR,     \
	  .matters = MQ_NEEDS_TENSOR | MQ_NEEDS_STAGES)                                                                 \
	/* zero1, zero2: new parameters are gathered beside the next step's first forward passes, bucket by bucket */   \
	X(OVERLAP_PARAM_GATHER, 13, bool, overlap_param_gather, s->overlap_param_gather, .word = 21,                    \
	  .matters = MQ_NEEDS_REPLICAS | MQ_NEEDS_ZERO12)                                                               \
	/* optimizer state and step on the host CPU */                                                                  \
	X(OFFLOAD_OPTIMIZER, 2, bool, offload_optimizer, s->offload_optimizer, .word = 11)                              \
	/* zero1, zero2: each owner broadcasts its shard of new parameters (InternEvo) instead of one all-gather */     \
	X(BROADCAST_PARAMS, 3, bool, broadcast_params, s->broadcast_params, .word = 12,                                 \
	  .matters = MQ_NEEDS_REPLICAS | MQ_NEEDS_ZERO12)                                                               \
	/* full recomputation ends with the last tensor that backward needs, as PyTorch's does */                       \
	X(EARLY_STOP, 4, bool, early_stop, s->early_stop, .word = 13, .matters = MQ_NEEDS_RECOMPUTE)                    \
	/* layers that full recomputation runs again: the first so many of each stage (block), or all, in units of */   \
	/* so many that start from one input (uniform); 0 = all, each a unit of its own */                              \
	X(RECOMPUTE_NUM_LAYERS, 11, uint32_t, recompute_num_layers, s->recompute_num_layers, .word = 19,                \
	  .matters = MQ_NEEDS_RECOMPUTE, .shown = "of", .unit = "layers")                                               \
	X(RECOMPUTE_METHOD, 12, uint8_t, recompute_method, s->recompute_method, .word = 20,                             \
	  .name_of = (mq_name_of *)mq_recompute_method_name, .n_names = MQ_N_RECOMPUTE_METHODS,                         \
	  .matters = MQ_NEEDS_RECOMPUTE)                                                                                \
	/* forward of one micro-batch and backward of another take turns: one computes while the other's tokens */      \
	/* travel to and from experts (Megatron core's 1F1B overlap, DualPipe); one micro-batch more is in flight */    \
	X(OVERLAP_EXPERTS, 5, bool, overlap_experts, s->overlap_experts, .word = 16,                                    \
	  .needs = MQ_NEEDS_EXPERTS | MQ_NEEDS_TURNS, .matters = MQ_NEEDS_EXPERTS)                                      \
	/* GEMMs of layers run in one part for each tensor-parallel rank and overlap the gathering of their input or */ \
	/* the scattering of their output; weight gradients overlap what dX needs (Transformer Engine's userbuffers) */ \
	X(OVERLAP_TP, 6, bool, overlap_tp, s->overlap_tp, .word = 17, .needs = MQ_NEEDS_TENSOR,                         \
	  .defaults_need = MQ_NEEDS_SEQUENCE, .matters = MQ_NEEDS_TENSOR)                                               \
	/* first layers of each stage whose kept activations wait in host memory; copies overlap the next layer */      \
	X(OFFLOAD_LAYERS, 8, uint32_t, offload_layers, s->offload_layers, .word = 5, .shown = "offload",                \
	  .unit = "layers")                                                                                             \
	/* gradient bucket; 0 = one per stage and phase */                                                              \
	X(BUCKET, 7, double, bucket_B, s->bucket_MB * 1e6, .word = 14, .setting = "bucket",                             \
	  .matters = MQ_NEEDS_REPLICAS)

#define MQ_DECISION_ID(id, ...) MQ_DECISION_##id,
enum mq_decision_id { MQ_DECISIONS(MQ_DECISION_ID) MQ_N_DECISIONS };
#undef MQ_DECISION_ID

#define MQ_DECISION_BIT(id, bit, ...) MQ_EXPLICIT_##id = 1 << (bit),
#define MQ_DECISION_OR(id, bit, ...)  | 1 << (bit)
enum {
	MQ_DECISIONS(MQ_DECISION_BIT)
	/* those that a plan marks as its own; of the others 0 is open */
	MQ_EXPLICIT_ALL = (0 MQ_DECISIONS(MQ_DECISION_OR)) & ~(MQ_EXPLICIT_ALGO | MQ_EXPLICIT_ZERO_GROUP),
};
#undef MQ_DECISION_BIT
#undef MQ_DECISION_OR

enum mq_decision_kind { MQ_DECIDES_BOOL, MQ_DECIDES_NAME, MQ_DECIDES_U32, MQ_DECIDES_F64 };

struct mq_decision {
	const char *name;    /* key of a plan file */
	const char *setting; /* name among `switches`; NULL = name */
	size_t offset;       /* in struct mq_plan */
	enum mq_decision_kind kind;
	mq_name_of *name_of; /* NAME: of n_names values */
	int n_names;
	uint32_t bit;             /* 1u << BIT */
	bool zero_is_open;        /* the value 0 leaves it to the software, not a bit of mq_plan.explicit */
	uint32_t word;            /* place in the canonical form; a double takes two */
	uint32_t needs;           /* MQ_NEEDS_...: a plan that lacks one of these cannot decide so */
	uint32_t defaults_need;   /* besides these, what the software's default needs; else it is 0 */
	uint32_t matters;         /* where the decision changes nothing without these */
	const char *shown, *unit; /* words around its value in a plan's description; NULL = not shown */
};

struct mq_plan;
MQ_API const struct mq_decision *mq_decision(enum mq_decision_id id);
/* The value of a decision, as a number. */
MQ_API double mq_plan_value(const struct mq_plan *plan, enum mq_decision_id id);
MQ_API void mq_plan_set_value(struct mq_plan *plan, enum mq_decision_id id, double value);
/* The same as a plan file has it, unquoted. */
MQ_API const char *mq_plan_value_text(const struct mq_plan *plan, enum mq_decision_id id, char text[32]);
/* Does the plan leave the decision to the software? */
MQ_API bool mq_plan_leaves(const struct mq_plan *plan, enum mq_decision_id id);
/* All decisions of another plan. */
MQ_API void mq_plan_copy_decisions(struct mq_plan *to, const struct mq_plan *from);
/* MQ_NEEDS_TENSOR, _SEQUENCE, _EXPERTS and _TURNS, as the plan's configs have them. */
MQ_API uint32_t mq_plan_properties(const struct mq_plan *plan);

#endif

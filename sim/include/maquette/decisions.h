/* decisions.h - decisions of a plan besides its configs and schedule; the rows are in decisions.def.
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
	MQ_NEEDS_TURNS = 1 << 5,     /* a forward and a backward pass that can alternate */
	MQ_NEEDS_ZERO12 = 1 << 6,    /* zero1 or zero2 */
	MQ_NEEDS_RECOMPUTE = 1 << 7, /* full recomputation */
	MQ_NEEDS_GROUP = 1 << 8,     /* data-parallel ranks divisible into groups of the software's size */
};

typedef const char *mq_name_of(int value);

enum mq_decision_id {
#define MQ_DECISION(id, ...) MQ_DECISION_##id,
#include "maquette/decisions.def"
	MQ_N_DECISIONS
};

enum {
#define MQ_DECISION(id, bit, ...) MQ_EXPLICIT_##id = 1 << (bit),
#include "maquette/decisions.def"
	/* decisions that a plan marks as its own; of the others the value 0 is open */
	MQ_EXPLICIT_ALL = (0
#define MQ_DECISION(id, bit, ...) | 1 << (bit)
#include "maquette/decisions.def"
			   ) &
			  ~(MQ_EXPLICIT_ALGO | MQ_EXPLICIT_ZERO_GROUP),
};

enum mq_decision_kind { MQ_DECIDES_BOOL, MQ_DECIDES_NAME, MQ_DECIDES_U32, MQ_DECIDES_F64 };

struct mq_decision {
	const char *name;    /* key of a plan file */
	const char *setting; /* name among `switches`; NULL = name */
	size_t offset;       /* in struct mq_plan */
	enum mq_decision_kind kind;
	mq_name_of *name_of; /* NAME: names of n_names values */
	int n_names;
	uint32_t bit;             /* 1u << BIT */
	bool zero_is_open;        /* value 0, not a bit of mq_plan.explicit, leaves it to the software */
	uint32_t word;            /* index in the canonical form; a double takes two */
	uint32_t needs;           /* MQ_NEEDS_...: a plan without all of these cannot decide it */
	uint32_t defaults_need;   /* further needs of the software's default; without them it is 0 */
	uint32_t matters;         /* without these the decision changes nothing */
	const char *shown, *unit; /* words around its value in a plan's description; NULL = not shown */
};

struct mq_plan;
MQ_API const struct mq_decision *mq_decision(enum mq_decision_id id);
/* The value of a decision, as a number. */
MQ_API double mq_plan_value(const struct mq_plan *plan, enum mq_decision_id id);
MQ_API void mq_plan_set_value(struct mq_plan *plan, enum mq_decision_id id, double value);
/* The value as in a plan file, unquoted. */
MQ_API const char *mq_plan_value_text(const struct mq_plan *plan, enum mq_decision_id id, char text[32]);
/* Does the plan leave the decision to the software? */
MQ_API bool mq_plan_leaves(const struct mq_plan *plan, enum mq_decision_id id);
/* Copies all decisions of another plan. */
MQ_API void mq_plan_copy_decisions(struct mq_plan *to, const struct mq_plan *from);
/* The bits of MQ_NEEDS_TENSOR, _SEQUENCE, _EXPERTS, _RECOMPUTE and _TURNS that the plan's configs satisfy. */
MQ_API uint32_t mq_plan_properties(const struct mq_plan *plan);

#endif

/* linkage.h - what one decision to split a weight implies: sharding propagated through the graph (Wang et al.,
 * Auto-MAP, 2020, after the propagation over XLA's instructions).
 *
 * A weight may be split along its outputs (columns) or its inputs (rows). The features of a tensor between two ops are
 * split on both sides or on none: an op whose output features are split asks its consumers for a split that takes them
 * so (a GEMM: along its inputs; heads and element-wise ops: the same features), an op that takes split features asks
 * its producers likewise (a GEMM: along its outputs). Tied weights are split along the same dimension. It ends at ops
 * that cannot be split so (norms, inputs): there the features are gathered. Two different splits of one op are a
 * conflict: such a decision is not possible. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_AUTOMAP_LINKAGE_H
#define MQ_AUTOMAP_LINKAGE_H

#include "maquette/engine.h"

enum { MQ_LINKAGE_DIMS = 2 }; /* along outputs, along inputs */

struct mq_linkage_group { /* everything that splitting a variable along one dimension implies */
	bool possible;
	uint32_t n, *op;
	uint8_t *dim; /* [n] enum mq_dim */
};

/* A weight, or equal weights of all layers that are decided together. */
struct mq_linkage_var {
	uint32_t n, *op;
	struct mq_linkage_group group[MQ_LINKAGE_DIMS];
};

struct mq_linkage {
	uint32_t n; /* variables, by the size of their largest group, largest first */
	struct mq_linkage_var *var;
	uint32_t n_weights; /* ops with such weights of their own */
	bool *weight;       /* [n_ops] is it one of them? */
};

/* `tie`: ops of the same role in all layers are one variable. */
void mq_linkage_make(const struct mq_model *model, bool tie, struct mq_arena *arena, struct mq_linkage *linkage);

/* Adds a decision to what is decided: split[n_ops], MQ_N_DIMS = whole, MQ_NONE = open. `dim` of the group, or
 * MQ_LINKAGE_DIMS = what is open of the variable stays whole. False, and nothing is changed, where it contradicts. */
bool mq_linkage_decide(const struct mq_linkage *linkage, uint32_t var, uint32_t dim, uint32_t *split);
/* Would it? */
bool mq_linkage_agrees(const struct mq_linkage *linkage, uint32_t var, uint32_t dim, const uint32_t *split);

#endif

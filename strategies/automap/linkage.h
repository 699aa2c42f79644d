/* linkage.h - sharding propagation: every split that one decision to split a weight implies (Wang et al., Auto-MAP,
 * 2020, after the propagation over XLA's instructions).
 *
 * A weight may be split along its outputs (columns) or its inputs (rows). The features of a tensor between two ops are
 * split on both sides or on neither: an op with split output features makes its consumers take them split (a GEMM:
 * along its inputs; heads and element-wise ops: the same features), an op that takes split features makes its producers
 * give them (a GEMM: along its outputs). Tied weights are split along the same dimension. Propagation ends at ops that
 * cannot be split so (norms, inputs): there the features are gathered. Two different splits of one op are a conflict:
 * such a decision is impossible. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_AUTOMAP_LINKAGE_H
#define MQ_AUTOMAP_LINKAGE_H

#include "maquette/engine.h"

enum { MQ_LINKAGE_DIMS = 2 }; /* along outputs (columns), along inputs (rows) */

struct mq_linkage_group { /* all splits implied by splitting a variable along one dimension */
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
	uint32_t n; /* variables, by descending size of their largest group */
	struct mq_linkage_var *var;
	uint32_t n_weights; /* ops with a splittable weight of their own */
	bool *weight;       /* [n_ops] is the op one of them? */
};

/* `tie`: ops of the same role in all layers are one variable. */
void mq_linkage_make(const struct mq_model *model, bool tie, struct mq_arena *arena, struct mq_linkage *linkage);

/* Applies a decision to split[n_ops] (MQ_N_DIMS = unsplit, MQ_NONE = undecided): `dim`, or with MQ_LINKAGE_DIMS leaves
 * the variable's undecided ops unsplit. False, without change: it contradicts earlier ones. */
bool mq_linkage_decide(const struct mq_linkage *linkage, uint32_t var, uint32_t dim, uint32_t *split);
/* Would mq_linkage_decide succeed? */
bool mq_linkage_agrees(const struct mq_linkage *linkage, uint32_t var, uint32_t dim, const uint32_t *split);

#endif

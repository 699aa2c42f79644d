/* mesh.h - layouts: the part of a tensor on each device of a config, and conversions between layouts.
 *
 * A config's devices form a mesh (plan.h). Each factor of the mesh plays a role for a given tensor: it divides the
 * batch, the sequence, the features or the experts, or it holds partial sums, or copies. Two layouts on the same
 * devices have a common refinement of factors; if the roles of a factor differ, the ranks along it exchange data:
 *
 *     partial -> replica      all-reduce          split a -> replica   all-gather
 *     partial -> split        reduce-scatter      split a -> split b   all-to-all
 *     replica -> anything     nothing (each rank keeps its part)
 *
 * The same table serves the gradients, with the layouts of dX and dY, which gives Megatron's f and g operators (Shoeybi
 * et al. 2019) without a rule for them. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LOWERING_MESH_H
#define MQ_LOWERING_MESH_H

#include "maquette/model.h"
#include "maquette/plan.h"

enum mq_role { MQ_ROLE_BATCH, MQ_ROLE_SEQ, MQ_ROLE_FEATURE, MQ_ROLE_EXPERT, MQ_ROLE_PARTIAL, MQ_ROLE_REPLICA };

enum { MQ_MAX_FACTORS = 2 * (MQ_N_DIMS + 1) };

struct mq_layout {
	uint32_t n;         /* devices */
	uint32_t n_factors; /* outermost first; their sizes multiply to n */
	uint32_t size[MQ_N_DIMS + 1];
	uint8_t role[MQ_N_DIMS + 1];
};

/* The tensor of the op: output, input, gradient of the input (dX, produced), gradient of the output (dY, needed). */
enum mq_tensor { MQ_TENSOR_OUT, MQ_TENSOR_IN, MQ_TENSOR_DX, MQ_TENSOR_DY };
struct mq_layout mq_layout_of(const struct mq_op *op, const struct mq_config *config, enum mq_tensor tensor);

/* One step of a conversion on the same devices: a collective along ranks base + i * stride. */
struct mq_step {
	enum mq_coll_kind kind;
	uint32_t stride, size;
	double fraction; /* of the tensor's elements of ALL positions, per call, as nccl-tests
				     counts them (uneven batch shares apart) */
	uint8_t role;    /* the role that is exchanged: for the report */
};
struct mq_conversion {
	bool possible;     /* false: sizes have no common refinement */
	bool identity;     /* roles agree everywhere (given equal devices): nothing to do */
	uint32_t n_slices; /* factors along which copies become parts, which costs nothing */
	uint32_t n_steps;
	struct mq_step step[MQ_MAX_FACTORS];
};
struct mq_conversion mq_layout_convert(const struct mq_layout *from, const struct mq_layout *to);

/* The layout after an all-reduce of its partial sums. */
struct mq_layout mq_layout_reduced(const struct mq_layout *layout);
/* Number of ranks with the same data: product of the replica factors. */
uint32_t mq_layout_replicas(const struct mq_layout *layout);

/* The part of position p: [lo, hi) as fractions per tensor dimension, batch by coordinate. */
struct mq_box {
	uint32_t batch; /* coordinate along the batch x expert factors */
	uint32_t n_batch;
	uint32_t replica; /* index among the ranks with the same part */
	double seq_lo, seq_hi, feature_lo, feature_hi;
};
struct mq_box mq_layout_box(const struct mq_layout *layout, uint32_t position);

/* Positions that differ from p only along the dimensions in `mask` (1u << enum mq_dim; bit MQ_N_DIMS =
 * the replica factor), in mesh order, p's own among them. Returns how many; writes to member[]. */
uint32_t mq_mesh_group(const struct mq_config *config, uint32_t mask, uint32_t p, uint32_t *member);
/* The first of them. */
uint32_t mq_mesh_first(const struct mq_config *config, uint32_t mask, uint32_t p);
/* Number of positions in such a group. */
uint32_t mq_mesh_group_size(const struct mq_config *config, uint32_t mask);
/* Coordinate of position p along a dimension. */
uint32_t mq_mesh_coordinate(const struct mq_config *config, uint32_t p, enum mq_dim dim);

#endif

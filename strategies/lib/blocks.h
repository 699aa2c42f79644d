/* blocks.h - a model as a graph of blocks, for engines that plan layer by layer: a block is a layer, or an op outside
 * of layers. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_BLOCKS_H
#define MQ_STRATEGIES_LIB_BLOCKS_H

#include "maquette/engine.h"

struct mq_block_edge {
	uint32_t src, dst;
	double elems; /* elements per sample: outputs of src that dst reads, each once */
};

struct mq_blocks {
	uint32_t n, n_edges;
	uint32_t *of_op;      /* [n_ops], blocks numbered in order of first op */
	uint32_t *first, *op; /* CSR: ops of each block, ascending */
	uint32_t *like;       /* [n] the first block with equal ops, see mq_model.like */
	struct mq_block_edge *edge;
};

/* An explicit backward op belongs to the block of its forward op. */
void mq_blocks_make(const struct mq_model *model, struct mq_arena *arena, struct mq_blocks *blocks);

/* Seconds of a block on one of tp tensor-parallel ranks (`group`'s first), forward and, in training, backward: the op
 * times and the all-reduces of partial sums. +inf: it cannot run so. */
double mq_block_time(const struct mq_problem *problem, const struct mq_blocks *blocks, uint32_t block,
		     const uint32_t *group, uint32_t tp, double samples);
/* The same as { forward, backward }. */
void mq_block_times(const struct mq_problem *problem, const struct mq_blocks *blocks, uint32_t block,
		    const uint32_t *group, uint32_t tp, double samples, double seconds[2]);

/* Bytes of a block on one device: static, and activations per micro-batch in flight. */
void mq_block_memory(const struct mq_problem *problem, const struct mq_blocks *blocks, uint32_t block, uint32_t tp,
		     double samples, enum mq_recompute recompute, double *static_B, double *activation_B);

/* Gradient bytes of a block on one of tp ranks, in the training data type. */
double mq_block_gradient_B(const struct mq_problem *problem, const struct mq_blocks *blocks, uint32_t block,
			   uint32_t tp);

#endif

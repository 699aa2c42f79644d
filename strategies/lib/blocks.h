/* blocks.h - a model as a graph of blocks: its repeated layers as one block each, every other op on its own. What
 * engines that plan layer by layer work on. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_BLOCKS_H
#define MQ_STRATEGIES_LIB_BLOCKS_H

#include "maquette/engine.h"

struct mq_block_edge {
	uint32_t src, dst;
	double elems; /* per sample: outputs of src that dst reads, each once */
};

struct mq_blocks {
	uint32_t n, n_edges;
	uint32_t *of_op;      /* [n_ops], blocks numbered in order of first op */
	uint32_t *first, *op; /* CSR: ops of each block, rising */
	uint32_t *like;       /* [n] the first block whose ops are like its own, see struct mq_model */
	struct mq_block_edge *edge;
};

/* Explicit backward ops belong to the block of their forward mate. */
void mq_blocks_make(const struct mq_model *model, struct mq_arena *arena, struct mq_blocks *blocks);

/* Forward and, in training, backward time of the ops of a block on a device, tensor-parallel over tp of `group`'s
 * first ranks: the op times and the all-reduces of partial sums. +inf: it cannot run so. */
double mq_block_time(const struct mq_problem *problem, const struct mq_blocks *blocks, uint32_t block,
		     const uint32_t *group, uint32_t tp, double samples);
/* The same, forward and backward apart: seconds[2]. */
void mq_block_times(const struct mq_problem *problem, const struct mq_blocks *blocks, uint32_t block,
		    const uint32_t *group, uint32_t tp, double samples, double seconds[2]);

/* Bytes of a block on one device: what it holds always, and per micro-batch in flight. */
void mq_block_memory(const struct mq_problem *problem, const struct mq_blocks *blocks, uint32_t block, uint32_t tp,
		     double samples, enum mq_recompute recompute, double *static_B, double *activation_B);

/* Parameters of a block on one of tp ranks, bytes as they are exchanged. */
double mq_block_gradient_B(const struct mq_problem *problem, const struct mq_blocks *blocks, uint32_t block,
			   uint32_t tp);

#endif

/* shards.c - queries for sync.c: ranks with the same parameters, and each rank's shard of gradients and optimizer
 * state. Emits nothing. SPDX-License-Identifier: Apache-2.0 */
#include "lowering/program.h"

const uint32_t mq_grad_mask = 1u << MQ_DIM_BATCH | 1u << MQ_DIM_SEQ | 1u << MQ_DIM_SPATIAL;

uint32_t mq_shard_size(const struct mq_low *low, uint8_t sync, uint32_t n)
{
	uint32_t z = low->plan->zero_group;

	if (sync != MQ_SYNC_ZERO1 && sync != MQ_SYNC_ZERO2 && sync != MQ_SYNC_ZERO3)
		return 1;
	return z && z < n && n % z == 0 ? z : n;
}

bool mq_once(const struct mq_low *low)
{
	return low->software->zero_once_per_step && low->num.n_ranks > 1;
}

uint32_t mq_secondary(const struct mq_low *low, uint32_t shard)
{
	uint32_t z = low->software->zero_hpz_partition_size;

	return z && z < shard && shard % z == 0 ? z : shard;
}

bool mq_reduces_always(const struct mq_low *low, const struct mq_config *c)
{
	return (c->sync == MQ_SYNC_ZERO2 || c->sync == MQ_SYNC_ZERO3) && !mq_once(low) &&
	       mq_mesh_group_size(c, mq_grad_mask) > 1;
}

uint32_t mq_shard_of(const struct mq_low *low, uint32_t op)
{
	const struct mq_config *c = mq_low_config(low, op);

	return mq_shard_size(low, c->sync, mq_mesh_group_size(c, mq_grad_mask));
}

uint32_t mq_duplicates(const struct mq_low *low, uint32_t op)
{
	const struct mq_config *c = mq_low_config(low, op);

	if (c->sync != MQ_SYNC_DUPLICATE || low->model->op[op].kind != MQ_OP_GEMM || low->model->op[op].frozen)
		return 1;
	return mq_mesh_group_size(c, mq_grad_mask);
}

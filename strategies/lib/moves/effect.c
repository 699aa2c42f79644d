/* effect.c - the hash of what a plan does: see moves.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/moves/moves.h"

#include "lib/plans.h"

static bool equal_shares(const struct mq_plan *plan, const struct mq_config *c, const struct mq_train *train,
			 struct mq_arena *scratch)
{
	double *samples = mq_arena_array(scratch, c->split[MQ_DIM_BATCH], double);

	mq_plan_samples(plan, c, train, scratch, samples);
	for (uint32_t i = 1; i < c->split[MQ_DIM_BATCH]; i++)
		if (samples[i] != samples[0])
			return false;
	return true;
}

uint64_t mq_plan_effect(const struct mq_move_space *space, const struct mq_plan *plan, struct mq_arena *scratch)
{
	const struct mq_train *train = space->problem->q->train;
	uint32_t tensor = 1u << MQ_DIM_HEAD | 1u << MQ_DIM_OUT | 1u << MQ_DIM_IN;
	struct mq_arena_mark mark = mq_arena_mark(scratch);
	struct mq_plan copy;

	mq_plan_copy(&copy, plan, scratch);
	for (uint32_t i = 0; i < copy.n_configs; i++) {
		struct mq_config *c = &copy.config[i];
		uint32_t split = 1;

		for (int d = 0; d < MQ_N_DIMS; d++)
			split *= tensor & 1u << d ? c->split[d] : 1;
		if (train->infer || c->n_devices == split)
			c->sync = MQ_SYNC_ALLREDUCE;
		if (train->infer || (c->recompute == MQ_RECOMPUTE_SELECTIVE && !space->selective))
			c->recompute = MQ_RECOMPUTE_NONE;
		if (c->share && equal_shares(&copy, c, train, scratch))
			c->share = NULL;
	}
	if (mq_plan_stage_count(&copy) == 1 && copy.pipeline != MQ_PIPE_ZB_H1)
		copy.pipeline = MQ_PIPE_1F1B;
	if (!copy.offload_layers && !mq_software_of(space->problem)->offload_layers)
		copy.explicit &= ~(uint32_t)MQ_EXPLICIT_OFFLOAD_LAYERS;
	mq_symmetry_canonical(&space->symmetry, &copy, scratch);
	uint64_t hash = mq_plan_hash(&copy);

	mq_arena_rewind(scratch, mark);
	return hash;
}

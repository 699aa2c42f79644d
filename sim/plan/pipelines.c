/* pipelines.c - the kinds of pipeline schedules: see plan.h. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/plan.h"

#include <stdio.h>

static const struct mq_pipeline_kind kinds[MQ_N_PIPELINES] = {
	[MQ_PIPE_GPIPE] = { "gpipe", 1, 1, .keeps_all = true, .bubble = 1 },
	[MQ_PIPE_1F1B] = { "1f1b", 1, 1, .turns = true, .bubble = 1 },
	[MQ_PIPE_INTERLEAVED] = { "interleaved", 1, UINT32_MAX, .turns = true, .rounds = true, .bubble = 1 },
	/* of forward, backward and weight gradients, the last are done elsewhere */
	[MQ_PIPE_ZB_H1] = { "zb-h1", 1, 1, .splits = true, .bubble = 1.0 / 3 },
	/* one of the six passes of the two chunks */
	[MQ_PIPE_ZBV] = { "zbv", 2, 2, .v = true, .splits = true, .bubble = 1.0 / 6 },
	[MQ_PIPE_DUALPIPE_V] = { "dualpipe-v", 2, 2, .v = true, .splits = true, .turns = true, .least_rounds = 2,
				 .bubble = 1.0 / 6 },
};

const struct mq_pipeline_kind *mq_pipeline_kind(enum mq_pipeline p)
{
	mq_assert((unsigned)p < MQ_N_PIPELINES);
	return &kinds[p];
}

const char *mq_pipeline_name(enum mq_pipeline p)
{
	return (unsigned)p < MQ_N_PIPELINES ? kinds[p].name : "?";
}

bool mq_pipeline_is_v(enum mq_pipeline p)
{
	return mq_pipeline_kind(p)->v;
}

bool mq_pipeline_splits(enum mq_pipeline p)
{
	return mq_pipeline_kind(p)->splits;
}

double mq_pipeline_bubble(enum mq_pipeline p, uint32_t chunks)
{
	const struct mq_pipeline_kind *kind = mq_pipeline_kind(p);

	return kind->most_chunks > kind->least_chunks ? kind->bubble / chunks : kind->bubble;
}

bool mq_pipeline_deals(enum mq_pipeline p, uint32_t n_ranks, uint32_t chunks, uint32_t micro_batches, bool infer,
		       char message[256])
{
	const struct mq_pipeline_kind *kind = mq_pipeline_kind(p);
	bool whole = !kind->rounds || chunks == 1 || micro_batches % n_ranks == 0;

	if (!message)
		return whole && (infer || micro_batches >= kind->least_rounds * n_ranks);
	if (!whole) {
		snprintf(message, 256, "the %s schedule needs micro-batches (%u) in multiples of its %u pipeline ranks",
			 kind->name, micro_batches, n_ranks);
		return false;
	}
	if (!infer && micro_batches < kind->least_rounds * n_ranks) {
		snprintf(message, 256,
			 "the %s schedule needs %u micro-batches for each of its %u pipeline ranks, not %u", kind->name,
			 kind->least_rounds, n_ranks, micro_batches);
		return false;
	}
	return true;
}

bool mq_pipeline_takes(enum mq_pipeline p, uint32_t chunks)
{
	const struct mq_pipeline_kind *kind = mq_pipeline_kind(p);

	return chunks >= kind->least_chunks && chunks <= kind->most_chunks;
}

bool mq_plan_takes_turns(const struct mq_plan *plan, uint32_t stages)
{
	const struct mq_pipeline_kind *kind = mq_pipeline_kind((enum mq_pipeline)plan->pipeline);

	return kind->turns && (stages > 1 ? plan->virtual > 1 && stages != plan->virtual : !kind->v);
}

enum mq_status mq_pipeline_chunks(enum mq_pipeline p, uint32_t chunks, struct mq_err *err)
{
	if (mq_pipeline_takes(p, chunks))
		return MQ_OK;
	if (mq_pipeline_is_v(p))
		return mq_bad(err, "the %s schedule has two chunks per device, not virtual=%u; give virtual=2",
			      mq_pipeline_name(p), chunks);
	return mq_bad(err, "virtual=%u needs the interleaved schedule, not %s", chunks, mq_pipeline_name(p));
}

uint32_t mq_pipeline_rank(enum mq_pipeline p, uint32_t n_ranks, uint32_t stage)
{
	return mq_pipeline_is_v(p) && stage >= n_ranks ? 2 * n_ranks - 1 - stage : stage % n_ranks;
}

uint32_t mq_pipeline_stage(enum mq_pipeline p, uint32_t n_ranks, uint32_t rank, uint32_t chunk)
{
	return mq_pipeline_is_v(p) && chunk ? 2 * n_ranks - 1 - rank : chunk * n_ranks + rank;
}

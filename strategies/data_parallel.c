/* data_parallel.c - every device holds the whole model and takes a part of the batch: the baseline.
 *
 * Proposes, in this order: plain all-reduce, sharded optimizer states (ZeRO-1), full recomputation, then, if the
 * software lacks ZeRO-1, sharded gradients and parameters (ZeRO-2 and 3); within each, all devices before fewer, equal
 * shares before shares by speed, large micro-batches first. Ignores scores; the simulator rejects plans that do not
 * fit. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/engine.h"
#include "lib/shapes.h"

struct data_parallel {
	struct shape_space space;
	struct shape_list list;
	uint32_t next, wanted_sync, wanted_recompute;
};

static bool wanted(void *context, const struct shape_point *p)
{
	struct data_parallel *s = context;

	return p->tp == 1 && p->pp == 1 && p->cp == 1 && p->ep == 1 && p->sync == s->wanted_sync &&
	       p->recompute == s->wanted_recompute && s->space.set[p->set].n == p->dp;
}

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	static const uint8_t order[][2] = {
		{ MQ_SYNC_ALLREDUCE, MQ_RECOMPUTE_NONE }, { MQ_SYNC_ZERO1, MQ_RECOMPUTE_NONE },
		{ MQ_SYNC_ZERO1, MQ_RECOMPUTE_FULL },     { MQ_SYNC_ALLREDUCE, MQ_RECOMPUTE_FULL },
		{ MQ_SYNC_ZERO2, MQ_RECOMPUTE_NONE },     { MQ_SYNC_ZERO3, MQ_RECOMPUTE_NONE },
		{ MQ_SYNC_ZERO3, MQ_RECOMPUTE_FULL }
	};
	enum { N_ORDER = sizeof(order) / sizeof(*order), N_USUAL = 4 };
	struct data_parallel *s = state;

	MQ_TRY(shapes_init(&s->space, problem, err));
	bool usual = s->space.software->runs.syncs & 1u << MQ_SYNC_ZERO1;
	for (size_t i = 0; i < (usual ? N_USUAL : N_ORDER); i++) {
		s->wanted_sync = order[i][0];
		s->wanted_recompute = order[i][1];
		shapes_list(&s->space, wanted, s, UINT32_MAX, &s->list);
	}
	if (!s->list.n)
		return mq_bad(
			err,
			"no data-parallel plan of %g samples per step keeps --fix and --max; the batch must have a "
			"sample for every device",
			problem->q->train->batch);
	return MQ_OK;
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct data_parallel *s = state;

	if (s->next == s->list.n)
		return MQ_DONE;
	return shapes_plan(&s->space, &s->list.point[s->next++], arena, plan, err);
}

MQ_ENGINE(data_parallel) = {
	MQ_ENGINE_HEAD("data-parallel"),
	.summary = "the whole model on every device, the batch divided (baseline)",
	.state_size = sizeof(struct data_parallel),
	.batch = 16,
	.lacks = MQ_LACKS_SPLITS | MQ_LACKS_PP,
	.start = start,
	.propose = propose,
};

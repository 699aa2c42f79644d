/* degrees.c - see degrees.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/moves/degrees.h"

#include <math.h>

#include "lib/moves/switches.h"
#include "lib/plans.h"

/* Moves a factor of 2, or of 3 if `less` is odd, from one degree to the other; false: `less` has neither factor. */
static bool move_factor(uint32_t *more, uint32_t *less)
{
	uint32_t factor = *less % 2 ? 3 : 2;

	if (*less % factor)
		return false;
	*more *= factor;
	*less /= factor;
	return true;
}

/* Moves of expert parallelism: etp = 1 or etp = tp, and ep times or divided by 2. */
static bool move_experts(struct mq_shape *s, enum mq_factor f)
{
	if (s->ep <= 1 && f != MORE_EP)
		return false;
	if (f == MORE_EP || f == FEWER_EP) {
		s->ep = f == MORE_EP ? 2 * mq_or_1(s->ep) : s->ep / 2;
		return f == MORE_EP || s->ep >= 1;
	}
	if ((s->etp == 1) == (f == WHOLE_EXPERTS) || s->tp * s->cp == 1)
		return false;
	s->etp = f == WHOLE_EXPERTS ? 1 : 0;
	return true;
}

/* Reassigns the devices in use in rank order: the replicas of a stage get neighbouring ranks (STAGE_MAJOR), or the
 * stages of a replica do. False: both orders are the same. */
static bool reorder(struct mq_shape *s, enum mq_order order, const struct mq_move_space *space, struct mq_arena *arena)
{
	uint32_t all = space->problem->q->cluster->n_devices, n = s->dp * s->tp * mq_or_1(s->cp) * s->pp;
	const uint32_t *major = mq_shape_replica_major(s, arena);
	uint32_t *rank = mq_arena_array(arena, n, uint32_t), *device = mq_arena_array(arena, n, uint32_t), used = 0;
	bool *seen = mq_arena_array(arena, all, bool);

	if (order == AS_IT_IS)
		return true;
	if (order == REPLICA_MAJOR && (s->dp == 1 || s->pp == 1))
		return false;
	for (uint32_t i = 0; i < n; i++)
		seen[s->device[i]] = true;
	for (uint32_t d = 0; d < all; d++)
		if (seen[d])
			rank[used++] = d;
	for (uint32_t i = 0; i < n; i++)
		device[i] = rank[order == STAGE_MAJOR ? i : major[i]];
	s->device = device;
	return true;
}

/* Layers per chunk in proportion to the speed of its devices; NULL: the software's own division. */
static uint32_t *layers_by_speed(const struct mq_move_space *space, const struct mq_shape *s, struct mq_arena *arena)
{
	uint32_t chunks = s->pp * mq_or_1(s->virtual), width = s->dp * mq_or_1(s->cp) * s->tp, n = space->layers.n;

	if (s->pp == 1 || !n || chunks > n)
		return NULL;
	uint32_t *count = mq_arena_array(arena, chunks, uint32_t);
	double *speed = mq_arena_array(arena, chunks, double);

	for (uint32_t c = 0; c < chunks; c++)
		for (uint32_t i = 0; i < width; i++) {
			uint32_t rank = mq_pipeline_rank((enum mq_pipeline)s->pipeline, s->pp, c);

			speed[c] += space->speed[space->classes.of[s->device[rank * width + i]]];
		}
	mq_layers_cut(&space->layers, speed, chunks, count);
	return count;
}

bool mq_move_degrees(const struct mq_move_space *space, const struct mq_plan *from, enum mq_factor f,
		     enum mq_order order, struct mq_arena *arena, struct mq_plan *out)
{
	const struct mq_question *q = space->problem->q;
	const struct mq_software *software = mq_software_of(space->problem);
	struct mq_plan_stage *stage;
	struct mq_shape s;
	struct mq_err none = MQ_ERR_INIT;
	uint32_t n;

	if (mq_plan_stages(from, q->model, arena, &stage, &n, &none) != MQ_OK ||
	    mq_plan_to_shape(from, q->model, q->cluster, stage, n, arena, &s, &none) != MQ_OK || s.stage_tp)
		return false;
	uint32_t *const trades[][2] = {
		[TP_DP] = { &s.tp, &s.dp }, [DP_TP] = { &s.dp, &s.tp }, [TP_PP] = { &s.tp, &s.pp },
		[PP_TP] = { &s.pp, &s.tp }, [PP_DP] = { &s.pp, &s.dp }, [DP_PP] = { &s.dp, &s.pp },
		[TP_CP] = { &s.tp, &s.cp }, [CP_TP] = { &s.cp, &s.tp }, [PP_CP] = { &s.pp, &s.cp },
		[CP_PP] = { &s.cp, &s.pp }, [DP_CP] = { &s.dp, &s.cp }, [CP_DP] = { &s.cp, &s.dp }
	};
	s.cp = mq_or_1(s.cp);
	bool fine = f <= CP_DP ? move_factor(trades[f][0], trades[f][1]) : s.pp > 1;

	if (f == MORE_CHUNKS) {
		s.virtual = s.virtual ? s.virtual + 1 : 2;
		s.pipeline = MQ_PIPE_INTERLEAVED;
	} else if (f == V_CHUNKS) {
		s.virtual = 2;
		s.pipeline = s.pipeline == MQ_PIPE_ZBV ? MQ_PIPE_DUALPIPE_V : MQ_PIPE_ZBV;
	} else if (f == FEWER_CHUNKS) {
		fine = fine && s.virtual > 1;
		s.virtual -= fine;
	}
	if (s.pp == 1)
		s.virtual = 1;
	if (s.virtual <= 1 && mq_pipeline_kind(s.pipeline)->most_chunks > 1)
		s.pipeline = MQ_PIPE_1F1B;
	if (s.cp % mq_or_1(s.ulysses))
		s.ulysses = 0;
	if (f == MORE_HEADS || f == FEWER_HEADS) {
		uint32_t now = mq_or_1(s.ulysses);

		fine = f == MORE_HEADS ? s.cp % (2 * now) == 0 : now > 1;
		s.ulysses = f == MORE_HEADS ? 2 * now : now / 2;
	} else if (f >= WHOLE_EXPERTS) {
		fine = q->model->experts && move_experts(&s, f) && q->model->experts % s.ep == 0;
	}
	/* until the samples of a micro-batch divide over the replicas */
	while (s.micro_batches % 2 == 0 && fmod(q->train->batch / s.micro_batches, s.dp) != 0)
		s.micro_batches /= 2;
	if (!fine || (s.ep > 1 && !s.etp && s.dp % s.ep) || !reorder(&s, order, space, arena))
		return false;
	if (software->runs.placement || software->runs.uneven_stages)
		s.stage_layers = layers_by_speed(space, &s, arena);
	else
		mq_software_stages(software, q->model, arena, &s);
	s.share = NULL;
	s.vocab_parallel = s.tp > 1 && software->vocab_parallel;
	s.sequence_parallel = s.tp > 1 && software->sequence_parallel && q->model->seq / (s.cp ? s.cp : 1) % s.tp == 0;
	if (mq_plan_from_shape(&s, q->model, q->cluster, arena, out, &none) != MQ_OK)
		return false;
	mq_switches_like(space->problem, out, from);
	return true;
}

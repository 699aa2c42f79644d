/* flat.c - candidates for models without layers: see hybrid.h. SPDX-License-Identifier: Apache-2.0 */
#include "hybrid/hybrid.h"

#include <math.h>

#include "lib/place/ideal.h"
#include "lib/pase_model.h"
#include "lib/place/model.h"
#include "lib/plans.h"

enum { SHORT = 4 };
static const double MOST_WORK = 1e9; /* about a second */

/* Seconds to all-reduce the gradients of a stage, assumed an even part of all, over its replicas' first ranks. */
static double exchange_s(struct mq_hybrid *s, const struct shape_point *p, uint32_t stage)
{
	const struct shape_set *set = &s->space.set[p->set];
	const struct mq_problem *problem = s->space.problem;
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	uint32_t *rank = mq_arena_array(&scratch, p->dp, uint32_t);
	double seconds = 0;

	for (uint32_t d = 0; d < p->dp; d++)
		rank[d] = set->device[shapes_place(p, stage, d)];
	if (p->dp > 1 && !problem->q->train->infer &&
	    !mq_collective_s(problem, MQ_COLL_ALL_REDUCE, rank, p->dp,
			     mq_model_totals(problem->q->model).parameters / p->pp, problem->q->train->grad_dtype,
			     &seconds))
		seconds = INFINITY;
	return seconds;
}

/* Seconds of both passes of the whole model for these samples on the fastest device. */
static double passes_s(struct mq_hybrid *s, double samples)
{
	static const uint32_t whole[MQ_N_DIMS] = MQ_UNSPLIT;
	const struct mq_problem *problem = s->space.problem;
	uint32_t device = s->space.set[0].device[0], before = s->flat.n;
	uint32_t i = mq_map_add(&s->flat, (uint64_t)samples);
	double sum = 0;

	if (i < before)
		return s->flat_s[i];
	for (uint32_t op = 0; op < problem->q->model->n_ops; op++)
		sum += mq_passes_s(problem, op, device, whole, samples);
	MQ_PUSH(problem->arena, s->flat_s, i, s->flat_room, sum);
	return sum;
}

static bool visit_flat_shape(void *context, const struct shape_point *p)
{
	struct mq_hybrid *s = context;
	const struct shape_set *set = &s->space.set[p->set];
	struct mq_hybrid_item item = { .kind = MQ_HYBRID_SHAPE, .point = *p };
	double speed = 0, slowest = INFINITY, work;

	/* The dynamic program makes long pipelines, as it knows where to cut; recomputation and sharded gradients are
	 * for layers. */
	if (((p->pp > SHORT || p->virtual > SHORT) && !s->space.problem->limits->fix_pp) ||
	    p->recompute != MQ_RECOMPUTE_NONE || p->sync > MQ_SYNC_ZERO1)
		return true;
	for (uint32_t d = 0; d < set->n; d++) {
		speed += set->speed[d];
		slowest = fmin(slowest, set->speed[d]);
	}
	double share = p->balanced ? set->n * set->speed[0] / speed : set->speed[0] / slowest;
	double wait = p->pipeline == MQ_PIPE_ZB_H1 ? 1.0 / 3 : 1.0 / p->virtual;
	double samples = s->space.problem->q->train->batch / p->micro_batches / p->dp;

	work = share * p->micro_batches * passes_s(s, ceil(samples)) / p->pp / p->tp / p->cp;
	work *= 1 + wait * (p->pp - 1.0) / p->micro_batches;
	s->seen++;
	mq_hybrid_seen(s, &item, 0);
	if (work >= mq_hybrid_worst(s, &item)) {
		s->pruned++;
		return true;
	}
	s->estimated++;
	item.rank_s = item.step_s = work + fmax(exchange_s(s, p, 0), exchange_s(s, p, p->pp - 1));
	if (item.rank_s < mq_hybrid_worst(s, &item))
		mq_hybrid_keep(s, &item);
	return true;
}

static void keep_plan(struct mq_hybrid *s, const struct mq_plan *plan, double step_s)
{
	struct mq_plan *copy = mq_arena_array(s->space.problem->arena, 1, struct mq_plan);
	struct mq_hybrid_item item = { .kind = MQ_HYBRID_READY, .plan = copy, .step_s = step_s };

	s->seen++;
	s->estimated++;
	mq_hybrid_seen(s, &item, 0);
	mq_plan_copy(copy, plan, s->space.problem->arena);
	if (mq_hybrid_worst(s, &item) > 0)
		mq_hybrid_keep(s, &item);
}

/* Operations of the linearised dynamic program: intervals of ops x device states x replica counts. */
static double dp_operations(const struct mq_place *p)
{
	double states = 1, replicas = 0;

	for (uint32_t t = 0; t < p->n_types; t++) {
		states *= p->type[t].count + 1.0;
		replicas += p->type[t].count;
	}
	return 0.5 * p->n_nodes * p->n_nodes * states * replicas;
}

static enum mq_status place_stages(struct mq_hybrid *s, uint32_t micro_batches, uint32_t in_flight,
				   struct mq_arena *scratch, struct mq_err *err)
{
	const struct mq_problem *problem = s->space.problem;
	double samples = floor(problem->q->train->batch / micro_batches), sum = 0;
	struct mq_ideal_options o = { .linearize = true,
				      .max_replicas = samples < 1 ? 1 : (uint32_t)fmin(samples, 1e6),
				      .tick = problem->tick,
				      .tick_context = problem->tick_context };
	struct mq_place_model model;
	struct mq_ideal_result r;
	struct mq_plan plan;

	MQ_TRY(mq_place_from_problem(problem, micro_batches, in_flight, scratch, &model, err));
	if (dp_operations(&model.place) > MOST_WORK)
		return MQ_OK; /* too large: the other families remain */
	MQ_TRY(mq_ideal_solve(&model.place, &o, scratch, &r, err));
	if (r.stopped)
		return MQ_DONE;
	if (isinf(r.placement.max_load))
		return MQ_OK;
	for (uint32_t i = 0; i < r.placement.n_stages; i++)
		sum += r.placement.stage[i].load;
	mq_place_plan(&model, &r.placement, problem, scratch, &plan);
	keep_plan(s, &plan, (micro_batches - 1.0) * r.placement.max_load + sum);
	return MQ_OK;
}

/* Adds the best split of every op, if the graph is narrow enough for elimination. */
static enum mq_status split_ops(struct mq_hybrid *s, uint32_t micro_batches, struct mq_arena *scratch,
				struct mq_err *err)
{
	const struct mq_problem *problem = s->space.problem;
	struct mq_devices devices = mq_devices_usable(problem, scratch);
	struct mq_pase_model model;
	struct mq_elim_result r;
	struct mq_err wide = MQ_ERR_INIT;
	struct mq_plan plan;

	if (devices.n > 64)
		return MQ_OK;
	MQ_TRY(mq_pase_from_problem(problem, &devices, micro_batches, scratch, &model, err));
	model.problem.max_rows = 1e8;
	model.problem.tick = problem->tick;
	model.problem.tick_context = problem->tick_context;
	if (mq_elim_solve(&model.problem, scratch, &r, &wide) != MQ_OK || isinf(r.optimum))
		return MQ_OK; /* too wide: the other families remain */
	mq_pase_plan(&model, r.choice, problem, scratch, &plan);
	keep_plan(s, &plan, r.optimum);
	return MQ_OK;
}

enum mq_status mq_hybrid_flat(struct mq_hybrid *s, const struct mq_problem *problem, struct mq_err *err)
{
	uint32_t divisor[256], n;
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	enum mq_status status = MQ_OK;
	bool backward = mq_model_explicit_backward(problem->q->model);

	mq_map_init(&s->flat, problem->arena, 64);
	shapes_each(&s->space, visit_flat_shape, s);
	bool free = !mq_hybrid_shapes_only(problem->limits) && !problem->limits->fix_tp &&
		    s->space.software->runs.placement;

	n = free ? shapes_divisors((uint32_t)fmin(problem->q->train->batch, UINT32_MAX), divisor, 256) : 0;
	for (uint32_t i = 0; i < n && divisor[i] <= 512 && status == MQ_OK; i++) {
		uint32_t m = divisor[i];

		status = place_stages(s, m, 1, &scratch, err);
		if (status == MQ_OK && m > 1 && !problem->q->train->infer)
			status = place_stages(s, m, m < s->space.set[0].n ? m : s->space.set[0].n, &scratch, err);
		if (status == MQ_OK && m <= 4 && !backward)
			status = split_ops(s, m, &scratch, err);
		mq_arena_rewind(&scratch, (struct mq_arena_mark){ NULL, 0 });
	}
	s->cut |= status == MQ_DONE;
	return status == MQ_DONE ? MQ_OK : status;
}

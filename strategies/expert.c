/* expert.c - what an experienced engineer would try, in the order of trying.
 *
 * Rules of the public Megatron guides for dense models: tensor parallelism inside a node first, then pipeline stages,
 * the rest data parallel; starting degrees by model size (< 1 B parameters: data parallel only; 1-10 B: tp 2-4; 10-70
 * B: tp 4-8, pp 2-4; 70-175 B: tp 8, pp 4-8; above: tp 8, pp 8-16), sequence parallelism with tensor parallelism, 1F1B,
 * ZeRO-1 with replicas. Memory: the least recomputation (none, selective, full), then as much model parallelism as it
 * takes to fit. On mixed devices stages and shares follow speed; the fastest type alone is tried too.
 *
 * Candidates are sorted by distance from the rule, checked for memory without simulation, and proposed up to
 * `variants`: the first is the rule itself, or the nearest that fits.
 *
 * Not modelled: context parallelism unless --fix cp; interleaved schedules unless --fix schedule or virtual.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "maquette/engine.h"
#include "maquette/map.h"
#include "lib/plans.h"
#include "lib/shapes.h"

struct ranked_point {
	struct shape_point point;
	double distance;
	uint32_t order;
};

struct expert {
	uint32_t variants; /* options */
	struct shape_space space;
	struct ranked_point *list;
	uint32_t n, room, next, proposed;
	double tp, pp; /* the rule's degrees */
	double left_out[SHAPES_MAX_SETS];
	struct mq_map degrees; /* degrees with known state bytes; index into states_B */
	double *states_B;
	uint32_t states_room;
	double room_B, memory_B; /* of the largest device: for tensors, and in all */
	double least;            /* least memory needed / available of plans that do not fit */
	uint32_t nearest;        /* its index in the list */
};

static const struct mq_opt opts[] = {
	MQ_U32(struct expert, variants, 64, 1, 1e6, "plans proposed; 1 = the hand rule alone"), MQ_END
};

/* Sets the rule's starting degrees: about the geometric middle of its range, tp 2 for 1-10 B. */
static void set_rule(struct expert *s, double parameters)
{
	static const struct {
		double below, tp, pp;
	} rows[] = { { 1e9, 1, 1 }, { 10e9, 2, 1 }, { 70e9, 6, 3 }, { 175e9, 8, 6 }, { 1e30, 8, 12 } };
	uint32_t i = 0;

	while (parameters >= rows[i].below)
		i++;
	s->tp = rows[i].tp;
	s->pp = rows[i].pp;
}

/* log2 of the total speed of all devices over that of each set. */
static void rate_sets(struct expert *s)
{
	double all = 0;

	for (uint32_t k = 0; k < s->space.n_sets; k++) {
		double sum = 0;

		for (uint32_t i = 0; i < s->space.set[k].n; i++)
			sum += s->space.set[k].speed[i];
		all = fmax(all, sum);
		s->left_out[k] = log2(all / sum);
	}
}

/* Distance of a point from the rule in factors of two, with small costs as tie-breaks: larger micro-batches launch
 * fewer kernels, recomputation wastes a third, unsharded optimizers waste memory. */
static double distance(const struct expert *s, const struct shape_point *p)
{
	const struct shape_set *set = &s->space.set[p->set];
	const struct mq_question *q = s->space.problem->q;
	double mbs = q->train->batch / p->micro_batches / p->dp, few = p->pp > 1 ? 4.0 * p->pp : 1;
	double tp = log2(p->tp / s->tp), pp = log2(p->pp / s->pp);
	double sharding = fmax(MQ_SYNC_ZERO1, s->space.software->sync);
	/* less model parallelism than the rule costs little: it may fit (see fits) */
	double d = fmax(tp, -0.4 * tp) + fmax(pp, -0.4 * pp);

	d += 0.3 * p->recompute;
	/* of sequences one or two at a time, of images all, or as few parts as hide the bubble */
	d += 0.4 * (q->model->seq ? fabs(log2(mbs) - (p->pp > 1 ? 0 : 1)) : fmax(0, log2(p->micro_batches / few)));
	d += 3 * s->left_out[p->set] +
	     0.25 * p->set; /* idle devices cost their full share, a degree off the rule less */
	if (p->pp > 1)      /* a small bubble needs more micro-batches than stages */
		d += fmax(0, log2(few / p->micro_batches));
	d += set->mixed && !p->balanced ? 1.5 : 0;
	d += p->tp > 1 && p->sequence_parallel != s->space.software->sequence_parallel ? 1 : 0;
	/* preferred: ZeRO-1, or the software's default if it shards more; then plain replicas */
	if (p->dp > 1)
		d += p->sync == MQ_SYNC_ALLREDUCE ? 0.25 : 0.15 * fabs((double)p->sync - sharding);
	d += mq_pipeline_kind(p->pipeline)->keeps_all ? 2 : mq_pipeline_kind(p->pipeline)->splits;
	d += p->replica_major ? 0.5 : 0;
	d += p->ep > 1 ? 0 : q->model->experts > 0 && p->dp > 1;
	return d;
}

static bool collect(void *context, const struct shape_point *p)
{
	struct expert *s = context;
	struct ranked_point r = { *p, distance(s, p), s->n };

	MQ_PUSH(s->space.problem->arena, s->list, s->n, s->room, r);
	return true;
}

MQ_COMPARE(nearer_first, struct ranked_point, MQ_ORDER(a->distance, b->distance) ?: MQ_ORDER(a->order, b->order))

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct expert *s = state;

	s->least = (double)INFINITY;
	mq_map_init(&s->degrees, problem->arena, 64);
	for (uint32_t d = 0; d < problem->q->cluster->n_devices; d++) {
		s->room_B = fmax(s->room_B, mq_room_B(problem, d));
		s->memory_B = fmax(s->memory_B, problem->q->cluster->device[d].memory_B);
	}
	MQ_TRY(shapes_init(&s->space, problem, err));
	rate_sets(s);
	set_rule(s, mq_model_totals(problem->q->model).parameters);
	shapes_each(&s->space, collect, s);
	if (!s->n)
		return shapes_none(&s->space, err);
	qsort(s->list, s->n, sizeof(*s->list), nearer_first);
	return MQ_OK;
}

/* Lower bound of a device's bytes: parameters, gradients and optimizer of all ops under these degrees, over pp. */
static double states_B(struct expert *s, const struct shape_point *p)
{
	const struct mq_problem *problem = s->space.problem;
	const struct mq_model *m = problem->q->model;
	uint32_t key[] = { p->tp, p->ep, p->etp, p->sync, p->dp * p->cp }, before = s->degrees.n;
	uint32_t at = mq_map_add(&s->degrees, mq_hash(MQ_HASH_INIT, key, sizeof(key)));
	double sum = 0;

	for (uint32_t op = 0; op < m->n_ops && at == before; op++) {
		bool expert = mq_op_of_experts(&m->op[op]);
		uint32_t split[MQ_N_DIMS];
		struct mq_op_memory memory;

		mq_tensor_split(m, op, expert && p->etp ? p->etp : p->tp, true, true, split);
		split[MQ_DIM_EXPERT] = expert ? p->ep : 1;
		problem->costs->op_memory(problem->costs->context, op, split, 1, p->sync, p->dp * p->cp,
					  MQ_RECOMPUTE_NONE, &memory);
		sum += mq_op_static_B(&memory);
	}
	if (at == before)
		MQ_PUSH(problem->arena, s->states_B, before, s->states_room, sum);
	return s->states_B[at] / p->pp;
}

/* Makes the plan of a point; does it fit, as far as known? Remembers the plan with the least excess. */
static bool fits(struct expert *s, uint32_t i, struct mq_arena *arena, struct mq_plan *plan)
{
	const struct mq_costs *costs = s->space.problem->costs;
	struct mq_result r;
	struct mq_err why;

	if (shapes_plan(&s->space, &s->list[i].point, arena, plan, &why) != MQ_OK)
		return false;
	if (!costs->fits || !costs->fits(costs->screen_context, plan, &r))
		return true;
	if (r.verdict == MQ_VERDICT_OOM && r.peak_memory_B / r.memory_limit_B < s->least) {
		s->least = r.peak_memory_B / r.memory_limit_B;
		s->nearest = i;
	}
	return r.verdict == MQ_VERDICT_OK;
}

/* Finds the plan with the least excess when even states do not fit: first among those with full recomputation and one
 * sample per micro-batch, if constraints allow any. */
static void find_nearest(struct expert *s, bool frugal, struct mq_arena *arena, struct mq_plan *plan)
{
	double batch = s->space.problem->q->train->batch;

	for (uint32_t i = 0; i < s->n && mq_tick(s->space.problem, (double)NAN, "screening"); i++) {
		const struct shape_point *p = &s->list[i].point;
		bool is = p->recompute == MQ_RECOMPUTE_FULL && p->pipeline == MQ_PIPE_1F1B && !p->replica_major &&
			  p->micro_batches * p->dp == batch;

		if ((is || !frugal) && states_B(s, p) < s->least * s->memory_B)
			(void)fits(s, i, arena, plan);
	}
	if (frugal && isinf(s->least))
		find_nearest(s, false, arena, plan);
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct expert *s = state;

	while (s->next < s->n && s->proposed < s->variants) {
		uint32_t i = s->next++;

		if (!mq_tick(problem, (double)i / s->n, "screening"))
			return MQ_DONE;
		if (states_B(s, &s->list[i].point) <= s->room_B && fits(s, i, arena, plan)) {
			s->proposed++;
			return MQ_OK;
		}
	}
	if (s->proposed)
		return MQ_DONE;
	s->proposed = s->variants; /* nothing fits: the nearest plan tells the user by how much */
	find_nearest(s, true, arena, plan);
	return isfinite(s->least) ? shapes_plan(&s->space, &s->list[s->nearest].point, arena, plan, err) : MQ_DONE;
}

MQ_ENGINE(expert) = {
	MQ_ENGINE_HEAD("expert"),
	.summary = "Megatron-style rules of thumb, memory included",
	.paper = "Shoeybi et al. 2019, arXiv:1909.08053; Narayanan et al. 2021, arXiv:2104.04473",
	MQ_ENGINE_OWN(struct expert),
	.batch = 8,
};

/* expert.c - what an experienced engineer would try, in the order of trying.
 *
 * Rules of the public Megatron guides for dense models: tensor parallelism inside a node first, then pipeline stages,
 * the rest data parallel; starting degrees by model size (< 1 B parameters: data parallel only; 1-10 B: tp 2-4; 10-70
 * B: tp 4-8, pp 2-4; 70-175 B: tp 8, pp 4-8; beyond: tp 8, pp 8-16), sequence parallelism with tensor parallelism,
 * 1F1B, ZeRO-1 where replicas exist. Memory: the least recompute (none, selective, full) and then the most model
 * parallelism that fits. On mixed devices stages and shares follow speed, and the fastest type alone is tried too.
 *
 * Candidates are ordered by distance from the rule, screened for memory without simulating, and proposed until
 * `variants` are out: the first is the hand rule itself.
 *
 * Not modelled: context parallelism unless asked for with --fix cp; interleaved schedules unless
 * --fix schedule or virtual asks. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "maquette/engine.h"
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
	double tp, pp;    /* the rule's degrees */
	double least;     /* of memory needed / there, over the plans that do not fit */
	uint32_t nearest; /* that plan */
};

static const struct mq_opt opts[] = {
	MQ_U32(struct expert, variants, 64, 1, 1e6, "plans proposed; 1 = the hand rule alone"), MQ_END
};

/* The rule's starting degrees, geometric middle of its range. */
static void rule(struct expert *s, double parameters)
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

/* In factors of two from the rule, with small costs that order equals: a plan with larger micro-batches launches
 * fewer kernels, recomputing wastes a third, unsharded optimizers waste memory. */
static double distance(const struct expert *s, const struct shape_point *p)
{
	const struct shape_set *set = &s->space.set[p->set];
	double mbs = s->space.problem->q->train->batch / p->micro_batches / p->dp;
	double tp = log2(p->tp / s->tp), pp = log2(p->pp / s->pp);
	double sharding = fmax(MQ_SYNC_ZERO1, s->space.software->sync);
	/* Less model parallelism than the rule is welcome where memory allows it (see fits). */
	double d = fmax(tp, -0.4 * tp) + fmax(pp, -0.4 * pp);

	d += 0.3 * p->recompute;
	d += 0.4 * fabs(log2(mbs) - (p->pp > 1 ? 0 : 1));
	d += 0.75 * p->set; /* fewer devices: slow types, then slow networks, left out */
	if (p->pp > 1)      /* the bubble wants more micro-batches than stages */
		d += fmax(0, log2(4.0 * p->pp / p->micro_batches));
	d += set->mixed && !p->balanced ? 1.5 : 0;
	d += p->tp > 1 && p->sequence_parallel != s->space.software->sequence_parallel ? 1 : 0;
	/* The least sharding of the optimizer that the software has or does by itself; plain replicas next. */
	if (p->dp > 1)
		d += p->sync == MQ_SYNC_ALLREDUCE ? 0.25 : 0.15 * fabs((double)p->sync - sharding);
	d += mq_pipeline_kind(p->pipeline)->keeps_all ? 2 : 0;
	d += p->replica_major ? 0.5 : 0;
	d += p->ep > 1 ? 0 : s->space.problem->q->model->experts > 0 && p->dp > 1;
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
	MQ_TRY(shapes_init(&s->space, problem, err));
	rule(s, mq_model_totals(problem->q->model).parameters);
	shapes_each(&s->space, collect, s);
	if (!s->n)
		return shapes_none(&s->space, err);
	qsort(s->list, s->n, sizeof(*s->list), nearer_first);
	return MQ_OK;
}

/* Does the plan fit in memory, as far as one can tell? Remembers the one that misses by least. */
static bool fits(struct expert *s, const struct mq_problem *problem, const struct mq_plan *plan)
{
	struct mq_result r;

	if (!problem->costs->fits || !problem->costs->fits(problem->costs->screen_context, plan, &r))
		return true;
	if (r.verdict == MQ_VERDICT_OOM && r.peak_memory_B / r.memory_limit_B < s->least) {
		s->least = r.peak_memory_B / r.memory_limit_B;
		s->nearest = s->next - 1;
	}
	return r.verdict == MQ_VERDICT_OK;
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct expert *s = state;
	struct mq_err why;

	while (s->next < s->n && s->proposed < s->variants) {
		const struct shape_point *p = &s->list[s->next++].point;
		if (!mq_tick(problem, (double)s->next / s->n, "screening"))
			return MQ_DONE;
		if (shapes_plan(&s->space, p, arena, plan, &why) != MQ_OK)
			continue;
		if (fits(s, problem, plan)) {
			s->proposed++;
			return MQ_OK;
		}
	}
	if (s->proposed || !isfinite(s->least))
		return MQ_DONE;
	s->proposed = s->variants; /* nothing fits: let the user hear by how much */
	return shapes_plan(&s->space, &s->list[s->nearest].point, arena, plan, err);
}

MQ_ENGINE(expert) = {
	MQ_ENGINE_HEAD("expert"),
	.summary = "Megatron-style rules of thumb, memory included",
	.paper = "Shoeybi et al. 2019, arXiv:1909.08053; Narayanan et al. 2021, arXiv:2104.04473",
	MQ_ENGINE_OWN(struct expert),
	.batch = 8,
	.heuristic = true,
};

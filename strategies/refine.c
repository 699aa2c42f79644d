/* refine.c - local search around good plans, judged by the simulator: see lib/moves/refine.h and lib/moves/moves.h.
 *
 * Starts from --start if given, else from usual shapes: the fastest sampled point of each division of the devices, by
 * the analytic executor, fastest first. Every judged plan is a starting point. `hybrid` and `portfolio` run the same
 * local search on what they find. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "maquette/engine.h"
#include "lib/plans.h"
#include "lib/moves/refine.h"
#include "lib/shapes.h"

struct first {
	struct shape_point point;
	double time_s;
	uint32_t points; /* number of points of this division */
};

struct refine {
	uint32_t starts; /* option */
	struct mq_refine moves;
	struct shape_space space;
	struct first *list;
	uint32_t n, room, next, at; /* at: the last division found */
	uint32_t sample;            /* points per division to screen, on average */
	bool given;                 /* --start is not proposed yet */
	uint64_t proposed, heard;
	uint64_t ours; /* bit per pending proposal: made by local search */
};

static const struct mq_opt opts[] = {
	MQ_U32(struct refine, starts, 12, 1, 1000, "usual plans to start from, unless --start is given"), MQ_END
};

static bool same_division(const struct shape_point *a, const struct shape_point *b)
{
	return a->set == b->set && a->dp == b->dp && a->tp == b->tp && a->pp == b->pp && a->cp == b->cp &&
	       a->ep == b->ep && a->etp == b->etp && a->ulysses == b->ulysses && a->balanced == b->balanced;
}

/* The entry of a point's division, usually that of the previous point. */
static struct first *division(struct refine *s, const struct shape_point *p)
{
	struct first e = { *p, (double)INFINITY, 0 };

	if (s->n && same_division(&s->list[s->at].point, p))
		return &s->list[s->at];
	for (s->at = 0; s->at < s->n; s->at++)
		if (same_division(&s->list[s->at].point, p))
			return &s->list[s->at];
	MQ_PUSH(s->space.problem->arena, s->list, s->n, s->room, e);
	return &s->list[s->at];
}

/* Is the point a start? Schedules and selective recomputation are left to moves, unless --fix asks for them. */
static bool is_start(const struct refine *s, const struct shape_point *p)
{
	const struct mq_limits *l = s->space.problem->limits;

	return (l->fix_pipeline >= 0 || p->pipeline == MQ_PIPE_1F1B || p->pp == 1) &&
	       (l->fix_recompute >= 0 || p->recompute != MQ_RECOMPUTE_SELECTIVE);
}

static bool count(void *context, const struct shape_point *p)
{
	struct refine *s = context;

	if (is_start(s, p))
		division(s, p)->points++;
	return true;
}

/* Screens about `sample` random points of each division, and keeps the fastest. */
static bool collect(void *context, const struct shape_point *p)
{
	struct refine *s = context;
	const struct mq_problem *problem = s->space.problem;
	struct mq_arena_mark mark = mq_arena_mark(&s->moves.scratch);
	struct mq_err none = MQ_ERR_INIT;
	struct mq_plan plan;

	if (!is_start(s, p))
		return true;
	struct first *f = division(s, p);

	if (mq_rng_below(problem->rng, f->points) >= s->sample)
		return true;
	double time_s = shapes_plan(&s->space, p, &s->moves.scratch, &plan, &none) == MQ_OK ?
				mq_screen(problem, &plan) :
				(double)INFINITY;

	if (time_s < f->time_s)
		f->point = *p, f->time_s = time_s;
	mq_arena_rewind(&s->moves.scratch, mark);
	return mq_tick(problem, (double)NAN, "screening");
}

MQ_COMPARE(faster, struct first, MQ_ORDER(a->time_s, b->time_s))

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct refine *s = state;

	if (!problem->costs->screen)
		return mq_bad(err, "there is no executor to screen plans with");
	mq_refine_init(&s->moves, problem);
	s->given = problem->start != NULL;
	if (s->given)
		return MQ_OK;
	MQ_TRY(shapes_init(&s->space, problem, err));
	shapes_each(&s->space, count, s);
	/* a screen takes time proportional to the number of devices */
	s->sample = problem->q->cluster->n_devices <= 64 ? 24 : 1 + 23 * 64 / problem->q->cluster->n_devices;
	shapes_each(&s->space, collect, s);
	if (s->n)
		qsort(s->list, s->n, sizeof(*s->list), faster);
	/* if nothing fits, with the optimizer on the host */
	s->space.host = s->n && !isfinite(s->list->time_s) && shapes_can_host(&s->space);
	if (s->space.host) {
		shapes_each(&s->space, collect, s);
		qsort(s->list, s->n, sizeof(*s->list), faster);
	}
	while (s->n && !isfinite(s->list[s->n - 1].time_s))
		s->n--;
	if (!s->n)
		return mq_fail(
			err, MQ_ENOPLAN,
			"engine 'refine': no usual plan that is allowed fits the memory of '%s'; give it a plan with "
			"--start",
			problem->q->cluster->name);
	return MQ_OK;
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct refine *s = state;
	uint64_t bit = 1ull << s->proposed % 64;

	s->ours &= ~bit;
	if (s->given) {
		s->given = false;
		mq_plan_copy(plan, problem->start, arena);
	} else if (s->next < s->n && s->next < s->starts) {
		MQ_TRY(shapes_plan(&s->space, &s->list[s->next++].point, arena, plan, err));
	} else if (mq_refine_next(&s->moves, arena, plan)) {
		s->ours |= bit;
	} else {
		return MQ_DONE;
	}
	s->proposed++;
	return MQ_OK;
}

static void observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		    const struct mq_result *result)
{
	struct refine *s = state;

	if (s->ours & 1ull << s->heard++ % 64)
		mq_refine_hear(&s->moves, plan, result);
	else
		mq_refine_offer(&s->moves, plan, result);
}

static void stop(void *state, const struct mq_problem *problem)
{
	struct refine *s = state;

	mq_refine_fini(&s->moves);
}

MQ_ENGINE(refine) = {
	MQ_ENGINE_HEAD("refine"),
	.summary = "moves on the best plans so far: boundaries, shares, micro-batches, devices",
	MQ_ENGINE_OWN(struct refine),
	.parts = true,
	.observe = observe,
	.stop = stop,
};

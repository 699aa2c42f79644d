/* exhaustive.c - every plan of the space, in a fixed order: the ground truth of small cases.
 *
 * The space is that of usual plans (lib/shapes.h) or, with space=placement, all assignments of ops to devices. If it
 * has more than `limit` plans, the engine refuses and reports their number: half a ground truth is none.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/engine.h"
#include "lib/placements.h"
#include "lib/plans.h"
#include "lib/shapes.h"

enum { AUTO, SHAPE, PLACEMENT };

struct exhaustive {
	uint32_t space, limit; /* options */
	bool zero, schedules;
	struct shape_space shapes;
	struct shape_list list;
	uint32_t next;
	struct placements placements;
	uint32_t *choice; /* odometer over the groups */
	bool turned;      /* all assignments were proposed */
	double best_s;    /* best feasible time; 0 = none yet */
};

static const struct mq_opt opts[] = {
	MQ_CHOICE(struct exhaustive, space, AUTO, "auto|shape|placement",
		  "kind of plans; auto = placement for profiled graphs, else shape"),
	MQ_U32(struct exhaustive, limit, 20000, 1, 1e9, "plans beyond which it refuses"),
	MQ_BOOL(struct exhaustive, zero, 0, "also ZeRO-2 and ZeRO-3"),
	MQ_BOOL(struct exhaustive, schedules, 0, "also interleaved, zb-h1, zbv and dualpipe-v schedules"), MQ_END
};

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct exhaustive *s = state;
	double count;

	if (s->space == AUTO)
		s->space = placements_natural(problem) ? PLACEMENT : SHAPE;
	if (s->space == PLACEMENT) {
		MQ_TRY(placements_open(&s->placements, problem, "exhaustive", err));
		count = pow(s->placements.n_devices, s->placements.n_groups);
		s->choice = mq_arena_array(problem->arena, s->placements.n_groups, uint32_t);
	} else {
		MQ_TRY(shapes_init(&s->shapes, problem, err));
		s->shapes.zero = s->zero;
		s->shapes.all_schedules = s->schedules;
		shapes_list(&s->shapes, NULL, NULL, s->limit, &s->list);
		count = s->list.n;
	}
	if (!count)
		return mq_bad(err, "no plan keeps --fix and --max; relax them");
	if (count > s->limit)
		return mq_bad(
			err, "%.6g plans exceed limit=%u; use --fix and --max, raise the limit, or take another engine",
			count, s->limit);
	return MQ_OK;
}

static enum mq_status propose_placement(struct exhaustive *s, const struct mq_problem *problem, struct mq_arena *arena,
					struct mq_plan *plan)
{
	uint32_t g = 0;

	if (s->turned)
		return MQ_DONE;
	placements_plan(&s->placements, s->choice, problem, arena, plan);
	while (g < s->placements.n_groups && ++s->choice[g] == s->placements.n_devices)
		s->choice[g++] = 0;
	s->turned = g == s->placements.n_groups;
	return MQ_OK;
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct exhaustive *s = state;
	struct mq_err why;

	if (s->space == PLACEMENT)
		return propose_placement(s, problem, arena, plan);
	while (s->next < s->list.n)
		if (shapes_plan(&s->shapes, &s->list.point[s->next++], arena, plan, &why) == MQ_OK)
			return MQ_OK;
	return MQ_DONE;
}

static void observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		    const struct mq_result *result)
{
	struct exhaustive *s = state;

	if (result->verdict == MQ_VERDICT_OK && (!s->best_s || result->step_time_s < s->best_s))
		s->best_s = result->step_time_s;
}

/* If all plans were judged, the best is the lower bound. */
static void stop(void *state, const struct mq_problem *problem)
{
	const struct exhaustive *s = state;
	bool whole = s->space == PLACEMENT ? s->turned : s->next == s->list.n;

	if (whole && s->best_s)
		mq_show_bound(problem, &(struct mq_bound){ "step-time", s->best_s, s->best_s, "s",
							   s->space == PLACEMENT ? "placement of whole ops" :
										   "plan of the usual shapes" });
}

MQ_ENGINE(exhaustive) = {
	MQ_ENGINE_HEAD("exhaustive"),
	.summary = "every plan of the space (ground truth of small cases)",
	MQ_ENGINE_OWN(struct exhaustive),
	.batch = 64,
	.observe = observe,
	.stop = stop,
	.proves = true,
};

/* screen.c - every usual plan timed by the analytic executor; the fastest are proposed first.
 *
 * The analytic executor runs the schedule in one pass without contention, so its times are lower bounds of simulated
 * ones: cheap enough for thousands of plans, and exact where nothing is shared. Plans are screened in a seeded random
 * order, a block at a time; between blocks it proposes the best seen so far, so that a run cut short by time has tried
 * the best of a fair sample. Plans that do not fit are dropped. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "maquette/engine.h"
#include "lib/plans.h"
#include "lib/shapes.h"

struct screened {
	struct shape_point point;
	double time_s;
	uint32_t order;
};

enum { BATCH = 16 };

struct screen {
	uint32_t limit, block; /* options */
	bool zero, schedules;
	struct shape_space space;
	struct screened *list; /* [0, proposed) proposed, [proposed, known) ranked, [next, n) not screened */
	uint32_t n, room, proposed, known, next;
};

static const struct mq_opt opts[] = {
	MQ_U32(struct screen, limit, 5000, 1, 1e7, "plans screened at most"),
	MQ_U32(struct screen, block, 500, 1, 1e7, "plans screened before each 16 proposals"),
	MQ_BOOL(struct screen, zero, 1, "also ZeRO-2 and ZeRO-3"),
	MQ_BOOL(struct screen, schedules, 1, "also interleaved, zb-h1, zbv and dualpipe-v schedules"), MQ_END
};

static bool collect(void *context, const struct shape_point *p)
{
	struct screen *s = context;
	struct screened e = { *p, (double)INFINITY, s->n };

	MQ_PUSH(s->space.problem->arena, s->list, s->n, s->room, e);
	return s->n < 10000000 && (s->n % 4096 || mq_tick(s->space.problem, (double)NAN, "listing"));
}

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct screen *s = state;

	if (!problem->costs->screen)
		return mq_bad(err, "there is no executor to screen plans with");
	MQ_TRY(shapes_init(&s->space, problem, err));
	s->space.zero = s->zero;
	s->space.all_schedules = s->schedules;
	shapes_each(&s->space, collect, s);
	if (!s->n)
		return shapes_none(&s->space, err);
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t other = i + mq_rng_below(problem->rng, s->n - i);
		struct screened e = s->list[i];

		s->list[i] = s->list[other];
		s->list[other] = e;
		s->list[i].order = i;
	}
	return MQ_OK;
}

MQ_COMPARE(faster_first, struct screened, MQ_ORDER(a->time_s, b->time_s) ?: MQ_ORDER(a->order, b->order))

/* Screens one more block and ranks it among those not yet proposed. */
static void screen_block(struct screen *s, const struct mq_problem *problem, struct mq_arena *arena)
{
	uint32_t limit = s->n < s->limit ? s->n : s->limit;

	for (uint32_t i = 0; i < s->block && s->next < limit; i++) {
		struct mq_arena_mark mark = mq_arena_mark(arena);
		struct screened e = s->list[s->next++];
		struct mq_plan plan;
		struct mq_err why;

		if (!mq_tick(problem, (double)s->next / limit, "screening"))
			break;
		if (shapes_plan(&s->space, &e.point, arena, &plan, &why) == MQ_OK)
			e.time_s = mq_screen(problem, &plan);
		if (isfinite(e.time_s))
			s->list[s->known++] = e; /* known <= next: nothing new is overwritten */
		mq_arena_rewind(arena, mark);
	}
	qsort(s->list + s->proposed, s->known - s->proposed, sizeof(*s->list), faster_first);
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct screen *s = state;

	while (s->proposed % BATCH == 0 || s->proposed == s->known) {
		uint32_t before = s->next;

		screen_block(s, problem, arena);
		if (s->next == before || s->proposed < s->known)
			break;
	}
	if (s->proposed == s->known)
		return MQ_DONE;
	const struct screened *e = &s->list[s->proposed++];
	MQ_TRY(shapes_plan(&s->space, &e->point, arena, plan, err));
	plan->engine_objective = e->time_s;
	plan->engine_unit = "s";
	return MQ_OK;
}

MQ_ENGINE(screen) = {
	MQ_ENGINE_HEAD("screen"),
	.summary = "usual plans in the order of the analytic executor's times",
	MQ_ENGINE_OWN(struct screen),
	.batch = BATCH,
};

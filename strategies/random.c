/* random.c - uniform random plans: the baseline that every search must beat.
 *
 * Samples without replacement from the space of usual plans (lib/shapes.h) or, for profiled graphs and with
 * space=placement, random devices for ops: with probability `keep` an op takes the device of its first predecessor, so
 * that neighbours often stay together. SPDX-License-Identifier: Apache-2.0 */

#include "maquette/engine.h"
#include "lib/placements.h"
#include "lib/shapes.h"

enum { AUTO, SHAPE, PLACEMENT, MAX_POINTS = 1000000 };

struct random {
	uint32_t space; /* options */
	double keep;
	struct shape_space shapes;
	struct shape_list list;
	uint32_t next;
	struct placements placements;
};

static const struct mq_opt opts[] = {
	MQ_CHOICE(struct random, space, AUTO, "auto|shape|placement",
		  "kind of plans; auto = placement for profiled graphs, else shape"),
	MQ_F64(struct random, keep, 0.9, 0, 1, "placement: probability to stay with the predecessor"), MQ_END
};

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct random *s = state;

	if (s->space == AUTO)
		s->space = placements_natural(problem) ? PLACEMENT : SHAPE;
	if (s->space == PLACEMENT)
		return placements_open(&s->placements, problem, "random", err);
	MQ_TRY(shapes_init(&s->shapes, problem, err));
	s->shapes.zero = s->shapes.all_schedules = true;
	shapes_list(&s->shapes, NULL, NULL, MAX_POINTS, &s->list);
	s->list.n = s->list.n < MAX_POINTS ? s->list.n : MAX_POINTS;
	if (!s->list.n)
		return shapes_none(&s->shapes, err);
	return MQ_OK;
}

static enum mq_status random_placement(struct random *s, const struct mq_problem *problem, struct mq_arena *arena,
				       struct mq_plan *plan)
{
	const struct mq_model *m = problem->q->model;
	uint32_t *choice = mq_arena_array(arena, s->placements.n_groups, uint32_t);
	unsigned char *chosen = mq_arena_alloc(arena, s->placements.n_groups);

	for (uint32_t op = 0; op < m->n_ops; op++) {
		uint32_t group = s->placements.group_of[op], from = MQ_NONE;

		if (chosen[group])
			continue;
		if (m->in_first[op] < m->in_first[op + 1])
			from = s->placements.group_of[m->edge[m->in_edge[m->in_first[op]]].src];
		chosen[group] = 1;
		if (from != MQ_NONE && chosen[from] && mq_rng_unit(problem->rng) < s->keep)
			choice[group] = choice[from];
		else
			choice[group] = mq_rng_below(problem->rng, s->placements.n_devices);
	}
	placements_plan(&s->placements, choice, problem, arena, plan);
	return MQ_OK;
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct random *s = state;
	struct mq_err why;

	if (s->space == PLACEMENT)
		return random_placement(s, problem, arena, plan);
	while (s->next < s->list.n) {
		uint32_t other = s->next + mq_rng_below(problem->rng, s->list.n - s->next);
		struct shape_point p = s->list.point[other];

		s->list.point[other] = s->list.point[s->next++];
		if (shapes_plan(&s->shapes, &p, arena, plan, &why) == MQ_OK)
			return MQ_OK;
	}
	return MQ_DONE;
}

MQ_ENGINE(random) = {
	MQ_ENGINE_HEAD("random"),
	.summary = "uniform random plans (baseline)",
	MQ_ENGINE_OWN(struct random),
	.batch = 64,
};

/* placements.c - see placements.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/placements.h"

#include <math.h>

#include "lib/plans.h"

static void join(uint32_t *parent, uint32_t a, uint32_t b)
{
	uint32_t x = mq_root(parent, a), y = mq_root(parent, b);

	parent[x > y ? x : y] = x > y ? y : x;
}

/* Groups ops that must share a device, by union-find. */
static void group_ops(struct placements *space, const struct mq_model *m, struct mq_arena *arena)
{
	uint32_t *parent = mq_arena_count(arena, m->n_ops);
	uint32_t *first = mq_arena_array(arena, m->n_ops + 1, uint32_t);
	uint32_t *color = mq_arena_array(arena, m->n_ops + 1, uint32_t), n_colors = 0;

	for (uint32_t op = 0; op < m->n_ops; op++) {
		uint32_t c = 0;

		if (m->op[op].mate != MQ_NONE)
			join(parent, op, m->op[op].mate);
		if (m->op[op].color == MQ_NONE)
			continue;
		while (c < n_colors && color[c] != m->op[op].color)
			c++;
		if (c == n_colors) {
			color[n_colors] = m->op[op].color;
			first[n_colors++] = op;
		}
		join(parent, op, first[c]);
	}
	space->group_of = mq_arena_array(arena, m->n_ops, uint32_t);
	for (uint32_t op = 0; op < m->n_ops; op++) {
		uint32_t root = mq_root(parent, op);

		space->group_of[op] = root == op ? space->n_groups++ : space->group_of[root];
	}
}

void placements_init(struct placements *space, const struct mq_problem *problem)
{
	const struct mq_cluster *c = problem->q->cluster;
	static const uint32_t whole[MQ_N_DIMS] = MQ_UNSPLIT;
	struct mq_devices devices = { 0, mq_arena_array(problem->arena, c->n_devices, uint32_t) };

	*space = (struct placements){ .micro_batches = 1 };
	group_ops(space, problem->q->model, problem->arena);
	for (uint32_t d = 0; d < c->n_devices; d++) {
		bool any = false;

		for (uint32_t op = 0; op < problem->q->model->n_ops && !any; op++)
			any = isfinite(problem->costs->op_time(problem->costs->context, op,
							       problem->q->model->op[op].phase, d, whole, 1));
		if (any)
			devices.rank[devices.n++] = d;
	}
	mq_devices_limit(problem, &devices, problem->arena);
	space->n_devices = devices.n;
	space->device = devices.rank;
}

void placements_plan(const struct placements *space, const uint32_t *choice, const struct mq_problem *problem,
		     struct mq_arena *arena, struct mq_plan *plan)
{
	const struct mq_model *m = problem->q->model;
	uint32_t *device_of = mq_arena_array(arena, m->n_ops, uint32_t);

	for (uint32_t op = 0; op < m->n_ops; op++)
		device_of[op] = space->device[choice[space->group_of[op]]];
	mq_plan_from_placement(device_of, m, arena, plan);
	plan->micro_batches = space->micro_batches;
}

bool placements_natural(const struct mq_problem *problem)
{
	return problem->q->model->profile.n_types > 0 || problem->q->model->devices.n_accelerators > 0;
}

enum mq_status placements_open(struct placements *space, const struct mq_problem *problem, const char *engine,
			       struct mq_err *err)
{
	MQ_TRY(mq_space_refuse(problem->q, engine, MQ_LACKS_ALL, err));
	placements_init(space, problem);
	if (!space->n_devices)
		return mq_bad(err, "no device of '%s' can run '%s'", problem->q->cluster->name,
			      problem->q->model->name);
	return MQ_OK;
}

/* coarse.c - see coarse.h. */
#include "lib/coarse.h"

#include <math.h>

enum mq_status mq_coarse_make(const struct mq_problem *problem, const char *engine, uint32_t limit,
			      struct mq_coarse *c, struct mq_err *err)
{
	double total = 0, sum = 0;

	MQ_TRY(mq_tasks_make(problem, engine, &c->tasks, err));
	const struct mq_tasks *t = &c->tasks;
	c->n_devices = t->n_devices;
	c->group_of = mq_arena_array(problem->arena, t->n, uint32_t);
	for (uint32_t v = 0; v < t->n; v++)
		total += fmin(mq_tasks_mean_time(t, v), 1e30);
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t v = t->order[i], group = i;

		if (limit && limit < t->n) /* the middle of the task decides */
			group = (uint32_t)fmin(floor((sum + 0.5 * mq_tasks_mean_time(t, v)) /
						     fmax(total, 1e-300) * limit),
					       limit - 1);
		sum += fmin(mq_tasks_mean_time(t, v), 1e30);
		c->group_of[v] = group;
	}
	/* Number the groups that are used, in order. */
	uint32_t *number = mq_arena_array(problem->arena, t->n + limit + 1, uint32_t);
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t *n = &number[c->group_of[t->order[i]]];

		if (!*n)
			*n = ++c->n;
		c->group_of[t->order[i]] = *n - 1;
	}
	c->possible = mq_arena_array(problem->arena, (size_t)c->n * c->n_devices, bool);
	memset(c->possible, true, (size_t)c->n * c->n_devices);
	for (uint32_t v = 0; v < t->n; v++)
		for (uint32_t d = 0; d < t->n_devices; d++)
			if (isinf(t->time[(size_t)v * t->n_devices + d]))
				c->possible[c->group_of[v] * c->n_devices + d] = false;
	for (uint32_t g = 0; g < c->n; g++) {
		bool any = false;

		for (uint32_t d = 0; d < c->n_devices; d++)
			any = any || c->possible[g * c->n_devices + d];
		if (!any)
			return mq_fail(err, MQ_EINPUT, "engine '%s': no device can run all ops of group %u; "
				       "use more groups", engine, g);
	}
	return MQ_OK;
}

void mq_coarse_plan(const struct mq_coarse *c, const uint32_t *choice, const struct mq_problem *problem,
		    struct mq_arena *arena, struct mq_plan *plan)
{
	uint32_t *device = mq_arena_array(arena, c->tasks.n, uint32_t);

	for (uint32_t v = 0; v < c->tasks.n; v++)
		device[v] = choice[c->group_of[v]];
	placements_plan(&c->tasks.space, device, problem, arena, plan);
}

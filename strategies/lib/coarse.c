/* coarse.c - see coarse.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/coarse.h"

#include <math.h>

/* Fills `even`: consecutive groups per device by its share of memory; what it cannot run goes to the next that can. */
static void spread_evenly(const struct mq_problem *problem, struct mq_coarse *c)
{
	const struct mq_tasks *t = &c->tasks;
	double *memory = mq_arena_array(problem->arena, c->n, double), total = 0, room = 0, held = 0, end;
	bool known = true;
	uint32_t d = 0;

	c->even = mq_arena_array(problem->arena, c->n, uint32_t);
	for (uint32_t v = 0; v < t->n; v++) {
		memory[c->group_of[v]] += t->memory[v];
		total += t->memory[v];
	}
	for (uint32_t i = 0; i < c->n_devices; i++) {
		known = known && isfinite(t->limit[i]);
		room += t->limit[i];
	}
	end = known ? t->limit[0] / room : 1.0 / c->n_devices;
	for (uint32_t g = 0; g < c->n; g++) { /* the middle of the group decides its device */
		while (d + 1 < c->n_devices && held + memory[g] / 2 > end * total) {
			d++;
			end += known ? t->limit[d] / room : 1.0 / c->n_devices;
		}
		held += memory[g];
		c->even[g] = d;
		while (!c->possible[(size_t)g * c->n_devices + c->even[g]])
			c->even[g] = (c->even[g] + 1) % c->n_devices;
	}
}

/* While more than `limit` groups are left, merges the lightest into the neighbour with which it exchanges most
 * bytes. */
static void join_lightest(const struct mq_tasks *t, uint32_t limit, struct mq_arena *arena, uint32_t *group_of)
{
	double *time = mq_arena_array(arena, t->n, double), *bytes = mq_arena_array(arena, t->n, double);
	uint32_t n = t->n;

	for (uint32_t v = 0; v < t->n; v++) {
		group_of[v] = v;
		time[v] = mq_tasks_mean_time(t, v);
	}
	for (; limit && n > limit; n--) {
		uint32_t light = MQ_NONE, into = MQ_NONE;

		for (uint32_t v = 0; v < t->n; v++)
			if (group_of[v] == v && (light == MQ_NONE || time[v] < time[light]))
				light = v;
		memset(bytes, 0, t->n * sizeof(*bytes));
		for (uint32_t e = 0; e < t->n_edges; e++) {
			uint32_t a = group_of[t->edge[e].src], b = group_of[t->edge[e].dst];

			if ((a == light) == (b == light))
				continue;
			uint32_t other = a == light ? b : a;

			bytes[other] += t->edge[e].bytes;
			if (into == MQ_NONE || bytes[other] > bytes[into])
				into = other;
		}
		if (into == MQ_NONE)
			for (into = light == 0; group_of[into] != into || into == light; into++)
				continue;
		for (uint32_t v = 0; v < t->n; v++)
			group_of[v] = group_of[v] == light ? into : group_of[v];
		time[into] += time[light];
	}
}

/* Numbers the groups by their first task in topological order. */
static void number_groups(struct mq_coarse *c, struct mq_arena *arena)
{
	uint32_t most = 0, *number;

	for (uint32_t v = 0; v < c->tasks.n; v++)
		most = c->group_of[v] > most ? c->group_of[v] : most;
	number = mq_arena_array(arena, most + 1, uint32_t);
	for (uint32_t i = 0; i < c->tasks.n; i++) {
		uint32_t *n = &number[c->group_of[c->tasks.order[i]]];

		if (!*n)
			*n = ++c->n;
		c->group_of[c->tasks.order[i]] = *n - 1;
	}
}

static enum mq_status find_possible(struct mq_coarse *c, const char *engine, struct mq_arena *arena, struct mq_err *err)
{
	const struct mq_tasks *t = &c->tasks;

	c->possible = mq_arena_array(arena, (size_t)c->n * c->n_devices, bool);
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
			return mq_bad(err, "engine '%s': no device can run all ops of group %u; use more groups",
				      engine, g);
	}
	return MQ_OK;
}

enum mq_status mq_coarse_finish(const struct mq_problem *problem, const char *engine, struct mq_coarse *c,
				struct mq_err *err)
{
	struct mq_plan plan;

	c->n_devices = c->tasks.n_devices;
	number_groups(c, problem->arena);
	MQ_TRY(find_possible(c, engine, problem->arena, err));
	spread_evenly(problem, c);
	c->fit = (struct mq_fit){ .micro_batches = c->tasks.space.micro_batches, .fits = true };
	mq_coarse_plan(c, c->even, problem, problem->arena, &plan);
	c->fit = mq_fit_find(problem, &plan, problem->q->train->batch);
	return MQ_OK;
}

enum mq_status mq_coarse_make(const struct mq_problem *problem, const char *engine, uint32_t limit, struct mq_coarse *c,
			      struct mq_err *err)
{
	MQ_TRY(mq_tasks_make(problem, engine, &c->tasks, err));
	c->group_of = mq_arena_array(problem->arena, c->tasks.n, uint32_t);
	join_lightest(&c->tasks, limit, problem->arena, c->group_of);
	return mq_coarse_finish(problem, engine, c, err);
}

void mq_coarse_plan(const struct mq_coarse *c, const uint32_t *choice, const struct mq_problem *problem,
		    struct mq_arena *arena, struct mq_plan *plan)
{
	uint32_t *device = mq_arena_array(arena, c->tasks.n, uint32_t);

	for (uint32_t v = 0; v < c->tasks.n; v++)
		device[v] = choice[c->group_of[v]];
	placements_plan(&c->tasks.space, device, problem, arena, plan);
	if (c->fit.micro_batches != plan->micro_batches || c->fit.recompute)
		mq_fit_apply(&c->fit, plan);
}

bool mq_coarse_baseline(const struct mq_coarse *c, uint32_t *next, uint32_t *choice)
{
	while (*next < c->n_devices) {
		uint32_t d = (*next)++;
		bool possible = true;

		for (uint32_t g = 0; g < c->n; g++) {
			possible = possible && c->possible[(size_t)g * c->n_devices + d];
			choice[g] = d;
		}
		if (possible)
			return true;
	}
	memcpy(choice, c->even, c->n * sizeof(*choice));
	return (*next)++ == c->n_devices;
}

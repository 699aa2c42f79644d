/* plans.c - see plans.h. */
#include "lib/plans.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

struct mq_devices mq_devices_usable(const struct mq_problem *problem, struct mq_arena *arena)
{
	const struct mq_cluster *cluster = problem->cluster;
	struct mq_devices devices = { 0, mq_arena_array(arena, cluster->n_devices, uint32_t) };
	enum mq_device_kind kind = MQ_CPU;
	uint32_t limit = problem->limits ? problem->limits->max_devices : 0;

	for (uint32_t i = 0; i < cluster->n_devices; i++)
		if (cluster->device[i].kind == MQ_GPU)
			kind = MQ_GPU;
	for (uint32_t i = 0; i < cluster->n_devices; i++)
		if (cluster->device[i].kind == kind && (!limit || devices.n < limit))
			devices.rank[devices.n++] = i;
	return devices;
}

uint32_t mq_data_parallel_degree(const struct mq_problem *problem, const struct mq_devices *devices)
{
	const struct mq_limits *limits = problem->limits;
	double n = fmin(devices->n, floor(problem->train->batch));

	if (limits && limits->max_dp)
		n = fmin(n, limits->max_dp);
	if (limits && limits->fix_dp)
		n = fmin(n, limits->fix_dp);
	return n < 1 ? 1 : (uint32_t)n;
}

static uint32_t add_config(const struct mq_devices *devices, uint32_t n, bool split,
			   struct mq_arena *arena, struct mq_plan *plan)
{
	uint32_t index = mq_plan_add_config(plan, arena, n);

	memcpy(plan->config[index].device, devices->rank, n * sizeof(*devices->rank));
	if (split)
		plan->config[index].split[MQ_DIM_BATCH] = n;
	return index;
}

void mq_plan_data_parallel(const struct mq_problem *problem, const struct mq_devices *devices,
			   uint32_t n, struct mq_arena *arena, struct mq_plan *plan)
{
	const struct mq_model *model = problem->model;
	uint32_t split = MQ_NONE, whole = MQ_NONE;

	mq_plan_init(plan, arena, model->n_ops);
	for (uint32_t op = 0; op < model->n_ops; op++) {
		bool can = n == 1 || (model->op[op].splits & 1u << MQ_DIM_BATCH);
		uint32_t *config = can ? &split : &whole;

		if (*config == MQ_NONE)
			*config = add_config(devices, n, can, arena, plan);
		plan->config_of[op] = *config;
	}
}

void mq_say(const struct mq_problem *problem, const char *format, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	problem->say(problem->tick_context, line);
}

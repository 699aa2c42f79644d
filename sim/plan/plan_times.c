/* plan_times.c - scales a plan of a part of a cluster up to the whole: see plan.h.
 *
 * Only replicas are multiplied: a stage of b replicas becomes one of times x b, on devices at the same relative place.
 * SPDX-License-Identifier: Apache-2.0 */
#include "maquette/plan.h"

/* The devices of a config: `width` neighbours, repeated every `stride`. */
static bool read_order(const struct mq_config *c, uint32_t *width, uint32_t *stride)
{
	const uint32_t *d = c->device;

	*width = 1;
	while (*width < c->n_devices && d[*width] == d[0] + *width)
		++*width;
	*stride = *width < c->n_devices ? d[*width] - d[0] : *width;
	for (uint32_t i = 0; i < c->n_devices && *stride <= INT32_MAX; i++)
		if (d[i] != d[0] + i / *width * *stride + i % *width)
			return false;
	return c->n_devices % *width == 0 && *stride >= *width && *stride <= INT32_MAX;
}

/* Multiplies the windows of `stride` devices, each with `width` of the config. */
static bool more_devices(struct mq_config *c, uint32_t times, struct mq_arena *arena)
{
	uint32_t width, stride, *device = mq_arena_array(arena, (size_t)times * c->n_devices, uint32_t);

	if (!read_order(c, &width, &stride))
		return false;
	uint32_t first = c->device[0] / stride * stride * times + c->device[0] % stride;

	if (width == stride) /* one block */
		first = c->device[0] * times;
	c->n_devices *= times;
	for (uint32_t i = 0; i < c->n_devices; i++)
		device[i] = first + i / width * stride + i % width;
	c->device = device;
	return true;
}

bool mq_plan_times(const struct mq_plan *plan, const struct mq_model *model, uint32_t times, struct mq_arena *arena,
		   struct mq_plan *out)
{
	struct mq_config *large = mq_arena_array(arena, plan->n_configs, struct mq_config);
	struct mq_plan empty;

	for (uint32_t i = 0; i < plan->n_configs; i++) {
		struct mq_config *c = &large[i];

		*c = plan->config[i];
		if (!more_devices(c, times, arena))
			return false;
		if (!c->share)
			continue;
		double *share = mq_arena_array(arena, (size_t)times * c->split[MQ_DIM_BATCH], double);

		for (uint32_t k = 0; k < times * c->split[MQ_DIM_BATCH]; k++)
			share[k] = c->share[k / times];
		c->share = share;
	}
	mq_plan_init(&empty, arena, plan->n_ops);
	*out = *plan;
	out->n_configs = 0;
	out->config = empty.config;
	out->config_of = empty.config_of;
	for (uint32_t op = 0; op < plan->n_ops; op++) {
		struct mq_config c = large[plan->config_of[op]];

		if (model->op[op].splits & 1u << MQ_DIM_BATCH)
			c.split[MQ_DIM_BATCH] *= times;
		else
			c.share = NULL;
		out->config_of[op] = mq_plan_intern(out, &c, arena);
	}
	return true;
}

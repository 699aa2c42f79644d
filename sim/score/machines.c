/* machines.c - the machines of a row of measurements, and placements on several kinds of devices: see row.h.
 *
 * Not modelled: replicas of one stage that differ in tensor-parallel degree. SPDX-License-Identifier: Apache-2.0 */
#include "score/row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "hardware/platform/generate.h"

enum { USUAL_GPUS = 8 }; /* of a machine */

/* ---- placement ----------------------------------------------------------------------------------- */

/* "TYPE" or "TYPExTPn": the device and n, by default `tp`. */
static enum mq_status read_replica(const struct mq_case *c, const char *item, const char **device, uint32_t *tp,
				   struct mq_err *err)
{
	const char *mark = NULL;

	for (const char *p = item; (p = strstr(p, "xTP")); p++)
		mark = p;
	*tp = mark ? (uint32_t)strtoul(mark + 3, NULL, 10) : mq_run_degree(c->run->tp);
	if (mark)
		item = mq_arena_printf(c->arena, "%.*s", (int)(mark - item), item);
	return mq_score_device(c->options->calib, item, device, err);
}

/* The text of one stage; a single stage stands for all. NULL: the list is too short. */
static const char *stage_of(const struct mq_case *c, uint32_t stage)
{
	const char *text = c->run->placement, *piece = mq_text_next(&text, ";", c->arena);

	for (uint32_t s = 0; s < stage && strchr(c->run->placement, ';'); s++)
		piece = mq_text_next(&text, ";", c->arena);
	return piece;
}

/* Device types of a placement and their numbers over all stages, in order of first use. */
static enum mq_status placed(const struct mq_case *c, struct mq_case_part *kind, uint32_t *n, struct mq_err *err)
{
	uint32_t stages = mq_run_degree(c->run->pp), tp, k;

	*n = 0;
	for (uint32_t s = 0; s < stages; s++) {
		const char *text = stage_of(c, s), *item, *type;

		while (text && (item = mq_text_next(&text, "|", c->arena))) {
			MQ_TRY(read_replica(c, item, &type, &tp, err));
			for (k = 0; k < *n && strcmp(kind[k].device, type); k++)
				;
			if (k == MQ_CASE_MAX_PARTS || tp > c->n_devices || (k < *n && kind[k].nodes > c->n_devices))
				return mq_bad(err, "placement '%s': more kinds or devices than the row has",
					      c->run->placement);
			if (k == *n)
				kind[(*n)++] = (struct mq_case_part){ .device = type };
			kind[k].nodes += tp;
		}
	}
	return MQ_OK;
}

/* ---- machines from the columns gpu, gpus, gpus_per_node, nodes --------------------------------------- */

/* "12x V100", "V100:12" or "V100": the type and the number; 0 = none given. */
static const char *read_count(const char *item, uint32_t *count, struct mq_arena *arena)
{
	const char *colon = strchr(item, ':');
	char *end;
	unsigned long n = strtoul(colon ? colon + 1 : item, &end, 10);

	bool counted = colon ? !*end : end > item && (*end == 'x' || *end == ' ');

	*count = counted && n <= UINT32_MAX ? (uint32_t)n : 0;
	if (!counted)
		return item;
	return colon ? mq_arena_printf(arena, "%.*s", (int)(colon - item), item) : end + strspn(end, "x ");
}

/* `gpus` devices of one type as items of a mix: full machines, and one with the rest. */
static const char *mix_of(const char *device, uint32_t gpus, uint32_t per_node, struct mq_arena *arena)
{
	const char *mix = "";

	if (gpus >= per_node)
		mix = mq_arena_printf(arena, "%s*%ux%u", device, gpus / per_node, per_node);
	if (gpus % per_node)
		mix = mq_arena_printf(arena, "%s%s%s*1x%u", mix, *mix ? "+" : "", device, gpus % per_node);
	return mix;
}

/* Devices of several kinds: from the placement if it has several, else from the cell `gpu`. `nodes` of each kind holds
 * the number of its devices. */
static enum mq_status kinds_of(const struct mq_case *c, struct mq_case_part *kind, uint32_t *n, struct mq_err *err)
{
	const char *text = c->run->gpu, *item;
	struct mq_err unknown = MQ_ERR_INIT;

	/* a placement with unknown devices is no reason to refuse a `gpu` cell with known ones */
	if (placed(c, kind, n, &unknown) == MQ_OK && *n > 1)
		return MQ_OK;
	memset(kind, 0, MQ_CASE_MAX_PARTS * sizeof(*kind));
	for (*n = 0; strpbrk(c->run->gpu, "+;") && (item = mq_text_next(&text, "+;", c->arena)); ++*n) {
		if (*n == MQ_CASE_MAX_PARTS)
			return mq_bad(err, "gpu '%s': more than %d kinds", c->run->gpu, MQ_CASE_MAX_PARTS);
		item = read_count(item, &kind[*n].nodes, c->arena);
		MQ_TRY(mq_score_device(c->options->calib, item, &kind[*n].device, err));
		if (!kind[*n].nodes || kind[*n].nodes > c->n_devices)
			return mq_bad(err, "gpu '%s': how many of each? Write \"12x V100 + 4x T4\"", c->run->gpu);
	}
	return MQ_OK;
}

static enum mq_status platform_of_columns(struct mq_case *c, struct mq_err *err)
{
	const struct mq_run *r = c->run;
	struct mq_case_part kind[MQ_CASE_MAX_PARTS] = { { 0 } };
	uint32_t per_node = USUAL_GPUS, n, sum = 0;
	const char *device, *mix = "";

	if (r->gpus_per_node >= 1)
		per_node = (uint32_t)r->gpus_per_node;
	else if (r->nodes >= 1)
		per_node = (uint32_t)ceil(r->gpus / r->nodes);
	per_node = per_node < c->n_devices ? per_node : c->n_devices;
	MQ_TRY(kinds_of(c, kind, &n, err));
	for (uint32_t i = 0; i < n; sum += kind[i++].nodes)
		mix = mq_arena_printf(c->arena, "%s%s%s", mix, i ? "+" : "",
				      mix_of(kind[i].device, kind[i].nodes, per_node, c->arena));
	if (n && sum != c->n_devices)
		return mq_bad(err, "gpu '%s' and placement have %u devices, the column gpus %u", r->gpu, sum,
			      c->n_devices);
	if (!n) {
		MQ_TRY(mq_score_device(c->options->calib, r->gpu, &device, err));
		mix = mq_arena_printf(c->arena, "%s nodes=%u gpus=%u", device, (c->n_devices + per_node - 1) / per_node,
				      per_node);
	}
	c->platform = mq_arena_printf(c->arena, "gpu=%s", mix);
	c->network = "default";
	mq_case_assume(c, "platform from gpu, gpus, gpus_per_node and nodes, with the device's usual network");
	return MQ_OK;
}

/* Does the platform have several kinds of devices, and the row a placement on them? */
static bool is_placed(const struct mq_case *c)
{
	bool several = false;

	for (uint32_t i = 1; i < c->n_parts; i++)
		several |= strcmp(c->part[i].device, c->part[0].device) != 0;
	return several && *c->run->placement;
}

/* ---- platform ------------------------------------------------------------------------------------ */

static enum mq_status read_parts(struct mq_case *c, struct mq_err *err)
{
	struct mq_platform_group group[MQ_CASE_MAX_PARTS];
	struct mq_platform_spec spec, usual;
	uint32_t first = 0;

	mq_platform_spec_init(&spec);
	mq_platform_spec_init(&usual);
	MQ_TRY(mq_platform_spec_parse(c->platform, &spec, c->arena, err));
	MQ_TRY(mq_platform_spec_groups(&spec, c->options->calib, MQ_CASE_MAX_PARTS, group, &c->n_parts, c->arena, err));
	for (uint32_t i = 0; i < c->n_parts; i++) {
		c->part[i] = (struct mq_case_part){ group[i].type, group[i].nodes, group[i].gpus, first };
		first += group[i].nodes * group[i].gpus;
	}
	if (first < c->n_devices)
		return mq_bad(err, "platform '%s' has %u devices, the column gpus %u", c->platform, first,
			      c->n_devices);
	if (c->n_parts == 1 && c->part[0].nodes == 1)
		c->network = "none";
	c->fabric = mq_fabric_name(mq_platform_spec_network(&spec));
	spec.gpu = usual.gpu;
	spec.nodes = usual.nodes;
	spec.gpus = usual.gpus;
	c->links =
		mq_arena_printf(c->arena, "%s %s", c->part[0].device, mq_opt_print(mq_platform_opts, &spec, c->arena));
	return MQ_OK;
}

enum mq_status mq_case_machines(struct mq_case *c, struct mq_err *err)
{
	c->n_parts = 0;
	c->fabric = "unknown";
	if (*c->run->platform) {
		c->platform = c->run->platform;
		c->network = "row";
	} else {
		MQ_TRY(platform_of_columns(c, err));
	}
	if (!mq_platform_spec_is(c->platform)) {
		c->links = c->platform;
		return MQ_OK;
	}
	c->platform = mq_platform_spec_plain(mq_arena_strdup(c->arena, c->platform));
	MQ_TRY(read_parts(c, err));
	if (*c->run->placement && !is_placed(c))
		mq_case_assume(c, "placement not read: the devices are of one kind");
	return MQ_OK;
}

/* ---- devices of the shape ------------------------------------------------------------------------ */

enum mq_status mq_case_degrees(struct mq_case *c, struct mq_err *err)
{
	struct mq_shape *shape = &c->shape;
	uint32_t *tp = mq_arena_array(c->arena, shape->pp, uint32_t);

	if (!is_placed(c))
		return MQ_OK;
	shape->tp = 1;
	for (uint32_t s = 0; s < shape->pp; s++) {
		const char *stage = stage_of(c, s), *text = stage, *item, *device;
		uint32_t replicas = 0, one;

		if (!stage)
			return mq_bad(err, "placement '%s' does not list %u stages", c->run->placement, shape->pp);
		for (; (item = mq_text_next(&text, "|", c->arena)); replicas++) {
			MQ_TRY(read_replica(c, item, &device, &one, err));
			if (!one || (replicas && one != tp[s]))
				return mq_bad(
					err,
					"placement '%s': replicas of stage '%s' differ in tensor-parallel degree, "
					"which is not modelled",
					c->run->placement, stage);
			tp[s] = one;
		}
		if (s && replicas != shape->dp)
			return mq_bad(err, "placement '%s': stages of %u and %u replicas", c->run->placement, shape->dp,
				      replicas);
		shape->dp = replicas;
		shape->tp = tp[s] > shape->tp ? tp[s] : shape->tp;
	}
	shape->stage_tp = tp;
	return MQ_OK;
}

/* The next `n` ranks of a type that are not used yet. */
static enum mq_status take(const struct mq_case *c, const char *type, uint32_t n, uint32_t *used, uint32_t *device,
			   struct mq_err *err)
{
	for (uint32_t i = 0; i < c->n_parts && n; i++) {
		const struct mq_case_part *part = &c->part[i];

		while (n && !strcmp(part->device, type) && used[i] < part->nodes * part->per_node) {
			*device++ = part->first + used[i]++;
			n--;
		}
	}
	return n ? mq_bad(err, "placement '%s' takes more of %s than there are", c->run->placement, type) : MQ_OK;
}

enum mq_status mq_case_place(struct mq_case *c, struct mq_err *err)
{
	uint32_t used[MQ_CASE_MAX_PARTS] = { 0 }, *device, tp;

	if (!is_placed(c))
		return MQ_OK;
	if (c->shape.cp > 1)
		return mq_bad(err, "placement '%s' beside context parallelism", c->run->placement);
	c->shape.device = device = mq_arena_array(c->arena, c->n_devices, uint32_t);
	for (uint32_t s = 0; s < c->shape.pp; s++) {
		const char *text = stage_of(c, s), *item, *type;

		while ((item = mq_text_next(&text, "|", c->arena))) {
			MQ_TRY(read_replica(c, item, &type, &tp, err));
			if (device + tp > c->shape.device + c->n_devices)
				return mq_bad(err, "placement '%s' takes more than %u devices", c->run->placement,
					      c->n_devices);
			MQ_TRY(take(c, type, tp, used, device, err));
			device += tp;
		}
	}
	if (device != c->shape.device + c->n_devices)
		return mq_bad(err, "placement '%s' takes %u devices, the column gpus has %u", c->run->placement,
			      (uint32_t)(device - c->shape.device), c->n_devices);
	return MQ_OK;
}

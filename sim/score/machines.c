/*
 * machines.c - the machines of a row of measurements: one kind, or several side by side.
 *
 * A row of mixed devices names them in `gpu` with their numbers ("12x V100 + 4x T4"), or stage by stage
 * in `placement` ("RTX-3090xTP2|RTX-2080xTP2 ; ..."): see row.h. Every kind's machines come from
 * its own row of systems.csv; ranks run through the kinds in the order in which they are named.
 *
 * Not modelled: replicas of one stage that differ in tensor-parallel degree, networks of several kinds
 * (all hang on the weakest).
 */
#include "score/row.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "score/tables.h"
#include "hardware/platform/generate.h"

static const char *trim(const char *text, size_t n, struct mq_arena *arena)
{
	while (n && isspace((unsigned char)*text))
		text++, n--;
	while (n && isspace((unsigned char)text[n - 1]))
		n--;
	return mq_arena_printf(arena, "%.*s", (int)n, text);
}

/* Cuts the next piece, up to one of the separators, off `*text`; NULL at the end. */
static const char *next_piece(const char **text, const char *separators, struct mq_arena *arena)
{
	size_t n = strcspn(*text, separators);
	const char *piece = trim(*text, n, arena);

	if (!**text)
		return NULL;
	*text += n + ((*text)[n] != '\0');
	return piece;
}

/* ---- kinds of machines --------------------------------------------------------------------------- */

static enum mq_status system_of(const struct mq_score_tables *t, const struct mq_case *c, const char *gpu,
				struct mq_system *system, struct mq_err *err)
{
	struct mq_run run = *c->run;

	run.gpu = gpu;
	return mq_system_find(t, &run, system, err);
}

static struct mq_case_part *part_of(struct mq_case *c, const char *device)
{
	for (uint32_t i = 0; i < c->n_parts; i++)
		if (!strcmp(c->part[i].system.device, device))
			return &c->part[i];
	return NULL;
}

/* `gpus` more devices of a type. */
static enum mq_status add(const struct mq_score_tables *t, struct mq_case *c, const char *gpu, uint32_t gpus,
			  struct mq_err *err)
{
	struct mq_system system;
	struct mq_case_part *part;

	MQ_TRY(system_of(t, c, gpu, &system, err));
	part = part_of(c, system.device);
	if (!part && c->n_parts == MQ_CASE_MAX_PARTS)
		return mq_fail(err, MQ_EINPUT, "more than %d kinds of devices", MQ_CASE_MAX_PARTS);
	if (!part) {
		part = &c->part[c->n_parts++];
		*part = (struct mq_case_part){ .system = system };
	}
	part->gpus += gpus;
	return MQ_OK;
}

/* "12x V100", "12 V100", "V100 x12", "V100*12" or "V100": the type, and the number or 0. */
static const char *read_count(const char *item, uint32_t *count, struct mq_arena *arena)
{
	char *end;
	unsigned long before = strtoul(item, &end, 10);
	size_t n = strlen(item);

	*count = 0;
	if (end > item && (strchr("x* ", *end) && *end)) {
		*count = (uint32_t)before;
		end += strspn(end, "x* ");
		return trim(end, strlen(end), arena);
	}
	while (n && isdigit((unsigned char)item[n - 1]))
		n--;
	if (n > 1 && item[n] && (item[n - 1] == '*' || (item[n - 1] == 'x' && item[n - 2] == ' '))) {
		*count = (uint32_t)strtoul(item + n, NULL, 10);
		return trim(item, n - 1, arena);
	}
	return item;
}

/* "V100 (12) and T4 (4)", "V100:12;T4:4", "mixed: V100/T4", "3x V100 + 1x T4 nodes" without what names no type: words of
 * mixing are dropped, "and" is a separator, a number in brackets a count. */
static const char *plain_types(const char *text, struct mq_arena *arena)
{
	static const char *const noise[] = {
		"mixed", "mix", "of", "heterogeneous", "nodes", "node", "machines", "gpus"
	};
	const char *out = "", *start = text;

	while (*(text += strspn(text, " :()"))) {
		size_t n = strcspn(text, " :()");
		bool bracket = text > start && (text[-1] == '(' || text[-1] == ':') && strspn(text, "0123456789") == n,
		     drop = false;

		for (size_t i = 0; i < sizeof(noise) / sizeof(*noise); i++)
			drop |= n == strlen(noise[i]) && !strncasecmp(text, noise[i], n);
		if (n == 3 && !strncasecmp(text, "and", n))
			out = mq_arena_printf(arena, "%s+", out);
		else if (!drop)
			out = mq_arena_printf(arena, "%s%s%s%.*s", out, *out ? " " : "", bracket ? "x" : "", (int)n,
					      text);
		text += n;
	}
	return out;
}

/* The number with which the clause of `at` begins ("3x p3.8xlarge (4 V100 each)"); 1 if none. */
static unsigned long machines_before(const char *notes, const char *at)
{
	const char *p = at;
	char *end;

	while (p > notes && !strchr("+;,", p[-1]))
		p--;
	p += strspn(p, " ");
	unsigned long n = strtoul(p, &end, 10);
	return p < at && end > p && (*end == 'x' || *end == ' ') ? n : 1;
}

/* "4 V100" in the notes, for each of the machines that the clause counts where `times`; 0 if nowhere. */
static uint32_t noted_count(const char *notes, const char *type, bool times)
{
	for (const char *at = notes; (at = strcasestr(at, type)); at++) {
		const char *p = at;

		while (p > notes && (p[-1] == ' ' || p[-1] == 'x'))
			p--;
		while (p > notes && isdigit((unsigned char)p[-1]))
			p--;
		if (isdigit((unsigned char)*p))
			return (uint32_t)(strtoul(p, NULL, 10) * (times ? machines_before(notes, p) : 1));
	}
	return 0;
}

static enum mq_status count_from_notes(struct mq_case *c, const char *const *type, struct mq_err *err)
{
	for (int times = 0; times < 2; times++) {
		uint32_t sum = 0;

		for (uint32_t i = 0; i < c->n_parts; i++) {
			c->part[i].gpus = noted_count(c->run->notes, type[i], times);
			sum += c->part[i].gpus;
		}
		if (sum == c->n_devices)
			return MQ_OK;
	}
	return mq_fail(err, MQ_EINPUT, "gpu '%s': how many of each? Write as in \"12x V100 + 4x T4\"", c->run->gpu);
}

/* From the cell `gpu`. */
static enum mq_status from_gpu(const struct mq_score_tables *t, struct mq_case *c, struct mq_arena *arena,
			       struct mq_err *err)
{
	const char *text = plain_types(c->run->gpu, arena), *type[MQ_CASE_MAX_PARTS], *item;
	uint32_t sum = 0, count;

	if (!strpbrk(text, "+,/;&"))
		return add(t, c, c->run->gpu, c->n_devices, err);
	while ((item = next_piece(&text, "+,/;&", arena))) {
		uint32_t before = c->n_parts;

		item = read_count(item, &count, arena);
		MQ_TRY(add(t, c, item, count, err));
		if (c->n_parts > before)
			type[before] = item;
		sum += count;
	}
	if (c->n_parts == 1)
		c->part[0].gpus = sum = c->n_devices;
	if (!sum)
		return count_from_notes(c, type, err);
	if (sum * c->run->gpus_per_node == c->n_devices && sum != c->n_devices)
		for (uint32_t i = 0; i < c->n_parts; i++, sum = c->n_devices) /* machines are counted */
			c->part[i].gpus *= (uint32_t)c->run->gpus_per_node;
	if (sum != c->n_devices)
		return mq_fail(err, MQ_EINPUT, "gpu '%s' names %u devices, the row has %u", c->run->gpu, sum,
			       c->n_devices);
	return MQ_OK;
}

/* ---- placement: what runs where ------------------------------------------------------------------ */

/* The stages' text: the notes' where they list one per stage, otherwise the column's. */
static const char *placement(const struct mq_case *c, struct mq_arena *arena)
{
	const char *text = strstr(c->run->notes, "placement ");
	size_t n = 0;

	if (!text)
		return c->run->placement;
	text += strlen("placement ");
	/* " ; " goes on to the next stage, "; " to the next note */
	while (text[n] && !(text[n] == ';' && (!n || text[n - 1] != ' ')))
		n++;
	return trim(text, n, arena);
}

/* "TYPE" or "TYPExTPn". */
static const char *read_replica(const char *item, uint32_t tp, uint32_t *degree, struct mq_arena *arena)
{
	const char *mark = NULL;

	for (const char *p = item; (p = strstr(p, "xTP")); p++)
		mark = p;
	*degree = mark ? (uint32_t)strtoul(mark + 3, NULL, 10) : tp;
	return mark ? trim(item, (size_t)(mark - item), arena) : item;
}

/* Does the placement name more than one kind of device? */
static bool is_mixed(const struct mq_score_tables *t, const struct mq_case *c, const char *text, struct mq_arena *arena)
{
	struct mq_case probe = *c;
	struct mq_err ignored = MQ_ERR_INIT;
	const char *item;
	uint32_t tp;

	probe.n_parts = 0;
	while ((item = next_piece(&text, "|;", arena)))
		if (add(t, &probe, read_replica(item, 1, &tp, arena), 1, &ignored) != MQ_OK)
			return false;
	return probe.n_parts > 1;
}

static enum mq_status from_placement(const struct mq_score_tables *t, struct mq_case *c, const char *text,
				     struct mq_arena *arena, struct mq_err *err)
{
	const char *stages = text, *item;
	uint32_t n = 0, tp, repeat, pp = c->run->pp >= 1 ? (uint32_t)c->run->pp : 1;

	while (next_piece(&stages, ";", arena))
		n++;
	repeat = n == 1 ? pp : 1;
	while ((item = next_piece(&text, "|;", arena))) {
		item = read_replica(item, c->run->tp >= 1 ? (uint32_t)c->run->tp : 1, &tp, arena);
		MQ_TRY(add(t, c, item, tp * repeat, err));
	}
	for (uint32_t i = n = 0; i < c->n_parts; i++)
		n += c->part[i].gpus;
	return n == c->n_devices ? MQ_OK :
				   mq_fail(err, MQ_EINPUT,
					   "placement '%s' takes %u devices, the row "
					   "has %u",
					   c->run->placement, n, c->n_devices);
}

/*
 * GPUs that a job takes of each NVLink domain. Slurm's topology/block plugin cuts a job in segments of as many
 * machines each (--segment); one lies in a single domain, which holds as many of them as fit. Jobs that
 * fit a domain ask for one segment, larger ones for the largest that divides them evenly, as NVIDIA's own
 * performance runs do (Megatron-Bridge, scripts/performance/utils/executors.py): 64 machines of four GPUs
 * are four segments of 16, so 64 GPUs of each domain of 72. `tray`: GPUs of a machine.
 */
static uint32_t of_domain(uint32_t gpus, uint32_t tray, uint32_t domain)
{
	uint32_t machines = gpus / tray, most = domain / tray, segment = most;

	if (tray > domain || gpus % tray || machines <= most)
		return domain;
	while (machines % segment)
		segment--;
	return most / segment * segment * tray;
}

static void count_machines(struct mq_case *c)
{
	uint32_t first = 0;

	for (uint32_t i = 0; i < c->n_parts; i++) {
		struct mq_case_part *p = &c->part[i];

		p->per_node =
			isnan(c->run->gpus_per_node) || c->run->gpus_per_node < 1 ? 8 : (uint32_t)c->run->gpus_per_node;
		if (p->system.domain)
			p->per_node = of_domain(p->gpus, p->per_node, p->system.domain);
		if (p->per_node > p->gpus)
			p->per_node = p->gpus;
		p->nodes = (p->gpus + p->per_node - 1) / p->per_node;
		p->first = first;
		first += p->nodes * p->per_node;
	}
	c->system = c->part[0].system;
}

/* ---- platform ------------------------------------------------------------------------------------ */

static double node_GBps(const struct mq_platform_spec *spec)
{
	return fmax(spec->nics, 1) * spec->nic_GBps;
}

/* Machines of another kind in the same platform. Where kinds differ in lanes inside the machine, each
 * has its device's own; where they differ in the network, all hang on that of the weakest, each with
 * the bandwidth of its ports. */
static enum mq_status join(struct mq_platform_spec *spec, const struct mq_platform_spec *other, struct mq_err *err)
{
	if (spec->fabric != other->fabric)
		return mq_fail(err, MQ_EINPUT,
			       "machines of %s and %s differ in the fabric of their "
			       "network, and one platform has one",
			       spec->gpu, other->gpu);
	if (spec->intra != other->intra)
		spec->intra = MQ_INTRA_AUTO;
	if (spec->nvlink_GBps != other->nvlink_GBps)
		spec->nvlink_GBps = 0;
	if (spec->pcie_GBps != other->pcie_GBps)
		spec->pcie_GBps = 0;
	if (node_GBps(other) < node_GBps(spec)) {
		spec->network = other->network;
		spec->nics = other->nics;
		spec->nic_GBps = other->nic_GBps;
	}
	return MQ_OK;
}

static enum mq_status part_spec(const struct mq_case_part *p, struct mq_platform_spec *spec, struct mq_arena *arena,
				struct mq_err *err)
{
	mq_platform_spec_init(spec);
	MQ_TRY(mq_opt_parse(mq_platform_opts, spec, "systems.csv", p->system.platform, arena, err));
	spec->gpu = p->system.device;
	if (p->system.domain)
		spec->domain = p->per_node;
	return MQ_OK;
}

/* The platform of all kinds of machines of the row. */
static enum mq_status spec_of(const struct mq_case *c, struct mq_platform_spec *spec, struct mq_arena *arena,
			      struct mq_err *err)
{
	struct mq_platform_spec part[MQ_CASE_MAX_PARTS];
	const char *mix = NULL;

	for (uint32_t i = 0; i < c->n_parts; i++) {
		MQ_TRY(part_spec(&c->part[i], &part[i], arena, err));
		if (i)
			MQ_TRY(join(spec, &part[i], err));
		else
			*spec = part[i];
	}
	if (c->n_parts == 1) {
		spec->nodes = c->part[0].nodes;
		spec->gpus = c->part[0].per_node;
		return MQ_OK;
	}
	for (uint32_t i = 0; i < c->n_parts; i++) {
		mix = mq_arena_printf(arena, "%s%s%s*%ux%u", mix ? mix : "", mix ? "+" : "", part[i].gpu,
				      c->part[i].nodes, c->part[i].per_node);
		if (part[i].nic_GBps > 0)
			mix = mq_arena_printf(arena, "%s@%.17g", mix, node_GBps(&part[i]) / fmax(spec->nics, 1));
	}
	spec->gpu = mix;
	spec->nic_GBps = 0;
	return MQ_OK;
}

/* Words of the row on its network that found no system of their own: ports and rate out of them. */
static enum mq_status put_network(struct mq_case *c, struct mq_platform_spec *spec, struct mq_arena *arena,
				  struct mq_err *err)
{
	const char *words = c->run->inter;
	struct mq_network_words said;
	double nics = spec->nics ? spec->nics : c->part[0].per_node;

	c->network = "assumed";
	if (c->system.network_said || spec->nodes == 1 || c->n_parts > 1) {
		c->network = c->system.network_said ? "row" : c->n_parts > 1 ? "assumed" : "none";
		return MQ_OK;
	}
	if (!*words)
		return MQ_OK;
	if (!mq_network_read(words, c->part[0].per_node, &said)) {
		c->unread = words;
		return MQ_OK;
	}
	if (said.ports >= 1)
		nics = fmin(said.ports, c->part[0].per_node);
	spec->nics = (uint32_t)nics;
	spec->nic_GBps = said.node_GBps / nics;
	if (said.fabric)
		MQ_TRY(mq_opt_set(mq_platform_opts, spec, "network", "network", said.fabric, arena, err));
	c->network = "row";
	return MQ_OK;
}

static enum mq_status write_platform(struct mq_case *c, struct mq_arena *arena, struct mq_err *err)
{
	struct mq_platform_spec spec;

	MQ_TRY(spec_of(c, &spec, arena, err));
	MQ_TRY(put_network(c, &spec, arena, err));
	c->platform = mq_opt_print(mq_platform_opts, &spec, arena);
	return MQ_OK;
}

/* The row's own column: keys of the generator, of which the machines are read; a name or a file says all. */
static enum mq_status from_platform(const struct mq_score_tables *t, struct mq_case *c, struct mq_arena *arena,
				    struct mq_err *err)
{
	struct mq_platform_spec spec;
	const char *text = c->run->platform;

	c->platform = text;
	c->network = "row";
	if (!mq_platform_spec_is(text))
		return MQ_OK;
	mq_platform_spec_init(&spec);
	MQ_TRY(mq_platform_spec_parse(text, &spec, arena, err));
	c->platform = mq_opt_print(mq_platform_opts, &spec, arena);
	if (!spec.gpu || strpbrk(spec.gpu, "+*"))
		return MQ_OK; /* several kinds, in rank order */
	const struct mq_device_calib *type;
	MQ_TRY(mq_calib_type_get(t->calib, "gpu", spec.gpu, &type, err));
	c->part[0] = (struct mq_case_part){
		.system = { .name = type->name, .device = type->name, .platform = "", .host = 1, .network_said = true },
		.gpus = c->n_devices,
		.nodes = spec.nodes,
		.per_node = spec.gpus,
	};
	if (c->part[0].nodes * c->part[0].per_node < c->n_devices)
		return mq_fail(err, MQ_EINPUT, "platform '%s' has %u devices, the row %u", text,
			       c->part[0].nodes * c->part[0].per_node, c->n_devices);
	c->n_parts = 1;
	c->system = c->part[0].system;
	return MQ_OK;
}

enum mq_status mq_case_machines(const struct mq_score_tables *tables, struct mq_case *c, struct mq_arena *arena,
				struct mq_err *err)
{
	const char *where = placement(c, arena);

	c->n_parts = 0;
	if (*c->run->platform)
		return from_platform(tables, c, arena, err);
	if (is_mixed(tables, c, where, arena))
		MQ_TRY(from_placement(tables, c, where, arena, err));
	else
		MQ_TRY(from_gpu(tables, c, arena, err));
	count_machines(c);
	return write_platform(c, arena, err);
}

/* ---- devices of the shape ------------------------------------------------------------------------ */

/* The next `n` ranks of a kind, in `used` order, behind `device`. */
static enum mq_status take(struct mq_case *c, const char *type, uint32_t n, uint32_t *used, uint32_t *device,
			   struct mq_err *err)
{
	struct mq_case_part *part = part_of(c, type);
	uint32_t i = (uint32_t)(part - c->part);

	if (used[i] + n > part->gpus)
		return mq_fail(err, MQ_EINPUT, "placement '%s' takes more of %s than the %u there are",
			       c->run->placement, type, part->gpus);
	for (uint32_t k = 0; k < n; k++)
		device[k] = part->first + used[i]++;
	return MQ_OK;
}

/* The text of one stage; a single stage stands for all. NULL where the list is too short. */
static const char *stage_of(const char *text, uint32_t stage, struct mq_arena *arena)
{
	const char *piece = next_piece(&text, ";", arena);

	if (!*text)
		return stage ? NULL : piece;
	for (uint32_t s = 0; s < stage; s++)
		piece = next_piece(&text, ";", arena);
	return piece;
}

/* Replicas of one stage, and the tensor-parallel degree that all of them have. */
static enum mq_status stage_degrees(const struct mq_case *c, const char *stage, uint32_t *replicas, uint32_t *tp,
				    struct mq_arena *arena, struct mq_err *err)
{
	const char *item, *text = stage;
	uint32_t one;

	for (*replicas = 0; (item = next_piece(&text, "|", arena)); ++*replicas) {
		read_replica(item, c->run->tp >= 1 ? (uint32_t)c->run->tp : 1, &one, arena);
		if (!one || (*replicas && one != *tp))
			return mq_fail(err, MQ_EINPUT,
				       "placement '%s': replicas of stage '%s' differ "
				       "in tensor-parallel degree, which is not modelled",
				       c->run->placement, stage);
		*tp = one;
	}
	return MQ_OK;
}

enum mq_status mq_case_degrees(const struct mq_score_tables *tables, struct mq_case *c, struct mq_arena *arena,
			       struct mq_err *err)
{
	const char *where = placement(c, arena);
	struct mq_shape *shape = &c->shape;
	uint32_t *tp = mq_arena_array(arena, shape->pp, uint32_t), replicas;

	if (c->n_parts <= 1 || !is_mixed(tables, c, where, arena))
		return MQ_OK;
	shape->tp = 1;
	for (uint32_t s = 0; s < shape->pp; s++) {
		const char *stage = stage_of(where, strchr(where, ';') ? s : 0, arena);

		if (!stage)
			return mq_fail(err, MQ_EINPUT, "placement '%s' does not list %u stages", c->run->placement,
				       shape->pp);
		MQ_TRY(stage_degrees(c, stage, &replicas, &tp[s], arena, err));
		if (s && replicas != shape->dp)
			return mq_fail(err, MQ_EINPUT, "placement '%s': stages of %u and %u replicas",
				       c->run->placement, shape->dp, replicas);
		shape->dp = replicas;
		shape->tp = tp[s] > shape->tp ? tp[s] : shape->tp;
	}
	shape->stage_tp = tp;
	return MQ_OK;
}

static enum mq_status place_stage(const struct mq_score_tables *t, struct mq_case *c, const char *stage, uint32_t *used,
				  uint32_t *device, struct mq_arena *arena, struct mq_err *err)
{
	struct mq_system system;
	const char *item;
	uint32_t tp;

	for (; (item = next_piece(&stage, "|", arena)); device += tp) {
		item = read_replica(item, c->run->tp >= 1 ? (uint32_t)c->run->tp : 1, &tp, arena);
		MQ_TRY(system_of(t, c, item, &system, err));
		MQ_TRY(take(c, system.device, tp, used, device, err));
	}
	return MQ_OK;
}

enum mq_status mq_case_place(const struct mq_score_tables *tables, struct mq_case *c, struct mq_arena *arena,
			     struct mq_err *err)
{
	uint32_t used[MQ_CASE_MAX_PARTS] = { 0 }, *device, n = 0;
	const char *where = placement(c, arena);

	if (c->n_parts <= 1)
		return MQ_OK;
	device = mq_arena_array(arena, c->n_devices, uint32_t);
	c->shape.device = device;
	if (!is_mixed(tables, c, where, arena)) {
		for (uint32_t i = 0; i < c->n_parts; i++)
			for (uint32_t k = 0; k < c->part[i].gpus; k++)
				device[n++] = c->part[i].first + k;
		return MQ_OK;
	}
	if (c->shape.cp > 1)
		return mq_fail(err, MQ_EINPUT, "placement '%s' beside context parallelism", c->run->placement);
	for (uint32_t s = 0; s < c->shape.pp; n += c->shape.dp * c->shape.stage_tp[s++])
		MQ_TRY(place_stage(tables, c, stage_of(where, strchr(where, ';') ? s : 0, arena), used, device + n,
				   arena, err));
	return MQ_OK;
}

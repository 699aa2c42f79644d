/* build.c - builds the cluster of a generated platform from its keys, without a file: equal to the last digit to what
 * mq_platform_load makes of mq_platform_generate's XML (numbers pass through the text of the file).
 *
 * Only for fabrics of leaves around a core: a route leaves a machine, goes up and down the trunks and enters a machine.
 * SimGrid computes the routes of dragonfly and torus from tables (fabric.c), so those need a file.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "hardware/platform/spec.h"
#include "hardware/platform/impl.h"

enum { MAX_STEPS = 64, KNOWN = 16 };

/* Links of a route inside a machine, as offsets from the machine's first link: equal for all machines of a kind. */
struct stretch {
	uint32_t n, *link; /* NULL = not computed yet */
};

/* The machines of a group. */
struct machine {
	struct stretch *pair, *out, *in; /* [gpus][gpus], [gpus], [gpus] */
	uint32_t ports;                  /* link down; up is the next; MQ_NONE = the port is the last link inside */
};

struct number {
	bool given;
	double x, written;
};

/* The state of the sink. */
struct building {
	struct mq_gen gen; /* first: callbacks of the sink get it */
	struct mq_platform_spec spec;
	struct mq_cluster *cluster;
	enum mq_status status;
	struct mq_err *err;
	uint32_t link_room;
	uint32_t n_numbers;
	struct number number[KNOWN]; /* written() so far */
	struct machine machine[MQ_GEN_MAX_GROUPS];
	struct mq_site *site;              /* [n_nodes] */
	uint32_t n_steps, step[MAX_STEPS]; /* of the requested route */
};

/* A number as read back from the file. A platform has few distinct ones, which are cached. */
static double written(struct building *b, double x)
{
	struct number *known = b->number;
	char text[32];

	for (uint32_t i = 0; i < KNOWN && known[i].given; i++)
		if (known[i].x == x)
			return known[i].written;
	snprintf(text, sizeof(text), "%.9g", x);
	struct number *next = &known[b->n_numbers++ % KNOWN];
	*next = (struct number){ true, x, strtod(text, NULL) };
	return next->written;
}

static const char *end_with(struct mq_arena *arena, const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end) + 1;
	char *text = mq_arena_alloc(arena, n + m);

	memcpy(text, name, n);
	memcpy(text + n, end, m);
	return text;
}

static void add_link(struct building *b, const char *name, double bw_Bps, double lat_s, const char *class)
{
	struct mq_cluster *c = b->cluster;
	struct mq_link link = { .name = name, .bw_Bps = bw_Bps, .lat_s = lat_s };

	if (b->status == MQ_OK)
		b->status = mq_platform_class(&link, class, NULL, b->gen.network, b->err);
	MQ_PUSH(c->arena, c->link, c->n_links, b->link_room, link);
}

static void take_link(struct mq_gen *gen, const char *name, double GBps, double us, const char *class, bool duplex)
{
	struct building *b = (struct building *)gen;
	double bw_Bps = written(b, GBps) * 1e9, lat_s = written(b, us) * 1e-6;

	if (!duplex) {
		add_link(b, mq_arena_strdup(gen->arena, name), bw_Bps, lat_s, class);
		return;
	}
	add_link(b, end_with(gen->arena, name, "_DOWN"), bw_Bps, lat_s, class);
	add_link(b, end_with(gen->arena, name, "_UP"), bw_Bps, lat_s, class);
}

static void take_host(struct mq_gen *gen, const struct mq_gen_host *host)
{
	struct building *b = (struct building *)gen;
	const struct mq_platform_spec *spec = gen->spec;
	const struct mq_gen_group *g = host->group;

	b->cluster->device[gen->rank++] = (struct mq_device){
		.name = mq_arena_printf(gen->arena, "n%ug%u", host->node, host->local),
		.type = g->type,
		.kind = g->cpu ? MQ_CPU : mq_platform_kind(g->type),
		.node = host->node,
		.local = host->local,
		.socket = host->socket,
		.calib = MQ_NONE,
		.host_B = spec->host_memory_GB > 0 ? written(b, spec->host_memory_GB * 1e9) : 0,
		.memory_B = g->mem_bw_Bps > 0 ? written(b, g->memory_B) : 0,
		.mem_bw_Bps = g->mem_bw_Bps > 0 ? written(b, g->mem_bw_Bps) : 0,
		.speed_flops = written(b, g->tflops) * 1e12,
		.price_per_h = spec->price_per_h >= 0 ? written(b, spec->price_per_h) : (double)NAN,
		.power_W = spec->power_W >= 0 ? written(b, spec->power_W) : (double)NAN,
	};
	if (g->nics > b->cluster->nics_per_node)
		b->cluster->nics_per_node = g->nics;
}

MQ_COMPARE(by_name, struct mq_link, strverscmp(a->name, b->name))

static uint32_t find_link(const struct mq_cluster *c, const char *name)
{
	const struct mq_link key = { .name = name };
	const struct mq_link *found = bsearch(&key, c->link, c->n_links, sizeof(*c->link), by_name);

	mq_assert(found);
	return (uint32_t)(found - c->link);
}

static void add_step(struct building *b, uint32_t link)
{
	mq_assert(b->n_steps < MAX_STEPS);
	b->step[b->n_steps++] = link;
}

static void take_step(struct mq_gen *gen, const char *name)
{
	struct building *b = (struct building *)gen;

	add_step(b, find_link(b->cluster, name));
}

static const struct mq_gen_sink sink = { take_link, take_host, take_step };

/* Keeps the steps since `from` for all machines of the kind. */
static void keep(struct building *b, uint32_t from, uint32_t node, struct stretch *to)
{
	to->n = b->n_steps - from;
	to->link = mq_arena_array(b->gen.arena, to->n + 1, uint32_t);
	for (uint32_t i = 0; i < to->n; i++)
		to->link[i] = b->step[from + i] - b->site[node].first_link;
	b->n_steps = from;
}

static void add_stretch(struct building *b, uint32_t node, const struct stretch *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		add_step(b, b->site[node].first_link + s->link[i]);
}

static struct machine *machine_of(struct building *b, uint32_t node)
{
	return &b->machine[mq_gen_group_of(&b->gen, node) - b->gen.group];
}

static void inside(struct building *b, const struct mq_device *x, const struct mq_device *y)
{
	struct stretch *s =
		&machine_of(b, x->node)->pair[x->local * mq_gen_group_of(&b->gen, x->node)->gpus + y->local];

	if (!s->link) {
		mq_gen_path(&b->gen, x->node, x->local, y->local);
		keep(b, 0, x->node, s);
	}
	add_stretch(b, x->node, s);
}

static void way_out(struct building *b, const struct mq_device *x)
{
	const struct machine *m = machine_of(b, x->node);
	struct stretch *s = &m->out[x->local];
	uint32_t from = b->n_steps;

	if (!s->link) {
		mq_gen_path_out(&b->gen, x->node, x->local);
		keep(b, from, x->node, s);
	}
	add_stretch(b, x->node, s);
	if (m->ports != MQ_NONE)
		add_step(b, b->site[x->node].first_link + m->ports + 1);
}

static void way_in(struct building *b, const struct mq_device *y)
{
	const struct machine *m = machine_of(b, y->node);
	struct stretch *s = &m->in[y->local];
	uint32_t from;

	if (m->ports != MQ_NONE)
		add_step(b, b->site[y->node].first_link + m->ports);
	from = b->n_steps;
	if (!s->link) {
		mq_gen_path_in(&b->gen, y->node, y->local);
		keep(b, from, y->node, s);
	}
	add_stretch(b, y->node, s);
}

/* Up to the common switch of two machines, and down. */
static void between(struct building *b, uint32_t from, uint32_t to)
{
	const struct mq_site *x = &b->site[from], *y = &b->site[to];

	if (x->leaf == y->leaf)
		return;
	add_step(b, x->leaf_link + 1);
	if (x->pod != y->pod) {
		add_step(b, x->pod_link + 1);
		add_step(b, y->pod_link);
	}
	add_step(b, y->leaf_link);
}

static enum mq_status resolve(void *context, uint32_t src, uint32_t dst, struct mq_route *route, struct mq_err *err)
{
	const struct platform *p = context;
	struct building *b = (struct building *)p->gen;
	const struct mq_device *x = &p->cluster->device[src], *y = &p->cluster->device[dst];

	(void)err;
	b->n_steps = 0;
	if (x->node == y->node) {
		inside(b, x, y);
	} else {
		way_out(b, x);
		between(b, x->node, y->node);
		way_in(b, y);
	}
	uint32_t *link = mq_arena_array(p->cluster->arena, b->n_steps, uint32_t);
	memcpy(link, b->step, b->n_steps * sizeof(*link));
	route->n_links = b->n_steps;
	route->link = link;
	return MQ_OK;
}

/* The tables by which routes find their links. */
static void index_links(struct building *b)
{
	const struct mq_cluster *c = b->cluster;
	struct mq_gen *gen = &b->gen;
	char name[32];

	for (uint32_t i = 0; i < gen->n_groups; i++) {
		const struct mq_gen_group *g = &gen->group[i];
		struct machine *m = &b->machine[i];

		m->pair = mq_arena_array(gen->arena, (size_t)g->gpus * g->gpus, struct stretch);
		m->out = mq_arena_array(gen->arena, g->gpus, struct stretch);
		m->in = mq_arena_array(gen->arena, g->gpus, struct stretch);
		m->ports = MQ_NONE;
		snprintf(name, sizeof(name), "n%uports_DOWN", g->first_node);
		if (!gen->flat && gen->n_nodes > 1)
			m->ports = find_link(c, name) - b->site[g->first_node].first_link;
	}
}

/* A machine's links: copies of those of the first of its kind, with its name. */
static void add_machine(struct building *b, uint32_t node)
{
	struct mq_cluster *c = b->cluster;
	const struct mq_gen_group *g = mq_gen_group_of(&b->gen, node);
	struct mq_site *like = &b->site[g->first_node], *site = &b->site[node];
	uint32_t leaf = b->gen.leaf_of[node], first = c->n_links;
	char name[16];

	*site = (struct mq_site){ .kind = (uint32_t)(g - b->gen.group),
				  .leaf = leaf,
				  .pod = b->gen.pod_of[leaf],
				  .first_link = first,
				  .n_links = like->n_links,
				  .leaf_link = b->gen.n_leaves > 1 ? 2 * leaf : MQ_NONE,
				  .pod_link = MQ_NONE };
	if (site == like) {
		mq_gen_node_links(&b->gen, node);
		site->n_links = c->n_links - first;
		if (site->n_links)
			qsort(c->link + first, site->n_links, sizeof(*c->link), by_name);
		return;
	}
	snprintf(name, sizeof(name), "n%u", node);
	for (uint32_t i = 0; i < like->n_links; i++) {
		struct mq_link link = c->link[like->first_link + i];

		link.name = end_with(c->arena, name, link.name + 1 + strspn(link.name + 1, "0123456789"));
		MQ_PUSH(c->arena, c->link, c->n_links, b->link_room, link);
	}
}

/* Links in mq_platform_load's order, by name: leaves, machine by machine, pods; down before up. */
static void add_all_links(struct building *b)
{
	struct mq_cluster *c = b->cluster;
	struct mq_link *pod = NULL;
	uint32_t n = 0, room = 0;

	if (b->gen.n_leaves > 1)
		mq_gen_star_links(&b->gen);
	for (uint32_t i = 2 * b->gen.n_leaves; i < c->n_links; i++)
		MQ_PUSH(c->arena, pod, n, room, c->link[i]);
	c->n_links -= n;
	b->site = mq_arena_array(b->gen.arena, b->gen.n_nodes, struct mq_site);
	for (uint32_t node = 0; node < b->gen.n_nodes; node++)
		add_machine(b, node);
	for (uint32_t node = 0; n && node < b->gen.n_nodes; node++)
		b->site[node].pod_link = c->n_links + 2 * b->site[node].pod;
	for (uint32_t i = 0; i < n; i++)
		MQ_PUSH(c->arena, c->link, c->n_links, b->link_room, pod[i]);
}

static uint32_t links_between(void *context, uint32_t src, uint32_t dst, const uint32_t **link)
{
	const struct platform *p = context;
	const struct mq_route *route;
	struct mq_err err = MQ_ERR_INIT;
	enum mq_status status = mq_cluster_route(p->cluster, src, dst, &route, &err);

	mq_assert(status == MQ_OK); /* all devices of a built cluster are connected */
	*link = route->link;
	return route->n_links;
}

static const char *link_of(void *context, uint32_t id, double *usable_Bps)
{
	const struct platform *p = context;

	*usable_Bps = mq_link_usable_Bps(&p->cluster->link[id]);
	return p->cluster->link[id].name;
}

sg_host_t mq_platform_built_host(struct platform *p, uint32_t rank)
{
	const struct mq_device *d = &p->cluster->device[rank];

	if (!p->zone)
		p->zone = mq_on_demand_zone(&p->source);
	if (!p->host[rank])
		p->host[rank] = mq_on_demand_host(p->zone, d->name, d->speed_flops, rank);
	return p->host[rank];
}

bool mq_platform_is_built(const struct mq_platform_spec *spec)
{
	return mq_gen_is_star(spec);
}

enum mq_status mq_platform_build(const struct mq_platform_spec *spec, const struct mq_calib *calib,
				 struct mq_arena *arena, struct mq_cluster **result, struct mq_err *err)
{
	struct building *b = mq_arena_array(arena, 1, struct building);
	struct platform *platform = mq_arena_array(arena, 1, struct platform);
	struct mq_cluster *c = mq_cluster_new(arena);

	mq_assert(mq_platform_is_built(spec));
	b->spec = *spec;
	MQ_TRY(mq_gen_open(&b->spec, calib, arena, &b->gen, err));
	b->gen.sink = &sink;
	b->cluster = c;
	b->err = err;
	c->name = mq_gen_name(&b->gen);
	c->nvls = b->gen.nvls;
	c->sharp = spec->sharp;
	c->n_devices = (uint32_t)b->gen.n_devices;
	c->n_nodes = b->gen.n_nodes;
	c->device = mq_arena_array(arena, c->n_devices, struct mq_device);
	for (uint32_t n = 0; n < c->n_nodes; n++)
		mq_gen_node_hosts(&b->gen, n);
	add_all_links(b);
	MQ_TRY(b->status);
	index_links(b);
	*platform = (struct platform){
		.host = mq_arena_array(arena, c->n_devices, sg_host_t),
		.link = mq_arena_array(arena, c->n_links, sg_link_t),
		.cluster = c,
		.gen = &b->gen,
	};
	platform->source = (struct mq_on_demand){ platform, links_between, link_of, platform->link };
	c->resolve = resolve;
	c->context = platform;
	c->site = b->site;
	*result = c;
	return MQ_OK;
}

bool mq_platform_is_keys(const char *path)
{
	size_t n = strlen(path), m = strlen(MQ_PLATFORM_KEYS);

	return n >= m && !strcmp(path + n - m, MQ_PLATFORM_KEYS);
}

enum mq_status mq_platform_build_file(const char *path, const struct mq_calib *calib, struct mq_arena *arena,
				      struct mq_cluster **cluster, struct mq_err *err)
{
	struct mq_platform_spec spec;
	size_t size;
	char *text;

	MQ_TRY(mq_text_read(path, 1, arena, &text, &size, err));
	mq_platform_spec_init(&spec);
	if (mq_platform_spec_parse(text, &spec, arena, err) != MQ_OK)
		return mq_wrap(err, "%s", path);
	return mq_platform_build(&spec, calib, arena, cluster, err);
}

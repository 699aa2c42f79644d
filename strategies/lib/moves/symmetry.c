/* symmetry.c - see symmetry.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/moves/symmetry.h"

#include <stdlib.h>

#include "maquette/rng.h"
#include "lib/plans.h"

/* ---- exchanges that change no result --------------------------------------------------------------- */

struct search {
	const struct mq_cluster *cluster;
	const struct mq_classes *classes;
	const struct mq_route **route; /* [n * n]; NULL on the diagonal */
	uint32_t n, *to, *link_to;     /* the exchange under test: device -> device, link -> link */
};

static bool all_routes(struct search *s, struct mq_arena *arena)
{
	struct mq_err none = MQ_ERR_INIT;

	s->route = mq_arena_array(arena, (size_t)s->n * s->n, const struct mq_route *);
	for (uint32_t a = 0; a < s->n; a++)
		for (uint32_t b = 0; b < s->n; b++)
			if (a != b && mq_cluster_route(s->cluster, a, b, &s->route[a * s->n + b], &none) != MQ_OK)
				return false;
	return true;
}

/* Does the exchange map the route from a to b onto the route between their images? */
static bool maps_route(struct search *s, uint32_t a, uint32_t b)
{
	const struct mq_route *from = s->route[a * s->n + b], *to = s->route[s->to[a] * s->n + s->to[b]];

	if (from->n_links != to->n_links)
		return false;
	for (uint32_t i = 0; i < from->n_links; i++) {
		uint32_t l = from->link[i], m = to->link[i];

		if (s->link_to[l] == MQ_NONE && mq_links_alike(&s->cluster->link[l], &s->cluster->link[m]))
			s->link_to[l] = m;
		if (s->link_to[l] != m)
			return false;
	}
	return true;
}

/* Is exchanging x[n] and y[n] a symmetry of the cluster? An exchange is its own inverse, so a consistent map of links
 * is one to one. */
static bool is_symmetry(struct search *s, const uint32_t *x, const uint32_t *y, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!mq_classes_exchange(s->cluster, s->classes, x[i], y[i]))
			return false;
	for (uint32_t d = 0; d < s->n; d++)
		s->to[d] = d;
	for (uint32_t i = 0; i < n; i++)
		s->to[x[i]] = y[i], s->to[y[i]] = x[i];
	memset(s->link_to, 0xff, s->cluster->n_links * sizeof(*s->link_to));
	for (uint32_t a = 0; a < s->n; a++)
		for (uint32_t b = 0; b < s->n; b++)
			if (a != b && !maps_route(s, a, b))
				return false;
	return true;
}

/* ---- parts: devices, groups of them, machines, all ------------------------------------------------- */

static uint32_t list_devices(const struct mq_symmetry *m, const struct mq_symmetry_part *p, uint32_t *device)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n; i++)
		if (p->leaf)
			device[n++] = p->child[i];
		else
			n += list_devices(m, &m->part[p->child[i]], device + n);
	return n;
}

static uint32_t add_part(struct mq_symmetry *m, bool leaf, uint32_t room, struct mq_arena *arena)
{
	m->part[m->n_parts] = (struct mq_symmetry_part){ .child = mq_arena_array(arena, room, uint32_t),
							 .like = mq_arena_array(arena, room, uint32_t),
							 .leaf = leaf };
	return m->n_parts++;
}

static void add_child(struct mq_symmetry *m, uint32_t part, uint32_t child, uint32_t like)
{
	struct mq_symmetry_part *p = &m->part[part];

	p->like[p->n] = like;
	p->child[p->n++] = child;
	p->size += p->leaf ? 1 : m->part[child].size;
}

/* Adds a child to a part; its `like` is the first child that it can be exchanged with. */
static void add_below(struct search *s, struct mq_symmetry *m, uint32_t parent, uint32_t child)
{
	uint32_t x[MQ_SYMMETRY_MOST], y[MQ_SYMMETRY_MOST], like = m->part[parent].n;
	uint32_t n = list_devices(m, &m->part[child], x);

	for (uint32_t i = 0; i < m->part[parent].n && like == m->part[parent].n; i++) {
		const struct mq_symmetry_part *other = &m->part[m->part[parent].child[i]];

		if (m->part[parent].like[i] == i && other->size == n) {
			list_devices(m, other, y);
			if (is_symmetry(s, x, y, n))
				like = i;
		}
	}
	add_child(m, parent, child, like);
}

/* The part of a machine: its devices in groups of interchangeable ones. */
static uint32_t make_machine(struct search *s, struct mq_symmetry *m, uint32_t node, struct mq_arena *arena)
{
	uint32_t first = m->n_parts, last, machine;

	for (uint32_t d = 0; d < s->n; d++) {
		uint32_t group = MQ_NONE;

		if (s->cluster->device[d].node != node)
			continue;
		for (uint32_t g = first; g < m->n_parts && group == MQ_NONE; g++)
			if (is_symmetry(s, &m->part[g].child[0], &d, 1))
				group = g;
		if (group == MQ_NONE)
			group = add_part(m, true, s->n, arena);
		add_child(m, group, d, 0);
	}
	last = m->n_parts;
	machine = add_part(m, false, s->n, arena);
	for (uint32_t g = first; g < last; g++)
		add_below(s, m, machine, g);
	return machine;
}

void mq_symmetry_make(const struct mq_cluster *cluster, const struct mq_classes *classes, struct mq_arena *arena,
		      struct mq_symmetry *out)
{
	uint32_t n = cluster->n_devices, *machine;
	struct search s = { .cluster = cluster, .classes = classes, .n = n };

	*out = (struct mq_symmetry){ .n_devices = n };
	if (n > MQ_SYMMETRY_MOST || !all_routes(&s, arena))
		return;
	s.to = mq_arena_array(arena, n, uint32_t);
	s.link_to = mq_arena_array(arena, cluster->n_links, uint32_t);
	out->part = mq_arena_array(arena, 2 * (size_t)n + 1, struct mq_symmetry_part);
	machine = mq_arena_array(arena, cluster->n_nodes, uint32_t);
	for (uint32_t i = 0; i < cluster->n_nodes; i++)
		machine[i] = make_machine(&s, out, i, arena);
	uint32_t whole = add_part(out, false, cluster->n_nodes, arena);

	for (uint32_t i = 0; i < cluster->n_nodes; i++)
		add_below(&s, out, whole, machine[i]);
}

/* ---- canonical names -------------------------------------------------------------------------------- */

struct renaming {
	const struct mq_symmetry *symmetry;
	const uint64_t *role; /* [devices] hash of what the device does in the plan */
	uint32_t *to;         /* [devices] */
};

struct child {
	uint64_t hash;
	uint32_t index;
};

MQ_COMPARE(by_hash, struct child, MQ_ORDER(a->hash, b->hash) ?: MQ_ORDER(a->index, b->index))

/* The children of a part, interchangeable ones sorted by hash of role. order[i] takes the place of child i. */
static void sort_children(const struct renaming *r, const struct mq_symmetry_part *p, struct child *order);

static uint64_t hash_of(const struct renaming *r, const struct mq_symmetry_part *p)
{
	struct child order[MQ_SYMMETRY_MOST];
	uint64_t hash = MQ_HASH_INIT;

	sort_children(r, p, order);
	for (uint32_t i = 0; i < p->n; i++)
		hash = mq_hash(hash, &order[i].hash, sizeof(order[i].hash));
	return hash;
}

static void sort_children(const struct renaming *r, const struct mq_symmetry_part *p, struct child *order)
{
	struct child alike[MQ_SYMMETRY_MOST];

	for (uint32_t i = 0; i < p->n; i++) {
		uint32_t c = p->child[i];

		order[i] = (struct child){ p->leaf ? r->role[c] : hash_of(r, &r->symmetry->part[c]), i };
	}
	for (uint32_t first = 0; first < p->n; first++) {
		uint32_t n = 0, k = 0;

		for (uint32_t i = first; i < p->n; i++)
			if (p->like[i] == first)
				alike[n++] = order[i];
		qsort(alike, n, sizeof(*alike), by_hash);
		for (uint32_t i = first; i < p->n && k < n; i++)
			if (p->like[i] == first)
				order[i] = alike[k++];
	}
}

/* Maps the devices of `from` onto those of `to`, an interchangeable part or the same one. */
static void rename_part(struct renaming *r, const struct mq_symmetry_part *from, const struct mq_symmetry_part *to)
{
	struct child order[MQ_SYMMETRY_MOST];

	sort_children(r, from, order);
	for (uint32_t i = 0; i < from->n; i++) {
		uint32_t c = from->child[order[i].index];

		if (from->leaf)
			r->to[c] = to->child[i];
		else
			rename_part(r, &r->symmetry->part[c], &r->symmetry->part[to->child[i]]);
	}
}

/* A device's role: a hash of its coordinates in the configs that it is in, each config named by its first op. */
static uint64_t *roles_of(const struct mq_plan *plan, uint32_t n_devices, struct mq_arena *arena)
{
	uint64_t *role = mq_arena_array(arena, n_devices, uint64_t);
	bool *met = mq_arena_array(arena, plan->n_configs, bool);

	for (uint32_t op = 0; op < plan->n_ops; op++) {
		const struct mq_config *c = &plan->config[plan->config_of[op]];

		for (uint32_t i = 0; i < c->n_devices && !met[plan->config_of[op]]; i++) {
			uint32_t key[] = { op, i };

			role[c->device[i]] = mq_hash(role[c->device[i]], key, sizeof(key));
		}
		met[plan->config_of[op]] = true;
	}
	return role;
}

void mq_symmetry_canonical(const struct mq_symmetry *s, struct mq_plan *plan, struct mq_arena *arena)
{
	if (!s->n_parts)
		return;
	struct renaming r = { .symmetry = s,
			      .role = roles_of(plan, s->n_devices, arena),
			      .to = mq_arena_array(arena, s->n_devices, uint32_t) };
	const struct mq_symmetry_part *whole = &s->part[s->n_parts - 1];

	rename_part(&r, whole, whole);
	mq_plan_rename(plan, r.to, arena);
}

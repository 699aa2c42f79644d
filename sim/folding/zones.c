/* zones.c - finds parts of the cluster that are the same for a plan: see replica_flows.h.
 *
 * Cut the device lists of all stages into equal ranges, the zones, and map every device to the one at the same place in
 * the first zone. Assume that this maps machines, leaves and pods of each zone one to one to those of the first, their
 * links to equally fast links, and the communications of each zone to those of the first. Then rotating the device
 * lists by a zone is an automorphism of the cluster with all its flows, and no power of it keeps a link in place. So a
 * link carries what the first zone's link at its place does, and flows at the same place have equal rates. A group
 * inside a zone has replicas in each; a group with as many members in every zone is mapped to itself, and so must its
 * flows be (those of rings and exchanges are, those of trees are not).
 *
 * Not looked for: zones of other shapes, or of only some stages. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/map.h"
#include "folding/replica_flows.h"

/* A machine, leaf or pod. */
struct twin {
	uint32_t zone, first;   /* its zone; the first zone's one at the same place */
	uint32_t newest, other; /* in the first zone: the newest zone, and its one at the same place */
};

struct zoning {
	const struct mq_replica_flows *rf;
	uint32_t size, n;     /* positions in a zone; zones */
	struct twin *twin[3]; /* [nodes] machines, leaves, pods; no more than nodes of each */
	uint32_t *home;       /* see mq_replica_flows */
};

static bool same_speed(const struct mq_link *a, const struct mq_link *b)
{
	return a->class == b->class && a->fabric == b->fabric && a->bw_Bps == b->bw_Bps && a->share == b->share &&
	       a->lat_s == b->lat_s && a->fatpipe == b->fatpipe;
}

/* Maps a[0], whose links begin at a[1], to first[0] of the first zone; false: that contradicts the map so far, or a
 * link differs. */
static bool map_site(struct zoning *z, struct twin *t, uint32_t zone, const uint32_t a[2], const uint32_t first[2],
		     uint32_t n_links)
{
	const struct mq_link *link = z->rf->cluster->link;
	struct twin *it = &t[a[0]], *its = &t[first[0]];

	if (it->zone == MQ_NONE) {
		it->zone = zone;
		it->first = first[0];
		for (uint32_t i = 0; i < n_links; i++) {
			if (!same_speed(&link[a[1] + i], &link[first[1] + i]))
				return false;
			z->home[a[1] + i] = first[1] + i;
		}
	}
	if (its->newest != zone) {
		its->newest = zone;
		its->other = a[0];
	}
	return it->zone == zone && it->first == first[0] && its->other == a[0];
}

static bool map_device(struct zoning *z, uint32_t zone, uint32_t rank, uint32_t first)
{
	const struct mq_cluster *c = z->rf->cluster;
	const struct mq_device *d = &c->device[rank], *e = &c->device[first];
	const struct mq_site *x = &c->site[d->node], *y = &c->site[e->node];

	const uint32_t at[][2] = { { d->node, x->first_link }, { x->leaf, x->leaf_link }, { x->pod, x->pod_link } };
	const uint32_t to[][2] = { { e->node, y->first_link }, { y->leaf, y->leaf_link }, { y->pod, y->pod_link } };
	bool same = x->kind == y->kind && d->local == e->local && d->calib == e->calib;

	for (int i = 0; i < 3 && same; i++)
		same = at[i][1] == MQ_NONE || map_site(z, z->twin[i], zone, at[i], to[i], i ? 2 : x->n_links);
	return same;
}

static bool devices_rotate(struct zoning *z)
{
	const struct mq_fold *fold = z->rf->fold;
	const struct mq_schedule *s = z->rf->schedule;

	for (uint32_t zone = 0; zone < z->n; zone++)
		for (uint32_t i = 0; i < s->n_devices; i++) {
			const uint32_t *device = fold->device[fold->rank_of[s->device[i]]];

			if (fold->position[s->device[i]]) /* once for each stage */
				continue;
			for (uint32_t p = 0; p < z->size; p++)
				if (!map_device(z, zone, device[zone * z->size + p], device[p]))
					return false;
		}
	return true;
}

static bool is_inside(const struct zoning *z, const struct mq_members *group)
{
	for (uint32_t k = 0; k < group->n; k++)
		if (z->rf->fold->position[group->rank[k]] >= z->size)
			return false;
	return true;
}

/* Is a group with members in every zone mapped to itself by a rotation? */
static bool members_rotate(const struct zoning *z, const struct mq_members *group)
{
	const struct mq_fold *fold = z->rf->fold;
	uint32_t n = group->n / z->n;

	for (uint32_t k = n; k < group->n; k++)
		if (fold->rank_of[group->rank[k]] != fold->rank_of[group->rank[k - n]] ||
		    fold->position[group->rank[k]] != fold->position[group->rank[k - n]] + z->size)
			return false;
	return group->n % z->n == 0;
}

/* Are the first zone's replicas repeated in each further zone (group inside one zone), or mapped to themselves? */
static bool replicas_rotate(const struct zoning *z, const struct mq_members *group, const struct mq_bases *b,
			    bool inside)
{
	uint32_t n = inside ? b->n / z->n : b->n, n_here = inside ? group->n : group->n / z->n, last = 0;

	for (uint32_t k = 0; k < n_here; k++)
		last = last > z->rf->fold->position[group->rank[k]] ? last : z->rf->fold->position[group->rank[k]];
	for (uint32_t i = 0; i < b->n; i++)
		if (i < n ? last + b->base[i] >= z->size : b->base[i] != b->base[i - n] + z->size)
			return false;
	return n * (inside ? z->n : 1) == b->n;
}

static bool flows_rotate(const struct mq_coll_flows *flows, uint32_t n, uint32_t by)
{
	uint64_t here = 0, there = 0;

	for (uint32_t f = 0; f < flows->n_flows; f++) {
		const struct mq_flow *flow = &flows->flow[f];
		uint64_t of[2];

		memcpy(of, (double[]){ flow->bytes, flow->rate_Bps }, sizeof(of));
		of[0] = mq_map_mix(of[0], of[1]);
		here += mq_map_mix(of[0], (uint64_t)flow->src << 32 | flow->dst);
		there += mq_map_mix(of[0], (uint64_t)((flow->src + by) % n) << 32 | (flow->dst + by) % n);
	}
	return here == there;
}

/* Is a communication the same in every zone? */
static enum mq_status is_same_in_zones(const struct zoning *z, struct mq_replica_flows *rf, const struct mq_task *t,
				       bool *same, struct mq_err *err)
{
	struct mq_coll_flows *flows;
	uint32_t pair[2];

	if (t->kind != MQ_TASK_COLLECTIVE) {
		mq_replica_flows_ends(rf, t, pair);
		*same = rf->fold->position[pair[0]] == rf->fold->position[pair[1]];
		return MQ_OK;
	}
	const struct mq_members *group = &rf->fold->comm[t->comm];
	bool inside = is_inside(z, group);

	*same = !mq_coll_has_root(t->coll) && (inside || members_rotate(z, group)) &&
		replicas_rotate(z, group, &rf->bases[t->comm], inside);
	for (uint32_t i = 0; i < rf->bases[t->comm].n && *same && !inside; i++) {
		MQ_TRY(mq_replica_flows_expand(rf, t, i, &flows, err));
		*same = flows_rotate(flows, group->n, group->n / z->n);
	}
	return MQ_OK;
}

static void take(struct mq_replica_flows *rf, const struct zoning *z)
{
	rf->zone = z->size;
	rf->n_zones = z->n;
	rf->home = memcpy(mq_arena_array(rf->arena, rf->cluster->n_links, uint32_t), z->home,
			  rf->cluster->n_links * sizeof(*z->home));
	for (uint32_t c = 0; c < rf->schedule->n_comms; c++) {
		struct mq_bases *b = &rf->bases[c];

		b->spans = b->known && !is_inside(z, &rf->fold->comm[c]);
		b->n /= b->spans ? 1 : z->n;
	}
}

/* Number of the first stage's positions in its first machine, or in its first leaf or pod where the cluster has
 * such. */
static uint32_t least_zone(const struct mq_replica_flows *rf)
{
	const struct mq_cluster *c = rf->cluster;
	const uint32_t *device = rf->fold->device[rf->fold->rank_of[rf->schedule->device[0]]];
	const struct mq_site *p = &c->site[c->device[device[0]].node];
	uint32_t n = 1;

	for (; n < rf->fold->n_positions; n++) {
		const struct mq_site *q = &c->site[c->device[device[n]].node];

		if (p->pod_link != MQ_NONE ? q->pod != p->pod : p->leaf_link != MQ_NONE ? q->leaf != p->leaf : q != p)
			break;
	}
	return n;
}

enum mq_status mq_replica_flows_zones(struct mq_replica_flows *rf, const struct mq_task *const *task, uint32_t n,
				      struct mq_err *err)
{
	const struct mq_cluster *c = rf->cluster;
	uint32_t all = rf->fold->n_positions;

	for (uint32_t size = c->site ? least_zone(rf) : all; size < all && rf->n_zones == 1; size *= 2) {
		MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
		struct zoning z = { .rf = rf, .size = size, .n = all / size };
		bool same = all % size == 0;

		for (uint32_t p = size; p < all && same; p++)
			same = rf->fold->alike[p] == rf->fold->alike[p - size];
		if (!same)
			continue;
		for (int i = 0; i < 3; i++) /* 0xff: in no zone yet */
			z.twin[i] = memset(mq_arena_array(&scratch, c->n_nodes, struct twin), 0xff,
					   c->n_nodes * sizeof(struct twin));
		z.home = mq_arena_count(&scratch, c->n_links);
		same = devices_rotate(&z);
		for (uint32_t i = 0; i < n && same; i++)
			MQ_TRY(is_same_in_zones(&z, rf, task[i], &same, err));
		if (same)
			take(rf, &z);
	}
	return MQ_OK;
}

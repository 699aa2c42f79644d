/* zones.c - parts of the cluster that all look the same to a plan: see replica_flows.h.
 *
 * Cut the device lists of all stages into equal ranges, the zones, and let every device stand for the one at its place
 * in the first zone. If that maps machines, leaves and pods one to one, those of a zone to those of the first, and
 * their links to links as fast, and if the communications of a zone become those of the first, then turning the device
 * lists by a zone is an automorphism of the cluster with all flows on it, no power of which leaves a link in its
 * place. So every link carries what the one in its place in the first zone does, and flows in each other's place go
 * equally fast. Groups inside a zone have replicas in each; groups that have as many members in every zone turn into
 * themselves, and their flows must (rings and exchanges do, trees do not).
 *
 * Not looked for: zones of other shapes, and of fewer than all stages. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/map.h"
#include "folding/replica_flows.h"

/* A machine, leaf or pod. */
struct twin {
	uint32_t zone, first;   /* where it is; which of the first zone has its place there */
	uint32_t newest, other; /* of one in the first zone: the zone looked at last, and what has its place there */
};

struct zoning {
	const struct mq_replica_flows *im;
	uint32_t size, n;     /* positions of a zone, zones */
	struct twin *twin[3]; /* [nodes] machines, leaves, pods: there are no more of these */
	uint32_t *home;       /* see mq_replica_flows */
};

static bool as_fast(const struct mq_link *a, const struct mq_link *b)
{
	return a->class == b->class && a->fabric == b->fabric && a->bw_Bps == b->bw_Bps && a->share == b->share &&
	       a->lat_s == b->lat_s && a->fatpipe == b->fatpipe;
}

/* Notes that `a`, whose links begin at `link`, has the place of `first`; false: something speaks against it. */
static bool note(struct zoning *z, struct twin *t, uint32_t zone, const uint32_t a[2], const uint32_t first[2],
		 uint32_t n_links)
{
	const struct mq_link *link = z->im->cluster->link;
	struct twin *it = &t[a[0]], *its = &t[first[0]];

	if (it->zone == MQ_NONE) {
		it->zone = zone;
		it->first = first[0];
		for (uint32_t i = 0; i < n_links; i++) {
			if (!as_fast(&link[a[1] + i], &link[first[1] + i]))
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

static bool note_device(struct zoning *z, uint32_t zone, uint32_t rank, uint32_t first)
{
	const struct mq_cluster *c = z->im->cluster;
	const struct mq_device *d = &c->device[rank], *e = &c->device[first];
	const struct mq_site *x = &c->site[d->node], *y = &c->site[e->node];

	const uint32_t at[][2] = { { d->node, x->first_link }, { x->leaf, x->leaf_link }, { x->pod, x->pod_link } };
	const uint32_t to[][2] = { { e->node, y->first_link }, { y->leaf, y->leaf_link }, { y->pod, y->pod_link } };
	bool same = x->kind == y->kind && d->local == e->local && d->calib == e->calib;

	for (int i = 0; i < 3 && same; i++)
		same = at[i][1] == MQ_NONE || note(z, z->twin[i], zone, at[i], to[i], i ? 2 : x->n_links);
	return same;
}

static bool devices_turn(struct zoning *z)
{
	const struct mq_fold *fold = z->im->fold;
	const struct mq_schedule *s = z->im->schedule;

	for (uint32_t zone = 0; zone < z->n; zone++)
		for (uint32_t i = 0; i < s->n_devices; i++) {
			const uint32_t *device = fold->device[fold->rank_of[s->device[i]]];

			if (fold->position[s->device[i]]) /* once for each stage */
				continue;
			for (uint32_t p = 0; p < z->size; p++)
				if (!note_device(z, zone, device[zone * z->size + p], device[p]))
					return false;
		}
	return true;
}

static bool is_inside(const struct zoning *z, const struct mq_members *group)
{
	for (uint32_t k = 0; k < group->n; k++)
		if (z->im->fold->position[group->rank[k]] >= z->size)
			return false;
	return true;
}

/* A group in every zone: does it turn into itself? */
static bool members_turn(const struct zoning *z, const struct mq_members *group)
{
	const struct mq_fold *fold = z->im->fold;
	uint32_t n = group->n / z->n;

	for (uint32_t k = n; k < group->n; k++)
		if (fold->rank_of[group->rank[k]] != fold->rank_of[group->rank[k - n]] ||
		    fold->position[group->rank[k]] != fold->position[group->rank[k - n]] + z->size)
			return false;
	return group->n % z->n == 0;
}

/* Replicas in the first zone, and the same in each further one where the group is inside one. */
static bool replicas_turn(const struct zoning *z, const struct mq_members *group, const struct mq_bases *b, bool inside)
{
	uint32_t n = inside ? b->n / z->n : b->n, n_here = inside ? group->n : group->n / z->n, last = 0;

	for (uint32_t k = 0; k < n_here; k++)
		last = last > z->im->fold->position[group->rank[k]] ? last : z->im->fold->position[group->rank[k]];
	for (uint32_t i = 0; i < b->n; i++)
		if (i < n ? last + b->base[i] >= z->size : b->base[i] != b->base[i - n] + z->size)
			return false;
	return n * (inside ? z->n : 1) == b->n;
}

static bool flows_turn(const struct mq_coll_flows *flows, uint32_t n, uint32_t by)
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

/* Does a communication do the same in every zone? */
static enum mq_status look_at_task(const struct zoning *z, struct mq_replica_flows *im, const struct mq_task *t,
				   bool *same, struct mq_err *err)
{
	uint32_t pair[2], at;

	if (t->kind != MQ_TASK_COLLECTIVE) {
		mq_replica_flows_ends(im, t, pair);
		*same = im->fold->position[pair[0]] == im->fold->position[pair[1]];
		return MQ_OK;
	}
	const struct mq_members *group = &im->fold->comm[t->comm];
	bool inside = is_inside(z, group);

	*same = !mq_coll_has_root(t->coll) && (inside || members_turn(z, group)) &&
		replicas_turn(z, group, &im->bases[t->comm], inside);
	for (uint32_t i = 0; i < im->bases[t->comm].n && *same && !inside; i++) {
		MQ_TRY(mq_replica_flows_expand(im, t, i, &at, err));
		*same = flows_turn(&im->flows[at], group->n, group->n / z->n);
	}
	return MQ_OK;
}

static void take(struct mq_replica_flows *im, const struct zoning *z)
{
	im->zone = z->size;
	im->n_zones = z->n;
	im->home = memcpy(mq_arena_array(im->arena, im->cluster->n_links, uint32_t), z->home,
			  im->cluster->n_links * sizeof(*z->home));
	for (uint32_t c = 0; c < im->schedule->n_comms; c++) {
		struct mq_bases *b = &im->bases[c];

		b->spans = b->known && !is_inside(z, &im->fold->comm[c]);
		b->n /= b->spans ? 1 : z->n;
	}
}

/* Positions of the first stage in the first machine, or the first leaf or pod where there are more. */
static uint32_t least_zone(const struct mq_replica_flows *im)
{
	const struct mq_cluster *c = im->cluster;
	const uint32_t *device = im->fold->device[im->fold->rank_of[im->schedule->device[0]]];
	const struct mq_site *p = &c->site[c->device[device[0]].node];
	uint32_t n = 1;

	for (; n < im->fold->n_positions; n++) {
		const struct mq_site *q = &c->site[c->device[device[n]].node];

		if (p->pod_link != MQ_NONE ? q->pod != p->pod : p->leaf_link != MQ_NONE ? q->leaf != p->leaf : q != p)
			break;
	}
	return n;
}

enum mq_status mq_replica_flows_zones(struct mq_replica_flows *im, const struct mq_task *const *task, uint32_t n,
				      struct mq_err *err)
{
	const struct mq_cluster *c = im->cluster;
	uint32_t all = im->fold->n_positions;

	for (uint32_t size = c->site ? least_zone(im) : all; size < all && im->n_zones == 1; size *= 2) {
		MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
		struct zoning z = { .im = im, .size = size, .n = all / size };
		bool same = all % size == 0;

		for (uint32_t p = size; p < all && same; p++)
			same = im->fold->alike[p] == im->fold->alike[p - size];
		if (!same)
			continue;
		for (int i = 0; i < 3; i++) /* of no zone */
			z.twin[i] = memset(mq_arena_array(&scratch, c->n_nodes, struct twin), 0xff,
					   c->n_nodes * sizeof(struct twin));
		z.home = mq_arena_count(&scratch, c->n_links);
		same = devices_turn(&z);
		for (uint32_t i = 0; i < n && same; i++)
			MQ_TRY(look_at_task(&z, im, task[i], &same, err));
		if (same)
			take(im, &z);
	}
	return MQ_OK;
}

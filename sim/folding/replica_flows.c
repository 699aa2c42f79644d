/* replica_flows.c - see replica_flows.h: which replicas there are, what they ask for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "folding/replica_flows.h"

#include <math.h>

#include "maquette/map.h"
#include "maquette/rng.h"

struct mq_replica_flows *mq_replica_flows_new(const struct mq_cluster *cluster, const struct mq_calib *calib,
					      const struct mq_view *view, struct mq_arena *arena)
{
	struct mq_replica_flows *im = mq_arena_alloc(arena, sizeof(*im));

	*im = (struct mq_replica_flows){
		.cluster = cluster, .calib = calib, .schedule = view->schedule, .fold = view->fold, .arena = arena
	};
	im->bases = mq_arena_array(arena, view->schedule->n_comms, struct mq_bases);
	im->uncontended = mq_arena_array(arena, cluster->n_links, bool);
	im->expanded = mq_index_new(arena);
	im->routed = mq_index_new(arena);
	im->known = mq_index_new(arena);
	im->rank = mq_arena_array(arena, cluster->n_devices, uint32_t);
	im->load = mq_arena_array(arena, cluster->n_links, struct mq_link_load);
	im->zone = view->fold->n_positions;
	im->n_zones = 1;
	return im;
}

/* ---- replicas ------------------------------------------------------------------------------------- */

void mq_replica_flows_ends(const struct mq_replica_flows *im, const struct mq_task *t, uint32_t pair[2])
{
	bool send = t->kind == MQ_TASK_SEND;

	pair[0] = im->schedule->device[send ? t->device : t->peer];
	pair[1] = im->schedule->device[send ? t->peer : t->device];
}

static const struct mq_alike *alike(const struct mq_fold *fold, uint32_t rank)
{
	return fold->alike[fold->position[rank]];
}

/* Puts the group, moved by `base`, on its places on the first member's stage. False: a member comes to a position that
 * is not like its own, or a place is taken. */
static bool cover(const struct mq_fold *fold, const uint32_t *rank, uint32_t n, uint32_t base, bool *covered)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t to = fold->position[rank[i]] + base;
		bool here = fold->rank_of[rank[i]] == fold->rank_of[rank[0]];

		if (to >= fold->n_positions || fold->alike[to] != alike(fold, rank[i]) || (here && covered[to]))
			return false;
		covered[to] |= here;
	}
	return true;
}

/* Translations that cover what the members on the first one's stage stand for, each place once. Members on another
 * stage (tied embeddings) are at the same places there. */
static void find_bases(struct mq_replica_flows *im, const uint32_t *rank, uint32_t n, struct mq_bases *bases)
{
	const struct mq_fold *fold = im->fold;
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	bool *covered = mq_arena_array(&scratch, fold->n_positions, bool);
	bool *full = mq_arena_array(&scratch, fold->n_positions, bool);
	const struct mq_alike *first = alike(fold, rank[0]);
	uint32_t own = fold->position[rank[0]], room = 0;
	bool good = own == first->position[0];

	bases->known = true;
	for (uint32_t i = 0; i < first->n && good; i++) {
		uint32_t base = first->position[i] - own;

		if (covered[first->position[i]])
			continue;
		good = cover(fold, rank, n, base, covered);
		MQ_PUSH(im->arena, bases->base, bases->n, room, base);
	}
	for (uint32_t i = 0; i < n; i++) { /* those like each member are all covered */
		const struct mq_alike *a = alike(fold, rank[i]);

		if (full[a->position[0]] || fold->rank_of[rank[i]] != fold->rank_of[rank[0]])
			continue;
		full[a->position[0]] = true;
		for (uint32_t k = 0; k < a->n; k++)
			good = good && covered[a->position[k]];
	}
	if (!good)
		bases->n = 0;
}

void mq_replica_flows_shapes(const struct mq_replica_flows *im, const struct mq_task *t, double *shape)
{
	const struct mq_fold *fold = im->fold;
	const struct mq_members *group = &fold->comm[t->comm];
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	bool *covered = mq_arena_array(&scratch, fold->n_positions, bool);
	const struct mq_alike *first = alike(fold, group->rank[0]);
	struct mq_map seen;

	mq_map_init(&seen, &scratch, 64);
	memset(shape, 0, fold->n_positions * sizeof(*shape));
	for (uint32_t i = 0; i < first->n; i++) {
		uint32_t base = first->position[i] - fold->position[group->rank[0]];
		uint64_t h = MQ_HASH_INIT;

		if (covered[first->position[i]])
			continue;
		for (uint32_t k = 0; k < group->n; k++) {
			uint32_t to = fold->position[group->rank[k]] + base;
			h = mq_map_mix(h, to < fold->n_positions ? fold->alike[to]->position[0] : MQ_NONE);
		}
		for (uint32_t k = 0; k < group->n; k++) {
			uint32_t to = fold->position[group->rank[k]] + base;
			if (to < fold->n_positions) {
				covered[to] = true;
				shape[to] = 1 + mq_map_add(&seen, h);
			}
		}
	}
}

uint32_t mq_replica_flows_count(struct mq_replica_flows *im, const struct mq_task *t)
{
	if (t->kind != MQ_TASK_COLLECTIVE)
		return alike(im->fold, im->schedule->device[t->device])->n / im->n_zones;
	struct mq_bases *b = &im->bases[t->comm];
	if (!b->known)
		find_bases(im, im->fold->comm[t->comm].rank, im->fold->comm[t->comm].n, b);
	return b->n;
}

/* Where the members sit, without the names of the machines. Groups that look alike cost the same. */
static uint64_t look(const struct mq_cluster *cluster, const uint32_t *rank, uint32_t n)
{
	uint64_t h = MQ_HASH_INIT;
	uint32_t node = MQ_NONE, count = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct mq_device *d = &cluster->device[rank[i]];

		if (d->node != node)
			count++;
		node = d->node;
		h = mq_map_mix(h, (uint64_t)d->local << 40 ^ (uint64_t)count << 16 ^ d->calib);
	}
	return h;
}

/* The members of a replica, moved by `base`, into rank[]. */
static void move(struct mq_replica_flows *im, const uint32_t *own, uint32_t n, uint32_t base)
{
	const struct mq_fold *fold = im->fold;

	for (uint32_t k = 0; k < n; k++)
		im->rank[k] = fold->device[fold->rank_of[own[k]]][fold->position[own[k]] + base];
}

/* Groups that look alike get the same flows, by position: each kind of call is expanded once, for any root. */
enum mq_status mq_replica_flows_expand(struct mq_replica_flows *im, const struct mq_task *t, uint32_t i, uint32_t *at,
				       struct mq_err *err)
{
	uint32_t n = im->fold->comm[t->comm].n;
	struct mq_coll_request rq = mq_coll_request_of(t, n, im->rank);
	struct mq_coll_flows flows;
	bool found;

	move(im, im->fold->comm[t->comm].rank, n, im->bases[t->comm].base[i]);
	uint64_t key[] = { look(im->cluster, im->rank, n), n, t->coll, t->dtype, t->algo, t->proto, 0 };
	rq.closed = true;
	memcpy(&key[6], &t->bytes, sizeof(key[6]));
	*at = mq_index_put(im->expanded, key, sizeof(key), im->n_flows, &found);
	if (!found) {
		MQ_TRY(mq_collective_expand(im->cluster, im->calib, &rq, im->arena, &flows, err));
		MQ_PUSH(im->arena, im->flows, im->n_flows, im->flows_room, flows);
	}
	return MQ_OK;
}

/* A route on links of the first zone. */
static const struct mq_route *at_home(const struct mq_replica_flows *im, const struct mq_route *route)
{
	uint32_t *link = mq_arena_array(im->arena, route->n_links, uint32_t);
	struct mq_route *moved = mq_arena_alloc(im->arena, sizeof(*moved));

	for (uint32_t k = 0; k < route->n_links; k++)
		link[k] = im->home[route->link[k]];
	*moved = *route;
	moved->link = link;
	return moved;
}

/* Those of a group in every zone: of the members in the first. */
static enum mq_status find_routes(struct mq_replica_flows *im, const struct mq_task *t, uint32_t i, uint32_t at,
				  struct mq_replica_flow *replica, struct mq_err *err)
{
	const uint32_t key[] = { at, t->comm, i },
		       n_here = im->bases[t->comm].spans ? replica->n / im->n_zones : replica->n;
	bool found;
	uint32_t known = mq_index_put(im->routed, key, sizeof(key), im->n_routes, &found);

	if (!found) {
		struct mq_flow *flow = mq_arena_array(im->arena, replica->n_all, struct mq_flow);
		const struct mq_route **route = mq_arena_array(im->arena, replica->n_all, const struct mq_route *);
		struct mq_routed routed = { .flow = flow, .route = route };

		for (uint32_t f = 0; f < replica->n_all; f++) {
			const struct mq_flow *one = &replica->all[f];

			if (one->src >= n_here)
				continue;
			flow[routed.n] = *one;
			MQ_TRY(mq_cluster_route(im->cluster, replica->rank[one->src], replica->rank[one->dst],
						&route[routed.n], err));
			if (one->dst >= n_here)
				route[routed.n] = at_home(im, route[routed.n]);
			routed.n++;
		}
		MQ_PUSH(im->arena, im->routes, im->n_routes, im->routes_room, routed);
	}
	replica->n_flows = im->routes[known].n;
	replica->flow = im->routes[known].flow;
	replica->route = im->routes[known].route;
	return MQ_OK;
}

/* What is left of a closed ring for this root; MQ_NONE: all. */
static void open_ring(struct mq_replica_flows *im, const struct mq_task *t, struct mq_replica_flow *replica)
{
	uint32_t n = 0;

	if (im->chain_room < replica->n_flows) {
		im->chain_room = replica->n_flows;
		im->chain = mq_arena_array(im->arena, im->chain_room, struct mq_flow);
		im->chain_route = mq_arena_array(im->arena, im->chain_room, const struct mq_route *);
	}
	for (uint32_t f = 0; f < replica->n_flows; f++)
		if (!mq_coll_skips(t->coll, t->root, replica->flow[f].src, replica->flow[f].dst)) {
			im->chain[n] = replica->flow[f];
			im->chain_route[n++] = replica->route[f];
		}
	replica->n_all = replica->n_flows = n;
	replica->all = replica->flow = im->chain;
	replica->route = im->chain_route;
	replica->alone_s = NAN;
}

enum mq_status mq_replica_flows_get(struct mq_replica_flows *im, const struct mq_task *t, uint32_t i,
				    struct mq_replica_flow *replica, struct mq_err *err)
{
	uint32_t pair[2], at;
	double alone_s;

	*replica = (struct mq_replica_flow){ .n = 2, .rank = im->rank };
	if (t->kind == MQ_TASK_COLLECTIVE) {
		MQ_TRY(mq_replica_flows_expand(im, t, i, &at, err));
		replica->n = im->fold->comm[t->comm].n;
		replica->latency_s = im->flows[at].latency_s;
		replica->alone_s = im->flows[at].alone_s;
		replica->channels = im->flows[at].channels;
		replica->n_all = im->flows[at].n_flows;
		replica->all = im->flows[at].flow;
		MQ_TRY(find_routes(im, t, i, at, replica, err));
		if (mq_coll_has_root(t->coll))
			open_ring(im, t, replica);
		return MQ_OK;
	}
	mq_replica_flows_ends(im, t, pair);
	move(im, pair, 2, alike(im->fold, pair[0])->position[i] - im->fold->position[pair[0]]);
	im->one = (struct mq_flow){ .src = 0, .dst = 1, .bytes = t->bytes };
	replica->all = replica->flow = &im->one;
	replica->n_all = replica->n_flows = t->bytes > 0 && im->rank[0] != im->rank[1];
	replica->route = &im->one_route;
	if (replica->n_flows)
		MQ_TRY(mq_cluster_route(im->cluster, im->rank[0], im->rank[1], &im->one_route, err));
	return mq_p2p_expand(im->cluster, im->calib, im->rank[0], im->rank[1], t->bytes, &replica->latency_s,
			     &im->one.rate_Bps, &alone_s, err);
}

/* ---- links -------------------------------------------------------------------------------------- */

enum mq_status mq_replica_flows_links(struct mq_replica_flows *im, const struct mq_task *t, bool all,
				      mq_replica_flows_see *see, void *data, struct mq_err *err)
{
	uint32_t count = mq_replica_flows_count(im, t);

	for (uint32_t i = 0; i < count; i++) {
		struct mq_replica_flow replica;

		MQ_TRY(mq_replica_flows_get(im, t, i, &replica, err));
		for (uint32_t f = 0; f < replica.n_flows; f++)
			for (uint32_t k = 0; k < replica.route[f]->n_links; k++) {
				uint32_t l = replica.route[f]->link[k];

				if (all || (!im->uncontended[l] && !im->cluster->link[l].fatpipe))
					see(l, replica.flow[f].bytes, data);
			}
	}
	return MQ_OK;
}

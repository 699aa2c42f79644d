/* replica_flows.c - see replica_flows.h: finds the replicas of a communication and their flows.
 * SPDX-License-Identifier: Apache-2.0 */
#include "folding/replica_flows.h"

#include <math.h>

#include "maquette/map.h"
#include "maquette/rng.h"

struct mq_replica_flows *mq_replica_flows_new(const struct mq_cluster *cluster, const struct mq_calib *calib,
					      const struct mq_view *view, struct mq_arena *arena)
{
	struct mq_replica_flows *rf = mq_arena_alloc(arena, sizeof(*rf));

	*rf = (struct mq_replica_flows){
		.cluster = cluster, .calib = calib, .schedule = view->schedule, .fold = view->fold, .arena = arena
	};
	rf->bases = mq_arena_array(arena, view->schedule->n_comms, struct mq_bases);
	rf->uncontended = mq_arena_array(arena, cluster->n_links, bool);
	rf->expanded = mq_index_new(arena);
	rf->routed = mq_index_new(arena);
	rf->known = mq_index_new(arena);
	rf->rank = mq_arena_array(arena, cluster->n_devices, uint32_t);
	rf->load = mq_arena_array(arena, cluster->n_links, struct mq_link_load);
	rf->zone = view->fold->n_positions;
	rf->n_zones = 1;
	return rf;
}

/* ---- replicas ------------------------------------------------------------------------------------- */

void mq_replica_flows_ends(const struct mq_replica_flows *rf, const struct mq_task *t, uint32_t pair[2])
{
	bool send = t->kind == MQ_TASK_SEND;

	pair[0] = rf->schedule->device[send ? t->device : t->peer];
	pair[1] = rf->schedule->device[send ? t->peer : t->device];
}

static const struct mq_alike *alike(const struct mq_fold *fold, uint32_t rank)
{
	return fold->alike[fold->position[rank]];
}

/* Marks the positions of the group translated by `base` on the first member's stage. False: a member lands on a
 * position of another class, or on a marked one. */
static bool mark_positions(const struct mq_fold *fold, const uint32_t *rank, uint32_t n, uint32_t base, bool *covered)
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

/* Finds the translations that cover, once each, all positions of the classes of the members on the first member's
 * stage. Members on another stage (tied embeddings) are translated alike. */
static void find_bases(struct mq_replica_flows *rf, const uint32_t *rank, uint32_t n, struct mq_bases *bases)
{
	const struct mq_fold *fold = rf->fold;
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
		good = mark_positions(fold, rank, n, base, covered);
		MQ_PUSH(rf->arena, bases->base, bases->n, room, base);
	}
	for (uint32_t i = 0; i < n; i++) { /* is every position like a member covered? */
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

void mq_replica_flows_shapes(const struct mq_replica_flows *rf, const struct mq_task *t, double *shape)
{
	const struct mq_fold *fold = rf->fold;
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

uint32_t mq_replica_flows_count(struct mq_replica_flows *rf, const struct mq_task *t)
{
	if (t->kind != MQ_TASK_COLLECTIVE)
		return alike(rf->fold, rf->schedule->device[t->device])->n / rf->n_zones;
	struct mq_bases *b = &rf->bases[t->comm];
	if (!b->known)
		find_bases(rf, rf->fold->comm[t->comm].rank, rf->fold->comm[t->comm].n, b);
	return b->n;
}

/* Hashes the members' placement, machines numbered in order of appearance: groups of equal placement cost the same. */
static uint64_t placement(const struct mq_cluster *cluster, const uint32_t *rank, uint32_t n)
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

/* Fills rank[] with the members translated by `base`. */
static void translate(struct mq_replica_flows *rf, const uint32_t *own, uint32_t n, uint32_t base)
{
	const struct mq_fold *fold = rf->fold;

	for (uint32_t k = 0; k < n; k++)
		rf->rank[k] = fold->device[fold->rank_of[own[k]]][fold->position[own[k]] + base];
}

/* Groups of equal placement share flows between members: a call is expanded once for them, as a closed ring for any
 * root. */
enum mq_status mq_replica_flows_expand(struct mq_replica_flows *rf, const struct mq_task *t, uint32_t i,
				       struct mq_coll_flows **flows, struct mq_err *err)
{
	uint32_t n = rf->fold->comm[t->comm].n;
	struct mq_coll_request rq = mq_coll_request_of(t, n, rf->rank);
	bool found;

	translate(rf, rf->fold->comm[t->comm].rank, n, rf->bases[t->comm].base[i]);
	uint64_t key[] = { placement(rf->cluster, rf->rank, n), n, t->coll, t->dtype, t->algo, t->proto, 0 };
	rq.closed = true;
	memcpy(&key[6], &t->bytes, sizeof(key[6]));
	*flows = mq_index_value(rf->expanded, key, sizeof(key), sizeof(**flows), &found);
	return found ? MQ_OK : mq_collective_expand(rf->cluster, rf->calib, &rq, rf->arena, *flows, err);
}

/* The route on the first zone's links at the same places. */
static const struct mq_route *in_first_zone(const struct mq_replica_flows *rf, const struct mq_route *route)
{
	uint32_t *link = mq_arena_array(rf->arena, route->n_links, uint32_t);
	struct mq_route *moved = mq_arena_alloc(rf->arena, sizeof(*moved));

	for (uint32_t k = 0; k < route->n_links; k++)
		link[k] = rf->home[route->link[k]];
	*moved = *route;
	moved->link = link;
	return moved;
}

/* Finds the routes of the flows that begin in the first zone. */
static enum mq_status find_routes(struct mq_replica_flows *rf, const struct mq_task *t, uint32_t i,
				  struct mq_replica_flow *replica, struct mq_err *err)
{
	const uint64_t key[] = { (uintptr_t)replica->all, (uint64_t)t->comm << 32 | i };
	uint32_t n_here = rf->bases[t->comm].spans ? replica->n / rf->n_zones : replica->n;
	bool found;
	struct mq_routed *routed = mq_index_value(rf->routed, key, sizeof(key), sizeof(*routed), &found);

	if (!found) {
		struct mq_flow *flow = mq_arena_array(rf->arena, replica->n_all, struct mq_flow);
		const struct mq_route **route = mq_arena_array(rf->arena, replica->n_all, const struct mq_route *);

		for (uint32_t f = 0; f < replica->n_all; f++) {
			const struct mq_flow *one = &replica->all[f];

			if (one->src >= n_here)
				continue;
			flow[routed->n] = *one;
			MQ_TRY(mq_cluster_route(rf->cluster, replica->rank[one->src], replica->rank[one->dst],
						&route[routed->n], err));
			if (one->dst >= n_here)
				route[routed->n] = in_first_zone(rf, route[routed->n]);
			routed->n++;
		}
		routed->flow = flow;
		routed->route = route;
	}
	replica->n_flows = routed->n;
	replica->flow = routed->flow;
	replica->route = routed->route;
	return MQ_OK;
}

/* Removes the root's edges from the closed ring; root MQ_NONE: none. */
static void open_ring(struct mq_replica_flows *rf, const struct mq_task *t, struct mq_replica_flow *replica)
{
	uint32_t n = 0;

	if (rf->chain_room < replica->n_flows) {
		rf->chain_room = replica->n_flows;
		rf->chain = mq_arena_array(rf->arena, rf->chain_room, struct mq_flow);
		rf->chain_route = mq_arena_array(rf->arena, rf->chain_room, const struct mq_route *);
	}
	for (uint32_t f = 0; f < replica->n_flows; f++)
		if (!mq_coll_skips(t->coll, t->root, replica->flow[f].src, replica->flow[f].dst)) {
			rf->chain[n] = replica->flow[f];
			rf->chain_route[n++] = replica->route[f];
		}
	replica->n_all = replica->n_flows = n;
	replica->all = replica->flow = rf->chain;
	replica->route = rf->chain_route;
	replica->alone_s = NAN;
}

enum mq_status mq_replica_flows_get(struct mq_replica_flows *rf, const struct mq_task *t, uint32_t i,
				    struct mq_replica_flow *replica, struct mq_err *err)
{
	struct mq_coll_flows *flows;
	uint32_t pair[2];
	double alone_s;

	*replica = (struct mq_replica_flow){ .n = 2, .rank = rf->rank };
	if (t->kind == MQ_TASK_COLLECTIVE) {
		MQ_TRY(mq_replica_flows_expand(rf, t, i, &flows, err));
		replica->n = rf->fold->comm[t->comm].n;
		replica->latency_s = flows->latency_s;
		replica->alone_s = flows->alone_s;
		replica->channels = flows->channels;
		replica->n_all = flows->n_flows;
		replica->all = flows->flow;
		MQ_TRY(find_routes(rf, t, i, replica, err));
		if (mq_coll_has_root(t->coll))
			open_ring(rf, t, replica);
		return MQ_OK;
	}
	mq_replica_flows_ends(rf, t, pair);
	translate(rf, pair, 2, alike(rf->fold, pair[0])->position[i] - rf->fold->position[pair[0]]);
	rf->one = (struct mq_flow){ .src = 0, .dst = 1, .bytes = t->bytes };
	replica->all = replica->flow = &rf->one;
	replica->n_all = replica->n_flows = t->bytes > 0 && rf->rank[0] != rf->rank[1];
	replica->route = &rf->one_route;
	if (replica->n_flows)
		MQ_TRY(mq_cluster_route(rf->cluster, rf->rank[0], rf->rank[1], &rf->one_route, err));
	return mq_p2p_expand(rf->cluster, rf->calib, rf->rank[0], rf->rank[1], t->bytes, &replica->latency_s,
			     &rf->one.rate_Bps, &alone_s, err);
}

/* ---- links -------------------------------------------------------------------------------------- */

enum mq_status mq_replica_flows_links(struct mq_replica_flows *rf, const struct mq_task *t, bool all,
				      mq_replica_flows_see *see, void *data, struct mq_err *err)
{
	uint32_t count = mq_replica_flows_count(rf, t);

	for (uint32_t i = 0; i < count; i++) {
		struct mq_replica_flow replica;

		MQ_TRY(mq_replica_flows_get(rf, t, i, &replica, err));
		for (uint32_t f = 0; f < replica.n_flows; f++)
			for (uint32_t k = 0; k < replica.route[f]->n_links; k++) {
				uint32_t l = replica.route[f]->link[k];

				if (all || (!rf->uncontended[l] && !rf->cluster->link[l].fatpipe))
					see(l, i, replica.flow[f].bytes, data);
			}
	}
	return MQ_OK;
}

/* cluster.c - see cluster.h.
 *
 * An open-addressing hash table caches routes by pair of ranks: at most 2 in 3 slots are used, so a look-up costs a few
 * nanoseconds and memory grows with the pairs that are asked for, not with the square of the cluster. Nothing depends
 * on the order of the table. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/cluster.h"

#include <math.h>
#include <stdlib.h>

#include "base/index.h"
#include "base/text.h"

/* The key is in the slot, so probing does not touch the routes of other pairs. */
struct route_slot {
	uint64_t key; /* src * 2^32 + dst; 0 = free, since src != dst means not both are 0 */
	const struct mq_route *route;
};

struct mq_route_cache {
	uint32_t n_used, n_slots; /* n_slots is a power of two */
	struct route_slot *slot;
	uint32_t n_named; /* devices in the index of names */
	struct mq_index *name;
};

MQ_NAMES(mq_link_class_name, enum mq_link_class,
	 MQ_N_LINK_CLASSES, [MQ_LINK_NVLINK] = "nvlink", [MQ_LINK_XGMI] = "xgmi", [MQ_LINK_NVSWITCH] = "nvswitch",
	 [MQ_LINK_PCIE] = "pcie", [MQ_LINK_PCIE_SWITCH] = "pcie-switch", [MQ_LINK_SOCKET] = "socket",
	 [MQ_LINK_NIC] = "nic", [MQ_LINK_FABRIC] = "fabric", [MQ_LINK_HOST] = "host", [MQ_LINK_LOOPBACK] = "loopback",
	 [MQ_LINK_OTHER] = "other")

MQ_NAMES(mq_fabric_name, enum mq_fabric,
	 MQ_N_FABRICS, [MQ_FABRIC_NONE] = "none", [MQ_FABRIC_IB] = "ib", [MQ_FABRIC_ROCE] = "roce",
	 [MQ_FABRIC_ETHERNET] = "eth", [MQ_FABRIC_EFA] = "efa", [MQ_FABRIC_OMNIPATH] = "omnipath",
	 [MQ_FABRIC_TCPXO] = "tcpxo", [MQ_FABRIC_GIB] = "gib", [MQ_FABRIC_TCPX] = "tcpx")

struct mq_cluster *mq_cluster_new(struct mq_arena *arena)
{
	struct mq_cluster *cluster = mq_arena_array(arena, 1, struct mq_cluster);

	cluster->name = "cluster";
	cluster->arena = arena;
	cluster->cache = mq_arena_array(arena, 1, struct mq_route_cache);
	cluster->cache->n_slots = 64;
	cluster->cache->slot = mq_arena_array(arena, 64, struct route_slot);
	return cluster;
}

/* The mixer of splitmix64: neighbouring ranks must not share neighbouring slots. */
static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9U;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebU;
	return x ^ x >> 31;
}

static struct route_slot *find_slot(const struct mq_route_cache *cache, uint64_t key)
{
	uint32_t mask = cache->n_slots - 1, src = (uint32_t)(key >> 32), ahead = (uint32_t)key - src;
	/* Callers ask for pairs shifted by one at both ends in turn: eight of them are adjacent. */
	uint32_t i = (uint32_t)(mix((uint64_t)ahead << 32 | src >> 3) << 3 | (src & 7)) & mask;

	while (cache->slot[i].key && cache->slot[i].key != key)
		i = (i + 1) & mask;
	return &cache->slot[i];
}

static void grow_cache(struct mq_route_cache *cache, struct mq_arena *arena)
{
	struct route_slot *old = cache->slot;
	uint32_t n_old = cache->n_slots;

	cache->n_slots = n_old * 2;
	cache->slot = mq_arena_array(arena, cache->n_slots, struct route_slot);
	for (uint32_t i = 0; i < n_old; i++)
		if (old[i].key)
			*find_slot(cache, old[i].key) = old[i];
}

static uint64_t key_of(uint32_t src, uint32_t dst)
{
	return (uint64_t)src << 32 | dst;
}

static void keep(const struct mq_cluster *cluster, uint64_t key, struct mq_route *route)
{
	struct mq_route_cache *cache = cluster->cache;

	route->lat_s = 0;
	route->bw_Bps = INFINITY;
	for (uint32_t i = 0; i < route->n_links; i++) {
		const struct mq_link *link = &cluster->link[route->link[i]];

		route->lat_s += link->lat_s;
		route->bw_Bps = fmin(route->bw_Bps, link->bw_Bps);
	}
	if (3 * (cache->n_used + 1) > 2 * cache->n_slots)
		grow_cache(cache, cluster->arena);
	*find_slot(cache, key) = (struct route_slot){ key, route };
	cache->n_used++;
}

void mq_cluster_keep_route(const struct mq_cluster *cluster, uint32_t src, uint32_t dst, const uint32_t *link,
			   uint32_t n_links)
{
	uint64_t key = key_of(src, dst);

	mq_assert(src < cluster->n_devices && dst < cluster->n_devices && src != dst && n_links);
	if (find_slot(cluster->cache, key)->key)
		return;
	struct mq_route *route = mq_arena_array(cluster->arena, 1, struct mq_route);
	uint32_t *own = mq_arena_array(cluster->arena, n_links, uint32_t);

	memcpy(own, link, n_links * sizeof(*own));
	*route = (struct mq_route){ .n_links = n_links, .link = own };
	keep(cluster, key, route);
}

enum mq_status mq_cluster_route(const struct mq_cluster *cluster, uint32_t src, uint32_t dst,
				const struct mq_route **route, struct mq_err *err)
{
	if (src >= cluster->n_devices || dst >= cluster->n_devices || src == dst)
		return mq_bad(err, "platform '%s' has no route from device %u to %u; it has devices 0 to %u",
			      cluster->name, src, dst, cluster->n_devices - 1);
	uint64_t key = key_of(src, dst);
	struct route_slot *slot = find_slot(cluster->cache, key);

	if (!slot->key) {
		struct mq_route *fresh = mq_arena_array(cluster->arena, 1, struct mq_route);

		MQ_TRY(cluster->resolve(cluster->context, src, dst, fresh, err));
		if (!fresh->n_links)
			return mq_bad(err, "platform '%s': no route from '%s' to '%s'; add one, or a link between them",
				      cluster->name, cluster->device[src].name, cluster->device[dst].name);
		keep(cluster, key, fresh);
		slot = find_slot(cluster->cache, key);
	}
	*route = slot->route;
	return MQ_OK;
}

uint32_t mq_cluster_find(const struct mq_cluster *cluster, const char *device_name)
{
	struct mq_route_cache *cache = cluster->cache;
	bool found;

	if (cache->n_named != cluster->n_devices) {
		cache->name = mq_index_new(cluster->arena);
		cache->n_named = cluster->n_devices;
		for (uint32_t i = 0; i < cluster->n_devices; i++)
			mq_index_put(cache->name, cluster->device[i].name, strlen(cluster->device[i].name), i, &found);
	}
	return mq_index_put(cache->name, device_name, strlen(device_name), MQ_NONE, &found);
}

static bool positive(double x)
{
	return isfinite(x) && x > 0;
}

static bool absent_or_positive(double x)
{
	return isnan(x) || (isfinite(x) && x >= 0);
}

static enum mq_status check_device(const struct mq_cluster *cluster, uint32_t i, struct mq_err *err)
{
	const struct mq_device *d = &cluster->device[i];

	if (!d->name || !*d->name || !d->type || !*d->type)
		return mq_bad(err, "platform '%s': device %u has no name or type", cluster->name, i);
	if (!positive(d->speed_flops))
		return mq_bad(err, "platform '%s': device '%s' has speed %g; give a positive flop/s", cluster->name,
			      d->name, d->speed_flops);
	if (!(isfinite(d->memory_B) && d->memory_B >= 0))
		return mq_bad(err, "platform '%s': device '%s' has mq_memory_B %g; give bytes", cluster->name, d->name,
			      d->memory_B);
	if (!(isfinite(d->host_B) && d->host_B >= 0))
		return mq_bad(err, "platform '%s': device '%s' has mq_host_memory_B %g; give bytes", cluster->name,
			      d->name, d->host_B);
	if (!absent_or_positive(d->price_per_h) || !absent_or_positive(d->power_W))
		return mq_bad(err, "platform '%s': device '%s' has a negative price or power", cluster->name, d->name);
	if (d->node >= cluster->n_nodes)
		return mq_bad(err, "platform '%s': device '%s' is on node %u of %u", cluster->name, d->name, d->node,
			      cluster->n_nodes);
	return MQ_OK;
}

static enum mq_status check_link(const struct mq_cluster *cluster, uint32_t i, struct mq_err *err)
{
	const struct mq_link *l = &cluster->link[i];

	if (!l->name || !*l->name)
		return mq_bad(err, "platform '%s': link %u has no name", cluster->name, i);
	if (!positive(l->bw_Bps))
		return mq_bad(err, "platform '%s': link '%s' has bandwidth %g; give a positive B/s", cluster->name,
			      l->name, l->bw_Bps);
	if (!(isfinite(l->lat_s) && l->lat_s >= 0))
		return mq_bad(err, "platform '%s': link '%s' has latency %g; give seconds >= 0", cluster->name, l->name,
			      l->lat_s);
	return MQ_OK;
}

static enum mq_status check_unique(const struct mq_cluster *cluster, const char **names, uint32_t n, struct mq_err *err)
{
	qsort(names, n, sizeof(*names), mq_by_text);
	for (uint32_t i = 1; i < n; i++)
		if (!strcmp(names[i - 1], names[i]))
			return mq_bad(err, "platform '%s': the name '%s' is used twice; rename one", cluster->name,
				      names[i]);
	return MQ_OK;
}

enum mq_status mq_cluster_check(const struct mq_cluster *cluster, struct mq_err *err)
{
	if (!cluster->n_devices)
		return mq_bad(err, "platform '%s' has no device; give at least one host a <prop id=\"mq_type\">",
			      cluster->name);
	for (uint32_t i = 0; i < cluster->n_devices; i++)
		MQ_TRY(check_device(cluster, i, err));
	for (uint32_t i = 0; i < cluster->n_links; i++)
		MQ_TRY(check_link(cluster, i, err));

	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	const char **names = mq_arena_array(&scratch, cluster->n_devices + cluster->n_links, const char *);
	for (uint32_t i = 0; i < cluster->n_devices; i++)
		names[i] = cluster->device[i].name;
	MQ_TRY(check_unique(cluster, names, cluster->n_devices, err));
	for (uint32_t i = 0; i < cluster->n_links; i++)
		names[i] = cluster->link[i].name;
	return check_unique(cluster, names, cluster->n_links, err);
}

static enum mq_status resolve_flat(void *context, uint32_t src, uint32_t dst, struct mq_route *route,
				   struct mq_err *err)
{
	const struct mq_cluster *cluster = context;
	uint32_t *link = mq_arena_array(cluster->arena, 2, uint32_t);

	link[0] = 2 * src;
	link[1] = 2 * dst + 1;
	route->n_links = 2;
	route->link = link;
	return MQ_OK;
}

struct mq_cluster *mq_cluster_flat(struct mq_arena *arena, uint32_t n, const char *type, double speed_flops,
				   double memory_B, double bw_Bps, double lat_s)
{
	struct mq_cluster *cluster = mq_cluster_new(arena);

	cluster->name = "flat";
	cluster->n_devices = n;
	cluster->n_links = 2 * n;
	cluster->n_nodes = 1;
	cluster->device = mq_arena_array(arena, n, struct mq_device);
	cluster->link = mq_arena_array(arena, 2 * (size_t)n, struct mq_link);
	cluster->resolve = resolve_flat;
	cluster->context = cluster;
	type = mq_arena_strdup(arena, type);
	for (uint32_t i = 0; i < n; i++) {
		cluster->device[i] = (struct mq_device){
			.name = mq_arena_printf(arena, "d%u", i),
			.type = type,
			.kind = MQ_GPU,
			.local = i,
			.calib = MQ_NONE,
			.memory_B = memory_B,
			.speed_flops = speed_flops,
			.price_per_h = NAN,
			.power_W = NAN,
		};
		for (uint32_t down = 0; down < 2; down++)
			cluster->link[2 * i + down] = (struct mq_link){
				.name = mq_arena_printf(arena, "l%u_%s", i, down ? "DOWN" : "UP"),
				.class = MQ_LINK_OTHER,
				.bw_Bps = bw_Bps,
				.lat_s = lat_s,
			};
	}
	return cluster;
}

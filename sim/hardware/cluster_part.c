/* cluster_part.c - a subset of the devices of a cluster as a cluster. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "maquette/cluster.h"

static enum mq_status resolve(void *context, uint32_t src, uint32_t dst, struct mq_route *route, struct mq_err *err)
{
	const struct mq_cluster *part = context;
	const struct mq_route *found;

	MQ_TRY(mq_cluster_route(part->whole, part->rank[src], part->rank[dst], &found, err));
	*route = *found;
	return MQ_OK;
}

/* Numbers machines by their first device, as in the whole cluster, and devices inside their machine. */
static void number_nodes(struct mq_cluster *part, struct mq_arena *arena)
{
	uint32_t *node = mq_arena_none(arena, part->whole->n_nodes);
	uint32_t *used = mq_arena_array(arena, part->whole->n_nodes, uint32_t);

	for (uint32_t i = 0; i < part->n_devices; i++) {
		struct mq_device *d = &part->device[i];

		if (node[d->node] == MQ_NONE)
			node[d->node] = part->n_nodes++;
		d->local = used[d->node]++;
		d->node = node[d->node];
	}
}

enum mq_status mq_cluster_part(const struct mq_cluster *whole, const uint32_t *rank, uint32_t n, struct mq_arena *arena,
			       struct mq_cluster **part, struct mq_err *err)
{
	struct mq_cluster *p = mq_cluster_new(arena);
	struct mq_route_cache *cache = p->cache;
	bool *taken = mq_arena_array(arena, whole->n_devices, bool);
	uint32_t *copy = mq_arena_array(arena, n, uint32_t);

	if (!n)
		return mq_bad(err, "platform '%s': a part without devices", whole->name);
	*p = *whole;
	p->arena = arena;
	p->cache = cache;
	p->whole = whole;
	p->resolve = resolve;
	p->context = p;
	p->site = NULL;
	p->n_devices = n;
	p->n_nodes = 0;
	p->device = mq_arena_array(arena, n, struct mq_device);
	for (uint32_t i = 0; i < n; i++) {
		if (rank[i] >= whole->n_devices)
			return mq_bad(err, "platform '%s' has no device %u; it has 0 to %u", whole->name, rank[i],
				      whole->n_devices - 1);
		if (taken[rank[i]])
			return mq_bad(err, "device %u is given twice", rank[i]);
		taken[rank[i]] = true;
		copy[i] = rank[i];
		p->device[i] = whole->device[rank[i]];
	}
	p->rank = copy;
	number_nodes(p, arena);
	*part = p;
	return MQ_OK;
}

/* Reads an integer at *text and moves *text past it. */
static bool number(const char **text, uint64_t *value)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*value = strtoull(*text, &end, 10);
	*text = end;
	return !errno;
}

enum mq_status mq_cluster_ranks(const struct mq_cluster *cluster, const char *text, struct mq_arena *arena,
				uint32_t **rank, uint32_t *n, struct mq_err *err)
{
	const char *at = text;
	uint32_t room = 0;

	*rank = NULL;
	*n = 0;
	for (;;) {
		uint64_t from, to;
		bool good = number(&at, &from);

		to = from;
		if (good && *at == '-') {
			at++;
			good = number(&at, &to);
		}
		if (!good || to < from || (*at && *at != ','))
			return mq_bad(err, "devices '%s': give ranks as 0-31 or 0-3,8,10-12", text);
		if (to >= cluster->n_devices)
			return mq_bad(err, "devices '%s': platform '%s' has devices 0 to %u", text, cluster->name,
				      cluster->n_devices - 1);
		for (uint64_t r = from; r <= to; r++)
			MQ_PUSH(arena, *rank, *n, room, (uint32_t)r);
		if (!*at++)
			return MQ_OK;
	}
}

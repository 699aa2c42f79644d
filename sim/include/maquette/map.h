/* map.h - maps 64-bit keys to dense indices 0, 1, 2 ... in order of insertion.
 *
 * Open addressing with linear probing, at most half full, in an arena. The table's own order is never visible, so
 * hashing cannot change a decision. For longer keys mix them into one with mq_map_mix, and compare the entry at the
 * index. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_MAP_H
#define MAQUETTE_MAP_H

#include "maquette/arena.h"
#include "maquette/types.h"

struct mq_map {
	struct mq_arena *arena; /* borrowed */
	uint64_t *key;          /* [room] */
	uint32_t *index;        /* [room], MQ_NONE = free */
	uint32_t n, room;       /* room is a power of two */
};

MQ_API void mq_map_init(struct mq_map *map, struct mq_arena *arena, uint32_t expected);
/* The key's index; a new key gets index n, which grows. */
MQ_API uint32_t mq_map_add(struct mq_map *map, uint64_t key);
/* The key's index or MQ_NONE. */
MQ_API uint32_t mq_map_find(const struct mq_map *map, uint64_t key);

static inline uint64_t mq_map_mix(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0x9e3779b97f4a7c15u + b;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

#endif

/* map.c - see map.h. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/map.h"

static void table(struct mq_map *map, uint32_t room)
{
	map->room = room;
	map->key = mq_arena_array(map->arena, room, uint64_t);
	map->index = mq_arena_none(map->arena, room);
}

void mq_map_init(struct mq_map *map, struct mq_arena *arena, uint32_t expected)
{
	uint32_t room = 16;

	while (room < 2 * (uint64_t)expected && room < (1u << 30))
		room *= 2;
	*map = (struct mq_map){ .arena = arena };
	table(map, room);
}

/* The slot of the key, or the free slot where it belongs. */
static uint32_t probe(const struct mq_map *map, uint64_t key)
{
	uint32_t slot = (uint32_t)mq_map_mix(key, 0) & (map->room - 1);

	while (map->index[slot] != MQ_NONE && map->key[slot] != key)
		slot = (slot + 1) & (map->room - 1);
	return slot;
}

static void widen(struct mq_map *map)
{
	struct mq_map old = *map;

	table(map, old.room * 2);
	for (uint32_t i = 0; i < old.room; i++)
		if (old.index[i] != MQ_NONE) {
			uint32_t slot = probe(map, old.key[i]);
			map->key[slot] = old.key[i];
			map->index[slot] = old.index[i];
		}
}

uint32_t mq_map_add(struct mq_map *map, uint64_t key)
{
	uint32_t slot = probe(map, key);

	if (map->index[slot] != MQ_NONE)
		return map->index[slot];
	if (2 * (map->n + 1) > map->room) {
		widen(map);
		slot = probe(map, key);
	}
	map->key[slot] = key;
	return map->index[slot] = map->n++;
}

uint32_t mq_map_find(const struct mq_map *map, uint64_t key)
{
	return map->index[probe(map, key)];
}

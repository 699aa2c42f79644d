/* index.c - see index.h. SPDX-License-Identifier: Apache-2.0 */
#include "base/index.h"

#include "maquette/rng.h"

struct entry {
	uint64_t hash;
	uint32_t size, value;
	const void *bytes;
};

struct mq_index {
	struct mq_arena *arena;
	struct entry *entry;
	uint32_t n, room; /* room is a power of two */
};

struct mq_index *mq_index_new(struct mq_arena *arena)
{
	struct mq_index *index = mq_arena_alloc(arena, sizeof(*index));

	index->arena = arena;
	index->room = 64;
	index->entry = mq_arena_array(arena, index->room, struct entry);
	return index;
}

static struct entry *find(struct entry *table, uint32_t room, const struct entry *key)
{
	uint32_t at = (uint32_t)key->hash & (room - 1);

	while (table[at].bytes && (table[at].hash != key->hash || table[at].size != key->size ||
				   memcmp(table[at].bytes, key->bytes, key->size)))
		at = (at + 1) & (room - 1);
	return &table[at];
}

static void grow(struct mq_index *index)
{
	uint32_t room = index->room * 2;
	struct entry *bigger = mq_arena_array(index->arena, room, struct entry);

	for (uint32_t i = 0; i < index->room; i++)
		if (index->entry[i].bytes)
			*find(bigger, room, &index->entry[i]) = index->entry[i];
	index->entry = bigger;
	index->room = room;
}

uint32_t mq_index_put(struct mq_index *index, const void *bytes, size_t size, uint32_t fresh, bool *found)
{
	struct entry key = { mq_hash(MQ_HASH_INIT, bytes, size), (uint32_t)size, fresh, bytes };

	if (2 * index->n >= index->room)
		grow(index);
	struct entry *e = find(index->entry, index->room, &key);
	*found = e->bytes != NULL;
	if (*found)
		return e->value;
	void *copy = mq_arena_alloc(index->arena, size);
	if (size)
		memcpy(copy, bytes, size);
	key.bytes = copy;
	*e = key;
	index->n++;
	return fresh;
}

/* index.c - see index.h. SPDX-License-Identifier: Apache-2.0 */
#include "base/index.h"

#include "maquette/map.h"
#include "maquette/rng.h"

struct entry {
	struct entry *next; /* of the same hash */
	size_t size;
	void *value;
	unsigned char bytes[];
};

struct mq_index {
	struct mq_arena *arena;
	struct mq_map hashes;
	struct entry **entry; /* [room], a list for each hash */
	struct entry *last;   /* asked for: parts of one GEMM ask for the same again and again */
	uint32_t n, room;
};

struct mq_index *mq_index_new(struct mq_arena *arena)
{
	struct mq_index *index = mq_arena_array(arena, 1, struct mq_index);

	index->arena = arena;
	mq_map_init(&index->hashes, arena, 32);
	return index;
}

uint64_t mq_index_hash(uint64_t hash, const void *bytes, size_t size)
{
	uint64_t word;
	size_t at = 0;

	for (; at + sizeof(word) <= size; at += sizeof(word)) {
		memcpy(&word, (const char *)bytes + at, sizeof(word));
		hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 32;
	}
	return mq_hash(hash, (const char *)bytes + at, size - at);
}

void *mq_index_value(struct mq_index *index, const void *bytes, size_t size, size_t value_size, bool *found)
{
	*found = true;
	if (index->last && index->last->size == size && !memcmp(index->last->bytes, bytes, size))
		return index->last->value;
	uint32_t at = mq_map_add(&index->hashes, mq_index_hash(MQ_HASH_INIT, bytes, size));

	if (at == index->n)
		MQ_PUSH(index->arena, index->entry, index->n, index->room, NULL);
	for (struct entry *e = index->entry[at]; e; e = e->next)
		if (e->size == size && !memcmp(e->bytes, bytes, size)) {
			index->last = e;
			return e->value;
		}
	struct entry *e = mq_arena_alloc(index->arena, sizeof(*e) + size);
	*e = (struct entry){ .next = index->entry[at],
			     .size = size,
			     .value = mq_arena_array(index->arena, value_size, char) };
	if (size)
		memcpy(e->bytes, bytes, size);
	index->entry[at] = index->last = e;
	*found = false;
	return e->value;
}

uint32_t mq_index_put(struct mq_index *index, const void *bytes, size_t size, uint32_t fresh, bool *found)
{
	uint32_t *number = mq_index_value(index, bytes, size, sizeof(*number), found);

	if (!*found)
		*number = fresh;
	return *number;
}

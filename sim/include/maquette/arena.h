/* arena.h - memory with three lifetimes: a loaded object, a search run, one evaluation.
 *
 * An arena allocates zeroed memory and frees it all at once, or back to a mark. Only arena.c calls malloc; when memory
 * is exhausted it prints that and exits (70), so callers need no check. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_ARENA_H
#define MAQUETTE_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "maquette/err.h"

struct mq_arena_block;

struct mq_arena {
	struct mq_arena_block *block; /* owned: newest block, linked to the older ones */
	size_t used;                  /* bytes used in the newest block */
};

struct mq_arena_mark {
	struct mq_arena_block *block;
	size_t used;
};

#define MQ_ARENA_INIT   \
	{               \
		NULL, 0 \
	}

/* Frees a local arena at the end of its block. */
#define MQ_SCOPED __attribute__((cleanup(mq_arena_fini)))

/* Zeroed, aligned to 16 bytes; size 0 gives a valid pointer. Never NULL. */
MQ_API void *mq_arena_alloc(struct mq_arena *arena, size_t size);
/* Frees everything; the arena can be used again. */
MQ_API void mq_arena_fini(struct mq_arena *arena);
MQ_API struct mq_arena_mark mq_arena_mark(const struct mq_arena *arena);
/* Frees what was allocated since the mark (blocks are kept for reuse where cheap). */
MQ_API void mq_arena_rewind(struct mq_arena *arena, struct mq_arena_mark mark);

MQ_API char *mq_arena_strdup(struct mq_arena *arena, const char *text);
MQ_API char *mq_arena_printf(struct mq_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
MQ_API char *mq_arena_vprintf(struct mq_arena *arena, const char *format, va_list values)
	__attribute__((format(printf, 2, 0)));

/* n zeroed elements of a type. */
#define mq_arena_array(arena, n, type) ((type *)mq_arena_alloc((arena), (size_t)(n) * sizeof(type)))

/* An array of n times MQ_NONE. */
static inline uint32_t *mq_arena_none(struct mq_arena *arena, size_t n)
{
	return memset(mq_arena_array(arena, n, uint32_t), 0xff, n * sizeof(uint32_t));
}

/* An array of 0 to n - 1. */
static inline uint32_t *mq_arena_count(struct mq_arena *arena, uint32_t n)
{
	uint32_t *list = mq_arena_array(arena, n, uint32_t);

	for (uint32_t i = 0; i < n; i++)
		list[i] = i;
	return list;
}

/* The indices 0 to n - 1 by ascending key; equal keys by index. */
MQ_API uint32_t *mq_arena_order(struct mq_arena *arena, const double *key, uint32_t n);

/* Items by a key, as compressed rows: the edges of a node, the ops of a layer. Row k is list[first[k]] ..
 * list[first[k + 1] - 1]: the values of the items with key k, in their order; without `value` their indices. Items lie
 * `stride` bytes apart; keys of n and more belong to no row. */
MQ_API void mq_csr_make(struct mq_arena *arena, uint32_t n, uint32_t n_items, const uint32_t *key,
			const uint32_t *value, size_t stride, uint32_t **first, uint32_t **list);

/* Union-find: the root of an element; halves its path. At first every element is its own parent. */
static inline uint32_t mq_root(uint32_t *parent, uint32_t i)
{
	while (parent[i] != i)
		i = parent[i] = parent[parent[i]];
	return i;
}

/* Grow an array that lives in an arena: room for `need` elements, old ones copied, doubled in size.
 * `capacity` is updated. The old storage stays in the arena until it is freed. */
MQ_API void *mq_arena_grow(struct mq_arena *arena, void *array, size_t element, size_t count, size_t need,
			   uint32_t *capacity);
#define MQ_PUSH(arena, array, count, capacity, value)                                                             \
	do {                                                                                                      \
		if ((count) >= (capacity))                                                                        \
			(array) = mq_arena_grow((arena), (array), sizeof(*(array)), (count), (size_t)(count) + 1, \
						&(capacity));                                                     \
		(array)[(count)++] = (value);                                                                     \
	} while (0)

#endif

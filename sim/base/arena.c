/* arena.c - see arena.h. The only caller of malloc and free in the core. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "maquette/types.h"

enum { MIN_BLOCK = 64 * 1024, LARGE_BLOCK = 16 << 20 };

struct mq_arena_block {
	struct mq_arena_block *older;
	size_t size;
	_Alignas(16) unsigned char data[];
};

/* Huge pages, if the kernel has them: with small ones, runs of millions of tasks spend a third of their time
 * in page faults. */
static void use_large_pages(void *block, size_t size)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)block + page - 1) & ~(page - 1);

	if (size >= LARGE_BLOCK)
		madvise((void *)from, size - page, MADV_HUGEPAGE);
}

static void grow(struct mq_arena *arena, size_t need)
{
	size_t size = MIN_BLOCK;

	if (arena->block && arena->block->size > size / 2)
		size = arena->block->size * 2;
	if (size > (size_t)64 << 20)
		size = (size_t)64 << 20;
	if (size < need)
		size = need;
	struct mq_arena_block *block = malloc(sizeof(*block) + size);
	if (!block) {
		fprintf(stderr, "maquette: out of memory: %zu bytes asked for\n", size);
		exit(MQ_EBUG);
	}
	use_large_pages(block, size);
	block->older = arena->block;
	block->size = size;
	arena->block = block;
	arena->used = 0;
}

static size_t aligned(size_t size)
{
	mq_assert(size < (size_t)1 << 46);
	return (size + 15) & ~(size_t)15;
}

/* size: aligned. The memory is not cleared. */
static void *take(struct mq_arena *arena, size_t size)
{
	if (!arena->block || arena->block->size - arena->used < size)
		grow(arena, size);
	void *memory = arena->block->data + arena->used;
	arena->used += size;
	return memory;
}

void *mq_arena_alloc(struct mq_arena *arena, size_t size)
{
	size = aligned(size);
	return memset(take(arena, size), 0, size);
}

void mq_arena_fini(struct mq_arena *arena)
{
	mq_arena_rewind(arena, (struct mq_arena_mark){ NULL, 0 });
	while (arena->block) {
		struct mq_arena_block *older = arena->block->older;
		free(arena->block);
		arena->block = older;
	}
	arena->used = 0;
}

struct mq_arena_mark mq_arena_mark(const struct mq_arena *arena)
{
	/* Nothing allocated: the mark of an arena without blocks, so that a rewind keeps the largest block. */
	if (!arena->used && arena->block && !arena->block->older)
		return (struct mq_arena_mark){ NULL, 0 };
	return (struct mq_arena_mark){ arena->block, arena->used };
}

void mq_arena_rewind(struct mq_arena *arena, struct mq_arena_mark mark)
{
	/* The newest block is the largest: a full rewind keeps that one. */
	if (!mark.block && arena->block) {
		struct mq_arena_block *old = arena->block->older;
		while (old) {
			struct mq_arena_block *older = old->older;
			free(old);
			old = older;
		}
		arena->block->older = NULL;
		arena->used = 0;
		return;
	}
	while (arena->block != mark.block) {
		struct mq_arena_block *older = arena->block->older;
		free(arena->block);
		arena->block = older;
	}
	arena->used = mark.used;
}

char *mq_arena_strdup(struct mq_arena *arena, const char *text)
{
	size_t size = strlen(text) + 1;

	return memcpy(mq_arena_alloc(arena, size), text, size);
}

char *mq_arena_vprintf(struct mq_arena *arena, const char *format, va_list values)
{
	va_list again;

	va_copy(again, values);
	int size = vsnprintf(NULL, 0, format, values);
	mq_assert(size >= 0);
	char *text = mq_arena_alloc(arena, (size_t)size + 1);
	vsnprintf(text, (size_t)size + 1, format, again);
	va_end(again);
	return text;
}

char *mq_arena_printf(struct mq_arena *arena, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	char *text = mq_arena_vprintf(arena, format, values);
	va_end(values);
	return text;
}

void *mq_arena_grow(struct mq_arena *arena, void *array, size_t element, size_t count, size_t need, uint32_t *capacity)
{
	size_t size = *capacity ? *capacity : 16;

	while (size < need)
		size *= 2;
	mq_assert(size <= UINT32_MAX);
	size_t whole = aligned(size * element), had = aligned(*capacity * element), kept = count * element;
	unsigned char *old = array, *end = arena->block ? arena->block->data + arena->used : NULL, *bigger = old;

	if (old && old + had == end && arena->block->size - arena->used >= whole - had)
		arena->used += whole - had; /* it is the last allocation, with room after it */
	else
		bigger = take(arena, whole);
	if (count && bigger != old)
		memcpy(bigger, old, kept);
	memset(bigger + kept, 0, whole - kept);
	*capacity = (uint32_t)size;
	return bigger;
}

static int by_key(const void *left, const void *right, void *keys)
{
	const double *key = keys;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return MQ_ORDER(key[a], key[b]) ?: MQ_ORDER(a, b);
}

uint32_t *mq_arena_order(struct mq_arena *arena, const double *key, uint32_t n)
{
	uint32_t *order = mq_arena_count(arena, n);

	qsort_r(order, n, sizeof(*order), by_key, (void *)(uintptr_t)key);
	return order;
}

static uint32_t item(const uint32_t *array, size_t at_B)
{
	return *(const uint32_t *)(const void *)((const char *)array + at_B);
}

void mq_csr_make(struct mq_arena *arena, uint32_t n, uint32_t n_items, const uint32_t *key, const uint32_t *value,
		 size_t stride, uint32_t **first, uint32_t **list)
{
	/* counts are shifted by two, so that at[k + 1] is the next place of row k and ends as the start of row k + 1 */
	uint32_t *at = *first = mq_arena_array(arena, (size_t)n + 2, uint32_t);

	*list = mq_arena_array(arena, n_items, uint32_t);
	for (uint32_t i = 0; i < n_items; i++)
		if (item(key, i * stride) < n)
			at[item(key, i * stride) + 2]++;
	for (uint32_t k = 0; k < n; k++)
		at[k + 2] += at[k + 1];
	for (uint32_t i = 0; i < n_items; i++)
		if (item(key, i * stride) < n)
			(*list)[at[item(key, i * stride) + 1]++] = value ? item(value, i * stride) : i;
}

/* allocator.c - see allocator.h.
 *
 * Free blocks of a pool are a list sorted by size, then address. Addresses of segments only grow: a returned one is not
 * used again, which affects only the choice between equal blocks. SPDX-License-Identifier: Apache-2.0 */
#include "schedule/allocator.h"

#include "maquette/types.h"

enum { ROUND = 512, SMALL = 1 << 20, SMALL_SEGMENT = 2 << 20, MIDDLE = 10 << 20, MIDDLE_SEGMENT = 20 << 20 };

enum state { FREE, TAKEN, LATE, GONE };

struct block {
	uint64_t size, address;
	uint32_t before, behind; /* neighbours in the segment; MQ_NONE = none */
	uint8_t state;           /* enum state */
	uint8_t pool;            /* see pool_of */
};

struct list {
	uint32_t n, room;
	uint32_t *id;
};

/* A free block with its sort keys. */
struct place {
	uint64_t size, address;
	uint32_t id;
};

struct pool {
	uint32_t n, room;
	struct place *place;
};

struct mq_allocator {
	struct mq_arena *arena;
	uint64_t limit, address;
	struct mq_allocator_use use;
	uint32_t n_blocks, block_room;
	struct block *block;
	struct list unused; /* ids of blocks that are gone, for reuse */
	uint32_t passed;    /* entries of late[] that are freed already */
	struct list late;   /* blocks freed late, oldest first */
	struct pool pool[2 * MQ_N_POOL_STREAMS];
	mq_allocator_watch *watch; /* NULL = none */
	void *context;
};

static uint8_t pool_of(enum mq_pool_stream stream, bool small)
{
	return (uint8_t)(2 * (int)stream + small);
}

static bool is_small(uint8_t pool)
{
	return pool % 2;
}

struct mq_allocator *mq_allocator_new(struct mq_arena *arena, uint64_t limit)
{
	struct mq_allocator *a = mq_arena_array(arena, 1, struct mq_allocator);

	a->arena = arena;
	a->limit = limit;
	return a;
}

void mq_allocator_watched(struct mq_allocator *a, mq_allocator_watch *watch, void *context)
{
	a->watch = watch;
	a->context = context;
}

static void notify(const struct mq_allocator *a, enum mq_allocator_event event, uint32_t id)
{
	const struct block *b = &a->block[id];

	if (a->watch)
		a->watch(a->context, event, (enum mq_pool_stream)(b->pool / 2), b->address, b->size);
}

/* Index of the first free block that is not less than (size, address). */
static uint32_t find(const struct pool *pool, uint64_t size, uint64_t address)
{
	uint32_t low = 0, high = pool->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct place *at = &pool->place[middle];

		if (at->size < size || (at->size == size && at->address < address))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void add_free(struct mq_allocator *a, uint32_t id)
{
	struct block *b = &a->block[id];
	struct pool *pool = &a->pool[b->pool];
	struct place own = { b->size, b->address, id };
	uint32_t at = find(pool, b->size, b->address);

	b->state = FREE;
	MQ_PUSH(a->arena, pool->place, pool->n, pool->room, own);
	memmove(pool->place + at + 1, pool->place + at, (pool->n - 1 - at) * sizeof(*pool->place));
	pool->place[at] = own;
}

static void remove_at(struct pool *pool, uint32_t at)
{
	memmove(pool->place + at, pool->place + at + 1, (pool->n - at - 1) * sizeof(*pool->place));
	pool->n--;
}

static uint32_t new_block(struct mq_allocator *a, struct block block)
{
	if (a->unused.n) {
		uint32_t id = a->unused.id[--a->unused.n];

		a->block[id] = block;
		return id;
	}
	MQ_PUSH(a->arena, a->block, a->n_blocks, a->block_room, block);
	return a->n_blocks - 1;
}

static void retire(struct mq_allocator *a, uint32_t id)
{
	a->block[id].state = GONE;
	MQ_PUSH(a->arena, a->unused.id, a->unused.n, a->unused.room, id);
}

/* Returns the pool's segments that are wholly free to the device. */
static void give_back(struct mq_allocator *a, struct pool *pool)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < pool->n; i++) {
		uint32_t id = pool->place[i].id;

		if (a->block[id].before == MQ_NONE && a->block[id].behind == MQ_NONE) {
			a->use.reserved -= a->block[id].size;
			notify(a, MQ_SEGMENT_GIVEN, id);
			retire(a, id);
		} else {
			pool->place[kept++] = pool->place[i];
		}
	}
	pool->n = kept;
}

static bool has_room(const struct mq_allocator *a, uint64_t segment)
{
	return segment <= a->limit && a->use.reserved <= a->limit - segment;
}

/* A new segment as one taken block, or MQ_NONE. */
static uint32_t segment_for(struct mq_allocator *a, uint64_t size, uint8_t pool)
{
	uint64_t segment = is_small(pool) ? SMALL_SEGMENT :
			   size < MIDDLE  ? MIDDLE_SEGMENT :
					    (size + SMALL_SEGMENT - 1) / SMALL_SEGMENT * SMALL_SEGMENT;

	if (!has_room(a, segment)) {
		mq_allocator_pass(a, 0);
		for (size_t i = 0; i < sizeof(a->pool) / sizeof(*a->pool); i++)
			give_back(a, &a->pool[i]);
		a->use.returned++;
	}
	if (!has_room(a, segment))
		return MQ_NONE;
	a->use.reserved += segment;
	if (a->use.reserved > a->use.peak_reserved)
		a->use.peak_reserved = a->use.reserved;
	uint32_t id = new_block(a, (struct block){ .size = segment,
						   .address = a->address,
						   .before = MQ_NONE,
						   .behind = MQ_NONE,
						   .state = TAKEN,
						   .pool = pool });
	a->address += segment;
	notify(a, MQ_SEGMENT_TAKEN, id);
	return id;
}

/* Splits off the block's bytes behind `size` as a free block, if they are enough. */
static void split(struct mq_allocator *a, uint32_t id, uint64_t size)
{
	struct block whole = a->block[id];
	uint64_t rest = whole.size - size;

	if (is_small(whole.pool) ? rest < ROUND : rest <= SMALL)
		return;
	uint32_t next = new_block(a, (struct block){ .size = rest,
						     .address = whole.address + size,
						     .before = id,
						     .behind = whole.behind,
						     .pool = whole.pool });
	if (whole.behind != MQ_NONE)
		a->block[whole.behind].before = next;
	a->block[id].behind = next;
	a->block[id].size = size;
	add_free(a, next);
}

uint32_t mq_allocator_take(struct mq_allocator *a, enum mq_pool_stream stream, uint64_t bytes)
{
	uint64_t size = bytes < ROUND ? ROUND : (bytes + ROUND - 1) / ROUND * ROUND;
	uint8_t kind = pool_of(stream, size <= SMALL);
	struct pool *pool = &a->pool[kind];
	uint32_t at = find(pool, size, 0), id;

	if (at < pool->n) {
		id = pool->place[at].id;
		remove_at(pool, at);
		a->block[id].state = TAKEN;
	} else {
		id = segment_for(a, size, kind);
	}
	if (id == MQ_NONE)
		return MQ_NONE;
	split(a, id, size);
	a->use.live += a->block[id].size;
	if (a->use.live > a->use.peak_live)
		a->use.peak_live = a->use.live;
	notify(a, MQ_BLOCK_TAKEN, id);
	return id;
}

/* Merges the free block `other`, a neighbour of `id`, into `id`. */
static void join(struct mq_allocator *a, uint32_t id, uint32_t other)
{
	struct block *b = &a->block[id];
	const struct block *o = &a->block[other];

	remove_at(&a->pool[o->pool], find(&a->pool[o->pool], o->size, o->address));
	if (o->address < b->address) {
		b->address = o->address;
		b->before = o->before;
		if (o->before != MQ_NONE)
			a->block[o->before].behind = id;
	} else {
		b->behind = o->behind;
		if (o->behind != MQ_NONE)
			a->block[o->behind].before = id;
	}
	b->size += o->size;
	retire(a, other);
}

static void set_free(struct mq_allocator *a, uint32_t id)
{
	uint32_t before = a->block[id].before, behind = a->block[id].behind;

	notify(a, MQ_BLOCK_FREE, id);
	a->use.live -= a->block[id].size;
	if (before != MQ_NONE && a->block[before].state == FREE)
		join(a, id, before);
	if (behind != MQ_NONE && a->block[behind].state == FREE)
		join(a, id, behind);
	add_free(a, id);
}

void mq_allocator_give(struct mq_allocator *a, uint32_t block, bool late)
{
	mq_assert(block < a->n_blocks && a->block[block].state == TAKEN);
	notify(a, MQ_BLOCK_GIVEN, block);
	if (!late) {
		set_free(a, block);
		return;
	}
	a->block[block].state = LATE;
	MQ_PUSH(a->arena, a->late.id, a->late.n, a->late.room, block);
}

void mq_allocator_pass(struct mq_allocator *a, uint32_t ahead)
{
	struct list *late = &a->late;

	for (; a->passed + ahead < late->n; a->passed++)
		set_free(a, late->id[a->passed]);
	if (a->passed == late->n)
		a->passed = late->n = 0;
}

struct mq_allocator_use mq_allocator_used(const struct mq_allocator *a)
{
	return a->use;
}

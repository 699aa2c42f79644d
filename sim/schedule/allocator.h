/* allocator.h - PyTorch's caching allocator of device memory, rule by rule (c10's CUDACachingAllocator, its settings as
 * they are by default).
 *
 * A request is rounded up to 512 B. Those of up to 1 MiB live in one pool, larger ones in another, and each stream has
 * pools of its own. The smallest free block of the pool that is large enough serves, lowest address first. Where none
 * is, a segment is asked of the device: 2 MiB for small requests, 20 MiB for those below 10 MiB, else the request
 * rounded up to 2 MiB. What is left of a block behind the request is a free block of its own: from 512 B on in the
 * small pool, above 1 MiB in the large one. A block that is freed joins its free neighbours in the segment. A segment
 * goes back to the device only when the device has none to give, and only whole: one live block keeps all of it. So
 * what was split can be lost though it is free.
 *
 * A block that another stream still reads (record_stream) is freed late: it is of no use until the device has passed
 * that reading. The host notices when it asks anew after the device has come so far (here: mq_allocator_pass), and
 * waits for it before it gives segments back.
 *
 * Not modelled: pools of CUDA graphs, `max_split_size_mb`, `garbage_collection_threshold`, `expandable_segments` (whose
 * segments grow by pages and are never lost), the device's own pages beyond 2 MiB.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCHEDULE_ALLOCATOR_H
#define MQ_SCHEDULE_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "maquette/arena.h"
#include "maquette/err.h"

struct mq_allocator;

/* Streams that blocks are taken for. */
enum mq_pool_stream { MQ_POOL_COMPUTE, MQ_POOL_GATHER, MQ_POOL_REDUCE, MQ_N_POOL_STREAMS };

/* Bytes. Live: of blocks that are taken, as rounded, and of those that are freed late. */
struct mq_allocator_use {
	uint64_t live, reserved;           /* now */
	uint64_t peak_live, peak_reserved; /* so far */
	uint32_t returned;                 /* times that segments were given back because the device had no more */
};

/* Of a device that gives at most `limit` bytes; UINT64_MAX = any. Everything lies in the arena, which the allocator
 * goes on using. */
MQ_API struct mq_allocator *mq_allocator_new(struct mq_arena *arena, uint64_t limit);
/* A block of at least `bytes` (0: of 512) for a stream, or MQ_NONE: out of memory, and nothing has changed but what was
 * given back. O(log free blocks), and moving their list. */
MQ_API uint32_t mq_allocator_take(struct mq_allocator *a, enum mq_pool_stream stream, uint64_t bytes);
/* Frees a block that was taken; `late`: of no use before the next mq_allocator_pass, or a failure. */
MQ_API void mq_allocator_give(struct mq_allocator *a, uint32_t block, bool late);
/* The device has come to the newest `ahead` of the blocks freed late: older ones are free. */
MQ_API void mq_allocator_pass(struct mq_allocator *a, uint32_t ahead);
MQ_API struct mq_allocator_use mq_allocator_used(const struct mq_allocator *a);

/* What happens to blocks and segments. A block that is freed late is given before it is free. */
enum mq_allocator_event { MQ_BLOCK_TAKEN, MQ_BLOCK_GIVEN, MQ_BLOCK_FREE, MQ_SEGMENT_TAKEN, MQ_SEGMENT_GIVEN };
typedef void mq_allocator_watch(void *context, enum mq_allocator_event event, enum mq_pool_stream stream,
				uint64_t address, uint64_t size);
/* Calls `watch` for each event from now on, in order. */
MQ_API void mq_allocator_watched(struct mq_allocator *a, mq_allocator_watch *watch, void *context);

#endif

/* allocator.h - PyTorch's caching allocator of device memory, rule by rule (c10's CUDACachingAllocator with default
 * settings).
 *
 * A request is rounded up to 512 B. Requests of up to 1 MiB use one pool, larger ones another, and each stream has its
 * own pools. The smallest free block that is large enough is taken, the lowest address first. If there is none, a
 * segment is allocated from the device: 2 MiB for small requests, 20 MiB for those below 10 MiB, else the request
 * rounded up to 2 MiB. The rest of a block behind the request becomes a free block: from 512 B on in the small pool,
 * above 1 MiB in the large one. A freed block merges with free neighbours in its segment. A segment returns to the
 * device only when the device is out of memory, and only whole: one live block keeps all of it, so free parts of a
 * split segment can be lost (fragmentation).
 *
 * A block that another stream still reads (record_stream) is freed late: it cannot be reused until the device is past
 * that read. The host notices at its next request afterwards (here: mq_allocator_pass), and waits for it before it
 * returns segments.
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

/* Streams that allocate blocks. */
enum mq_pool_stream { MQ_POOL_COMPUTE, MQ_POOL_GATHER, MQ_POOL_REDUCE, MQ_N_POOL_STREAMS };

/* In bytes. Live: blocks taken, rounded up, and blocks that wait to be freed late. */
struct mq_allocator_use {
	uint64_t live, reserved;           /* now */
	uint64_t peak_live, peak_reserved; /* so far */
	uint32_t returned;                 /* times that the device ran out and segments were returned */
};

/* An allocator on a device of `limit` bytes; UINT64_MAX = unlimited. It keeps allocating from the arena. */
MQ_API struct mq_allocator *mq_allocator_new(struct mq_arena *arena, uint64_t limit);
/* Takes a block of at least `bytes` (0: of 512) for a stream; MQ_NONE: out of memory, only free segments were returned.
 * O(log n) to find among n free blocks, O(n) to move their list. */
MQ_API uint32_t mq_allocator_take(struct mq_allocator *a, enum mq_pool_stream stream, uint64_t bytes);
/* Frees a taken block; `late`: it stays unusable until mq_allocator_pass, or until the device runs out of memory. */
MQ_API void mq_allocator_give(struct mq_allocator *a, uint32_t block, bool late);
/* Frees the blocks given late, but for the newest `ahead`, which the device has not passed yet. */
MQ_API void mq_allocator_pass(struct mq_allocator *a, uint32_t ahead);
MQ_API struct mq_allocator_use mq_allocator_used(const struct mq_allocator *a);

/* Events of blocks and segments. GIVEN: the host freed the block; FREE: it can be reused, which is later for blocks
 * freed late. */
enum mq_allocator_event { MQ_BLOCK_TAKEN, MQ_BLOCK_GIVEN, MQ_BLOCK_FREE, MQ_SEGMENT_TAKEN, MQ_SEGMENT_GIVEN };
typedef void mq_allocator_watch(void *context, enum mq_allocator_event event, enum mq_pool_stream stream,
				uint64_t address, uint64_t size);
/* Calls `watch` for each later event, in order. */
MQ_API void mq_allocator_watched(struct mq_allocator *a, mq_allocator_watch *watch, void *context);

#endif

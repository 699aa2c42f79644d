/* index.h - byte strings to values, or to small numbers: what has been asked before, by content.
 *
 * Lists of equal hashes behind a map of hashes, in an arena. For 64-bit keys see map.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_BASE_INDEX_H
#define MQ_BASE_INDEX_H

#include "maquette/arena.h"
#include "maquette/types.h"

struct mq_index;
/* Lives in the arena. */
struct mq_index *mq_index_new(struct mq_arena *arena);
/* The value of these bytes, which are copied; it never moves. *found says whether they were there; else it is zeroes. All
 * values of an index have one size. */
void *mq_index_value(struct mq_index *index, const void *bytes, size_t size, size_t value_size, bool *found);
/* The number of these bytes, which are copied; *found says whether they were there; else they get `fresh`. */
uint32_t mq_index_put(struct mq_index *index, const void *bytes, size_t size, uint32_t fresh, bool *found);

/* A word at a time: some keys are lists of thousands of ranks. */
uint64_t mq_index_hash(uint64_t seed, const void *bytes, size_t size);

#endif

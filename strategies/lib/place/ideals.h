/* ideals.h - all ideals of a directed acyclic graph: the sets of nodes that are closed under predecessors.
 *
 * For the sets closed under successors, swap predecessors and successors. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_PLACE_IDEALS_H
#define MQ_LIB_PLACE_IDEALS_H

#include <stdbool.h>
#include <stdint.h>

#include "maquette/arena.h"
#include "maquette/err.h"

struct mq_ideals_graph {
	uint32_t n;
	const uint32_t *pred_first, *pred, *succ_first, *succ; /* CSR */
};

/* Ideals numbered by size, so a sub-ideal has a lower number: 0 is empty, n - 1 is all nodes. Each link of an ideal
 * removes one maximal node. */
struct mq_ideals {
	uint32_t n, room, words;
	uint64_t *bits;       /* [n * words] */
	uint32_t *link_first; /* [n + 1] */
	uint32_t *link_unit, *link_to;
	uint32_t *table, table_size; /* hash table: bits -> number + 1 */
};

/* MQ_EINPUT: more than max_ideals, or a cycle. */
enum mq_status mq_ideals_make(const struct mq_ideals_graph *graph, uint32_t max_ideals, struct mq_arena *arena,
			      struct mq_ideals *ideals, struct mq_err *err);

/* The same from a list of edges, `stride` bytes apart. */
enum mq_status mq_ideals_of_edges(uint32_t n, uint32_t n_edges, const uint32_t *src, const uint32_t *dst, size_t stride,
				  uint32_t max_ideals, struct mq_arena *arena, struct mq_ideals *ideals,
				  struct mq_err *err);

static inline bool mq_ideals_has(const struct mq_ideals *s, uint32_t ideal, uint32_t node)
{
	return s->bits[(size_t)ideal * s->words + node / 64] >> (node % 64) & 1;
}

#endif

/* csr.h - topological order of graphs in CSR form, see mq_csr_make of arena.h. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_CSR_H
#define MQ_STRATEGIES_LIB_CSR_H

#include <stdbool.h>

#include "maquette/arena.h"

#define MQ_REVERSE(list, n)                             \
	for (uint32_t i_ = 0; i_ < (n) / 2; i_++) {     \
		__typeof__(*(list)) keep_ = (list)[i_]; \
		(list)[i_] = (list)[(n)-1 - i_];        \
		(list)[(n)-1 - i_] = keep_;             \
	}

/* Topological order of the nodes 0 .. n-1. Of the ready nodes it takes the one of least rank (NULL: least number) or,
 * if `deep`, the one that became ready last. first, next: CSR of successors. Nodes on and behind a cycle are missing;
 * returns how many are in `order`. */
static inline uint32_t mq_csr_sort(struct mq_arena *arena, uint32_t n, const uint32_t *first, const uint32_t *next,
				   const double *rank, bool deep, uint32_t *order)
{
	uint32_t *waits = mq_arena_array(arena, n, uint32_t), *ready = mq_arena_array(arena, n, uint32_t);
	uint32_t n_ready = 0, placed = 0;

	for (uint32_t i = 0; i < first[n]; i++)
		waits[next[i]]++;
	for (uint32_t v = 0; v < n; v++) { /* deep: the least number last, as the last is taken first */
		uint32_t u = deep ? n - 1 - v : v;

		if (!waits[u])
			ready[n_ready++] = u;
	}
	while (n_ready) {
		uint32_t at = deep ? n_ready - 1 : 0;

		for (uint32_t i = 1; i < n_ready && !deep; i++)
			if (rank ? rank[ready[i]] < rank[ready[at]] : ready[i] < ready[at])
				at = i;
		uint32_t v = ready[at];

		ready[at] = ready[--n_ready];
		order[placed++] = v;
		for (uint32_t i = first[v]; i < first[v + 1]; i++)
			if (--waits[next[i]] == 0)
				ready[n_ready++] = next[i];
	}
	return placed;
}

#endif

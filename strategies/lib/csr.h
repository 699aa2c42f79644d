/* csr.h - items by a key, as compressed rows: the edges of a node, the ops of a layer.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_CSR_H
#define MQ_STRATEGIES_LIB_CSR_H

#include <string.h>

#include "maquette/arena.h"

/* Row k is list[first[k]] .. list[first[k + 1] - 1]: the values of the items with key k, in their order; without
 * `value` their indices. Items lie `stride` bytes apart; keys of n and more belong to no row. */
static inline void mq_csr_make(struct mq_arena *arena, uint32_t n, uint32_t n_items, const uint32_t *key,
			       const uint32_t *value, size_t stride, uint32_t **first, uint32_t **list)
{
	uint32_t *at = mq_arena_array(arena, n + 1, uint32_t);

	*first = mq_arena_array(arena, n + 1, uint32_t);
	*list = mq_arena_array(arena, n_items, uint32_t);
#define MQ_CSR_AT(array, i) *(const uint32_t *)(const void *)((const char *)(array) + (i)*stride)
	for (uint32_t i = 0; i < n_items; i++)
		if (MQ_CSR_AT(key, i) < n)
			(*first)[MQ_CSR_AT(key, i) + 1]++;
	for (uint32_t k = 0; k < n; k++)
		(*first)[k + 1] += (*first)[k];
	memcpy(at, *first, (n + 1) * sizeof(*at));
	for (uint32_t i = 0; i < n_items; i++)
		if (MQ_CSR_AT(key, i) < n)
			(*list)[at[MQ_CSR_AT(key, i)]++] = value ? MQ_CSR_AT(value, i) : i;
#undef MQ_CSR_AT
}

#endif

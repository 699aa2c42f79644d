/* place_load.h - for tests: the load of a set of nodes, +inf where it does not fit. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_PLACE_LOAD_H
#define MQ_TESTS_PLACE_LOAD_H

#include "lib/place/place.h"

static inline double place_load(const struct mq_place *place, const bool *in, uint32_t type, uint32_t replicas,
				struct mq_arena *arena)
{
	struct mq_place_stage stage = { .type = type,
					.replicas = replicas,
					.node = mq_arena_array(arena, place->n_nodes, uint32_t) };
	struct mq_placement one = { 0, 1, &stage };

	for (uint32_t v = 0; v < place->n_nodes; v++)
		if (in[v])
			stage.node[stage.n_nodes++] = v;
	mq_placement_loads(place, &one, arena);
	return stage.load;
}

#endif

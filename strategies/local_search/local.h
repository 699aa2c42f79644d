/* local.h - local search for the placement of least max-load: the best move of one unit to another device until no move
 * gains (a baseline of Tarnawski et al., NeurIPS 2020).
 *
 * Loads are kept incrementally: a move touches only the signals of the unit. Any sets are allowed, contiguous or not;
 * memory is respected as far as the start allows: a move never makes it worse. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LOCAL_SEARCH_LOCAL_H
#define MQ_LOCAL_SEARCH_LOCAL_H

#include "maquette/rng.h"
#include "lib/place/place.h"

struct mq_local_result {
	struct mq_placement placement;
	uint32_t moves;
};

/* From a random start: units on random devices of types that can run them (CPUs too). */
enum mq_status mq_local_search(const struct mq_place *place, struct mq_rng *rng, struct mq_arena *arena,
			       struct mq_local_result *result, struct mq_err *err);

#endif

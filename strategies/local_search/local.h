/* local.h - local search for the least max-load: steepest descent by moves of one unit to another device (a baseline of
 * Tarnawski et al., NeurIPS 2020).
 *
 * Loads are updated incrementally: a move touches only the unit's signals. Sets may be contiguous or not; start and
 * moves keep within memory. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LOCAL_SEARCH_LOCAL_H
#define MQ_LOCAL_SEARCH_LOCAL_H

#include "maquette/rng.h"
#include "lib/place/place.h"

struct mq_local_result {
	struct mq_placement placement;
	uint32_t moves;
};

/* From a random start: units on random devices (CPUs too) that can run them and have memory left. */
enum mq_status mq_local_search(const struct mq_place *place, struct mq_rng *rng, struct mq_arena *arena,
			       struct mq_local_result *result, struct mq_err *err);

#endif

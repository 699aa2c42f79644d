/* ideal.h - the best contiguous pipeline of an operator graph: dynamic programming over ideals.
 *
 * Tarnawski et al., "Efficient algorithms for device placement of DNN graph operators", NeurIPS 2020. An ideal is a set
 * of units closed under predecessors; a set is contiguous iff it is the difference of two ideals. dp[I][a_1 .. a_T] =
 * least max-load of the ideal I on at most a_t devices of type t:
 *
 *   min over I' in I, type t, replicas r of max(dp[I'][.. a_t - r ..], load_t(I - I', r)).
 *
 * For each I all I' are visited by taking away maximal units, depth first, with the load of the difference kept
 * incrementally; times only grow on the way down, so a branch ends where the difference is too slow on every type for
 * the best value known (that of the linearised problem, which is solved first). This is exact and needs memory for the
 * ideals only, not for their pairs.
 *
 * Complexity: pairs of ideals x states, states = prod (count_t + 1). The number of ideals can be exponential; beyond
 * max_ideals the method refuses. Mixed device types and replication are ours. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_PLACE_IDEAL_H
#define MQ_LIB_PLACE_IDEAL_H

#include "lib/place/place.h"

struct mq_ideal_options {
	bool linearize;         /* DPL: only the prefixes of one topological order, a heuristic */
	bool keep_idle;         /* do not merge idle units into their neighbour */
	bool use_all;           /* every device has a set: --fix pp */
	uint32_t max_ideals;    /* 0 = 60,000 */
	uint32_t max_replicas;  /* of one set; 0 = 1 */
	uint32_t only_replicas; /* every set has just so many; 0 = any up to the most */
	/* Polled now and then; false = stop with what is known. May be NULL. */
	bool (*tick)(void *context, double done, const char *what);
	void *tick_context;
};

struct mq_ideal_result {
	struct mq_placement placement; /* max_load = +inf when nothing fits; then no stages */
	uint32_t n_ideals, n_units;
	double pairs;     /* differences looked at */
	double line_load; /* value of the linearised problem */
	bool stopped;     /* by tick: the placement is that of the linearised problem, or none (max_load INFINITY) */
};

enum mq_status mq_ideal_solve(const struct mq_place *place, const struct mq_ideal_options *options,
			      struct mq_arena *arena, struct mq_ideal_result *result, struct mq_err *err);

#endif

/* ideal.h - the best contiguous pipeline of an operator graph: dynamic programming over ideals.
 *
 * Tarnawski et al., "Efficient algorithms for device placement of DNN graph operators", NeurIPS 2020. An ideal is a set
 * of units closed under predecessors; a set is contiguous iff it is the difference of two ideals. dp[I][a_1 .. a_T] =
 * least max-load of the ideal I on at most a_t devices of type t:
 *
 *   min over I' in I, type t, replicas r of max(dp[I'][.. a_t - r ..], load_t(I - I', r)).
 *
 * For each I, all I' are visited by removing maximal units, depth first, updating the load of the difference; times
 * only grow on the way down, so a branch is pruned when the difference is too slow on every type for the best value
 * known (of the linearised problem, solved first). This is exact and stores the ideals only, not their pairs.
 *
 * Complexity: pairs of ideals x states, states = prod (count_t + 1). The number of ideals can be exponential; above
 * max_ideals the method refuses. Mixed types and replication extend the paper. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_PLACE_IDEAL_H
#define MQ_LIB_PLACE_IDEAL_H

#include "lib/place/place.h"

struct mq_ideal_options {
	bool linearize;         /* DPL: only prefixes of one topological order, a heuristic */
	bool keep_idle;         /* do not merge idle units into their neighbour */
	bool use_all;           /* every device gets a set: --fix pp */
	uint32_t max_ideals;    /* 0 = 60,000 */
	uint32_t max_replicas;  /* of one set; 0 = 1 */
	uint32_t only_replicas; /* exact number per set; 0 = any up to max_replicas */
	/* Polled regularly; false = stop with the best known. May be NULL. */
	bool (*tick)(void *context, double done, const char *what);
	void *tick_context;
};

struct mq_ideal_result {
	struct mq_placement placement; /* max_load +inf and no stages: nothing fits */
	uint32_t n_ideals, n_units;
	double pairs;     /* pairs of ideals visited */
	double line_load; /* optimum of the linearised problem */
	bool stopped;     /* by tick: the placement is the linearised problem's, or none (max_load +inf) */
};

enum mq_status mq_ideal_solve(const struct mq_place *place, const struct mq_ideal_options *options,
			      struct mq_arena *arena, struct mq_ideal_result *result, struct mq_err *err);

#endif

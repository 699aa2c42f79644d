/* sfb.h - sufficient-factor broadcasting: which ops of a data-parallel group to duplicate, exactly.
 *
 * Under data parallelism over M replicas, a gradient that is all-reduced can instead be computed in full on every
 * replica, once the ops and tensors that it depends on are available there in full:
 *
 *   min  sum_i ((M-1) T_i + a) x_i + sum_(i,j) M(M-1) S_ij b_ij / B - sum_g 2 (M-1)/M S_g x_g / B
 *   s.t. b_ij >= x_j - x_i  (a duplicated op gathers the outputs of ops that are not duplicated)
 *
 * (TAG, IEEE TPDS 2023). All constraints are differences, so the optimum is a minimum s-t cut: op i on the source side
 * is duplicated; profit is lost on s -> i, cost is paid on i -> t, gathering on j -> i. Solved by igraph's push-relabel
 * maximum flow.
 *
 * Not modelled: overlap of gathering and compute; groups whose ops have different replica counts.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_SFB_H
#define MQ_STRATEGIES_LIB_SFB_H

#include <stdbool.h>
#include <stdint.h>

#include "maquette/arena.h"
#include "maquette/err.h"

struct mq_sfb_edge {
	uint32_t src, dst;
	double cost; /* >= 0: paid if dst is duplicated and src is not */
};

/* The general form: minimise sum_i cost_i x_i + sum_e cost_e max(0, x_dst - x_src). */
struct mq_sfb_problem {
	uint32_t n_ops, n_edges;
	const double *cost;    /* [n_ops] cost of duplicating; negative = profit */
	const bool *forbidden; /* [n_ops] must not be duplicated; or NULL */
	const struct mq_sfb_edge *edge;
};

struct mq_sfb_result {
	double optimum;  /* <= 0 */
	bool *duplicate; /* [n_ops], in the arena */
};

enum mq_status mq_sfb_solve(const struct mq_sfb_problem *problem, struct mq_arena *arena, struct mq_sfb_result *result,
			    struct mq_err *err);

/* Value of one assignment, for tests. */
double mq_sfb_cost(const struct mq_sfb_problem *problem, const bool *duplicate);

/* Reads explicit cases: [{"id", "n", "replicas", "bandwidth", "alpha", "time_us", "edges": [[i, j, size]...],
 * "gradients": [[op, size]...], "not_duplicable": [op...]}...], or {"cases": [...]}; sizes in units of bandwidth x
 * microseconds. */
struct mq_sfb_cases {
	uint32_t n;
	uint32_t *id;
	struct mq_sfb_problem *problem;
};
enum mq_status mq_sfb_cases_load(const char *path, struct mq_arena *arena, struct mq_sfb_cases *cases,
				 struct mq_err *err);
bool mq_sfb_cases_probe(const char *path);

#endif

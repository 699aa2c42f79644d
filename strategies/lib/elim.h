/* elim.h - exact minimum of a sum of unary and pairwise cost tables by variable elimination.
 *
 *   minimise  sum_v cost_v(c_v) + sum_(u,v) cost_uv(c_u, c_v)   over one choice c_v per variable
 *
 * Bucket elimination (Bertele and Brioschi, 1972), which is PaSE's dynamic program over dependent sets (Elango, IPDPS
 * 2021): eliminating v replaces all tables over v by one table over its current neighbours D, new(D) = min over c_v.
 * Work and memory grow with prod_{w in D u {v}} K_w, K the number of choices: K^(M+1) for M = max |D|. The tables are
 * kept, so back-substitution finds the choices without argmin tables.
 *
 * Not modelled: terms over three or more variables; elimination orders other than these two.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_ELIM_H
#define MQ_STRATEGIES_LIB_ELIM_H

#include <stdbool.h>
#include <stdint.h>

#include "maquette/arena.h"
#include "maquette/err.h"

enum mq_elim_order {
	MQ_ELIM_LEAST,   /* the variable with the fewest remaining neighbours, ties to the lowest id */
	MQ_ELIM_BREADTH, /* breadth first; each table spans the whole frontier (PaSE's baseline) */
};

struct mq_elim_pair {
	uint32_t a, b;      /* a != b; several pairs may share both variables */
	const double *cost; /* [n_choices[a] * n_choices[b]], row-major; +inf = forbidden */
};

struct mq_elim_problem {
	uint32_t n_vars, n_pairs;
	const uint32_t *n_choices; /* [n_vars], >= 1 */
	const double *const *cost; /* [n_vars][n_choices[v]]; +inf = forbidden */
	const struct mq_elim_pair *pair;
	enum mq_elim_order order;
	double max_rows;    /* refuse if one table takes more combinations; 0 = 4e9 */
	double max_entries; /* refuse if all tables hold more numbers; 0 = 2^27 (1 GiB) */
	bool (*tick)(void *context, double done, const char *what); /* false: stop; may be NULL */
	void *tick_context;
};

struct mq_elim_result {
	double optimum;       /* +inf when every combination is forbidden */
	uint32_t *choice;     /* [n_vars]; ties to the lowest choice, variable by variable */
	uint32_t widest;      /* max |D u {v}| */
	double rows, largest; /* combinations evaluated, in total and for the largest table */
};

/* MQ_EINPUT: a table would exceed max_rows, or all together max_entries. MQ_DONE: tick said stop. The result and all
 * tables live in the arena: rewind it afterwards. */
enum mq_status mq_elim_solve(const struct mq_elim_problem *problem, struct mq_arena *arena,
			     struct mq_elim_result *result, struct mq_err *err);

/* The cost of a full assignment, for tests and for callers that compare plans. */
double mq_elim_cost(const struct mq_elim_problem *problem, const uint32_t *choice);

#endif

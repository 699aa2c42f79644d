/* elim.h - exact minimum of a sum of unary and pairwise cost tables by variable elimination.
 *
 *   minimise  sum_v cost_v(c_v) + sum_(u,v) cost_uv(c_u, c_v)   over one choice c_v per variable
 *
 * Bucket elimination (Bertele and Brioschi, 1972), which is what PaSE's dynamic programme over dependent sets does
 * (Elango, IPDPS 2021): eliminating v replaces all tables that mention v by one table over its current neighbours D,
 * new(D) = min over c_v. Work and memory are governed by prod_{w in D u {v}} K_w, K the number of choices: K^(M+1) for
 * M = max |D|. The tables are kept, so the choices follow by back-substitution without a table of arguments.
 *
 * Not modelled: terms over three and more variables; search for a better order than the two offered.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_ELIM_H
#define MQ_STRATEGIES_LIB_ELIM_H

#include <stdbool.h>
#include <stdint.h>

#include "maquette/arena.h"
#include "maquette/err.h"

enum mq_elim_order {
	MQ_ELIM_LEAST,   /* next the variable with the fewest neighbours left, lowest id first */
	MQ_ELIM_BREADTH, /* breadth first; each table spans the whole frontier (the paper's
	                    baseline) */
};

struct mq_elim_pair {
	uint32_t a, b;      /* a != b; several pairs may join the same two variables */
	const double *cost; /* [n_choices[a] * n_choices[b]], row-major; +inf = forbidden */
};

struct mq_elim_problem {
	uint32_t n_vars, n_pairs;
	const uint32_t *n_choices; /* [n_vars], >= 1 */
	const double *const *cost; /* [n_vars][n_choices[v]]; +inf = forbidden */
	const struct mq_elim_pair *pair;
	enum mq_elim_order order;
	double max_rows;    /* refuse when one table needs more combinations; 0 = 4e9 */
	double max_entries; /* refuse when all tables hold more numbers; 0 = 2^27 (1 GiB) */
	bool (*tick)(void *context, double done, const char *what); /* false: stop; may be NULL */
	void *tick_context;
};

struct mq_elim_result {
	double optimum;       /* +inf when every combination is forbidden */
	uint32_t *choice;     /* [n_vars]; of the lowest index among equal costs, one by one */
	uint32_t widest;      /* max |D u {v}| */
	double rows, largest; /* combinations looked at, in total and for the largest table */
};

/* MQ_EINPUT: a table would exceed max_rows, or all together max_entries. MQ_DONE: tick said stop. The result lives in
 * the arena, and so do all tables: rewind it afterwards. */
enum mq_status mq_elim_solve(const struct mq_elim_problem *problem, struct mq_arena *arena,
			     struct mq_elim_result *result, struct mq_err *err);

/* The cost of one full choice: the oracle of the tests and of callers that compare plans. */
double mq_elim_cost(const struct mq_elim_problem *problem, const uint32_t *choice);

#endif

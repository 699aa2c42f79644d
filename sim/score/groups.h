/* groups.h - a table of runs as a test of a planner: rows that differ only in plan, how well their order is predicted,
 * and what it costs to run the plan that is ranked first. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCORE_GROUPS_H
#define MQ_SCORE_GROUPS_H

#include "score/judge.h"

/* Scored rows whose mq_run_group is one. */
struct mq_score_group {
	uint32_t n;
	double spearman;      /* NaN: fewer than three rows, or all alike */
	double regret;        /* measured time of the row ranked first / least measured time; NaN: one row */
	uint32_t first, best; /* rows of the table: ranked first, measured best */
};

struct mq_score_groups {
	const struct mq_judged_table *table;
	struct mq_score_group *group; /* [n] in the order of their first rows */
	uint32_t n;
	double spearman, regret; /* means over groups that have one, weighted by rows; NaN = none has */
};
struct mq_score_groups mq_score_groups(const struct mq_judged_table *table, struct mq_arena *arena);

/* Of DIR/groups.csv, which has every group of two rows or more. */
extern const char mq_score_groups_header[];
void mq_score_put_groups(const struct mq_score_groups *groups, struct mq_csv_writer *w);
/* Those that have a rank, a line each. */
void mq_score_print_groups(const struct mq_score_groups *groups);

#endif

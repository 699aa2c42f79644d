/* judge.h - a table of runs, and its rows judged as any plan is: by the pool of worker processes that `search` uses,
 * one pool per platform, each row with its own question. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCORE_JUDGE_H
#define MQ_SCORE_JUDGE_H

#include "score/row.h"

/* One table and what becomes of its rows. */
struct mq_judged_table {
	const char *path, *stem;
	struct mq_run *run;
	uint32_t n;
	struct mq_case *c;        /* [n] */
	enum mq_verdict *verdict; /* [n] N_VERDICTS: not asked for */
	double *step_s, *peak_B;  /* [n] NaN where there is none; memory as the row has measured it */
	struct mq_result *result; /* [n] all of it, where it was judged */
	const char **message;     /* [n] the reason where it is not ok */
	bool *ready;              /* [n] asked for and not refused: there is something to simulate */
};
/* Reads the table at `path`, makes its rows ready and refuses those that cannot be scored. */
enum mq_status mq_table_load(const struct mq_score_options *options, struct mq_judged_table *table, struct mq_err *err);
/* Makes the ready rows' jobs again, with --set as it is now, in a new t->c. */
enum mq_status mq_table_renew(const struct mq_score_options *options, struct mq_judged_table *table,
			      struct mq_err *err);
/* Judges the ready rows, or those of them that are `wanted` ([n] or NULL = all). */
enum mq_status mq_table_judge(const struct mq_score_options *options, struct mq_judged_table *table, const bool *wanted,
			      struct mq_err *err);
/* The memory of the device that the row has measured. */
const struct mq_memory *mq_table_memory(const struct mq_judged_table *table, uint32_t row);
/* "tight", or the verdict's name. */
const char *mq_table_verdict(const struct mq_judged_table *table, uint32_t row);
/* Has the row a prediction and a measurement to hold it against? A run that fitted is scored even where
 * the memory model says that it should not have. */
bool mq_table_scored(const struct mq_judged_table *table, uint32_t row);

/* The job file of every ready row, DIR/ROW.ini and DIR/ROW.plan.json: what `run` and `simulate` take. */
enum mq_status mq_table_write_jobs(const struct mq_score_options *options, const struct mq_judged_table *table,
				   const char *dir, struct mq_err *err);

/* ---- a table as a test of a planner: how well the order of plans is predicted, what it costs to run the first -------- */

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
/* Those that have a rank are printed, too, a line each. */
void mq_score_put_groups(const struct mq_score_groups *groups, struct mq_csv_writer *w);

#endif

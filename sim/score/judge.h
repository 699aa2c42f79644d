/* judge.h - judges the rows of a table of runs like plans: by pools of worker processes as in `search`, one per
 * platform, each row with its own question. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCORE_JUDGE_H
#define MQ_SCORE_JUDGE_H

#include "score/row.h"

/* A table and the results of its rows. */
struct mq_judged_table {
	const char *path, *stem;
	struct mq_run *run;
	uint32_t n;
	struct mq_case *c;        /* [n] */
	enum mq_verdict *verdict; /* [n] N_VERDICTS: not judged */
	double *step_s, *peak_B;  /* [n] NaN = none; memory on the basis of the row's measurement */
	struct mq_result *result; /* [n] the whole result, if judged */
	const char **message;     /* [n] the reason if not ok */
	bool *ready;              /* [n] selected and not refused: to be simulated */
};
/* Reads the table at `path` and builds the jobs of its rows; refuses rows that cannot be scored. */
enum mq_status mq_table_load(const struct mq_score_options *options, struct mq_judged_table *table, struct mq_err *err);
/* Builds the ready rows' jobs again with the current --set, in a new t->c. */
enum mq_status mq_table_renew(const struct mq_score_options *options, struct mq_judged_table *table,
			      struct mq_err *err);
/* Judges the ready rows; wanted: [n] only those, NULL = all. */
enum mq_status mq_table_judge(const struct mq_score_options *options, struct mq_judged_table *table, const bool *wanted,
			      struct mq_err *err);
/* Predicted memory of the device that the row measured. */
const struct mq_memory *mq_table_memory(const struct mq_judged_table *table, uint32_t row);
/* "tight", or the verdict's name. */
const char *mq_table_verdict(const struct mq_judged_table *table, uint32_t row);
/* Does the row have both prediction and measurement? A run that fitted is scored even if the memory model says OOM. */
bool mq_table_scored(const struct mq_judged_table *table, uint32_t row);

/* Writes the job of every ready row, DIR/ROW.ini and DIR/ROW.plan.json, for `run` and `simulate`. */
enum mq_status mq_table_write_jobs(const struct mq_score_options *options, const struct mq_judged_table *table,
				   const char *dir, struct mq_err *err);

/* ---- ranks: is the order of plans predicted, and what does it cost to run the plan ranked first? ----------------- */

/* Scored rows with the same mq_run_group. */
struct mq_score_group {
	uint32_t n;
	double spearman;      /* NaN: fewer than three rows, or all equal */
	double regret;        /* measured time of the row ranked first over the least; NaN: one row */
	uint32_t first, best; /* rows of the table: ranked first, measured best */
};

struct mq_score_groups {
	const struct mq_judged_table *table;
	struct mq_score_group *group; /* [n] in the order of their first rows */
	uint32_t n;
	double spearman, regret; /* means over groups with a value, weighted by rows; NaN = none */
};
struct mq_score_groups mq_score_groups(const struct mq_judged_table *table, struct mq_arena *arena);

/* Of DIR/groups.csv, which has every group of two rows or more. */
extern const char mq_score_groups_header[];
/* Those that have a rank are printed, too, a line each. */
void mq_score_put_groups(const struct mq_score_groups *groups, struct mq_csv_writer *w);

#endif

/* fitted.h - the ledger of fitted values, platforms/fitted.csv: the tables that each was fitted to, and its substitute
 * when one of them is left out.
 *
 *   value    as --set names it: A100*.gemm_eff, ib.bw_share, software:NAME.FIELD (of every row whose software
 *            takes the field from that file), or constant:NAME=VALUE of a constant in the source, which cannot
 *            be set
 *   tables   patterns of the tables it was fitted to, separated by ';'
 *   without  the substitute: a number, or the name of another value, not fitted to the same tables; empty for
 *            constants and for tables that are not of runs
 *   about    why this substitute
 *
 * A value fitted to several tables has a line for each, with the result of a fit to the others.
 *
 * fitted-models.csv, if present, has lines for parts of a table, with a further column
 *
 *   models   patterns of the models in the part: `without` is the fit to the table's other rows. A part without
 *            a line for a value leaves it unchanged SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCORE_FITTED_H
#define MQ_SCORE_FITTED_H

#include "score/judge.h"
#include "score/set.h"

struct mq_fitted {
	const char *value, *tables, *without;
	const char *models; /* "" = all of the table */
	uint32_t line;
	bool constant;
	struct mq_score_knob knob; /* of others */
	double stand_in;           /* NaN = none */
};

struct mq_ledger {
	struct mq_fitted *line; /* [n] */
	uint32_t n;
	uint32_t n_values; /* distinct */
	const char *path, *parts_path;
};
/* MQ_EINPUT: a line with an unknown value, or a substitute that is neither number nor value, or that was fitted to a
 * table of the line. */
enum mq_status mq_ledger_load(const struct mq_score_options *options, struct mq_ledger *ledger, struct mq_err *err);
/* NAME=VALUE of the substitutes of all values fitted to a table, for mq_score_options.stand_in; with models other than
 * "" of those with a line for that part. */
enum mq_status mq_ledger_without(const struct mq_ledger *ledger, const char *table, const char *models,
				 struct mq_arena *arena, struct mq_list *stand_in, struct mq_err *err);
/* The models of the part whose first line is i, or NULL. */
const char *mq_ledger_part(const struct mq_ledger *ledger, uint32_t i, const char *table);
/* Number of scored rows that a line's value concerns; 0 if it was not fitted to that table. */
uint32_t mq_ledger_rows(const struct mq_fitted *line, const struct mq_judged_table *table);

#endif

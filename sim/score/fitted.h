/* fitted.h - the ledger of fitted values, platforms/fitted.csv: on which tables each rests, and what stands in for it
 * where one of them is to have no say.
 *
 *   value    as --set names it: A100*.gemm_eff, ib.bw_share, software:NAME.FIELD (of every row whose software
 *            takes the field from that file), or constant:NAME=VALUE of a constant in the source, which cannot
 *            be set
 *   tables   what it was fitted to, patterns of names of tables, ';' between
 *   without  a number, or another value's name, whose value is taken; empty where the tables are not of runs, and
 *            of constants. That value may not rest on the same tables
 *   about    why that one
 *
 * A value fitted jointly has a line for each of its tables, with what a fit to the others gives.
 *
 * fitted-models.csv, where there is one, has lines for parts of a table, with a further column
 *
 *   models   patterns of the models of a part's rows: `without` is what the table's other rows give. A part that
 *            has no line for a value leaves it as it is SPDX-License-Identifier: Apache-2.0 */
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
/* MQ_EINPUT: a line names no value, or a stand-in that is no number and no value, or that rests on a table of
 * the line. */
enum mq_status mq_ledger_load(const struct mq_score_options *options, struct mq_ledger *ledger, struct mq_err *err);
/* NAME=VALUE of every value that rests on a table, for mq_score_options.stand_in; with models other than "" of
 * those that have a line for that part. */
enum mq_status mq_ledger_without(const struct mq_ledger *ledger, const char *table, const char *models,
				 struct mq_arena *arena, struct mq_list *stand_in, struct mq_err *err);
/* The part of a table that line i is the first of, or NULL. */
const char *mq_ledger_part(const struct mq_ledger *ledger, uint32_t i, const char *table);
/* Scored rows of a table that a line's value bears on; 0 where it does not rest on that table. */
uint32_t mq_ledger_rows(const struct mq_fitted *line, const struct mq_judged_table *table);

#endif

/* fit.h - parameters of calibrations and software fitted to step times of measured runs, all tables at once.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCORE_FIT_H
#define MQ_SCORE_FIT_H

#include "score/score.h"

struct mq_score_fit {
	const struct mq_score_options *options; /* --set of the user; its calibrations are not changed */
	struct mq_list tables, free;            /* names of parameters, see set.h */
	uint64_t rounds, draws, seed;           /* steps of the search at most; bootstrap samples */
};
/* Reads the tables, simulates the rows that the parameters concern, fits them, leaves one table out after the other,
 * prints what came of it and writes parameters.csv, correlation.csv, rows.csv, tables.csv and without.csv to the
 * options' folder. MQ_EINPUT: an unknown name, a value of 0, one that moves no row, or too few rows. */
enum mq_status mq_score_fit(const struct mq_score_fit *ask, struct mq_err *err);

#endif

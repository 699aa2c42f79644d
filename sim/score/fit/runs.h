/* runs.h - parameters fitted to step times of measured runs: what the parts of `fit` share.
 *
 *   fit.c                  the command: options, output
 *   runs.c      rows, predictions and their slopes
 *   solve.c     the solution, its intervals, and systems left out
 *   report.c    tables and text
 *
 * A prediction costs a simulation, so the search is Gauss-Newton in the logarithms: slopes by finite differences, then
 * a robust fit (Huber, fit/solve.c) to predictions that are power laws of the parameters around the present point, then
 * real predictions there; a step that is no better is halved. Every table has the same weight, however many rows it
 * has, and the slopes serve again for the intervals (bootstrap over groups of rows that differ only in plan) and for
 * leaving one table out after the other; what is told of a table left out is simulated with the parameters found
 * without it. An interval that ends at the parameter's range, or at half or twice the value, is open on that side.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCORE_FIT_RUNS_H
#define MQ_SCORE_FIT_RUNS_H

#include "score/set.h"
#include "score/judge.h"

enum { MQ_RUNS_FIT_MAX = 64 };

/* A parameter to be fitted. */
struct mq_runs_param {
	struct mq_score_knob knob;
	double start, value, low, high; /* 95 % interval */
	uint32_t n_rows;                /* whose prediction it moves by over 0.1 % of its own change */
};

/* A row that takes part. */
struct mq_runs_row {
	uint32_t table, row; /* table[table].run[row] */
	uint32_t group;      /* rows that differ only in plan */
	double measured_s, start_s, fitted_s;
	double left_out_s; /* with the parameters found without its table */
};

struct mq_runs_fit {
	const struct mq_score_options *options; /* --set of the user; its calibrations are not changed */
	struct mq_score_tables tables;
	struct mq_judged_table *table;
	uint32_t n_tables;
	struct mq_runs_param *param;
	uint32_t n_params;
	struct mq_runs_row *row;
	uint32_t n_rows;
	double *slope;       /* [n_rows * n_params] d log(predicted) / d log(parameter) */
	double *correlation; /* [n_params^2] of the logarithms, over bootstrap draws */
	double *without;     /* [n_tables * n_params] the parameters that the other tables give */
	uint32_t rounds, n_draws;
	uint64_t seed;
	uint32_t n_simulated; /* rows, all in all */
};

/* Reads the tables and the parameters named; predicts the rows that these concern with the values that
 * are there and keeps those that can be scored. MQ_EINPUT: an unknown name, a value of 0, or no row. */
enum mq_status mq_runs_fit_open(struct mq_runs_fit *fit, const struct mq_list *tables, const struct mq_list *names,
				struct mq_err *err) MQ_MUST_CHECK;

/* Predicts rows with the values `x` [n_params]: those of one table (or MQ_NONE = of all) that parameter
 * `param` concerns (or MQ_NONE = all). seconds [n_rows]; others are not touched; NaN = no prediction. */
enum mq_status mq_runs_fit_predict(struct mq_runs_fit *fit, const double *x, uint32_t table, uint32_t param,
				   double *seconds, struct mq_err *err) MQ_MUST_CHECK;
/* Fills `slope` around the values `x` and the predictions fitted_s that belong to them. MQ_EINPUT: a
 * parameter that moves no row. */
enum mq_status mq_runs_fit_slopes(struct mq_runs_fit *fit, const double *x, struct mq_err *err) MQ_MUST_CHECK;

/* Solves; fills values, intervals, correlation, fitted_s. */
enum mq_status mq_runs_fit_solve(struct mq_runs_fit *fit, struct mq_err *err) MQ_MUST_CHECK;
/* Fills left_out_s of all rows and `without`; own[table * n_params + param]: no other table informs this parameter, so
 * that it was left as fitted. */
enum mq_status mq_runs_fit_leave_out(struct mq_runs_fit *fit, bool *own, struct mq_err *err) MQ_MUST_CHECK;

/* Prints the tables and writes DIR/parameters.csv, correlation.csv, rows.csv, tables.csv, without.csv. */
enum mq_status mq_runs_fit_report(struct mq_runs_fit *fit, const bool *own, struct mq_err *err) MQ_MUST_CHECK;

#endif

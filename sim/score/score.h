/* score.h - shared by the parts of `score`, which compares predictions with tables of published measurements, and of
 * `fit`.
 *
 *   ../cmd/score.c       the command: options, kind of table
 *   lines.c              options, list of tables, lines of summaries
 *   gemm.c               --gemm
 *   collectives.c        --collectives
 *   kernels.c            --kernels
 *   rows.c case.c        step times: a row, its job (row.h); machines.c model.c shape.c its parts
 *   judge.c runs.c       judges rows, prints results
 *   set.c fitted.c       values by name (set.h), the ledger of fitted values (fitted.h)
 *   fit.c trust.c        fits parameters to tables of runs; makes the index of errors
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCORE_SCORE_H
#define MQ_SCORE_SCORE_H

#include <string.h>

#include "session/session.h"
#include "maquette/arena.h"
#include "maquette/calib.h"
#include "fit/stats.h"
#include "base/csv.h"
#include "maquette/err.h"

struct mq_score_options {
	const char *input;         /* a CSV file, or a folder of them */
	const char *out;           /* -o */
	const char *platforms;     /* --platforms DIR, or NULL = the shipped ones */
	const char *software;      /* --software, for rows without one; NULL = generic */
	const char *executor;      /* --executor analytic|simgrid */
	const char *only;          /* --only TEXT: rows whose row_id or model contains it, or NULL */
	struct mq_list set;        /* --set NAME=VALUE, see set.h */
	struct mq_list trust_with; /* --trust-with: runs of the user's own machine */
	struct mq_list stand_in;   /* NAME=VALUE: substitutes of fitted values, see fitted.h; --set wins */
	bool left_out;             /* --left-out: each table also with its source left out */
	bool fit;                  /* --fit: estimate device parameters from the table first */
	double threshold;          /* --threshold: mean error above which the exit status is 5 */
	double row_tasks;          /* --row-tasks: most tasks in the simulation of one row */
	const char *write_jobs;    /* --write-jobs DIR, or NULL */
	uint32_t jobs;
	struct mq_arena *arena; /* lives as long as the command */
	/* From `platforms`: calibrations; for rows of runs also models by name, and the folder of software. */
	struct mq_calib *calib;
	struct mq_csv models;
	const char *software_dir;
	struct mq_trust *trust; /* the index of errors and the files of trust_with; NULL = none */
};

/* Options of `score` and `fit`. */
extern const struct mq_arg mq_score_args[];
void mq_score_options_init(struct mq_score_options *options, struct mq_arena *arena);
/* Finds `platforms` unless given, and loads its calibrations. */
enum mq_status mq_score_open(struct mq_score_options *options, struct mq_err *err);
/* Also loads what rows of runs need. MQ_EINPUT: an unknown software or --set. */
enum mq_status mq_score_open_runs(struct mq_score_options *options, struct mq_err *err);

/* The tables of `input`: the file itself, or every *.csv of the folder in name order. NULL-terminated. */
enum mq_status mq_score_files(const char *input, struct mq_arena *arena, const char ***files, struct mq_err *err);
/* "a100_nvswitch_8" of "x/a100_nvswitch_8.csv". */
const char *mq_score_stem(const char *path, struct mq_arena *arena);

/* Prints the unused columns of a table of timings. */
void mq_score_unused(const struct mq_csv *csv, const char *needed, const char *known);

/* One line of the summary that `make accuracy` collects: DIR/summary.csv has, per table or part of one,
 * kind,table,rows,refused,mean,median,p90,bias,spearman,regret (ratios, not per cent; empty = none). */
struct mq_score_line {
	const char *kind, *table;
	uint32_t refused;
	struct mq_errors stats;
	double spearman, regret;
};
/* Writes the line, and prints it with the name `shown` (NULL = the table's). */
void mq_score_put_line(struct mq_csv_writer *w, const struct mq_score_line *line, const char *shown);
/* The same for errors without ranks. */
void mq_score_put_errors(struct mq_csv_writer *w, const char *kind, const char *table, uint32_t refused,
			 const struct mq_errors *errors);
/* Creates summary.csv in the output folder, and prints the header. */
enum mq_status mq_score_open_summary(const struct mq_score_options *options, struct mq_csv_writer *w,
				     struct mq_err *err);
/* How many of text[n] equal text[i]; 0 if text[i] is NULL or equals an earlier one. */
uint32_t mq_score_same(const char *const *text, uint32_t n, uint32_t i);
/* Prints each reason once, with the number of rows it leaves out. */
void mq_score_print_refused(const char *const *why, uint32_t n);

/* Each scores `input`, writes files to `out` and prints a summary. *mean: the error to compare with the threshold. */
enum mq_status mq_score_gemm(const struct mq_score_options *options, double *mean, struct mq_err *err);
enum mq_status mq_score_kernels(const struct mq_score_options *options, double *mean, struct mq_err *err);
/* --check: prints what each row lacks, without simulating. MQ_EINPUT: a row lacks something. */
enum mq_status mq_score_check(const struct mq_score_options *options, struct mq_err *err);
enum mq_status mq_score_collectives(const struct mq_score_options *options, double *mean, struct mq_err *err);
enum mq_status mq_score_runs(const struct mq_score_options *options, double *mean, struct mq_err *err);

/* Makes the index of errors from tables scored with their source left out: reads FOLDER/<table>/trust.csv, predicts
 * each run's interval from the others, writes DIR/trust.csv (the index), intervals.csv (a row per run) and
 * trust_kinds.csv (coverage of the intervals by kind of run), and prints the latter. */
enum mq_status mq_score_trust_index(const char *folder, const char *dir, struct mq_arena *arena, struct mq_err *err);

/* Does a cell contain the word, ignoring case? */
static inline bool mq_contains(const char *text, const char *word)
{
	return strcasestr(text, word) != NULL;
}

/* Does `text` match one of the ';'-separated patterns? An empty list matches all. */
bool mq_pattern_fits(const char *patterns, const char *text);
/* The calibrated device type of a table's `gpu` text ("A100-80GB" -> "A100-SXM4-80GB"); MQ_EINPUT lists known types. */
enum mq_status mq_score_device(const struct mq_calib *calib, const char *gpu, const char **type, struct mq_err *err);

/* Parameters of calibrations and software fitted to step times of measured runs, all tables at once. */
struct mq_score_fit {
	const struct mq_score_options *options; /* --set of the user; its calibrations are not changed */
	struct mq_list tables, free;            /* tables; names of the free parameters, see set.h */
	uint64_t rounds, draws, seed;           /* maximum number of steps; bootstrap samples */
};
/* Reads the tables, simulates the rows that the parameters concern, fits the parameters, repeats it without each table,
 * prints the results and writes parameters.csv, correlation.csv, rows.csv, tables.csv and without.csv to the options'
 * folder. MQ_EINPUT: an unknown name, a value of 0, a parameter that moves no row, or too few rows. */
enum mq_status mq_score_fit(const struct mq_score_fit *ask, struct mq_err *err);

#endif

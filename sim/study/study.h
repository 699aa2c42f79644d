/* study.h - a what-if study: a job file whose keys may have several values; its points are their cross product.
 *
 * Keys are the long options of `search` (model, batch, engine, ...), platform.KEY (options of `platform generate`),
 * changes of the hardware (link.CLASS.bw, device.TYPE.flops, rank.N.clock, spread.clock, calib.TYPE.FIELD:
 * hardware/change.h) and the study's own (below). A list of values (separated by commas; in `model`, whose names may
 * have commas, by comma and blank or by semicolons) or a range is an axis:
 *
 *	platform.nodes = 1, 2, 4        batch = 32..512*2       link.network.bw = 0.5..2+0.5
 *
 * A value of platform.KEY may bring further options of its own: platform.fabric = rail, fat-tree:oversub=2. `engine` is
 * never an axis: its list is one search with several engines. The first key varies slowest; `together = KEY, KEY` pairs
 * the values of axes of equal length. `software = each` lists all shipped software. `plan = FILE` judges that plan on
 * every point and searches nothing. The study's own keys: scaling = strong|weak, epoch = SAMPLES or TOKENS tokens,
 * failures.KEY (mtbf_h, restart_s, checkpoint_GBps, blocking, interval_s: schedule/failures.h; lists are axes),
 * jitter.KEY (device, kernel, stragglers, slowdown, draws: schedule/jitter.h; likewise), efficiency = SHARE,
 * sensitivity = STEP, breakeven.target, .plan_a, .plan_b.
 *
 * Keys job.NAME.KEY make it a study of several jobs at once on one cluster: KEY is `devices` (ranks), `plan`, `start`
 * (seconds), or an option of the question or the search; a job inherits the study's other options. job.steps is the
 * number of steps to measure. jobs.c describes the rows and tables. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STUDY_STUDY_H
#define MQ_STUDY_STUDY_H

#include "session/session.h"
#include "session/search_run.h"

struct mq_axis {
	const char *key;
	uint32_t n;
	const char **value;
	uint32_t with; /* 1 + the axis that it varies together with; 0 = none */
};

struct mq_study {
	struct mq_arena *arena;     /* borrowed */
	const char *path;           /* of the job file */
	struct mq_shipped *shipped; /* for the sessions of its points */
	uint32_t n_axes, axis_room;
	struct mq_axis *axis; /* also keys of a single value (n = 1) */
	uint32_t n_points;
	/* the study's own keys */
	const char *together; /* keys that vary together, groups separated by ';'; NULL = none */
	double efficiency;    /* scaling: report where efficiency falls below this; 0 = no scaling */
	bool weak;            /* scaling = weak: batch grows with the devices */
	double epoch;         /* samples (or tokens) of an epoch, for its time and cost; 0 = not asked */
	bool epoch_tokens;
	double epoch_days, epoch_usd;  /* find the fewest devices within these limits of an epoch; 0 = no limit */
	bool fails;                    /* rows have goodput under failures */
	bool jitters;                  /* rows have quantiles of the step time */
	double sensitivity;            /* relative step of the sensitivities; 0 = none */
	const char *breakeven_target;  /* the hardware value to vary, as link.network.bw; NULL = not asked */
	const char *breakeven_plan[2]; /* plan files; NULL = the two best of the search */
	uint32_t n_jobs, job_room;     /* several jobs at once; 0 = one question per point */
	const char **job;              /* [n_jobs] names */
	uint32_t job_steps;            /* steps of each job to measure while all run */
	uint64_t context;              /* hash of this program, its engines and calibrations */
};

enum { MQ_MAX_POINTS = 1000000, MQ_MAX_AXIS = 10000 };

/* Reads a job file. `allow_exec`: it may name programs to run. MQ_EINPUT: file, line, value and remedy. */
enum mq_status mq_study_load(const char *path, bool allow_exec, struct mq_arena *arena, struct mq_study *study,
			     struct mq_err *err);

/* Does the axis vary together with others? */
bool mq_study_joined(const struct mq_study *study, uint32_t axis);

/* Fills index[n_axes] with the point's value on each axis. */
void mq_study_values(const struct mq_study *study, uint32_t point, uint32_t *index);

/* Fills `context`, so that rows by another program or other calibrations are not reused. */
enum mq_status mq_study_bind(struct mq_study *study, struct mq_err *err);

/* Number of devices of a point if platform.nodes or platform.gpus is an axis; else 0. */
double mq_study_size(const struct mq_study *study, const char *const *value);

/* A point: its value on each axis, and its question, which lives in the arena. MQ_EINPUT names the point's values. */
struct mq_point {
	uint32_t index;
	const char **value; /* [n_axes] */
	uint64_t hash;      /* of the question, for resuming */
	struct mq_asked asked;
	struct mq_search_options search;
	const char *plan;     /* judge this plan and search nothing; or NULL */
	struct mq_point *job; /* [n_jobs] each job's question, search and plan; or NULL */
	double start_s;       /* of a job: start of its first step */
	struct mq_failures failures;
	struct mq_jitter jitter;
};
enum mq_status mq_study_point(const struct mq_study *study, uint32_t index, struct mq_arena *arena,
			      struct mq_point *point, struct mq_err *err);

struct mq_csv_writer;

/* The axis's column in whatif.csv: its key, renamed if it is `devices`, since that column counts the devices of a
 * plan. */
const char *mq_axis_column(const struct mq_axis *axis);
/* Writes the first cells of a row; `point` NULL: of the header. */
void mq_study_put_head(struct mq_csv_writer *row, const struct mq_study *study, const struct mq_point *point);
/* The header of whatif.csv: point, the axes with more than one value, the columns of a row. */
const char *mq_study_header(const struct mq_study *study, struct mq_arena *arena);

/* Searches one point and writes its row to *row, without newline. More lines may follow, each after a newline: rows of
 * other tables about the best plan (their first letter tells the table; they lack the point's number). A point without
 * a feasible plan, or one that is refused (its platform cannot be built, say), has a row too. A line MQ_STUDY_CRASHED
 * means that a simulator died: the row must not be reused, and its verdict is crash if no other. The best plan goes to
 * `plan_path` (may be NULL). MQ_EINPUT: no row can be made. */
#define MQ_STUDY_CRASHED "C"
enum mq_status mq_study_run(const struct mq_study *study, const struct mq_point *point, const char *plan_path,
			    struct mq_arena *arena, const char **row, struct mq_err *err);

/* Writes the row and the lines "J,..." (jobs.csv) and "L,..." (job_links.csv) of a point with several jobs. Each job's
 * plan goes to `plan_path` (may be NULL) with the job's name before its suffix. *crashed: a simulator died. MQ_ETIME:
 * it died each time, and mq_study_jobs_nothing has to write the row. */
enum mq_status mq_study_jobs(struct mq_csv_writer *row, const struct mq_study *study, const struct mq_point *point,
			     const char *plan_path, bool *crashed, struct mq_err *err);
void mq_study_jobs_nothing(struct mq_csv_writer *row, const struct mq_study *study, const char *verdict,
			   const char *why);

/* Opens a point's question and searches it, or judges its given plan, the outcome's one candidate. */
enum mq_status mq_study_search(const struct mq_study *study, const struct mq_point *point, struct mq_session *session,
			       struct mq_search_outcome *outcome, struct mq_err *err);
/* The reason for which mq_study_run would refuse this point, found without a simulation; NULL: none. */
const char *mq_study_refused(const struct mq_study *study, const struct mq_point *point, struct mq_arena *arena);
/* The verdict of an outcome without a plan, and its reason *why. */
const char *mq_study_no_plan(const struct mq_search_outcome *outcome, struct mq_arena *arena, const char **why);

/* A point being answered: its session, the plans found, and the row being written. */
struct mq_answering {
	const struct mq_study *study;
	const struct mq_point *point;
	struct mq_session session;
	struct mq_search_outcome outcome;
	struct mq_csv_writer *row;
	struct mq_err *err;
};
/* Judge the best plan again under changed hardware, and write lines "S,target,factor,..." (sensitivity.csv) and
 * "B,target,..." (breakeven.csv) after the row. */
enum mq_status mq_study_sensitivity(const struct mq_answering *a);
enum mq_status mq_study_breakeven(struct mq_answering *a);

/* Reads DIR/whatif.csv and the tables beside it, writes scaling.csv, losses.csv and pareto.csv there and sentences to
 * `words`. */
enum mq_status mq_study_answers(const struct mq_study *study, const char *dir, FILE *words, struct mq_err *err);

/* Draws figures (SVG and PNG) of the tables in DIR into the folder `out` by gnuplot; *n: their number. MQ_ENODEV: no
 * gnuplot. */
enum mq_status mq_study_figures(const struct mq_study *study, const char *dir, const char *out, uint32_t *n,
				struct mq_err *err);
struct mq_csv;
/* The row of whatif.csv with the most samples per second; MQ_NONE: no point has a plan. */
uint32_t mq_study_fastest(const struct mq_csv *csv);

/* Writes DIR/report.html, one self-contained file with question, answers, tables, figures, the timeline of the fastest
 * point's plan, assumptions, provenance and the command. `point` and `plan` (NULL: no point has a plan) are the fastest
 * point and its plan; with several jobs, any point of which all jobs have plans. */
enum mq_status mq_study_report(const struct mq_study *study, const char *dir, const struct mq_point *point,
			       const char *plan, struct mq_err *err);

#endif

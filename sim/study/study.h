/* study.h - a what-if study: a job file whose keys may have several values, and the points of their cross GEMM.
 *
 * Keys are the long options of `search` (model, batch, engine, ...), platform.KEY (options of `platform generate`),
 * changes of the hardware (link.CLASS.bw, device.TYPE.flops, rank.N.clock, spread.clock, calib.TYPE.FIELD:
 * hardware/change.h) and the study's own (below). Values in a list (separated by commas; in `model`, where commas are
 * part of a name, by comma and blank or by semicolons) and ranges become axes:
 *
 *	platform.nodes = 1, 2, 4        batch = 32..512*2       link.network.bw = 0.5..2+0.5
 *
 * A value of platform.KEY may bring further options of its own: platform.fabric = rail, fat-tree:oversub=2. `engine` is
 * never an axis: its list is one search with several engines. The first key varies slowest; `together = KEY, KEY` pairs
 * the values of axes of equal length. `software = each` is a list of all that are listed. `plan = FILE` judges that
 * plan on every point and searches nothing. The study's own keys: scaling = strong|weak, epoch = SAMPLES or TOKENS tokens, failures.KEY
 * (mtbf_h, restart_s, checkpoint_GBps, blocking, interval_s: schedule/failures.h; lists are axes), jitter.KEY (device,
 * kernel, stragglers, slowdown, draws: schedule/jitter.h; likewise), efficiency = SHARE, sensitivity = STEP,
 * breakeven.target, .plan_a, .plan_b.
 *
 * With keys job.NAME.KEY a study asks of several jobs at once on one cluster: KEY is `devices` (ranks), `plan`, `start`
 * (seconds), or an option of the question or the search; an option that a job does not give is that of the study.
 * job.steps is the number of steps to measure. Rows and tables are those of jobs.c.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STUDY_STUDY_H
#define MQ_STUDY_STUDY_H

#include "session/jitter_samples.h"
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
	struct mq_axis *axis; /* single values too: n = 1 */
	uint32_t n_points;
	/* the study's own keys */
	const char *together; /* keys that vary together, groups with ';' between; NULL = none */
	double efficiency;    /* scaling: report where it falls under this share; 0 = no scaling */
	bool weak;            /* scaling = weak: batch grows with the devices */
	double epoch;         /* samples, or tokens, of an epoch: rows say what it costs; 0 = not asked */
	bool epoch_tokens;
	double epoch_days, epoch_usd;  /* the fewest devices that take no longer, and no more, are named; 0 = any */
	bool fails;                    /* rows say what failures and checkpoints leave */
	bool jitters;                  /* and quantiles of the step */
	double sensitivity;            /* relative step of the sensitivities; 0 = none */
	const char *breakeven_target;  /* a change's target, as link.network.bw; NULL = not asked */
	const char *breakeven_plan[2]; /* files; NULL = the two best of the search */
	uint32_t n_jobs, job_room;     /* several jobs at once; 0 = no */
	const char **job;              /* [n_jobs] names */
	uint32_t job_steps;            /* steps of each to measure while all run */
	uint64_t context;              /* hash of this program, its engines and calibrations */
};

enum { MQ_MAX_POINTS = 1000000, MQ_MAX_AXIS = 10000 };

/* `allow_exec`: the file is trusted, it may name programs to run. MQ_EINPUT: file, line, value and remedy. */
enum mq_status mq_study_load(const char *path, bool allow_exec, struct mq_arena *arena, struct mq_study *study,
			     struct mq_err *err);

/* Does an axis vary together with others? */
bool mq_study_joined(const struct mq_study *study, uint32_t axis);

/* index[n_axes]: which value a point has on each axis. */
void mq_study_values(const struct mq_study *study, uint32_t point, uint32_t *index);

/* Fills `context`, so that rows of another program or other calibrations are not taken for this one's. */
enum mq_status mq_study_bind(struct mq_study *study, struct mq_err *err);

/* Devices that a point asks for, where platform.nodes or platform.gpus is an axis; else 0. */
double mq_study_size(const struct mq_study *study, const char *const *value);

/* One point: its value on each axis, and the question it asks. `platform_dir` receives generated
 * platforms. The question lives in the arena; MQ_EINPUT names the point's values. */
struct mq_point {
	uint32_t index;
	const char **value; /* [n_axes] */
	uint64_t hash;      /* of the question, for resuming */
	struct mq_asked asked;
	struct mq_search_options search;
	const char *plan;     /* judge this plan and search nothing; or NULL */
	struct mq_point *job; /* [n_jobs] each job's question, search and plan; or NULL */
	double start_s;       /* of a job: when its first step begins */
	struct mq_failures failures;
	struct mq_jitter jitter;
};
enum mq_status mq_study_point(const struct mq_study *study, uint32_t index, const char *platform_dir,
			      struct mq_arena *arena, struct mq_point *point, struct mq_err *err);

struct mq_csv_writer;

/* The column of whatif.csv that an axis has: its key, but for `devices`, which is how many a point's plan uses. */
const char *mq_axis_column(const struct mq_axis *axis);
/* The first cells of a row; `point` NULL: of the header. */
void mq_study_put_head(struct mq_csv_writer *row, const struct mq_study *study, const struct mq_point *point);
/* The header of whatif.csv: point, the axes with more than one value, the columns of a row. */
const char *mq_study_header(const struct mq_study *study, struct mq_arena *arena);

/* Searches one point and writes its row to `row`, without newline. Further lines, each after a newline, are what was
 * asked of the best plan (a letter tells the table, the point comes later). A point that has no feasible plan, or that
 * cannot be asked (its platform cannot be built, say), is a row too. The line MQ_STUDY_CRASHED says that a simulator
 * died over it: the row is no answer to keep, and its verdict is crash where there is no other. `plan_path` (may be
 * NULL) receives the best plan. MQ_EINPUT only where a row cannot be made at all. */
#define MQ_STUDY_CRASHED "C"
enum mq_status mq_study_run(const struct mq_study *study, const struct mq_point *point, const char *plan_path,
			    struct mq_arena *arena, const char **row, struct mq_err *err);

/* Row and lines "J,..." (jobs.csv) and "L,..." (job_links.csv) of a point with several jobs. `plan_path`
 * (may be NULL) with the job's name before its suffix receives each job's plan. *crashed: did a simulator
 * die? MQ_ETIME: no row for that reason, mq_study_jobs_nothing writes one. */
enum mq_status mq_study_jobs(struct mq_csv_writer *row, const struct mq_study *study, const struct mq_point *point,
			     const char *plan_path, bool *crashed, struct mq_err *err);
void mq_study_jobs_nothing(struct mq_csv_writer *row, const struct mq_study *study, const char *verdict,
			   const char *why);

/* Opens a point's question and searches it, or judges its given plan: an outcome of one candidate. */
enum mq_status mq_study_search(const struct mq_study *study, const struct mq_point *point, struct mq_session *session,
			       struct mq_search_outcome *outcome, struct mq_err *err);
/* Why mq_study_run would write that this point is refused, found without a simulation; NULL: it would not. */
const char *mq_study_refused(const struct mq_study *study, const struct mq_point *point, struct mq_arena *arena);
/* Why an outcome has no plan: its verdict, and *why in words. */
const char *mq_study_no_plan(const struct mq_search_outcome *outcome, struct mq_arena *arena, const char **why);

/* A point in the answering: its session, the plans found for it, and the row that is written of them. */
struct mq_answering {
	const struct mq_study *study;
	const struct mq_point *point;
	struct mq_session session;
	struct mq_search_outcome outcome;
	struct mq_csv_writer *row;
	struct mq_err *err;
};
/* The best plan judged again under changed hardware: lines "S,target,factor,..." (sensitivity.csv) and
 * "B,target,..." (breakeven.csv) behind the row. */
enum mq_status mq_study_sensitivity(const struct mq_answering *a);
enum mq_status mq_study_breakeven(struct mq_answering *a);

/* From DIR/whatif.csv and the tables beside it: scaling.csv, losses.csv, pareto.csv, and answers in
 * words to `words`. */
enum mq_status mq_study_answers(const struct mq_study *study, const char *dir, FILE *words, struct mq_err *err);

/* Figures (SVG and PNG) of the tables in DIR to the folder `out`, drawn by gnuplot: MQ_ENODEV where it is
 * not there. *n: how many. */
enum mq_status mq_study_figures(const struct mq_study *study, const char *dir, const char *out, uint32_t *n,
				struct mq_err *err);
struct mq_csv;
/* The row of whatif.csv with the most samples per second; MQ_NONE where no point has a plan. */
uint32_t mq_study_fastest(const struct mq_csv *csv);

/* DIR/report.html: one self-contained file with question, answers, tables, figures, the timeline of the
 * fastest point's plan, assumptions, provenance and the command. `plan` and `point` (NULL: none has a
 * plan) are that of the fastest point; with several jobs, any point with all its jobs' plans. */
enum mq_status mq_study_report(const struct mq_study *study, const char *dir, const struct mq_point *point,
			       const char *plan, struct mq_err *err);

#endif

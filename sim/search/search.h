/* search.h - the search loop: engines propose, an evaluator judges, rows are written, the best are kept.
 *
 * Rounds: every engine that is not done fills its batch; duplicates (same plan hash) are answered from a cache that all
 * engines share; the rest is judged in chunks; then, in order of engine and index, each row is appended and its engine
 * observes it. The order never depends on how many workers judge, so candidates.csv is the same for every -j.
 *
 * Resuming: DIR/evaluations.csv keeps every judgement. The loop simply starts again: the engines are deterministic,
 * known plans are answered from that file, rows already in candidates.csv are compared and not written twice. A file
 * that some other question wrote is never mixed in: `context` differs. The verdict crash is no judgement of the plan
 * (memory may have been short) and is not kept: the plan is judged anew, and rows from there on are replaced.
 *
 * Budgets: `evals` counts the proposals of each engine; `seconds` is shared equally: an engine stops when its own
 * proposing plus its part of the judging has used its share; what finished engines did not use goes to the others.
 * Plans at judgement when time is over have no row. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SEARCH_SEARCH_H
#define MQ_SEARCH_SEARCH_H

#include <stdio.h>

#include "maquette/engine.h"
#include "maquette/map.h"

struct mq_evaluator {
	void *context;
	/* Judges n plans; result[i] belongs to plan[i]. Order and number of workers do not matter. */
	enum mq_status (*evaluate)(void *context, const struct mq_plan *const *plan, uint32_t n,
				   struct mq_result *result, struct mq_err *err);
	uint32_t chunk; /* plans per call, >= 1: how many may be lost by a kill */
	/* Called before each call where time is limited: clock seconds that it may take. Plans that have no result
	 * by then get the verdict MQ_N_VERDICTS. May be NULL. */
	void (*until)(void *context, double left_s);
};

struct mq_search_engine {
	const struct mq_engine *engine; /* from mq_engine_open: no NULL hooks */
	const char *options;            /* "key=value,..." or "" */
	const char *label;              /* the column `engine`; unique in the run */
	bool may_refuse;                /* a refusal in start is reported, not an error */
};

/* The question as engines that take a part for the whole hear it (mq_problem.times). */
struct mq_search_part {
	uint32_t times;
	struct mq_question q;
	const struct mq_costs *costs;
	void *screen_context;
};

struct mq_search {
	/* What is asked; all borrowed. */
	const struct mq_question *q;
	const struct mq_costs *costs;
	/* The analytic executor for engines (mq_costs.screen), or NULL. Without `fits` it answers these questions,
	 * too. */
	bool (*screen)(void *context, const struct mq_plan *plan, struct mq_result *result);
	bool (*fits)(void *context, const struct mq_plan *plan, struct mq_result *result);
	/* Of several at once, whether they fit or not; NULL: `screen` is asked for one after the other. */
	void (*screen_times)(void *context, const struct mq_plan *const *plan, uint32_t n, struct mq_result *result);
	void *screen_context;
	const struct mq_search_part *part; /* NULL: engines hear all of it */
	const struct mq_limits *limits;
	/* Whose names `runs_in` has; none = the column stays empty. */
	const struct mq_software_record *software;
	uint32_t n_software;
	const struct mq_plan *start;
	const char *objective;
	bool proof; /* ask engines for lower bounds */
	const struct mq_search_engine *engine;
	uint32_t n_engines;
	uint64_t seed, evals; /* evals: per engine; UINT64_MAX = no limit */
	double seconds;       /* +inf = no limit */
	uint32_t top;         /* rows of the ranking */
	const char *dir;      /* output folder, or NULL = write nothing */
	uint64_t context;     /* hash of everything that results depend on */
	struct mq_evaluator evaluator;
	double (*now_s)(void); /* monotonic clock, for budgets only */
	bool (*stopped)(void); /* is the search to end with what it has? May be NULL */
	/* Shown while running: share done (NaN = unknown) and a few words. May be NULL. */
	void (*progress)(void *context, double done, const char *what);
	void *progress_context;
};

struct mq_candidate {
	const char *engine; /* label */
	uint64_t index, hash;
	uint64_t form;    /* hash of what the plans of one row share */
	double objective; /* what it was ranked by */
	struct mq_plan *plan;
	const char *runs_in; /* softwares able to run it; "-" = none, "" = not asked */
	uint32_t like;       /* near-equal plans that the row of the ranking stands for */
	struct mq_result result;
};

/* A plan that is shown beside the ranking, whatever its place: the best of a software, or a usual one. */
struct mq_named_candidate {
	const char *name;
	struct mq_candidate best; /* plan: NULL where there is none */
};

enum { MQ_MOST_USUAL = 8 };

struct mq_engine_report {
	const char *engine;
	uint64_t proposals, feasible, screens;
	double best_step_time_s;  /* NaN = none feasible */
	struct mq_candidate best; /* that plan; nothing where none is feasible */
	bool finished;            /* it had no more to propose, or promised the optimum */
	char stopped[512];        /* why it refused or failed, or "" */
	uint32_t n_said;
	const char **said; /* its lines for the user */
	uint32_t n_bounds;
	struct mq_bound *bound; /* what it has shown (proof) */
};

struct mq_search_outcome {
	const char *objective; /* what the best are ranked by */
	uint32_t n_best;
	struct mq_candidate *best; /* [n_best], best first, of near-equal plans one */
	uint32_t n_software, n_usual;
	struct mq_named_candidate *software; /* [n_software], in the order of mq_search.software; of those that a
					      * software can run the best that is feasible */
	struct mq_named_candidate usual[MQ_MOST_USUAL]; /* plans that an engine calls usual, feasible or not */
	uint64_t proposals, feasible, judged, cached;
	double least_s;   /* what no plan is below (proof; 0 = not asked) */
	uint64_t crashed; /* proposals whose simulator died: not judged, in truth */
	uint32_t n_reports;
	struct mq_engine_report *report; /* [n_reports], one per engine */
	bool have_nearest; /* no feasible plan: of all looked at, screens too, the one that misses memory by least */
	struct mq_candidate nearest;
	bool have_refused; /* the first plan that was refused for another reason */
	struct mq_candidate refused;
};

/* Results and plans of the outcome live in `arena`. Errors: broken files, a full disk, an engine that
 * refuses. No feasible plan is MQ_OK with n_best = 0. */
MQ_API enum mq_status mq_search_run(const struct mq_search *search, struct mq_arena *arena,
				    struct mq_search_outcome *outcome, struct mq_err *err);

/* Does a judged plan keep the budgets of --max (cost, energy, step-time, memory)? Else says which it
 * exceeds. A plan whose price is not known keeps no budget of it. */
MQ_API bool mq_budget_holds(const struct mq_limits *limits, const struct mq_cluster *cluster,
			    const struct mq_plan *plan, const struct mq_result *result, char *message, size_t size);

/* Text of the objectives that a run can be ranked by: NULL-terminated. */
MQ_API extern const char *const mq_objectives[];

/* ---- inside the loop (ranking.c) ----------------------------------------------------------- */

struct mq_ranking {
	const struct mq_search *search;
	struct mq_arena *arena;
	uint32_t n, room;               /* room: candidates that are kept at most */
	struct mq_candidate *candidate; /* [n], best first; they differ in effect */
	uint32_t n_seen, seen_room;
	struct mq_seen *seen;                /* every feasible proposal */
	struct mq_named_candidate *software; /* [search->n_software] */
};
void mq_ranking_init(struct mq_ranking *ranking, const struct mq_search *search, struct mq_arena *arena);
/* Takes a feasible candidate and sets its objective. Copies what it keeps. */
void mq_ranking_add(struct mq_ranking *ranking, struct mq_candidate *candidate);
/* The best plans, one for all that are near-equal, and the best plan of each software. */
void mq_ranking_finish(struct mq_ranking *ranking, struct mq_search_outcome *outcome);
/* A copy whose plan lives in `arena`. */
void mq_candidate_keep(struct mq_candidate *to, const struct mq_candidate *from, struct mq_arena *arena);

/* ---- inside the loop (search_rows.c) ------------------------------------------------------- */

/* candidates.csv, written or compared row by row. */
struct mq_rows {
	FILE *file;
	const char *path;
	char *old;           /* what the file held, in the arena */
	size_t old_size, at; /* at: where the next row belongs */
	bool lenient;        /* a row that differs cuts the file there instead of failing */
};
enum mq_status mq_rows_open(struct mq_rows *rows, const char *dir, struct mq_arena *arena, struct mq_err *err);
enum mq_status mq_rows_add(struct mq_rows *rows, const struct mq_candidate *candidate, double best_step_time_s,
			   const struct mq_cluster *cluster, struct mq_err *err);
enum mq_status mq_rows_close(struct mq_rows *rows, struct mq_err *err);

/* learning.csv: what engines note of their learning. Made with the first note, anew in every run: a run
 * that is resumed learns again from the evaluations it knows and comes to the same rows. */
struct mq_notes {
	FILE *file;       /* NULL until the first note */
	const char *path; /* NULL = keep none */
	bool failed;
};
void mq_notes_add(struct mq_notes *notes, const char *engine, uint64_t index, const char *quantity, double value);
enum mq_status mq_notes_close(struct mq_notes *notes, struct mq_err *err);

/* Judgements by plan hash, kept in evaluations.csv. */
struct mq_cache {
	struct mq_arena *arena;
	uint32_t room, n_others; /* n_others: rows of the file that are of another context */
	struct mq_map map;       /* plan hashes; index into result */
	const struct mq_result **result;
	FILE *file; /* NULL = in memory only */
	const char *path;
	uint64_t context;
};
enum mq_status mq_cache_open(struct mq_cache *cache, const char *dir, uint64_t context, struct mq_arena *arena,
			     struct mq_err *err);
const struct mq_result *mq_cache_find(const struct mq_cache *cache, uint64_t hash);
enum mq_status mq_cache_add(struct mq_cache *cache, uint64_t hash, const struct mq_result *result, struct mq_err *err);
enum mq_status mq_cache_close(struct mq_cache *cache, struct mq_err *err);

/* Cost queries that count their screens. */
struct mq_counted_costs {
	struct mq_costs costs;
	const struct mq_search *search;
	const struct mq_question *q; /* what is asked about, all or a part, and with whom */
	void *screen_context;
	uint64_t screens;
	/* Called with each plan of the whole that an engine asked about, with what the user fixed, and its answer. */
	void (*looked_at)(void *looker, struct mq_plan *plan, const struct mq_result *result);
	void *looker;
};
void mq_costs_count(struct mq_counted_costs *counted, const struct mq_search *search, const struct mq_search_part *part,
		    void (*looked_at)(void *looker, struct mq_plan *plan, const struct mq_result *result),
		    void *looker);
/* MQ_EINPUT where no plan at all can have what --fix says: more ranks than devices, parts that divide no heads. */
enum mq_status mq_limits_possible(const struct mq_limits *limits, const struct mq_question *q, struct mq_err *err);

/* ---- `-e exec:PROGRAM` (exec_engine.c) ------------------------------------------------------ */

/* An engine in any language, spoken to in JSON lines over pipes as strategies/README.md describes. It runs
 * `program` through the shell; `options` ("key=value,...") are handed to it. Lives in the arena. */
MQ_API const struct mq_engine *mq_exec_engine_new(const char *program, const char *options, struct mq_arena *arena);

#endif

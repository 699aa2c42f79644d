/* search_run.h - the search of the commands `search` and `whatif`: engine options, the call of the search loop, and its
 * reports. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_SEARCH_RUN_H
#define MQ_SESSION_SEARCH_RUN_H

#include "session/session.h"
#include "search/search.h"

/* Options of a search, as given. */
struct mq_search_options {
	struct mq_list engines; /* raw -e texts */
	const char *objective;
	uint64_t evals; /* proposals per engine; UINT64_MAX: only --seconds was given; 0 before _settle */
	double seconds; /* +inf = not given */
	uint32_t top;
	bool proof;
};

extern const struct mq_arg mq_search_args[];
/* Sets, after parsing, the default engine and number of proposals if none were given. */
void mq_search_options_settle(struct mq_search_options *options);

/* Reads the software files marked "listed", which `runs_in` names, unless they are loaded. */
enum mq_status mq_listed_software(struct mq_shipped *shipped, struct mq_err *err);

/* Runs a search in an open session; `dir` (may be NULL): output folder. Plans and texts live in the session's arena. */
enum mq_status mq_search_session(struct mq_session *session, const struct mq_search_options *options, const char *dir,
				 struct mq_search_outcome *outcome, struct mq_err *err);

/* Hashes a file's path and contents; of a path that cannot be read (a built-in model's name) the path alone. */
uint64_t mq_hash_file(uint64_t hash, const char *path);
/* Hashes the files of an installed folder. */
enum mq_status mq_hash_folder(uint64_t *hash, const char *kind, const char *suffix, struct mq_arena *arena,
			      struct mq_err *err);

/* Describes a plan of the ranking, and the number of near-equal plans in its row. */
const char *mq_row_text(const struct mq_candidate *candidate, const struct mq_cluster *cluster, struct mq_arena *arena);
/* The reason why a plan is not the first: "oom by 1.2 GB", "bubble 14 %", "tp over nic", "+12 % communication, nic",
 * "+3 % compute"; for another objective than the step time "+5 % cost"; "within 0.05 %" if no term explains it; "" for
 * the first and equally good plans. Of the terms that take longer the largest is named: the bubble as a share of the
 * plan's own step, others as a share of the first's. */
const char *mq_why_not_first(const struct mq_candidate *candidate, const struct mq_search_outcome *outcome,
			     const struct mq_cluster *cluster, struct mq_arena *arena);
/* Rank, from 1, of the plan with this hash; 0: not ranked. */
uint32_t mq_rank_of(const struct mq_search_outcome *outcome, uint64_t hash);
/* Prints, if no plan is feasible, the nearest, options that need less memory, and a number of devices that would do. */
void mq_search_nothing(const struct mq_session *session, const struct mq_search_outcome *outcome, FILE *file);
/* Prints the best plans, the reasons why the first wins, and each engine's work. */
void mq_search_print(const struct mq_session *session, const struct mq_search_outcome *outcome, FILE *file);
/* Prints the part of it after the ranking; there must be a plan. */
void mq_search_explain(const struct mq_session *session, const struct mq_search_outcome *outcome, FILE *file);

/* The same as JSON, and as DIR/report.html. */
void mq_search_json(const struct mq_session *session, const struct mq_search_outcome *outcome, FILE *file);
enum mq_status mq_search_page(struct mq_session *session, const struct mq_search_outcome *outcome, const char *dir,
			      struct mq_err *err);

/* --proof: prints a line per lower bound, and writes the same as DIR/proof.csv. MQ_EBUG: a bound exceeds
 * a simulated time. */
enum mq_status mq_proof_check(const struct mq_search_outcome *outcome, struct mq_err *err);
void mq_proof_print(const struct mq_search_outcome *outcome, FILE *file);
enum mq_status mq_proof_write(const struct mq_search_outcome *outcome, const char *dir, struct mq_err *err);

/* Compares two judged plans term by term (compute, exposed communication per link class, bubble, memory): a line per
 * term, largest difference first. */
struct mq_scored {
	const char *name;
	const struct mq_result *result;
};
void mq_explain(const struct mq_scored *first, const struct mq_scored *second, const struct mq_cluster *cluster,
		FILE *file);

/* tokens/s/GPU and TFLOP/s/GPU of a result; NaN: not applicable. */
double mq_tokens_per_s_device(const struct mq_session *session, const struct mq_plan *plan,
			      const struct mq_result *result);
double mq_tflops_per_device(const struct mq_session *session, const struct mq_plan *plan,
			    const struct mq_result *result);

#endif

/* search_run.h - the search that `search` and `whatif` run: engine options, the call of the loop, and the report in
 * words. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_SEARCH_RUN_H
#define MQ_SESSION_SEARCH_RUN_H

#include "session/session.h"
#include "search/search.h"

/* The options of a search, as given. */
struct mq_search_options {
	struct mq_list engines; /* raw -e texts */
	const char *objective;
	uint64_t evals; /* per engine; UINT64_MAX where only --seconds is given, 0 before mq_search_options_settle */
	double seconds; /* +inf where not given */
	uint32_t top;
	bool proof;
};

extern const struct mq_arg mq_search_args[];
/* After parsing: the engine and the number of proposals where none were given. */
void mq_search_options_settle(struct mq_search_options *options);

/* Reads the softwares that `runs_in` names, those whose files say "listed", unless they are there. */
enum mq_status mq_listed_software(struct mq_shipped *shipped, struct mq_err *err);

/* Runs the search of an open session; `dir` may be NULL. Plans and text live in the session's arena. */
enum mq_status mq_search_session(struct mq_session *session, const struct mq_search_options *options, const char *dir,
				 struct mq_search_outcome *outcome, struct mq_err *err);

/* Adds a file's path and contents to a hash; what cannot be read (a built-in model's name) counts as its name alone. */
uint64_t mq_hash_file(uint64_t hash, const char *path);
/* Folds the files of a folder of the installation in. */
enum mq_status mq_hash_folder(uint64_t *hash, const char *kind, const char *suffix, struct mq_arena *arena,
			      struct mq_err *err);

/* A plan of the ranking in words, with how many near-equal ones it stands for. */
const char *mq_row_text(const struct mq_candidate *candidate, const struct mq_cluster *cluster, struct mq_arena *arena);
/* Why a plan is not the first, from its judgement beside the first's: "oom by 1.2 GB",
 * "bubble 14 %", "tp over nic", "+12 % communication, nic", "+3 % compute"; another objective than the step time:
 * "+5 % cost"; "within 0.05 %" where nothing tells them apart; "" for the first itself and one as good. The largest of
 * the terms that take longer is named: a share of its own step for the bubble, and of the first's step for the others. */
const char *mq_why_not_first(const struct mq_candidate *candidate, const struct mq_search_outcome *outcome,
			     const struct mq_cluster *cluster, struct mq_arena *arena);
/* Rank of the plan with this hash, from 1; 0: it has none. */
uint32_t mq_rank_of(const struct mq_search_outcome *outcome, uint64_t hash);
/* Where no plan is feasible: the nearest, what needs less, how many devices do. */
void mq_search_nothing(const struct mq_session *session, const struct mq_search_outcome *outcome, FILE *file);
/* Table of the best plans, why the first wins, what each engine did. */
void mq_search_print(const struct mq_session *session, const struct mq_search_outcome *outcome, FILE *file);
/* The part of it behind the ranking, where there is a plan. */
void mq_search_explain(const struct mq_session *session, const struct mq_search_outcome *outcome, FILE *file);

/* The same for programs, and as DIR/report.html for people. */
void mq_search_json(const struct mq_session *session, const struct mq_search_outcome *outcome, FILE *file);
enum mq_status mq_search_page(struct mq_session *session, const struct mq_search_outcome *outcome, const char *dir,
			      struct mq_err *err);

/* --proof: one line per lower bound, and the same as DIR/proof.csv. MQ_EBUG: a bound lies above a plan that was
 * simulated. */
enum mq_status mq_proof_check(const struct mq_search_outcome *outcome, struct mq_err *err);
void mq_proof_print(const struct mq_search_outcome *outcome, FILE *file);
enum mq_status mq_proof_write(const struct mq_search_outcome *outcome, const char *dir, struct mq_err *err);

/* Two judged plans, term by term: compute, exposed communication per link class, bubble, memory. `file`
 * gets one line per term, largest difference first. */
struct mq_scored {
	const char *name;
	const struct mq_plan *plan;
	const struct mq_result *result;
};
void mq_explain(const struct mq_scored *first, const struct mq_scored *second, const struct mq_cluster *cluster,
		FILE *file);

/* tokens/s/GPU and TFLOP/s/GPU of a result; NaN where they mean nothing. */
double mq_tokens_per_s_device(const struct mq_session *session, const struct mq_plan *plan,
			      const struct mq_result *result);
double mq_tflops_per_device(const struct mq_session *session, const struct mq_plan *plan,
			    const struct mq_result *result);

#endif

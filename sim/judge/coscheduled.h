/* coscheduled.h - several jobs at once on one cluster: how much each slows the others.
 *
 * Every job repeats its step; a step starts on all devices of the job when the one before has ended on all of them, as
 * in a step that is simulated alone. The steps of all jobs become one schedule that is simulated once. Steps are timed
 * in a window: it opens when a job's own first step ends (the first steps of all jobs start together, which is not
 * representative) and closes when the first of the jobs has done all its steps, so that all jobs run throughout. Jobs
 * repeat until each has `steps` steps in the window; their mean is its step time beside the others.
 *
 * No two jobs share a device; they share links. Every rank is simulated: ranks that are alike within a job differ by
 * the jobs they meet. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_JUDGE_COSCHEDULED_H
#define MQ_JUDGE_COSCHEDULED_H

#include "executors/execute.h"
#include "judge/judge.h"

struct mq_coscheduled_score {
	enum mq_verdict verdict;      /* of the job's own plan; the times are set only where every job's is OK */
	char message[256];            /* why it is not OK */
	double alone_s;               /* step time when no other job runs */
	double together_s;            /* mean step time in the window */
	double shortest_s, longest_s; /* of the steps in the window */
	uint32_t steps;               /* in the window */
};

struct mq_coscheduled {
	uint32_t n_jobs, n_links;
	struct mq_coscheduled_score *job; /* [n_jobs] */
	/* Links that several jobs use, most bytes first, without fatpipes, which limit nobody. */
	uint32_t *link; /* [n_links] cluster links */
	double *link_B; /* [n_links * n_jobs] bytes per step of each job */
};

/* One step of a job; schedule->device[] holds ranks of request->cluster; the schedule is not folded. */
struct mq_coscheduled_step {
	const struct mq_schedule *schedule;
	double start_s; /* when its first step begins */
};

enum { MQ_TOGETHER_TASKS = 12000000 }; /* more would not fit into memory */

/* Simulates the n jobs with `execute`; request->view is ignored. MQ_EINPUT: a device is in two jobs; more than
 * MQ_TOGETHER_TASKS tasks. */
enum mq_status mq_coscheduled_run(const struct mq_exec_request *request, mq_execute_fn *execute,
				  const struct mq_coscheduled_step *step, uint32_t n, uint32_t steps,
				  struct mq_arena *arena, struct mq_coscheduled *out, struct mq_err *err);

/* ---- between the main process and a worker (pool.c) ------------------------------------------------ */

struct mq_job;
struct mq_coscheduled_job {
	const struct mq_job *job;   /* model, training options, devices; its platform is ignored */
	const struct mq_plan *plan; /* its ranks index the job's devices */
	double start_s;
};
void *mq_coscheduled_pack_ask(const struct mq_coscheduled_job *job, uint32_t n, uint32_t steps, struct mq_arena *arena,
			      size_t *size);
/* A worker's side: runs packed jobs and packs their scores into *answer; judge->q->cluster is the whole cluster. */
enum mq_status mq_coscheduled_answer(const struct mq_judge *judge, const void *ask, size_t ask_size,
				     struct mq_arena *arena, void **answer, size_t *size, struct mq_err *err);
enum mq_status mq_coscheduled_unpack(const void *answer, size_t size, struct mq_arena *arena,
				     struct mq_coscheduled *out, struct mq_err *err);

#endif

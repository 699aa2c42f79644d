/* coscheduled.h - several jobs at once on one cluster: how much each slows the others.
 *
 * Every job repeats its step; a step starts on all devices of the job when the one before has ended on all of them, as
 * in a step that is simulated alone. The steps of all jobs become one schedule that is simulated once. The window that
 * counts goes from the end of a job's first step (all begin at once there, which means nothing) to the moment when the
 * first job has done all its steps: so in every step that counts, all jobs run. Steps are added until each job has
 * `steps` that count. A job's time together is the mean of those.
 *
 * Devices belong to one job each; what jobs share is links. Every rank is simulated: symmetry of one job is not that of
 * all. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_JUDGE_COSCHEDULED_H
#define MQ_JUDGE_COSCHEDULED_H

#include "executors/execute.h"
#include "judge/judge.h"

struct mq_coscheduled_score {
	enum mq_verdict verdict;      /* of the job's own plan; only where all are OK is there more */
	char message[256];            /* where not OK */
	double alone_s;               /* a step with nobody else about */
	double together_s;            /* mean of the steps that count */
	double shortest_s, longest_s; /* of these */
	uint32_t steps;               /* how many count */
};

struct mq_coscheduled {
	uint32_t n_jobs, n_links;
	struct mq_coscheduled_score *job; /* [n_jobs] */
	/* Links that several jobs use, most bytes first; those that never limit are left out. */
	uint32_t *link; /* [n_links] cluster links */
	double *link_B; /* [n_links * n_jobs] bytes per step of each job */
};

/* One step of a job. `schedule->device` are ranks of request->cluster; never folded. */
struct mq_coscheduled_step {
	const struct mq_schedule *schedule;
	double start_s; /* when its first step begins */
};

enum { MQ_TOGETHER_TASKS = 12000000 }; /* more would not fit into memory */

/* Simulates them with `execute`; request->schedule is not looked at. MQ_EINPUT: a device in two jobs, more
 * than MQ_TOGETHER_TASKS tasks (says what to do). */
enum mq_status mq_coscheduled_run(const struct mq_exec_request *request, mq_execute_fn *execute,
				  const struct mq_coscheduled_step *step, uint32_t n, uint32_t steps,
				  struct mq_arena *arena, struct mq_coscheduled *out, struct mq_err *err);

/* ---- between the main process and a worker (pool.c) ------------------------------------------------ */

struct mq_job;
struct mq_coscheduled_job {
	const struct mq_job *job;   /* model, training options, devices; its platform is not looked at */
	const struct mq_plan *plan; /* in the ranks of the job's devices */
	double start_s;
};
void *mq_coscheduled_pack_ask(const struct mq_coscheduled_job *job, uint32_t n, uint32_t steps, struct mq_arena *arena,
			      size_t *size);
/* The worker's answer to packed jobs; judge->cluster is the whole one. *answer is packed, too. */
enum mq_status mq_coscheduled_answer(const struct mq_judge *judge, const void *ask, size_t ask_size,
				     struct mq_arena *arena, void **answer, size_t *size, struct mq_err *err);
enum mq_status mq_coscheduled_unpack(const void *answer, size_t size, struct mq_arena *arena,
				     struct mq_coscheduled *out, struct mq_err *err);

#endif

/* pool.h - worker processes that judge plans by simulation.
 *
 * SimGrid takes one platform per process and aborts on bad input, so it never runs in the main process, which also
 * never forks (it may hold threads, MPI or CUDA). mq_pool_open spawns this program again as a single-threaded server
 * that loads model, calibrations and platform once and forks the workers. A server or worker that dies is replaced. A
 * plan whose worker died is tried once more, alone; a second death is the verdict crash, too long a time the verdict
 * timeout. Results do not depend on the number of workers.
 *
 * The spawned program is /proc/self/exe with the arguments `worker` and those of mq_job_encode, so a program that opens
 * a pool must hand such arguments to mq_pool_serve. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_JUDGE_POOL_H
#define MQ_JUDGE_POOL_H

#include "executors/execute.h"
#include "judge/job.h"
#include "judge/outputs.h"
#include "judge/coscheduled.h"

struct mq_pool;

/* Starts the server; workers are forked when first needed. The pool and its cluster live in the arena; `job` is
 * borrowed. Errors: the file that the server could not load. */
enum mq_status mq_pool_open(const struct mq_job *job, uint32_t n_workers, struct mq_arena *arena, struct mq_pool **pool,
			    struct mq_err *err);
/* The whole platform; its routes are asked of the server. The caller still has to bind a calibration, apply the job's
 * changes and select the job's devices, as the workers did. */
struct mq_cluster *mq_pool_cluster(struct mq_pool *pool);

/* Judges n plans; result[i] belongs to plan[i]. A verdict is data; an error means that no server could be started
 * (MQ_ETIME) or no file descriptor is left (MQ_ENODEV). Fits mq_evaluator (search/search.h). */
enum mq_status mq_pool_judge(struct mq_pool *pool, const struct mq_plan *const *plan, uint32_t n,
			     struct mq_result *result, struct mq_err *err);
/* The same, each plan under the model, software and training options of its own job; the pool's own platform,
 * calibration and changes hold for all. */
enum mq_status mq_pool_judge_jobs(struct mq_pool *pool, const struct mq_job *const *job,
				  const struct mq_plan *const *plan, uint32_t n, struct mq_result *result,
				  struct mq_err *err);
/* Sets the deadline of later judging calls, in clock seconds from now; +inf (the default) = none. Plans without a
 * result by then get the verdict MQ_N_VERDICTS. */
void mq_pool_until(struct mq_pool *pool, double left_s);
/* The same, at any moment when `stopped` says so. */
void mq_pool_stop_when(struct mq_pool *pool, bool (*stopped)(void));
/* Judges one plan, by simulation or by the analytic executor, and has the worker write the files asked for. */
enum mq_status mq_pool_detail(struct mq_pool *pool, bool analytic, const struct mq_plan *plan,
			      const struct mq_outputs *outputs, struct mq_result *result, struct mq_err *err);
/* Simulates several jobs at once on the pool's whole platform, with the calibration and changes of the pool's own job.
 * `out` lives in `arena`. MQ_EINPUT: see mq_coscheduled_run. MQ_ETIME: the worker died twice. */
enum mq_status mq_pool_coscheduled(struct mq_pool *pool, const struct mq_coscheduled_job *job, uint32_t n,
				   uint32_t steps, struct mq_arena *arena, struct mq_coscheduled *out,
				   struct mq_err *err);
/* Ends all processes. NULL is fine. */
void mq_pool_close(struct mq_pool *pool);

/* The server: serves until its pool closes, and then exits; returns only errors. argv has neither program name nor
 * "worker". */
enum mq_status mq_pool_serve(int argc, char **argv, struct mq_err *err);

#endif

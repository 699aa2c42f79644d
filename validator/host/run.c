/* run.c - one rank's progress engine: all streams of a device on one core.
 *
 * Communication is posted (non-blocking) as soon as its stream and dependencies allow; then, if compute is ready, the
 * lowest task runs to its end while posted communication is polled between kernels; else the core polls. So no stream
 * can block another, and a schedule free of deadlock stays so. A group of tasks on one stream is posted at once.
 * Transports: host.h.
 *
 * Communication needs the CPU: overlap as on a GPU is impossible, as the calibration of a CPU device says
 * (serial_comm). Overhead per task: two readings each of the clock, of the thread's CPU time and of its context
 * switches, 0.5 us. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <sched.h>
#include <sys/resource.h>

#include "host/host.h"

/* ---- one rank's part of a schedule ------------------------------------------------------------ */

static enum mq_status check_task(const struct mq_schedule *s, const struct mq_task *t, struct mq_err *err)
{
	if (t->kind == MQ_TASK_COMPUTE)
		for (uint32_t i = 0; i < s->work[t->work].n_kernels; i++)
			MQ_TRY(host_kernel_check(&s->work[t->work].kernel[i], err));
	if (t->kind == MQ_TASK_COLLECTIVE && mq_coll_adds(t->coll) && t->dtype != MQ_FP32 && t->dtype != MQ_TF32 &&
	    t->dtype != MQ_FP64)
		return mq_bad(err, "executor host adds fp32 and fp64, task %u asks for %s: lower it with --dtype fp32",
			      (uint32_t)(t - s->task), mq_dtype_name(t->dtype));
	return MQ_OK;
}

enum mq_status host_script_build(struct host_rank *rank, const struct mq_schedule *schedule, struct host_script *script,
				 struct mq_err *err)
{
	script->schedule = schedule;
	script->device = rank->ranks->rank;
	script->done = mq_arena_array(rank->arena, schedule->n_tasks, uint8_t);
	script->next_call = mq_arena_array(rank->arena, schedule->n_comms, uint32_t);
	for (uint32_t i = 0; i < schedule->n_tasks; i++)
		if (mq_replay_own(rank->session, script->device, 1, &schedule->task[i].device))
			MQ_TRY(check_task(schedule, &schedule->task[i], err));
	MQ_TRY(mq_schedule_match(schedule, rank->arena, &script->match, &script->call, err));
	script->n_local = mq_lanes_of(schedule, script->device, rank->arena, script->lane);
	return rank->talk->prepare ? rank->talk->prepare(rank->talk_state, script, err) : MQ_OK;
}

/* ---- running ---------------------------------------------------------------------------------- */

enum { SPINS_PER_CHECK = 2048 };

struct run {
	struct host_rank *rank;
	struct host_script *script;
	struct mq_replay_sample *sample;
	double start_s, last_progress_s;
	uint32_t n_done;
	enum mq_status status; /* of polling, since a rank may die while a kernel runs */
	struct mq_err *err;
};

static double switches_now(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (double)usage.ru_nivcsw;
}

/* On rank 0's clock. */
static double since_start(const struct run *run)
{
	const struct mq_ranks *ranks = run->rank->ranks;

	return ranks->now(ranks->state) - run->start_s;
}

static void begin(struct run *run, uint32_t task)
{
	run->sample->switches[task] = switches_now();
	run->sample->lost_s[task] = mq_seconds(CLOCK_THREAD_CPUTIME_ID); /* so far; the difference at the end */
	run->sample->start_s[task] = since_start(run);
}

static void end(void *context, uint32_t task)
{
	struct run *run = context;
	double finish_s = since_start(run), on_s = mq_seconds(CLOCK_THREAD_CPUTIME_ID) - run->sample->lost_s[task];

	run->sample->finish_s[task] = finish_s;
	run->sample->lost_s[task] = fmax(0, finish_s - run->sample->start_s[task] - on_s);
	run->sample->switches[task] = switches_now() - run->sample->switches[task];
	run->script->done[task] = 1;
	run->n_done++;
	run->last_progress_s = run->sample->finish_s[task];
}

static bool deps_done(const struct host_script *script, const struct mq_task *t)
{
	const uint32_t *dep = script->schedule->dep + t->dep_first;

	for (uint32_t i = 0; i < t->n_deps; i++)
		if (script->done[dep[i]] != 1)
			return false;
	return true;
}

/* Posts a task that may run. MPI needs the calls of a communicator in the same order on all members. */
static void post(struct run *run, uint32_t id)
{
	const struct host_talk *talk = run->rank->talk;
	const struct mq_schedule *s = run->script->schedule;
	const struct mq_task *t = &s->task[id];
	struct host_pool *pool = &run->rank->pool;
	struct host_call call = { .script = run->script, .id = id };
	bool collective = t->kind == MQ_TASK_COLLECTIVE;
	size_t bytes = collective ? talk->room(s, t) : (size_t)llround(t->bytes);

	if (run->script->done[id] || !deps_done(run->script, t) || !talk->can_post(run->rank->talk_state, t) ||
	    (collective && run->script->call[id] != run->script->next_call[t->comm]))
		return;
	begin(run, id);
	if (collective)
		run->script->next_call[t->comm]++;
	if (t->kind != MQ_TASK_RECV)
		call.in = host_pool_in(pool, bytes);
	if (t->kind != MQ_TASK_SEND)
		call.out = host_pool_out(pool, bytes);
	run->script->done[id] = 2; /* posted; becomes 1 */
	talk->post(run->rank->talk_state, &call);
}

static void poll_flights(void *context)
{
	struct run *run = context;

	if (run->status == MQ_OK)
		run->status = run->rank->talk->poll(run->rank->talk_state, end, run, run->err);
}

/* Advances every lane past finished tasks, posts what may be posted; returns the computation to run next, or
 * MQ_NONE. */
static uint32_t advance_lanes(struct run *run)
{
	const struct mq_task *task = run->script->schedule->task;
	uint32_t next = MQ_NONE;

	for (int l = 0; l < MQ_N_STREAMS; l++) {
		struct mq_lane *lane = &run->script->lane[l];

		while (lane->next < lane->n && run->script->done[lane->task[lane->next]] == 1)
			lane->next++;
		if (lane->next == lane->n)
			continue;
		uint32_t head = lane->task[lane->next];
		if (task[head].kind != MQ_TASK_COMPUTE && task[head].kind != MQ_TASK_COPY)
			for (uint32_t i = lane->next, group = task[head].group;;) { /* and the rest of its group */
				post(run, lane->task[i]);
				if (!group || ++i == lane->n || task[lane->task[i]].group != group)
					break;
			}
		else if (head < next && deps_done(run->script, &task[head]))
			next = head;
	}
	return next;
}

static void compute(struct run *run, uint32_t id)
{
	const struct mq_schedule *s = run->script->schedule;
	const struct mq_task *t = &s->task[id];
	const struct mq_work *work = t->kind == MQ_TASK_COPY ? NULL : &s->work[t->work];

	begin(run, id);
	if (!work)
		host_copy_run(&run->rank->pool, t->bytes);
	for (uint32_t i = 0; work && i < work->n_kernels; i++) {
		if (i)
			poll_flights(run);
		host_kernel_run(&run->rank->pool, &work->kernel[i], poll_flights, run);
	}
	end(run, id);
}

static enum mq_status timed_out(const struct run *run, struct mq_err *err)
{
	const struct mq_schedule *s = run->script->schedule;
	uint32_t id = run->rank->talk->under_way(run->rank->talk_state);
	uint32_t rank = run->rank->ranks->rank;

	if (id == MQ_NONE)
		return mq_fail(err, MQ_ETIME, "rank %u: nothing can run for %.3g s", rank, run->rank->deadline_s);
	const struct mq_task *t = &s->task[id];
	if (t->kind == MQ_TASK_COLLECTIVE)
		return mq_fail(err, MQ_ETIME, "rank %u: %s (task %u) on communicator %u made no progress for %.3g s",
			       rank, mq_coll_name(t->coll), id, t->comm, run->rank->deadline_s);
	return mq_fail(err, MQ_ETIME, "rank %u: %s (task %u) %s rank %u made no progress for %.3g s", rank,
		       mq_task_kind_name(t->kind), id, t->kind == MQ_TASK_SEND ? "to" : "from", t->peer,
		       run->rank->deadline_s);
}

static enum mq_status loop(struct run *run, struct mq_err *err)
{
	uint32_t spins = 0;

	while (run->n_done < run->script->n_local) {
		uint32_t before = run->n_done, next = advance_lanes(run);

		poll_flights(run);
		if (next != MQ_NONE)
			compute(run, next);
		if (run->status != MQ_OK)
			return run->status;
		if (run->n_done != before) {
			spins = 0;
			continue;
		}
		/* costs nothing if no other thread wants the core. */
		if (run->rank->yield || (run->rank->session->wire && spins % 64 == 63))
			sched_yield();
		if (++spins < SPINS_PER_CHECK)
			continue;
		spins = 0;
		if (since_start(run) > run->last_progress_s + run->rank->deadline_s)
			return timed_out(run, err);
	}
	return MQ_OK;
}

enum mq_status host_script_run(struct host_rank *rank, struct host_script *script, double start_s,
			       struct mq_replay_sample *sample, struct mq_err *err)
{
	struct run run = { .rank = rank, .script = script, .sample = sample, .start_s = start_s, .err = err };

	for (int l = 0; l < MQ_N_STREAMS; l++) {
		script->lane[l].next = 0;
		for (uint32_t i = 0; i < script->lane[l].n; i++)
			script->done[script->lane[l].task[i]] = 0;
	}
	for (uint32_t c = 0; c < script->schedule->n_comms; c++)
		script->next_call[c] = 0;
	while (since_start(&run) < 0)
		;
	sample->late_s = since_start(&run);
	return loop(&run, err);
}

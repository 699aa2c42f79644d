/*
 * run.c - one rank's progress engine: all streams of a device on one core.
 *
 * Communication is posted (non-blocking) as soon as its stream and dependencies allow; then, if a
 * computation is ready, the lowest task id runs to its end while posted communication is polled
 * between kernels; with nothing to compute, the core polls. So no order of streams can block
 * another: the schedule's own freedom from deadlock carries over. A group of tasks on one stream is
 * posted at once. Open MPI's non-blocking reduce-scatter falls to a quarter of its speed above some
 * 10 MB: large ones are posted in parts.
 *
 * Communication on a CPU needs the CPU: what overlaps on a GPU is serialised here by nature, which
 * the calibration of a CPU device says (serial_comm). Per task two readings each of the clock, of
 * the thread's own time and of its switches: 0.5 us.
 */
#include <math.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include "host/script.h"

enum { MAX_FLIGHTS = 1024, SPINS_PER_CHECK = 2048, PART_B = 4 << 20 };

struct run {
	struct host_rank *rank;
	struct host_script *script;
	struct mq_replay_sample *sample;
	double start_s, last_progress_s;
	uint32_t n_flights, n_done;
	MPI_Request request[MAX_FLIGHTS];
	uint32_t flight[MAX_FLIGHTS];
};

double host_now(const struct host_rank *rank)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec + rank->clock.offset_s;
}

static double switches_now(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (double)usage.ru_nivcsw;
}

/* Seconds that this thread has been on a core. */
static double on_core_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double since_start(const struct run *run)
{
	return host_now(run->rank) - run->start_s;
}

static void begin(struct run *run, uint32_t task)
{
	run->sample->switches[task] = switches_now();
	run->sample->lost_s[task] = on_core_s();
	run->sample->start_s[task] = since_start(run);
}

static void end(struct run *run, uint32_t task)
{
	double finish_s = since_start(run), on_s = on_core_s() - run->sample->lost_s[task];

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

/* ---- communication --------------------------------------------------------------------------- */

static void post_message(struct run *run, uint32_t id, MPI_Request *request)
{
	const struct mq_task *t = &run->script->schedule->task[id];
	struct host_pool *pool = &run->rank->pool;
	int bytes = (int)llround(t->bytes);

	/* The sender's task id is a tag that no other message of the step has. */
	if (t->kind == MQ_TASK_SEND)
		MPI_Isend(host_pool_in(pool, (size_t)bytes), bytes, MPI_BYTE, (int)t->peer, (int)id,
		          run->rank->world, request);
	else
		MPI_Irecv(host_pool_out(pool, (size_t)bytes), bytes, MPI_BYTE, (int)t->peer,
		          (int)run->script->match[id], run->rank->world, request);
}

/* How many requests a task takes. */
static uint32_t parts_of(const struct mq_task *t)
{
	if (t->kind != MQ_TASK_COLLECTIVE || t->coll != MQ_COLL_REDUCE_SCATTER)
		return 1;
	return (uint32_t)fmin(fmax(ceil(t->bytes / PART_B), 1), MAX_FLIGHTS / 2);
}

static void post_collective(struct run *run, uint32_t id, double bytes, MPI_Request *request)
{
	const struct mq_schedule *s = run->script->schedule;
	const struct mq_task *t = &s->task[id];
	MPI_Comm comm = run->script->comm[t->comm];
	uint32_t n = s->comm[t->comm].n;
	MPI_Datatype type = t->dtype == MQ_FP64 ? MPI_DOUBLE : MPI_FLOAT;
	double size = t->dtype == MQ_FP64 ? 8 : 4;
	int all = (int)ceil(bytes / size), part = (int)ceil(bytes / size / n);
	size_t all_B = (size_t)size * (size_t)part * n;
	void *in = host_pool_in(&run->rank->pool, all_B),
	     *out = host_pool_out(&run->rank->pool, all_B);

	switch ((enum mq_coll_kind)t->coll) {
	case MQ_COLL_ALL_REDUCE:
		MPI_Iallreduce(in, out, all, type, MPI_SUM, comm, request);
		break;
	case MQ_COLL_ALL_GATHER:
		MPI_Iallgather(in, part, type, out, part, type, comm, request);
		break;
	case MQ_COLL_REDUCE_SCATTER:
		MPI_Ireduce_scatter_block(in, out, part, type, MPI_SUM, comm, request);
		break;
	case MQ_COLL_BROADCAST:
		MPI_Ibcast(out, all, type, (int)t->root, comm, request);
		break;
	case MQ_COLL_REDUCE:
		MPI_Ireduce(in, out, all, type, MPI_SUM, (int)t->root, comm, request);
		break;
	case MQ_COLL_ALL_TO_ALL:
		MPI_Ialltoall(in, part, type, out, part, type, comm, request);
		break;
	case MQ_N_COLL_KINDS:
		mq_assert(!"a collective that exists");
	}
}

static bool may_post(const struct run *run, uint32_t id)
{
	const struct mq_task *t = &run->script->schedule->task[id];

	if (run->n_flights + parts_of(t) > MAX_FLIGHTS || !deps_done(run->script, t))
		return false;
	/* MPI wants the calls of a communicator in one order on all members. */
	return t->kind != MQ_TASK_COLLECTIVE ||
	       run->script->call[id] == run->script->next_call[t->comm];
}

static void post(struct run *run, uint32_t id)
{
	const struct mq_task *t = &run->script->schedule->task[id];

	uint32_t parts = parts_of(t);

	begin(run, id);
	if (t->kind == MQ_TASK_COLLECTIVE)
		run->script->next_call[t->comm]++;
	run->script->left[id] = (uint16_t)parts;
	for (uint32_t i = 0; i < parts; i++) {
		MPI_Request *request = &run->request[run->n_flights];

		if (t->kind == MQ_TASK_COLLECTIVE)
			post_collective(run, id, t->bytes / parts, request);
		else
			post_message(run, id, request);
		run->flight[run->n_flights++] = id;
	}
	run->script->done[id] = 2; /* posted; becomes 1 */
}

/* Posts the head of a lane, and with it the tasks of its group that follow on this lane. */
static void post_lane(struct run *run, struct host_lane *lane)
{
	const struct mq_task *task = run->script->schedule->task;
	uint32_t head = lane->task[lane->next], group = task[head].group, last = lane->next + 1;

	while (group && last < lane->n && task[lane->task[last]].group == group)
		last++;
	for (uint32_t i = lane->next; i < last; i++)
		if (!run->script->done[lane->task[i]] && may_post(run, lane->task[i]))
			post(run, lane->task[i]);
}

static void poll_flights(void *context)
{
	struct run *run = context;
	int n_ready, ready[MAX_FLIGHTS];
	uint32_t kept = 0;

	if (!run->n_flights)
		return;
	MPI_Testsome((int)run->n_flights, run->request, &n_ready, ready, MPI_STATUSES_IGNORE);
	if (n_ready == MPI_UNDEFINED || !n_ready)
		return;
	for (int i = 0; i < n_ready; i++) {
		uint32_t id = run->flight[ready[i]];

		if (!--run->script->left[id])
			end(run, id);
		run->flight[ready[i]] = MQ_NONE;
	}
	for (uint32_t i = 0; i < run->n_flights; i++)
		if (run->flight[i] != MQ_NONE) {
			run->flight[kept] = run->flight[i];
			run->request[kept++] = run->request[i];
		}
	run->n_flights = kept;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static bool is_comm(const struct mq_task *t)
{
	return t->kind == MQ_TASK_SEND || t->kind == MQ_TASK_RECV || t->kind == MQ_TASK_COLLECTIVE;
}

/* Advances every lane past finished tasks, posts what may be posted; returns the computation to run
 * next, or MQ_NONE. */
static uint32_t look_around(struct run *run)
{
	const struct mq_task *task = run->script->schedule->task;
	uint32_t next = MQ_NONE;

	for (int l = 0; l < MQ_N_STREAMS; l++) {
		struct host_lane *lane = &run->script->lane[l];

		while (lane->next < lane->n && run->script->done[lane->task[lane->next]] == 1)
			lane->next++;
		if (lane->next == lane->n)
			continue;
		uint32_t head = lane->task[lane->next];
		if (is_comm(&task[head]))
			post_lane(run, lane);
		else if (head < next && deps_done(run->script, &task[head]))
			next = head;
	}
	return next;
}

static void compute(struct run *run, uint32_t id)
{
	const struct mq_schedule *s = run->script->schedule;
	const struct mq_task *t = &s->task[id];

	begin(run, id);
	if (t->kind == MQ_TASK_COPY) {
		host_copy_run(&run->rank->pool, t->bytes);
	} else {
		const struct mq_work *work = &s->work[t->work];

		for (uint32_t i = 0; i < work->n_kernels; i++) {
			host_kernel_run(&run->rank->pool, &work->kernel[i], poll_flights, run);
			if (i + 1 < work->n_kernels)
				poll_flights(run);
		}
	}
	end(run, id);
}

static enum mq_status timed_out(const struct run *run, struct mq_err *err)
{
	const struct mq_schedule *s = run->script->schedule;
	uint32_t id = run->n_flights ? run->flight[0] : MQ_NONE;

	if (id == MQ_NONE)
		return mq_fail(err, MQ_ETIME, "rank %u: nothing can run for %.3g s",
		               run->rank->rank, run->rank->deadline_s);
	const struct mq_task *t = &s->task[id];
	if (t->kind == MQ_TASK_COLLECTIVE)
		return mq_fail(err, MQ_ETIME,
		               "rank %u: %s (task %u) on communicator %u made no progress "
		               "for %.3g s",
		               run->rank->rank, mq_coll_name(t->coll), id, t->comm,
		               run->rank->deadline_s);
	return mq_fail(err, MQ_ETIME,
	               "rank %u: %s (task %u) %s rank %u made no progress for %.3g s",
	               run->rank->rank, mq_task_kind_name(t->kind), id,
	               t->kind == MQ_TASK_SEND ? "to" : "from", t->peer, run->rank->deadline_s);
}

static enum mq_status loop(struct run *run, struct mq_err *err)
{
	uint32_t spins = 0;

	while (run->n_done < run->script->n_local) {
		uint32_t before = run->n_done, next = look_around(run);

		poll_flights(run);
		if (next != MQ_NONE)
			compute(run, next);
		if (run->n_done != before) {
			spins = 0;
			continue;
		}
		if (run->rank->yield)
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
	struct run run = {.rank = rank, .script = script, .sample = sample, .start_s = start_s};

	for (int l = 0; l < MQ_N_STREAMS; l++) {
		script->lane[l].next = 0;
		for (uint32_t i = 0; i < script->lane[l].n; i++)
			script->done[script->lane[l].task[i]] = 0;
	}
	for (uint32_t c = 0; c < script->schedule->n_comms; c++)
		script->next_call[c] = 0;
	while (since_start(&run) < 0)
		;
	return loop(&run, err);
}

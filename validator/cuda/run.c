/* run.c - runs one rank's schedule on its GPU: enqueues all tasks on the streams, with an event before and after each
 * and dependencies as event waits, then polls to the end. Tasks after one staged over the wire (staged.c) are enqueued
 * when that has ended.
 *
 * Tasks are enqueued in an order of streams and dependencies (waiting for an event that is not recorded yet does not
 * wait), lowest id first; a group is one ncclGroup. Nothing here blocks: completion, NCCL's asynchronous errors and
 * dead ranks are polled until the deadline.
 *
 * Times come from events, relative to a base event recorded on an idle stream at a known host time.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <sched.h>
#include <string.h>

#include "cuda/parts.h"

enum { ENQUEUED = 1, BEGUN = 2 }; /* BEGUN: staged, not ended */

struct enqueue {
	struct cuda *c;
	struct cuda_script *script;
	uint32_t n_done;
	double start_s, last_progress_s;
};

/* ---- building -------------------------------------------------------------------------------- */

static bool is_call(const struct mq_task *t)
{
	return t->kind != MQ_TASK_COMPUTE && t->kind != MQ_TASK_COPY;
}

enum mq_status cuda_script_build(struct cuda *c, const struct mq_schedule *s, struct cuda_script *script,
				 struct mq_err *err)
{
	struct mq_arena *arena = c->session->arena;

	*script = (struct cuda_script){ .schedule = s,
					.done = mq_arena_array(arena, s->n_tasks, uint8_t),
					.slot = mq_arena_array(arena, s->n_tasks, uint32_t),
					.finish_s = mq_arena_array(arena, s->n_tasks, double),
					.local = mq_arena_array(arena, s->n_tasks, uint32_t),
					.next_call = mq_arena_array(arena, s->n_comms, uint32_t) };
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		bool own = mq_replay_own(c->session, c->ranks->rank, 1, &s->task[i].device);
		const struct mq_work *work = s->task[i].kind == MQ_TASK_COMPUTE ? &s->work[s->task[i].work] : NULL;

		for (uint32_t k = 0; own && work && k < work->n_kernels; k++)
			MQ_TRY(cuda_kernel_check(&work->kernel[k], err));
		if (own)
			MQ_TRY(cuda_call_check(s, i, err));
		if (s->task[i].device != c->ranks->rank)
			continue;
		script->slot[i] = script->n_local;
		script->local[script->n_local++] = i;
	}
	MQ_TRY(mq_schedule_match(s, arena, &script->match, &script->call, err));
	mq_lanes_of(s, c->ranks->rank, arena, script->lane);
	script->comm = mq_arena_array(arena, script->n_local, struct cuda_comm *);
	for (uint32_t i = 0; i < script->n_local; i++) {
		uint32_t pair[2];
		struct cuda_comm wanted;

		if (!is_call(&s->task[script->local[i]]))
			continue;
		wanted = cuda_comm_wanted(s, &s->task[script->local[i]], pair);
		script->comm[i] = cuda_comm_find(c, &wanted);
	}
	if (script->n_local > c->n_events)
		c->n_events = script->n_local;
	return cuda_staged_build(c, script, err);
}

/* ---- enqueuing ------------------------------------------------------------------------------- */

static enum mq_status copy(struct cuda *c, const struct mq_task *t, cudaStream_t stream, struct mq_err *err)
{
	bool down = t->to_host;

	for (double left = t->bytes; left >= 1; left -= (double)c->pinned_B) {
		size_t n = (size_t)fmin(left, (double)c->pinned_B);
		void *out = down ? c->pinned : cuda_pool_out(&c->pool, n);
		const void *in = down ? cuda_pool_in(&c->pool, CUDA_WORDS, n) : c->pinned;

		CUDA_TRY(c,
			 cudaMemcpyAsync(out, in, n, down ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, stream));
	}
	return MQ_OK;
}

static enum mq_status issue(struct enqueue *e, uint32_t id, int *result, struct mq_err *err)
{
	struct cuda *c = e->c;
	const struct mq_schedule *s = e->script->schedule;
	const struct mq_task *t = &s->task[id];
	cudaStream_t stream = c->stream[t->stream];
	const struct cuda_comm *comm = e->script->comm[e->script->slot[id]];

	if (t->kind == MQ_TASK_COMPUTE)
		for (uint32_t i = 0; i < s->work[t->work].n_kernels; i++)
			MQ_TRY(cuda_kernel_enqueue(c, &s->work[t->work].kernel[i], (enum mq_stream)t->stream, err));
	if (t->kind == MQ_TASK_COPY)
		MQ_TRY(copy(c, t, stream, err));
	/* A communicator of one rank moves nothing. */
	if (!is_call(t) || e->script->staged[id] || !comm || !comm->comm)
		return MQ_OK;
	size_t bytes = cuda_call_B(t, comm);
	struct cuda_operands data = { cuda_pool_in(&c->pool, CUDA_WORDS, bytes), cuda_pool_out(&c->pool, bytes) };
	int called = cuda_call_enqueue(c, t, comm, &data, stream);
	*result = *result == ncclSuccess ? called : *result;
	return MQ_OK;
}

static bool may_enqueue(const struct enqueue *e, uint32_t id)
{
	const struct mq_schedule *s = e->script->schedule;
	const struct mq_task *t = &s->task[id];

	for (uint32_t i = 0; i < t->n_deps; i++)
		if (e->script->done[s->dep[t->dep_first + i]] != ENQUEUED)
			return false;
	return t->kind != MQ_TASK_COLLECTIVE || e->script->call[id] == e->script->next_call[t->comm];
}

/* A host function in the stream, run by a CUDA thread. */
static void wait_at(void *opaque)
{
	const struct cuda_gate *gate = opaque;
	double until_s = mq_seconds(CLOCK_MONOTONIC_RAW) + gate->deadline_s;

	/* After the deadline the code that waits for the stream reports it. */
	while (!atomic_load(&gate->open) && mq_seconds(CLOCK_MONOTONIC_RAW) <= until_s)
		sched_yield();
}

/* Is the call timed without its launch? Then the stream reaches the call's begin event only when the call is wholly
 * enqueued. Not in a schedule's first run, in which NCCL may wait for the device to connect ranks. */
static bool is_held(const struct enqueue *e, uint32_t id)
{
	const struct cuda_comm *comm = e->script->comm[e->script->slot[id]];

	return e->c->session->options->hold && e->script->warm && comm && comm->comm && !e->script->staged[id];
}

static enum mq_status before(struct enqueue *e, uint32_t id, struct mq_err *err)
{
	struct cuda *c = e->c;
	const struct mq_schedule *s = e->script->schedule;
	const struct mq_task *t = &s->task[id];

	for (uint32_t i = 0; i < t->n_deps; i++) {
		uint32_t dep = s->dep[t->dep_first + i];

		/* Staged tasks have ended. */
		if (s->task[dep].stream != t->stream && !e->script->staged[dep])
			CUDA_TRY(c, cudaStreamWaitEvent(c->stream[t->stream], c->end[e->script->slot[dep]], 0));
	}
	if (is_held(e, id)) {
		struct cuda_gate *gate = &c->gate[e->script->slot[id]];

		atomic_store(&gate->open, false);
		CUDA_TRY(c, cudaLaunchHostFunc(c->stream[t->stream], wait_at, gate));
	}
	CUDA_TRY(c, cudaEventRecord(c->begin[e->script->slot[id]], c->stream[t->stream]));
	if (t->kind == MQ_TASK_COLLECTIVE)
		e->script->next_call[t->comm]++;
	return MQ_OK;
}

static enum mq_status after(struct enqueue *e, uint32_t id, struct mq_err *err)
{
	const struct mq_task *t = &e->script->schedule->task[id];

	if (e->script->staged[id]) {
		cuda_staged_begin(e->c, e->script, id);
		e->script->done[id] = BEGUN;
		return MQ_OK;
	}
	CUDA_TRY(e->c, cudaEventRecord(e->c->end[e->script->slot[id]], e->c->stream[t->stream]));
	if (is_held(e, id))
		atomic_store(&e->c->gate[e->script->slot[id]].open, true);
	e->script->done[id] = ENQUEUED;
	e->n_done++;
	return MQ_OK;
}

/* Collects the next tasks of all lanes that belong to the group; returns their number, 0 if one waits for a task
 * outside. */
static uint32_t group_of(const struct enqueue *e, uint32_t head, uint32_t *member, uint32_t room)
{
	const struct mq_task *task = e->script->schedule->task;
	uint32_t n = 0;

	for (int l = 0; l < MQ_N_STREAMS; l++) {
		const struct mq_lane *lane = &e->script->lane[l];

		for (uint32_t i = lane->next; i < lane->n && n < room; i++) {
			if (task[lane->task[i]].group != task[head].group)
				break;
			if (!may_enqueue(e, lane->task[i]))
				return 0;
			member[n++] = lane->task[i];
		}
	}
	return n;
}

static enum mq_status enqueue_group(struct enqueue *e, const uint32_t *member, uint32_t n, struct mq_err *err)
{
	const struct mq_toolkit *kit = &e->c->kit;
	const struct mq_task *task = e->script->schedule->task;
	uint32_t call = MQ_NONE; /* the first NCCL call of the group */
	int result = ncclSuccess;

	for (uint32_t i = n; i-- > 0;) {
		const struct cuda_comm *comm = e->script->comm[e->script->slot[member[i]]];

		if (comm && comm->comm && !e->script->staged[member[i]])
			call = member[i];
	}
	bool grouped = n > 1 && call != MQ_NONE;
	for (uint32_t i = 0; i < n; i++)
		MQ_TRY(before(e, member[i], err));
	if (call != MQ_NONE)
		cuda_watch_begin(e->c);
	if (grouped)
		result = (int)kit->ncclGroupStart();
	for (uint32_t i = 0; i < n; i++)
		MQ_TRY(issue(e, member[i], &result, err));
	if (grouped) {
		int ended = (int)kit->ncclGroupEnd();

		result = result == ncclSuccess ? ended : result;
	}
	if (call != MQ_NONE)
		MQ_TRY(cuda_watch_end(e->c, e->script->comm[e->script->slot[call]], result,
				      grouped                               ? "group of calls" :
				      task[call].kind == MQ_TASK_COLLECTIVE ? mq_coll_name(task[call].coll) :
									      mq_task_kind_name(task[call].kind),
				      err));
	for (uint32_t i = 0; i < n; i++)
		MQ_TRY(after(e, member[i], err));
	return MQ_OK;
}

/* The lowest task that can be enqueued next, MQ_NONE = none. */
static uint32_t find_next(const struct enqueue *e, uint32_t *member, uint32_t room)
{
	const struct mq_task *task = e->script->schedule->task;
	uint32_t best = MQ_NONE;

	for (int l = 0; l < MQ_N_STREAMS; l++) {
		struct mq_lane *lane = &e->script->lane[l];

		while (lane->next < lane->n && e->script->done[lane->task[lane->next]] == ENQUEUED)
			lane->next++;
		if (lane->next == lane->n)
			continue;
		uint32_t head = lane->task[lane->next];
		if (head < best && !e->script->done[head] && may_enqueue(e, head) &&
		    (!task[head].group || group_of(e, head, member, room)))
			best = head;
	}
	return best;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static enum mq_status stuck(struct enqueue *e, struct mq_err *err)
{
	for (uint32_t i = 0; i < e->script->n_local; i++) {
		uint32_t id = e->script->local[i];
		const struct mq_task *t = &e->script->schedule->task[id];
		uint8_t done = e->script->done[id];

		if (!done || (done == ENQUEUED && e->script->staged[id]) ||
		    (done == ENQUEUED && e->c->kit.cudaEventQuery(e->c->end[i]) == cudaSuccess))
			continue;
		return mq_fail(err, MQ_ETIME, "rank %u: %s (task %u) made no progress for %.3g s", e->c->ranks->rank,
			       t->kind == MQ_TASK_COLLECTIVE ? mq_coll_name(t->coll) : mq_task_kind_name(t->kind), id,
			       e->c->deadline_s);
	}
	return mq_fail(err, MQ_ETIME, "rank %u: no progress for %.3g s", e->c->ranks->rank, e->c->deadline_s);
}

static enum mq_status poll_staged(struct enqueue *e, struct mq_err *err)
{
	uint32_t ended;

	for (;;) {
		MQ_TRY(cuda_staged_poll(e->c, e->script, &ended, err));
		if (ended == MQ_NONE)
			return MQ_OK;
		e->last_progress_s = cuda_now(e->c);
		e->script->finish_s[ended] = e->last_progress_s - e->start_s;
		e->script->done[ended] = ENQUEUED;
		e->n_done++;
	}
}

/* Enqueues all tasks; those after a staged one when it has ended. */
static enum mq_status enqueue_all(struct enqueue *e, struct mq_err *err)
{
	uint32_t member[128], polls = 0, n;

	e->last_progress_s = cuda_now(e->c);
	while (e->n_done < e->script->n_local) {
		uint32_t best = find_next(e, member, 128);

		if (e->script->n_staged)
			MQ_TRY(poll_staged(e, err));
		if (best == MQ_NONE && !e->c->stage.n)
			return mq_fail(err, MQ_EBUG, "rank %u: no task can be enqueued next", e->c->ranks->rank);
		if (best == MQ_NONE) {
			/* costs nothing if no other thread wants the core, else lets the peer run. */
			if (++polls % 64 == 0)
				sched_yield();
			if (polls % 1024)
				continue;
			MQ_TRY(cuda_comms_check(e->c, err));
			if (cuda_now(e->c) > e->last_progress_s + e->c->deadline_s)
				return stuck(e, err);
			continue;
		}
		member[0] = best;
		n = e->script->schedule->task[best].group ? group_of(e, best, member, 128) : 1;
		MQ_TRY(enqueue_group(e, member, n, err));
	}
	return MQ_OK;
}

static enum mq_status wait_all(struct enqueue *e, struct mq_err *err)
{
	struct cuda *c = e->c;
	double until = cuda_now(c) + c->deadline_s;
	bool late;

	for (int l = 0; l < MQ_N_STREAMS; l++) {
		MQ_TRY(cuda_wait(c, c->stream[l], until, "a kernel or a transfer", &late, err));
		if (late)
			return stuck(e, err);
	}
	return cuda_comms_check(c, err);
}

/* End of the staged tasks before a task, by the host's clock, with which the GPU's agrees only within some
 * microseconds. */
static double after_staged(const struct cuda_script *script, uint32_t local)
{
	const struct mq_schedule *s = script->schedule;
	const struct mq_task *t = &s->task[script->local[local]];
	double least_s = 0;

	if (!script->n_staged)
		return 0;
	for (uint32_t i = 0; i < t->n_deps; i++)
		if (script->staged[s->dep[t->dep_first + i]])
			least_s = fmax(least_s, script->finish_s[s->dep[t->dep_first + i]]);
	for (uint32_t i = local; i-- > 0;) {
		const struct mq_task *other = &s->task[script->local[i]];

		if (other->stream != t->stream || (t->group && other->group == t->group))
			continue;
		return script->staged[script->local[i]] ? fmax(least_s, script->finish_s[script->local[i]]) : least_s;
	}
	return least_s;
}

static enum mq_status read_times(struct enqueue *e, double base_s, struct mq_replay_sample *sample, struct mq_err *err)
{
	struct cuda *c = e->c;
	float ms;

	for (uint32_t i = 0; i < e->script->n_local; i++) {
		uint32_t id = e->script->local[i];

		CUDA_TRY(c, cudaEventElapsedTime(&ms, c->base, c->begin[i]));
		sample->start_s[id] = fmax(after_staged(e->script, i), base_s + 1e-3 * (double)ms);
		if (e->script->staged[id]) {
			sample->finish_s[id] = fmax(sample->start_s[id], e->script->finish_s[id]);
		} else {
			CUDA_TRY(c, cudaEventElapsedTime(&ms, c->base, c->end[i]));
			sample->finish_s[id] = fmax(sample->start_s[id], base_s + 1e-3 * (double)ms);
		}
		sample->switches[id] = sample->lost_s[id] = 0; /* events time the GPU itself */
	}
	return MQ_OK;
}

enum mq_status cuda_script_run(struct cuda *c, struct cuda_script *script, double start_s,
			       struct mq_replay_sample *sample, struct mq_err *err)
{
	struct enqueue e = { .c = c, .script = script, .start_s = start_s };
	double base_s;

	for (int l = 0; l < MQ_N_STREAMS; l++)
		script->lane[l].next = 0;
	c->stage.n = 0;
	memset(script->done, 0, script->schedule->n_tasks);
	memset(script->next_call, 0, script->schedule->n_comms * sizeof(uint32_t));
	while (cuda_now(c) < start_s)
		;
	sample->late_s = base_s = cuda_now(c) - start_s;
	CUDA_TRY(c, cudaEventRecord(c->base, c->stream[0]));
	for (int l = 1; l < MQ_N_STREAMS; l++)
		CUDA_TRY(c, cudaStreamWaitEvent(c->stream[l], c->base, 0));
	MQ_TRY(enqueue_all(&e, err));
	MQ_TRY(wait_all(&e, err));
	script->warm = true;
	return read_times(&e, base_s, sample, err);
}

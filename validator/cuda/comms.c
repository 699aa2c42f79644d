/* comms.c - NCCL communicators: one per distinct list of ranks and forced algorithm and protocol, and one per directed
 * pair and channel.
 *
 * Calls on one communicator run in the order of issue on any streams, so each direction of a pair needs its own
 * communicator: else a waiting send would block the receive behind it.
 *
 * Communicators are blocking: with non-blocking ones each call is passed to an NCCL thread (2.23 and later, at each end
 * of a group) and has to be polled, which would be timed. To keep deadlines nevertheless, operations that wait for
 * other ranks (making and finalising a communicator) run in a thread that can be abandoned, and a call that should only
 * enqueue is watched: if it does not return, its communicators are aborted, which makes it return. A failing
 * communicator is aborted, never destroyed, since destroying waits for other ranks.
 *
 * NCCL takes NCCL_ALGO and NCCL_PROTO when a communicator is made: that is how a plan's algorithm and protocol are
 * forced, per communicator. SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/parts.h"

enum { WATCH_US = 20000, ERRAND_US = 200 };

struct cuda_comm *cuda_comm_find(struct cuda *c, const struct cuda_comm *wanted)
{
	for (uint32_t i = 0; i < c->n_comms; i++) {
		struct cuda_comm *comm = &c->comms[i];

		if (comm->n == wanted->n && comm->channel == wanted->channel && comm->algo == wanted->algo &&
		    comm->proto == wanted->proto && !memcmp(comm->rank, wanted->rank, comm->n * sizeof(uint32_t)))
			return comm;
	}
	return NULL;
}

static enum mq_status nccl_failed(const struct cuda *c, ncclComm_t comm, int result, const char *what,
				  struct mq_err *err)
{
	const char *more = c->kit.ncclGetLastError(comm);

	return mq_fail(err, MQ_ETIME, "rank %u: %s: NCCL: %s%s%s", c->ranks->rank, what,
		       c->kit.ncclGetErrorString((ncclResult_t)result), more && *more ? ": " : "", more ? more : "");
}

static int64_t clock_ns(void)
{
	return (int64_t)(1e9 * mq_seconds(CLOCK_MONOTONIC_RAW));
}

static void *watch(void *opaque)
{
	struct cuda *c = opaque;

	while (!atomic_load(&c->watch.stop)) {
		int64_t until_ns = atomic_load(&c->watch.until_ns);

		if (until_ns && clock_ns() > until_ns) {
			atomic_store(&c->watch.expired, true);
			for (uint32_t i = 0; i < c->n_comms; i++)
				if (c->comms[i].comm)
					c->kit.ncclCommAbort(c->comms[i].comm);
			return NULL;
		}
		usleep(WATCH_US);
	}
	return NULL;
}

void cuda_watch_begin(struct cuda *c)
{
	atomic_store(&c->watch.until_ns, clock_ns() + (int64_t)(1e9 * c->deadline_s));
}

enum mq_status cuda_watch_end(struct cuda *c, const struct cuda_comm *comm, int result, const char *what,
			      struct mq_err *err)
{
	atomic_store(&c->watch.until_ns, 0);
	if (atomic_load(&c->watch.expired))
		return mq_fail(err, MQ_ETIME, "rank %u: %s did not return within %.3g s", c->ranks->rank, what,
			       c->deadline_s);
	return result == ncclSuccess ? MQ_OK : nccl_failed(c, comm->comm, result, what, err);
}

/* A call in its own thread, which is abandoned if it does not end; the process then exits. */
struct errand {
	struct cuda *c;
	struct cuda_comm *comm;
	ncclUniqueId id;
	int place;
	ncclComm_t leaving;
	int result;
	atomic_bool ended;
};

static void *run_errand(void *opaque)
{
	struct errand *e = opaque;
	const struct mq_toolkit *kit = &e->c->kit;

	kit->cudaSetDevice(e->c->device);
	if (e->leaving) {
		e->result = (int)kit->ncclCommFinalize(e->leaving);
		if (e->result == ncclSuccess)
			e->result = (int)kit->ncclCommDestroy(e->leaving);
	} else {
		ncclComm_t made = NULL;

		e->result = (int)kit->ncclCommInitRank(&made, (int)e->comm->n, e->id, e->place);
		e->comm->comm = made;
	}
	atomic_store(&e->ended, true);
	return NULL;
}

static enum mq_status poll_errand(struct errand *e, const char *what, struct mq_err *err)
{
	struct cuda *c = e->c;
	int64_t until_ns = clock_ns() + (int64_t)(1e9 * c->deadline_s);

	while (!atomic_load(&e->ended)) {
		/* While leaving, other ranks may have left already. */
		if (!e->leaving)
			MQ_TRY(c->ranks->alive(c->ranks->state, err));
		if (clock_ns() > until_ns)
			return mq_fail(err, MQ_ETIME, "rank %u: %s did not end within %.3g s", c->ranks->rank, what,
				       c->deadline_s);
		usleep(ERRAND_US);
	}
	return e->result == ncclSuccess ? MQ_OK : nccl_failed(c, NULL, e->result, what, err);
}

static enum mq_status wait_for(struct errand *e, const char *what, struct mq_err *err)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run_errand, e))
		return mq_fail(err, MQ_ENODEV, "rank %u: no thread can be started for NCCL", e->c->ranks->rank);
	enum mq_status status = poll_errand(e, what, err);
	if (atomic_load(&e->ended))
		pthread_join(thread, NULL); /* it must not run when this library is closed */
	else
		pthread_detach(thread);
	return status;
}

/* ---- list of communicators --------------------------------------------------------------------- */

static struct cuda_comm *want(struct cuda *c, const struct cuda_comm *wanted)
{
	struct cuda_comm comm = *wanted, *known = cuda_comm_find(c, wanted);
	uint32_t *copy;

	if (known || wanted->n < 2)
		return known;
	copy = mq_arena_array(c->session->arena, comm.n, uint32_t);
	memcpy(copy, wanted->rank, comm.n * sizeof(uint32_t));
	comm.rank = copy;
	MQ_PUSH(c->session->arena, c->comms, c->n_comms, c->comm_room, comm);
	return &c->comms[c->n_comms - 1];
}

struct cuda_comm cuda_comm_wanted(const struct mq_schedule *s, const struct mq_task *t, uint32_t pair[2])
{
	bool sends = t->kind == MQ_TASK_SEND;

	if (t->kind == MQ_TASK_COLLECTIVE)
		return (struct cuda_comm){
			.n = s->comm[t->comm].n, .rank = s->comm[t->comm].rank, .algo = t->algo, .proto = t->proto
		};
	pair[0] = sends ? t->device : t->peer;
	pair[1] = sends ? t->peer : t->device;
	return (struct cuda_comm){ .n = 2, .rank = pair, .channel = 1 + (uint32_t)t->channel };
}

/* Lists the communicators, in the same order on all ranks. */
static void list_comms(struct cuda *c)
{
	for (uint32_t i = 0; i < c->session->n_schedules; i++) {
		const struct mq_schedule *s = c->session->schedule[i];

		for (uint32_t t = 0; t < s->n_tasks; t++) {
			const struct mq_task *task = &s->task[t];
			uint32_t pair[2];

			if (task->kind != MQ_TASK_SEND && task->kind != MQ_TASK_COLLECTIVE)
				continue;
			struct cuda_comm wanted = cuda_comm_wanted(s, task, pair);
			if (!mq_replay_own(c->session, c->ranks->rank, wanted.n, wanted.rank))
				continue;
			struct cuda_comm *comm = want(c, &wanted);
			if (comm && task->kind == MQ_TASK_COLLECTIVE)
				comm->kinds |= 1u << task->coll;
		}
	}
}

/* Sets a variable as the plan asks, or to the user's own value if the plan leaves the choice. */
static void force(const char *variable, const char *name, const char *users)
{
	if (name || users)
		setenv(variable, name ? name : users, 1);
	else
		unsetenv(variable);
}

static enum mq_status init_comm(struct cuda *c, struct cuda_comm *comm, ncclUniqueId id, struct mq_err *err)
{
	const char *algo = getenv("NCCL_ALGO"), *proto = getenv("NCCL_PROTO");
	struct errand *e = mq_arena_array(c->session->arena, 1, struct errand);
	char what[128];

	*e = (struct errand){ .c = c, .comm = comm, .id = id };
	while (e->place < (int)comm->n && comm->rank[e->place] != c->ranks->rank)
		e->place++;
	if ((uint32_t)e->place == comm->n)
		return MQ_OK;
	snprintf(what, sizeof(what), "communicator of %u ranks (first: rank %u%s%s)", comm->n, comm->rank[0],
		 comm->algo || comm->proto ? ", " : "",
		 comm->algo  ? mq_algo_nccl(comm->algo) :
		 comm->proto ? mq_proto_nccl(comm->proto) :
			       "");
	algo = algo ? mq_arena_strdup(c->session->arena, algo) : NULL;
	proto = proto ? mq_arena_strdup(c->session->arena, proto) : NULL;
	force("NCCL_ALGO", mq_algo_nccl(comm->algo), algo);
	force("NCCL_PROTO", mq_proto_nccl(comm->proto), proto);
	enum mq_status status = wait_for(e, what, err);
	force("NCCL_ALGO", NULL, algo);
	force("NCCL_PROTO", NULL, proto);
	return status;
}

/* Is this the executor's first rank, which makes the identifiers for all? */
static bool first_own(const struct cuda *c)
{
	for (uint32_t i = 0; i < c->ranks->rank; i++)
		if (mq_replay_own(c->session, c->ranks->rank, 1, &i))
			return false;
	return true;
}

enum mq_status cuda_comms_open(struct cuda *c, struct mq_err *err)
{
	list_comms(c);
	if (!c->n_comms)
		return MQ_OK;
	MQ_TRY(cuda_open_nccl(&c->kit, err));
	setenv("NCCL_COMM_BLOCKING", "1", 1);
	ncclUniqueId *id = mq_arena_array(c->session->arena, c->n_comms, ncclUniqueId);
	for (uint32_t i = 0; i < c->n_comms && first_own(c); i++) {
		int result = (int)c->kit.ncclGetUniqueId(&id[i]);

		if (result != ncclSuccess)
			return nccl_failed(c, NULL, result, "identifier of a communicator", err);
	}
	MQ_TRY(mq_wire_share(c->session, id, c->n_comms * sizeof(*id), err));
	for (uint32_t i = 0; i < c->n_comms; i++)
		MQ_TRY(init_comm(c, &c->comms[i], id[i], err));
	c->watch.running = !pthread_create(&c->watch.thread, NULL, watch, c);
	return c->watch.running ?
		       MQ_OK :
		       mq_fail(err, MQ_ENODEV, "rank %u: no thread can be started to watch NCCL", c->ranks->rank);
}

void cuda_comms_close(struct cuda *c, bool failed)
{
	struct mq_err ignored;

	if (c->watch.running) {
		atomic_store(&c->watch.stop, true);
		pthread_join(c->watch.thread, NULL);
	}
	for (uint32_t i = 0; i < c->n_comms && !atomic_load(&c->watch.expired); i++) {
		struct cuda_comm *comm = &c->comms[i];
		struct errand *e = mq_arena_array(c->session->arena, 1, struct errand);

		if (!comm->comm)
			continue;
		*e = (struct errand){ .c = c, .comm = comm, .leaving = comm->comm };
		if (!failed)
			failed = wait_for(e, "finalising", &ignored) != MQ_OK;
		else
			c->kit.ncclCommAbort(comm->comm);
		comm->comm = NULL;
	}
}

enum mq_status cuda_comms_check(struct cuda *c, struct mq_err *err)
{
	for (uint32_t i = 0; i < c->n_comms; i++) {
		ncclResult_t state = ncclSuccess;

		if (!c->comms[i].comm)
			continue;
		int asked = (int)c->kit.ncclCommGetAsyncError(c->comms[i].comm, &state);
		int result = asked != ncclSuccess ? asked : (int)state;
		if (result != ncclSuccess && result != ncclInProgress)
			return nccl_failed(c, c->comms[i].comm, result, "communication", err);
	}
	return c->ranks->alive(c->ranks->state, err);
}

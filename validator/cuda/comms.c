/*
 * comms.c - NCCL communicators: one per distinct list of ranks, and one per directed pair and
 * channel.
 *
 * Calls on one communicator run in the order of issue whatever their streams, so a pair's two
 * directions need communicators of their own: a send that waits would otherwise hold up the receive
 * behind it. Everything is non-blocking: initialisation and calls are polled under the deadline,
 * and a communicator in trouble is aborted, never destroyed, since destroying waits for the others.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda/cuda.h"

struct cuda_comm *cuda_comm_find(struct cuda *c, uint32_t n, const uint32_t *rank, uint32_t channel)
{
	for (uint32_t i = 0; i < c->n_comms; i++)
		if (c->comms[i].n == n && c->comms[i].channel == channel &&
		    !memcmp(c->comms[i].rank, rank, n * sizeof(uint32_t)))
			return &c->comms[i];
	return NULL;
}

static enum mq_status nccl_failed(const struct cuda *c, ncclComm_t comm, int result,
                                  const char *what, struct mq_err *err)
{
	const char *more = c->kit.ncclGetLastError(comm);

	return mq_fail(err, MQ_ETIME, "rank %u: %s: NCCL: %s%s%s", c->ranks->rank, what,
	               c->kit.ncclGetErrorString((ncclResult_t)result), more && *more ? ": " : "",
	               more ? more : "");
}

enum mq_status cuda_comm_settle(struct cuda *c, const struct cuda_comm *comm, int result,
                                const char *what, struct mq_err *err)
{
	double until = cuda_now(c) + c->deadline_s;
	uint32_t polls = 0;

	if (result != ncclSuccess && result != ncclInProgress)
		return nccl_failed(c, comm->comm, result, what, err);
	while (result == ncclInProgress) {
		ncclResult_t state = ncclSuccess;
		int asked = (int)c->kit.ncclCommGetAsyncError(comm->comm, &state);

		result = asked != ncclSuccess ? asked : (int)state;
		if (result != ncclSuccess && result != ncclInProgress)
			return nccl_failed(c, comm->comm, result, what, err);
		if (++polls % 64)
			continue;
		MQ_TRY(c->ranks->alive(c->ranks->state, err));
		if (cuda_now(c) > until)
			return mq_fail(err, MQ_ETIME, "rank %u: %s did not end within %.3g s",
			               c->ranks->rank, what, c->deadline_s);
		usleep(200);
	}
	return MQ_OK;
}

/* ---- which communicators --------------------------------------------------------------------- */

static void want(struct cuda *c, uint32_t n, const uint32_t *rank, uint32_t channel)
{
	struct cuda_comm comm = {.n = n, .channel = channel};
	uint32_t *copy;

	if (n < 2 || cuda_comm_find(c, n, rank, channel))
		return;
	copy = mq_arena_array(c->session->arena, n, uint32_t);
	memcpy(copy, rank, n * sizeof(uint32_t));
	comm.rank = copy;
	MQ_PUSH(c->session->arena, c->comms, c->n_comms, c->comm_room, comm);
}

static void list_comms(struct cuda *c)
{
	for (uint32_t i = 0; i < c->session->n_schedules; i++) {
		const struct mq_schedule *s = c->session->schedule[i];

		for (uint32_t k = 0; k < s->n_comms; k++)
			if (mq_replay_own(c->session, c->ranks->rank, s->comm[k].n,
			                  s->comm[k].rank))
				want(c, s->comm[k].n, s->comm[k].rank, 0);
		for (uint32_t t = 0; t < s->n_tasks; t++)
			if (s->task[t].kind == MQ_TASK_SEND) {
				uint32_t pair[2] = {s->task[t].device, s->task[t].peer};

				if (mq_replay_own(c->session, c->ranks->rank, 2, pair))
					want(c, 2, pair, 1 + s->task[t].channel);
			}
	}
}

static uint32_t place_in(const struct cuda_comm *comm, uint32_t rank)
{
	uint32_t i = 0;

	while (i < comm->n && comm->rank[i] != rank)
		i++;
	return i;
}

static enum mq_status init_comm(struct cuda *c, struct cuda_comm *comm, ncclUniqueId id,
                                struct mq_err *err)
{
	struct mq_nccl_config config = {sizeof(config), 0xcafebeef, 21400, 0};
	ncclConfig_t *as_nccl = (ncclConfig_t *)(void *)&config;
	uint32_t place = place_in(comm, c->ranks->rank);
	char what[96];

	snprintf(what, sizeof(what), "communicator of %u ranks (first: rank %u)", comm->n,
	         comm->rank[0]);
	if (place == comm->n)
		return MQ_OK;
	int result = (int)c->kit.ncclCommInitRankConfig(&comm->comm, (int)comm->n, id, (int)place,
	                                                as_nccl);
	return cuda_comm_settle(c, comm, result, what, err);
}

/* Makes the identifiers for all ranks of this executor. */
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
	ncclUniqueId *id = mq_arena_array(c->session->arena, c->n_comms, ncclUniqueId);
	for (uint32_t i = 0; i < c->n_comms && first_own(c); i++) {
		int result = (int)c->kit.ncclGetUniqueId(&id[i]);

		if (result != ncclSuccess)
			return nccl_failed(c, NULL, result, "identifier of a communicator", err);
	}
	MQ_TRY(mq_wire_share(c->session, id, c->n_comms * sizeof(*id), err));
	for (uint32_t i = 0; i < c->n_comms; i++)
		MQ_TRY(init_comm(c, &c->comms[i], id[i], err));
	return MQ_OK;
}

void cuda_comms_close(struct cuda *c, bool failed)
{
	struct mq_err ignored;

	for (uint32_t i = 0; i < c->n_comms; i++) {
		struct cuda_comm *comm = &c->comms[i];

		if (!comm->comm)
			continue;
		if (!failed) {
			int result = (int)c->kit.ncclCommFinalize(comm->comm);

			failed = cuda_comm_settle(c, comm, result, "finalising", &ignored) != MQ_OK;
		}
		if (failed)
			c->kit.ncclCommAbort(comm->comm);
		else
			c->kit.ncclCommDestroy(comm->comm);
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

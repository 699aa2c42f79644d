/* mpi.c - messages and collectives of the host executor over Open MPI: see host.h.
 *
 * Everything is posted non-blocking. Above some 10 MB Open MPI's non-blocking reduce-scatter has a quarter of its
 * speed, so large ones are posted in parts.
 *
 * link: ompi-c
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "host/host.h"

enum { MAX_FLIGHTS = 1024, PART_B = 4 << 20 };

/* A communicator, shared by all schedules that have the same ranks in the same order. */
struct group {
	uint32_t n;
	const uint32_t *rank;
	MPI_Comm comm;
};

struct mpi {
	MPI_Comm world; /* a duplicate for this executor */
	uint32_t rank;
	struct mq_arena *arena;
	struct group *group;
	uint32_t n_groups, group_room;
	uint32_t n_flights;
	MPI_Request request[MAX_FLIGHTS];
	uint32_t flight[MAX_FLIGHTS];
	uint16_t *left; /* of the current schedule: pending requests of a posted task */
	bool started;
};

static enum mq_status open_mpi(void *state, const struct mq_replay_session *session, struct mq_err *err)
{
	struct mpi *m = state;
	int given, rank;
	uint32_t most = 1;

	MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);
	m->started = true;
	MPI_Comm_dup(MPI_COMM_WORLD, &m->world);
	MPI_Comm_rank(m->world, &rank);
	m->arena = session->arena;
	m->rank = (uint32_t)rank;
	if (m->rank != session->ranks->rank)
		return mq_bad(
			err,
			"rank %d of MPI was told to be rank %u: is maquette-replay started by the mpirun of the MPI "
			"it was built with?",
			rank, session->ranks->rank);
	for (uint32_t i = 0; i < session->n_schedules; i++)
		if (session->schedule[i]->n_tasks > most)
			most = session->schedule[i]->n_tasks;
	m->left = mq_arena_array(m->arena, most, uint16_t);
	return MQ_OK;
}

/* Sets `apart` if the launcher bound each rank to its own cores. */
static void place(void *state, uint32_t *local, uint32_t *locals, bool *apart)
{
	struct mpi *m = state;
	cpu_set_t mine, both, *all;
	MPI_Comm node;
	int rank, size;

	MPI_Comm_split_type(m->world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Comm_rank(node, &rank);
	MPI_Comm_size(node, &size);
	all = mq_arena_array(m->arena, size, cpu_set_t);
	sched_getaffinity(0, sizeof(mine), &mine);
	MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, all, sizeof(mine), MPI_BYTE, node);
	MPI_Comm_free(&node);
	*local = (uint32_t)rank;
	*locals = (uint32_t)size;
	*apart = size > 1;
	for (int i = 0; i < size; i++)
		for (int j = i + 1; j < size; j++) {
			CPU_AND(&both, &all[i], &all[j]);
			*apart &= !CPU_COUNT(&both);
		}
}

/* All members call it in the same order, since all ranks walk the same schedules. */
static MPI_Comm group_of(struct mpi *m, const struct mq_comm *wanted, int tag)
{
	struct group entry = { .n = wanted->n, .rank = wanted->rank, .comm = MPI_COMM_NULL };
	int *members = mq_arena_array(m->arena, wanted->n, int);
	MPI_Group world, group;

	for (uint32_t i = 0; i < m->n_groups; i++)
		if (m->group[i].n == wanted->n && !memcmp(m->group[i].rank, wanted->rank, wanted->n * sizeof(uint32_t)))
			return m->group[i].comm;
	for (uint32_t i = 0; i < wanted->n; i++)
		members[i] = (int)wanted->rank[i];
	MPI_Comm_group(m->world, &world);
	MPI_Group_incl(world, (int)wanted->n, members, &group);
	MPI_Comm_create_group(m->world, group, tag, &entry.comm);
	MPI_Group_free(&group);
	MPI_Group_free(&world);
	MQ_PUSH(m->arena, m->group, m->n_groups, m->group_room, entry);
	return entry.comm;
}

static enum mq_status prepare(void *state, struct host_script *script, struct mq_err *err)
{
	struct mpi *m = state;
	const struct mq_schedule *s = script->schedule;
	MPI_Comm *comm = mq_arena_array(m->arena, s->n_comms, MPI_Comm);

	for (uint32_t c = 0; c < s->n_comms; c++) {
		bool member = false;

		for (uint32_t i = 0; i < s->comm[c].n; i++)
			member |= s->comm[c].rank[i] == m->rank;
		comm[c] = member ? group_of(m, &s->comm[c], (int)(c & 0x7fff)) : MPI_COMM_NULL;
	}
	script->talk = comm;
	return MQ_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Number of requests of a task. */
static uint32_t parts_of(const struct mq_task *t)
{
	if (t->kind != MQ_TASK_COLLECTIVE || t->coll != MQ_COLL_REDUCE_SCATTER)
		return 1;
	return (uint32_t)fmin(fmax(ceil(t->bytes / PART_B), 1), MAX_FLIGHTS / 2);
}

static double size_of(const struct mq_task *t)
{
	return t->dtype == MQ_FP64 ? 8 : 4;
}

/* Bytes of one request's buffer: equal parts of whole elements, one per member. */
static size_t request_B(const struct mq_schedule *s, const struct mq_task *t)
{
	uint32_t n = s->comm[t->comm].n;

	return (size_t)size_of(t) * (size_t)ceil(t->bytes / parts_of(t) / size_of(t) / n) * n;
}

static size_t room(const struct mq_schedule *s, const struct mq_task *t)
{
	return parts_of(t) * request_B(s, t);
}

static bool can_post(void *state, const struct mq_task *t)
{
	const struct mpi *m = state;

	return m->n_flights + parts_of(t) <= MAX_FLIGHTS;
}

static void post_collective(const struct host_call *call, uint32_t i, MPI_Request *request)
{
	const struct mq_schedule *s = call->script->schedule;
	const struct mq_task *t = &s->task[call->id];
	MPI_Comm comm = ((MPI_Comm *)call->script->talk)[t->comm];
	uint32_t n = s->comm[t->comm].n;
	MPI_Datatype type = t->dtype == MQ_FP64 ? MPI_DOUBLE : MPI_FLOAT;
	double bytes = t->bytes / parts_of(t);
	int all = (int)ceil(bytes / size_of(t)), part = (int)ceil(bytes / size_of(t) / n);
	const char *in = (const char *)call->in + i * request_B(s, t);
	char *out = (char *)call->out + i * request_B(s, t);

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

static void post(void *state, const struct host_call *call)
{
	struct mpi *m = state;
	const struct mq_task *t = &call->script->schedule->task[call->id];
	uint32_t parts = parts_of(t);
	int bytes = (int)llround(t->bytes);

	m->left[call->id] = (uint16_t)parts;
	for (uint32_t i = 0; i < parts; i++) {
		MPI_Request *request = &m->request[m->n_flights];

		/* The sender's task id is a unique tag in the step. */
		if (t->kind == MQ_TASK_COLLECTIVE)
			post_collective(call, i, request);
		else if (t->kind == MQ_TASK_SEND)
			MPI_Isend(call->in, bytes, MPI_BYTE, (int)t->peer, (int)call->id, m->world, request);
		else
			MPI_Irecv(call->out, bytes, MPI_BYTE, (int)t->peer, (int)call->script->match[call->id],
				  m->world, request);
		m->flight[m->n_flights++] = call->id;
	}
}

static enum mq_status poll(void *state, void (*ended)(void *context, uint32_t id), void *context, struct mq_err *err)
{
	struct mpi *m = state;
	int n_ready, ready[MAX_FLIGHTS];
	uint32_t kept = 0;

	if (!m->n_flights)
		return MQ_OK;
	MPI_Testsome((int)m->n_flights, m->request, &n_ready, ready, MPI_STATUSES_IGNORE);
	if (n_ready == MPI_UNDEFINED || !n_ready)
		return MQ_OK;
	for (int i = 0; i < n_ready; i++) {
		uint32_t id = m->flight[ready[i]];

		if (!--m->left[id])
			ended(context, id);
		m->flight[ready[i]] = MQ_NONE;
	}
	for (uint32_t i = 0; i < m->n_flights; i++)
		if (m->flight[i] != MQ_NONE) {
			m->flight[kept] = m->flight[i];
			m->request[kept++] = m->request[i];
		}
	m->n_flights = kept;
	return MQ_OK;
}

static uint32_t under_way(void *state)
{
	const struct mpi *m = state;

	return m->n_flights ? m->flight[0] : MQ_NONE;
}

/* After a failure the process ends with an error status: mpirun stops the other ranks. */
static void close_mpi(void *state, bool failed)
{
	struct mpi *m = state;

	if (!m->started || failed)
		return;
	for (uint32_t i = 0; i < m->n_groups; i++)
		if (m->group[i].comm != MPI_COMM_NULL)
			MPI_Comm_free(&m->group[i].comm);
	MPI_Comm_free(&m->world);
	MPI_Finalize();
}

static void describe(char *text, size_t size)
{
	char library[MPI_MAX_LIBRARY_VERSION_STRING];
	int n;

	MPI_Get_library_version(library, &n);
	library[strcspn(library, ",\n")] = '\0';
	snprintf(text, size, "mpi=%s\n", library);
}

const struct host_talk host_talk_mpi = { .state_size = sizeof(struct mpi),
					 .open = open_mpi,
					 .place = place,
					 .prepare = prepare,
					 .room = room,
					 .can_post = can_post,
					 .post = post,
					 .poll = poll,
					 .under_way = under_way,
					 .close = close_mpi,
					 .describe = describe };

/* talk.h - how ranks of the host executor move data: over MPI (parts/mpi.c, a library of its own, opened only where
 * mpirun joined the ranks), or over maquette-replay's wire (wire.c), which needs no MPI.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_VALIDATOR_HOST_TALK_H
#define MQ_VALIDATOR_HOST_TALK_H

#include "maquette/executor.h"

struct host_script;

/* One posted task: buffers hold what its bytes need on every member (whole parts of whole elements). */
struct host_call {
	const struct host_script *script;
	uint32_t id;
	const void *in;
	void *out;
};

struct host_talk {
	const char *name;
	size_t state_size;
	/* Ranks find each other; `ranks` lives as long as the state. */
	enum mq_status (*open)(void *state, const struct mq_replay_session *session, const struct mq_ranks **ranks,
			       struct mq_err *err);
	/* How many ranks share this machine and which of them this is; are they bound to cores apart? */
	void (*place)(void *state, uint32_t *local, uint32_t *locals, bool *apart);
	/* Communicators and the like of a schedule: all ranks, in the same order. */
	enum mq_status (*prepare)(void *state, struct host_script *script, struct mq_err *err);
	/* Bytes of one member's buffer for a collective. */
	size_t (*room)(const struct mq_schedule *schedule, const struct mq_task *task);
	bool (*can_post)(void *state, const struct mq_task *task);
	void (*post)(void *state, const struct host_call *call);
	/* Moves on what was posted; tells of each task that has ended. */
	enum mq_status (*poll)(void *state, void (*ended)(void *context, uint32_t id), void *context,
			       struct mq_err *err);
	uint32_t (*under_way)(void *state); /* a posted task, or MQ_NONE */
	/* After a failure it must not wait for others. */
	void (*close)(void *state, bool failed);
	void (*describe)(char *text, size_t size); /* "key=value\n" */
};

extern const struct host_talk host_talk_wire;
/* Exported by the library under host/ of the executors' folder. */
MQ_API extern const struct host_talk host_talk_mpi;

#endif

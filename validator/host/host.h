/* host.h - the parts of the host executor: kernels on CPU cores, and one rank's progress engine.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_VALIDATOR_HOST_H
#define MQ_VALIDATOR_HOST_H

#include "replay/rank.h"

/* Operands come in turn from a pool larger than the caches, so that they are not in cache by accident. Inputs are
 * random and never overwritten, so results cannot become infinities or denormals, which would change the speed. */
struct host_pool {
	char *in, *out; /* owned */
	size_t size, in_at, out_at;
};

enum mq_status host_pool_init(struct host_pool *pool, size_t size, uint64_t seed, struct mq_err *err);
void host_pool_fini(struct host_pool *pool);
/* The next `bytes` of the inputs / outputs; bytes <= size. */
void *host_pool_in(struct host_pool *pool, size_t bytes);
void *host_pool_out(struct host_pool *pool, size_t bytes);

/* Bytes that a pool must hold for a kernel: its largest operand and all its inputs. */
size_t host_kernel_need(const struct mq_kernel *kernel);
/* MQ_EINPUT: an element type that the CPU has no routine for. */
enum mq_status host_kernel_check(const struct mq_kernel *kernel, struct mq_err *err);
/* Runs one kernel; calls `poll` between its parts so that messages advance. */
void host_kernel_run(struct host_pool *pool, const struct mq_kernel *kernel, void (*poll)(void *), void *context);
/* A copy of `bytes` (MQ_TASK_COPY). */
void host_copy_run(struct host_pool *pool, double bytes);

/* ---- transports: MPI (parts/mpi.c, a separate library, opened only if mpirun started the ranks), or maquette-replay's
 * wire (wire.c), which needs no MPI ---------------------------------------------------- */

struct host_script;

/* One posted task; its buffers have room for the task's bytes on every member (whole parts of whole elements). */
struct host_call {
	const struct host_script *script;
	uint32_t id;
	const void *in;
	void *out;
};

struct host_talk {
	size_t state_size;
	enum mq_status (*open)(void *state, const struct mq_replay_session *session, struct mq_err *err);
	/* Sets the rank's index among the machine's ranks, their number, and whether each has cores of its own. */
	void (*place)(void *state, uint32_t *local, uint32_t *locals, bool *apart);
	/* Makes a schedule's communicators and the like; all ranks in the same order. It and `close` may be NULL. */
	enum mq_status (*prepare)(void *state, struct host_script *script, struct mq_err *err);
	/* Bytes of one member's buffer for a collective. */
	size_t (*room)(const struct mq_schedule *schedule, const struct mq_task *task);
	bool (*can_post)(void *state, const struct mq_task *task);
	void (*post)(void *state, const struct host_call *call);
	/* Advances the posted tasks; calls `ended` for each that has ended. */
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

/* ---- run.c: one rank's part of one schedule: its streams, matched messages and communicators --------------- */

struct host_script {
	const struct mq_schedule *schedule;
	uint32_t device; /* = rank; no lanes if the schedule has fewer devices */
	struct mq_lane lane[MQ_N_STREAMS];
	uint32_t n_local;
	uint32_t *match, *call; /* see mq_schedule_match */
	void *talk;             /* the transport's communicators and the like */
	uint32_t *next_call;    /* [n_comms] */
	uint8_t *done;          /* [n_tasks] 1 finished, 2 posted */
};

struct host_rank {
	double deadline_s;
	bool yield; /* more ranks than cores: yield while waiting */
	const struct mq_replay_session *session;
	const struct mq_ranks *ranks;
	const struct host_talk *talk;
	void *talk_state;
	struct host_pool pool;
	struct mq_arena *arena;
};

enum mq_status host_script_build(struct host_rank *rank, const struct mq_schedule *schedule, struct host_script *script,
				 struct mq_err *err);
/* Runs the script; fills the rank's own tasks of `sample` in seconds after `start_s`. */
enum mq_status host_script_run(struct host_rank *rank, struct host_script *script, double start_s,
			       struct mq_replay_sample *sample, struct mq_err *err);

#endif

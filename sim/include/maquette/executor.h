/* executor.h - something that runs a schedule on real hardware: a plug-in of maquette-replay.
 *
 * One file validator/NAME.c (with parts in validator/NAME/) becomes build/executors/NAME.so and exports one const
 * struct through MQ_REPLAY_EXECUTOR(NAME). One process runs one device of the schedule, and that process is a *rank*;
 * device i of a schedule belongs to rank i. maquette-replay owns options, files, warm-up, repetitions and their order,
 * the common start and the gathering of times; the executor owns devices, buffers and communication among its own
 * ranks.
 *
 * A run may have ranks of several executors (a table says which runs whom): CPUs of a plan run on "host" beside GPUs on
 * "cuda". Ranks of one executor talk by its own means, except that one which needs a launcher of its own (MPI) has none
 * there; whatever passes between ranks of different executors, or inside a group that holds both, goes over the wire
 * (maquette/wire.h).
 *
 * Life of a rank: check (before any rank is started), open, run ..., close. Every wait inside has the deadline of the
 * options. Statuses: MQ_ENODEV (3) no or too few devices or no library, MQ_ETIME (4) deadline or dead rank, MQ_EINPUT
 * (2) a schedule that this executor cannot run (says why). SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_EXECUTOR_H
#define MAQUETTE_EXECUTOR_H

#include <time.h>
#include "maquette/abi.h"
#include "maquette/arena.h"
#include "maquette/schedule.h"

/* How the ranks of an executor are started when no launcher did it yet. */
enum mq_launcher {
	MQ_LAUNCH_MPIRUN, /* mpirun -n N maquette-replay ... */
	MQ_LAUNCH_SPAWN   /* N children of maquette-replay, told who they are by environment variables
	                 */
};

struct mq_replay_options {
	uint32_t rank, size;    /* this process among the ranks; size 0 before they are started */
	uint32_t local;         /* index of this rank among those of its executor on its machine */
	uint32_t cores;         /* cores per device; 0 = the machine's cores divided by its ranks */
	bool oversubscribe;     /* allow more ranks than cores (host) */
	bool hold;              /* cuda: a call begins when it is enqueued whole: its time is without its launch */
	bool share_gpu;         /* allow several ranks on one GPU: correctness only, never timings */
	double deadline_s;      /* longest wait for anything */
	double memory_B;        /* reserve and touch this much per device; 0 = none */
	const char *cpu_types;  /* comma list of device types that are CPUs ("" = none): mixed plans */
	const char *rendezvous; /* spawned ranks: "file:PATH" or "tcp:HOST:PORT" where they meet */
	uint64_t seed;
};

/* How ranks of a run line up and tell rank 0 what they measured; never used for what is timed. */
struct mq_ranks {
	uint32_t rank, size;
	void *state;
	double (*now)(void *state); /* seconds on rank 0's clock */
	enum mq_status (*barrier)(void *state, struct mq_err *err);
	/* Rank 0's bytes to all. */
	enum mq_status (*broadcast)(void *state, void *data, size_t size, struct mq_err *err);
	/* bytes[i] of rank i, one after another, on rank 0. */
	enum mq_status (*gather)(void *state, const void *mine, void *all, const uint32_t *bytes, struct mq_err *err);
	/* MQ_ETIME: names a rank that has died. Cheap; to be asked while waiting. */
	enum mq_status (*alive)(void *state, struct mq_err *err);
};

struct mq_wire;
struct mq_replay_executor;

/* What will be run: all schedules of this invocation, so that buffers and communicators are made once. */
struct mq_replay_session {
	const struct mq_replay_options *options;
	uint32_t n_schedules;
	struct mq_schedule *const *schedule;           /* [n_schedules], checked */
	uint32_t n_devices;                            /* ranks needed */
	uint32_t n_own;                                /* of them, those of the executor at hand */
	const struct mq_replay_executor *const *owner; /* [n_devices] who runs which rank */
	const struct mq_ranks *ranks;
	bool joined;            /* by mpirun: MPI reaches all ranks */
	struct mq_wire *wire;   /* NULL where the executor's own means reach all ranks */
	struct mq_arena *arena; /* lifetime: the process */
};

/* One repetition. Complete on rank 0 only; elsewhere the arrays hold the rank's own tasks. Times
 * are seconds from the common start of the step. */
struct mq_replay_sample {
	double *start_s, *finish_s; /* [n_tasks] start: posted or begun; finish: complete */
	double *switches;           /* [n_tasks] involuntary context switches of the rank meanwhile */
	double *lost_s;             /* [n_tasks] time the rank was not on its core meanwhile; 0 for a GPU */
	double late_s;              /* out: how long after the start this rank began; 0 = in time */
	double step_time_s;         /* last finish over all ranks */
	double steal_s;             /* time the hypervisor took from this machine meanwhile */
	bool throttled;             /* the device reported a clock throttle meanwhile */
};

struct mq_replay_executor {
	uint64_t abi; /* MQ_ABI: the headers it was compiled with; checked first */
	const char *name, *summary;
	enum mq_launcher launcher;
	size_t state_size;
	/* Required: are there devices and libraries for the session? Cheap, leaves nothing behind. `devices` (may be
	 * NULL) receives how many there are on this machine, `text` a line on them. */
	enum mq_status (*check)(const struct mq_replay_session *session, uint32_t *devices, char text[256],
				struct mq_err *err);
	/* Required: join the other ranks, make buffers and communicators. */
	enum mq_status (*open)(void *state, const struct mq_replay_session *session, struct mq_err *err);
	/* Required: run schedule `index` once from `start_s` of the common clock (shortly to come);
	 * fills this rank's own tasks, and `throttled`. Called by every rank in the same order. */
	enum mq_status (*run)(void *state, uint32_t index, double start_s, struct mq_replay_sample *sample,
			      struct mq_err *err);
	/* Required: release everything; after an error it must not wait for other ranks. */
	void (*close)(void *state, bool failed);
	/* Required: facts on devices, libraries and settings as "key=value" lines, for the record. */
	void (*describe)(void *state, char *text, size_t size);
	/* May be NULL: writes how this machine's devices are joined, for `maquette platform import`. */
	enum mq_status (*topology)(void *state, const char *path, struct mq_err *err);
	/* Required: largest memory in use by this rank so far, bytes, as the device counts it. */
	double (*memory)(void *state);
	/* Required: memory in use now, the same way; own buffers (pools of operands) apart. */
	double (*in_use)(void *state, double *buffers_B);
	/* Required: memory of the device, touched; MQ_ENODEV where there is not as much. */
	enum mq_status (*allocate)(void *state, size_t bytes, void **block, struct mq_err *err);
	void (*release)(void *state, void *block, size_t bytes);
	/* May be NULL: a bit for each library that is found here and that an executor can do without, for `imitates`. */
	uint32_t (*found)(void);
	/* May be NULL: what a kernel is that runs as something else, for the record ("conv"); NULL: it runs as what it is. */
	const char *(*imitates)(const struct mq_kernel *kernel, uint32_t found);
};

/* For executors: bytes that a pool of operands must hold for all schedules, at least `least`: the most that
 * `kernel_need` says of a kernel, or a message (with `copies`, also a copy) with 64 KiB to spare. */
MQ_API size_t mq_replay_room(const struct mq_replay_session *session,
			     size_t (*kernel_need)(const struct mq_kernel *kernel), bool copies, size_t least);

/* For executors: do these ranks all belong to the executor of `rank`, so that its own means of
 * communication reach them? */
MQ_API bool mq_replay_own(const struct mq_replay_session *session, uint32_t rank, uint32_t n, const uint32_t *ranks);

static inline double mq_seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline bool mq_coll_adds(uint8_t coll)
{
	return coll == MQ_COLL_ALL_REDUCE || coll == MQ_COLL_REDUCE_SCATTER || coll == MQ_COLL_REDUCE;
}

#define MQ_REPLAY_EXECUTOR(id) MQ_API const struct mq_replay_executor mq_executor_##id
#define MQ_REPLAY_HEAD(text)   .abi = MQ_ABI, .name = text

#endif

/* executor.h - an executor on real hardware: a plug-in of maquette-replay that runs schedules.
 *
 * One file validator/NAME.c (with parts in validator/NAME/) becomes build/executors/NAME.so and exports one const
 * struct through MQ_REPLAY_EXECUTOR(NAME). One process runs one device of the schedule, and that process is a *rank*;
 * device i of a schedule belongs to rank i. maquette-replay handles options, files, warm-up, repetitions and their
 * order, the common start and the collection of times; the executor handles devices, buffers and communication among
 * its own ranks.
 *
 * A run may have ranks of several executors (`owner` maps ranks to executors): CPUs of a plan run on "host", its GPUs
 * on "cuda". Ranks of one executor communicate by its own means, unless these need a launcher (MPI), which mixed runs
 * lack; communication between ranks of different executors, or in a group with both, uses the wire (maquette/wire.h).
 *
 * Calls for a rank: check (before any rank is started), open, run ..., close. Every wait inside obeys the deadline of
 * the options. Statuses: MQ_ENODEV (3) no or too few devices or no library, MQ_ETIME (4) deadline or dead rank,
 * MQ_EINPUT (2) a schedule that this executor cannot run (says why). SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_EXECUTOR_H
#define MAQUETTE_EXECUTOR_H

#include <time.h>
#include "maquette/abi.h"
#include "maquette/arena.h"
#include "maquette/schedule.h"

/* How maquette-replay starts an executor's ranks, if no launcher has. */
enum mq_launcher {
	MQ_LAUNCH_MPIRUN, /* mpirun -n N maquette-replay ... */
	MQ_LAUNCH_SPAWN   /* N children of maquette-replay, which get their ranks by environment variables */
};

struct mq_replay_options {
	uint32_t rank, size; /* this process's rank, number of ranks; size 0 before they are started */
	uint32_t local;      /* index among the executor's ranks on this machine */
	uint32_t cores;      /* cores per device; 0 = the machine's cores divided by its ranks */
	bool oversubscribe;  /* allow more ranks than cores (host) */
	bool hold;           /* cuda: hold the stream until a call is wholly enqueued, to time it without its launch */
	bool share_gpu;      /* allow several ranks on one GPU: correctness only, never timings */
	double deadline_s;   /* longest wait for anything */
	double memory_B;     /* reserve and touch this many bytes per device; 0 = none */
	const char *cpu_types;  /* mixed plans: device types that are CPUs, separated by commas ("" = none) */
	const char *rendezvous; /* spawned ranks: "file:PATH" or "tcp:HOST:PORT" where they meet */
	uint64_t seed;
};

/* Synchronisation of a run's ranks and collection of measurements on rank 0; never used in timed work. */
struct mq_ranks {
	uint32_t rank, size;
	void *state;
	double (*now)(void *state); /* seconds on rank 0's clock */
	enum mq_status (*barrier)(void *state, struct mq_err *err);
	/* Sends rank 0's bytes to all. */
	enum mq_status (*broadcast)(void *state, void *data, size_t size, struct mq_err *err);
	/* Concatenates bytes[i] of each rank i on rank 0. */
	enum mq_status (*gather)(void *state, const void *mine, void *all, const uint32_t *bytes, struct mq_err *err);
	/* MQ_ETIME: a rank (named) has died. Cheap: call it while waiting. */
	enum mq_status (*alive)(void *state, struct mq_err *err);
};

struct mq_wire;
struct mq_replay_executor;

/* All schedules of this invocation, so that buffers and communicators are made once. */
struct mq_replay_session {
	const struct mq_replay_options *options;
	uint32_t n_schedules;
	struct mq_schedule *const *schedule;           /* [n_schedules], checked */
	uint32_t n_devices;                            /* ranks needed */
	uint32_t n_own;                                /* of these, ranks of this executor */
	const struct mq_replay_executor *const *owner; /* [n_devices] executor of each rank */
	const struct mq_ranks *ranks;
	bool joined;            /* started by mpirun: MPI reaches all ranks */
	struct mq_wire *wire;   /* NULL: the executor reaches all ranks by its own means */
	struct mq_arena *arena; /* lifetime: the process */
};

/* One repetition. Complete on rank 0 only; elsewhere the arrays hold the rank's own tasks. Times
 * are seconds from the common start of the step. */
struct mq_replay_sample {
	double *start_s, *finish_s; /* [n_tasks] start: posted or begun; finish: complete */
	double *switches;           /* [n_tasks] involuntary context switches of the rank meanwhile */
	double *lost_s;             /* [n_tasks] time without a core meanwhile; 0 for a GPU */
	double late_s;              /* out: delay of this rank's start; 0 = in time */
	double step_time_s;         /* last finish over all ranks */
	double steal_s;             /* time the hypervisor took from this machine meanwhile */
	bool throttled;             /* the device reported a clock throttle meanwhile */
};

struct mq_replay_executor {
	uint64_t abi; /* MQ_ABI: the headers it was compiled with; checked first */
	const char *name, *summary;
	enum mq_launcher launcher;
	size_t state_size;
	/* Required: tests for the session's devices and libraries. Cheap, keeps nothing allocated. `devices` (may be
	 * NULL): number on this machine; `text`: a line about them. */
	enum mq_status (*check)(const struct mq_replay_session *session, uint32_t *devices, char text[256],
				struct mq_err *err);
	/* Required: joins the other ranks, makes buffers and communicators. */
	enum mq_status (*open)(void *state, const struct mq_replay_session *session, struct mq_err *err);
	/* Required: runs schedule `index` once, from `start_s` of the common clock (shortly ahead); fills the times of
	 * this rank's tasks, and `throttled`. Every rank calls it in the same order. */
	enum mq_status (*run)(void *state, uint32_t index, double start_s, struct mq_replay_sample *sample,
			      struct mq_err *err);
	/* Required: releases everything; after an error it must not wait for other ranks. */
	void (*close)(void *state, bool failed);
	/* Required: facts on devices, libraries and settings as "key=value" lines, for the record. */
	void (*describe)(void *state, char *text, size_t size);
	/* May be NULL: writes the links between this machine's devices, for `maquette platform import`. */
	enum mq_status (*topology)(void *state, const char *path, struct mq_err *err);
	/* Required: this rank's largest memory use so far, bytes, as the device counts it. */
	double (*memory)(void *state);
	/* Required: memory in use now, likewise; *buffers_B: the part that is the executor's own buffers. */
	double (*in_use)(void *state, double *buffers_B);
	/* Required: allocates and touches device memory; MQ_ENODEV: out of memory. */
	enum mq_status (*allocate)(void *state, size_t bytes, void **block, struct mq_err *err);
	void (*release)(void *state, void *block, size_t bytes);
	/* May be NULL: bits of the optional libraries that this machine has, for `imitates`. */
	uint32_t (*found)(void);
	/* May be NULL: the name ("conv"), for the record, of a kernel that is replaced by another; NULL result: it runs
	 * itself. */
	const char *(*imitates)(const struct mq_kernel *kernel, uint32_t found);
};

/* For executors: bytes of a pool of operands for all schedules, at least `least`: the largest kernel_need of a kernel,
 * or message (with `copies`, also copy) plus 64 KiB. */
MQ_API size_t mq_replay_room(const struct mq_replay_session *session,
			     size_t (*kernel_need)(const struct mq_kernel *kernel), bool copies, size_t least);

/* For executors: do all these ranks belong to the executor of `rank`, which then reaches them by its own means? */
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

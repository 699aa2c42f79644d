/* replay.h - the parts of maquette-replay: settings, plug-in loading, launching of ranks, records of measurements.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_VALIDATOR_REPLAY_H
#define MQ_VALIDATOR_REPLAY_H

#include <stdio.h>

#include "maquette/executor.h"

struct replay_settings {
	const char *executor; /* name */
	const char *plugins;  /* folder of the executors */
	const char *out;      /* file, or folder when there are several schedules */
	uint32_t n_paths;
	const char **path; /* schedule files */
	uint32_t warmup, reps;
	double settle_s, budget_s; /* budget_s: 0 = none */
	bool dry_run, in_order, list;
	uint32_t local_ranks; /* --local */
	struct mq_replay_options options;
};

struct replay_job {
	struct replay_settings *set;
	struct mq_replay_session session;
	const struct mq_replay_executor *executor; /* of this rank; before ranks are started: the first */
	bool spawn; /* the ranks are started here, or by another launcher than the executor's */
};

/* ---- assign.c: executors of ranks ------------------------------------------------ */

/* Loads the executors that the schedules need and fills session.owner, n_devices and spawn. Devices of the option's CPU
 * types run on "host" if another executor was asked for; then the devices of all schedules are renumbered so that a
 * rank is a CPU in all or none: first the others, then the CPUs, each in the schedule's order. MQ_ENODEV: a library of
 * an executor is missing; MQ_EINPUT: no such executor (lists the others). */
enum mq_status replay_assign(struct replay_job *job, struct mq_err *err);
/* Makes this process rank `rank`: sets its executor, and its index among that executor's ranks. */
void replay_take_rank(struct replay_job *job, uint32_t rank);
/* "rank 1 (cpu0 on host)": for messages. Lives in the arena. */
const char *replay_rank_name(const struct replay_job *job, uint32_t rank);

/* ---- rendezvous.c: connections ---------------------------------------------------------- */

/* A star of TCP connections with rank 0 in the middle. */
struct replay_rendezvous {
	uint32_t rank, size;
	uint64_t token; /* of this run; connections without it are refused */
	double deadline_s;
	int *fd;               /* [size] rank 0: to rank i; others: fd[0] to rank 0; -1 = none */
	double clock_offset_s; /* own clock + offset = clock of rank 0 */
};
enum mq_status replay_rendezvous_open(struct replay_rendezvous *rendezvous, const struct mq_replay_options *options,
				      struct mq_arena *arena, struct mq_err *err);
/* Aligns the clock with rank 0's again, since clocks drift apart by microseconds a second. All ranks call it
 * together. */
enum mq_status replay_rendezvous_align(struct replay_rendezvous *rendezvous, struct mq_err *err);
void replay_rendezvous_close(struct replay_rendezvous *rendezvous);
struct mq_ranks replay_rendezvous_ranks(struct replay_rendezvous *rendezvous); /* borrows `rendezvous` */

/* wire.c: all ranks call it together. */
enum mq_status replay_wire_open(const struct mq_ranks *ranks, struct mq_arena *arena, struct mq_wire **wire,
				struct mq_err *err);
void replay_wire_close(struct mq_wire *wire); /* may be NULL */

/* launch.c: starts the ranks of this command and waits for them within the deadline. Returns the ranks' status; `err`
 * has one line. */
enum mq_status replay_launch(const struct replay_job *job, char **argv, struct mq_err *err);
/* This process's rank by the variables of Open MPI, Slurm, torchrun or maquette-replay; false = none. */
bool replay_rank_from_environment(uint32_t *rank, uint32_t *size, uint32_t *local);

/* measure.c: warm-up and repetitions of all schedules; rank 0 writes the files. */
enum mq_status replay_measure(struct replay_job *job, struct mq_err *err);

/* ---- memory.c: a plan's memory, allocated --------------------------------------------------- */

enum {
	REPLAY_HELD_PROCESS, /* in use without the executor's buffers: context, libraries */
	REPLAY_HELD_BUFFERS, /* the executor's pools of operands, which training lacks */
	REPLAY_HELD_PARAMETERS,
	REPLAY_HELD_GRADIENTS,
	REPLAY_HELD_OPTIMIZER,
	REPLAY_HELD_PLAN_BUFFERS,
	REPLAY_HELD_DYNAMIC, /* peak of activations and further memory of passes */
	REPLAY_HELD_PEAK,    /* peak of all that the plan holds */
	REPLAY_HELD_FULL,    /* 1: an allocation failed, and the other values lack it */
	REPLAY_HELD_VALUES,
	REPLAY_HELD_STATIC = 4 /* parameters, gradients, optimizer state, buffers */
};
extern const char *const replay_held_name[REPLAY_HELD_VALUES];
/* Measures bytes in use; zeros if the schedule does not state its devices' memory. */
void replay_hold(const struct mq_replay_executor *executor, void *state, const struct mq_schedule *schedule,
		 uint32_t device, struct mq_arena *scratch, double value[REPLAY_HELD_VALUES]);

/* Path of the record of schedule i. */
const char *replay_record_path(const struct replay_job *job, uint32_t index, struct mq_arena *arena);

#endif

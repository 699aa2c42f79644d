/* replay.h - the parts of maquette-replay: settings, plug-in loading, launching of ranks, the record of what was
 * measured. SPDX-License-Identifier: Apache-2.0 */
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
	const struct mq_replay_executor *executor; /* of this rank; before there are ranks: the first */
	bool spawn; /* the ranks are started here, or by a launcher that is not the executor's own
	             */
};

/* ---- assign.c: which executor runs which rank ------------------------------------------------ */

/* Loads the executors that the schedules need and fills session.owner, n_devices and spawn. Devices of the option's CPU
 * types run on "host" where the executor asked for is another one; then the devices of all schedules are renumbered, so
 * that a rank is a CPU in all of them or in none: first the others, then the CPUs, each in the schedule's order.
 * MQ_ENODEV where a library an executor needs is missing, MQ_EINPUT (listing what exists) where there is none. */
enum mq_status replay_assign(struct replay_job *job, struct mq_err *err);
/* This process is `rank`: its executor, how many ranks that has, and its place among them. */
void replay_take_rank(struct replay_job *job, uint32_t rank);
/* "rank 1 (cpu0 on host)": for messages. Lives in the arena. */
const char *replay_rank_name(const struct replay_job *job, uint32_t rank);

/* ---- rendezvous.c: ranks meet ---------------------------------------------------------- */

/* A star of TCP connections with rank 0 in the middle. */
struct replay_rendezvous {
	uint32_t rank, size;
	uint64_t token; /* who does not know it is none of us */
	double deadline_s;
	int *fd;               /* [size] rank 0: to rank i; others: fd[0] to rank 0; -1 = none */
	double clock_offset_s; /* own clock + offset = clock of rank 0 */
};
enum mq_status replay_rendezvous_open(struct replay_rendezvous *rendezvous, const struct mq_replay_options *options,
				      struct mq_arena *arena, struct mq_err *err);
/* Clocks drift apart by microseconds a second: aligns them with rank 0's anew. All ranks together. */
enum mq_status replay_rendezvous_align(struct replay_rendezvous *rendezvous, struct mq_err *err);
void replay_rendezvous_close(struct replay_rendezvous *rendezvous);
struct mq_ranks replay_rendezvous_ranks(struct replay_rendezvous *rendezvous); /* borrows `rendezvous` */

/* wire.c: called by all ranks at once. */
enum mq_status replay_wire_open(const struct mq_ranks *ranks, struct mq_arena *arena, struct mq_wire **wire,
				struct mq_err *err);
void replay_wire_close(struct mq_wire *wire); /* may be NULL */

/* launch.c: start the ranks of this command and wait for them under the deadline. Returns the
 * status that the ranks ended with; one clear line is in `err`. */
enum mq_status replay_launch(const struct replay_job *job, char **argv, struct mq_err *err);
/* Who this process is, from Open MPI, Slurm, torchrun or our own variables; false = nobody said. */
bool replay_rank_from_environment(uint32_t *rank, uint32_t *size, uint32_t *local);

/* measure.c: warm-up and repetitions of all schedules; rank 0 writes the files. */
enum mq_status replay_measure(struct replay_job *job, struct mq_err *err);

/* ---- memory.c: a plan's memory, held for real --------------------------------------------------- */

enum {
	REPLAY_HELD_PROCESS, /* in use apart from the executor's own buffers: context, libraries */
	REPLAY_HELD_BUFFERS, /* the executor's own: pools of operands, which a training has none of
	                      */
	REPLAY_HELD_PARAMETERS,
	REPLAY_HELD_GRADIENTS,
	REPLAY_HELD_OPTIMIZER,
	REPLAY_HELD_PLAN_BUFFERS,
	REPLAY_HELD_DYNAMIC, /* most of activations and what passes need in addition */
	REPLAY_HELD_PEAK,    /* most of all that the plan holds */
	REPLAY_HELD_FULL,    /* 1: something could not be had, the others are without it */
	REPLAY_HELD_VALUES,
	REPLAY_HELD_STATIC = 4 /* parameters, gradients, optimizer state, buffers */
};
extern const char *const replay_held_name[REPLAY_HELD_VALUES];
/* Bytes as measured; zeros where the schedule does not say what its devices hold. */
void replay_hold(const struct mq_replay_executor *executor, void *state, const struct mq_schedule *schedule,
		 uint32_t device, struct mq_arena *scratch, double value[REPLAY_HELD_VALUES]);

/* Where the record of schedule i goes. */
const char *replay_record_path(const struct replay_job *job, uint32_t index, struct mq_arena *arena);

#endif

/*
 * script.h - what one rank does for one schedule: its streams, matched messages and communicators.
 */
#ifndef MQ_VALIDATOR_HOST_SCRIPT_H
#define MQ_VALIDATOR_HOST_SCRIPT_H

#include <mpi.h>

#include "host/host.h"

struct host_lane {
	uint32_t n, next;
	uint32_t *task; /* [n] ids in stream order */
};

struct host_script {
	const struct mq_schedule *schedule;
	uint32_t device; /* = rank; no lanes where the schedule has fewer devices */
	struct host_lane lane[MQ_N_STREAMS];
	uint32_t n_local;
	uint32_t *match, *call; /* see mq_schedule_match */
	MPI_Comm *comm;         /* [n_comms], MPI_COMM_NULL where this rank is no member */
	uint32_t *next_call;    /* [n_comms] */
	uint8_t *done;          /* [n_tasks] 1 finished, 2 posted */
	uint16_t *left;         /* [n_tasks] requests of a posted task that are under way */
};

/* Communicators are shared by all schedules that have the same ranks in the same order. */
struct host_comms {
	uint32_t n, room;
	struct host_comm {
		uint32_t n;
		const uint32_t *rank;
		MPI_Comm comm;
	} * entry;
};

struct host_clock {
	double offset_s; /* own clock + offset = clock of rank 0 */
};

struct host_rank {
	uint32_t rank, size;
	double deadline_s;
	bool yield;     /* more ranks than cores: give way while waiting */
	MPI_Comm world; /* ours alone */
	struct host_pool pool;
	struct host_clock clock;
	struct host_comms comms;
	struct mq_arena *arena;
};

double host_now(const struct host_rank *rank); /* on rank 0's clock */

enum mq_status host_script_build(struct host_rank *rank, const struct mq_schedule *schedule,
                                 struct host_script *script, struct mq_err *err);
/* Runs the script; fills the rank's own tasks of `sample` in seconds after `start_s`. */
enum mq_status host_script_run(struct host_rank *rank, struct host_script *script, double start_s,
                               struct mq_replay_sample *sample, struct mq_err *err);

#endif

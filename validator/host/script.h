/* script.h - what one rank does for one schedule: its streams, matched messages and communicators.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_VALIDATOR_HOST_SCRIPT_H
#define MQ_VALIDATOR_HOST_SCRIPT_H

#include "host/host.h"
#include "host/talk.h"

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
	void *talk;             /* communicators and the like of the rank's talk */
	uint32_t *next_call;    /* [n_comms] */
	uint8_t *done;          /* [n_tasks] 1 finished, 2 posted */
};

struct host_rank {
	double deadline_s;
	bool yield; /* more ranks than cores: give way while waiting */
	const struct mq_replay_session *session;
	const struct mq_ranks *ranks;
	const struct host_talk *talk;
	void *talk_state;
	struct host_pool pool;
	struct mq_arena *arena;
};

double host_now(const struct host_rank *rank); /* on rank 0's clock */

enum mq_status host_script_build(struct host_rank *rank, const struct mq_schedule *schedule, struct host_script *script,
				 struct mq_err *err);
/* Runs the script; fills the rank's own tasks of `sample` in seconds after `start_s`. */
enum mq_status host_script_run(struct host_rank *rank, struct host_script *script, double start_s,
			       struct mq_replay_sample *sample, struct mq_err *err);

#endif

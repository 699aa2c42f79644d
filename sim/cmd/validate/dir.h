/* dir.h - shared by calibrate and validate: runs maquette-replay and reads its measurements.
 *
 * A folder of samples holds schedules NAME.jsonl and, per launch of the replay, launch-K/NAME.timeline.csv and
 * launch-K/environment.txt, filled here or copied from another node.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_CMD_VALIDATE_DIR_H
#define MQ_CMD_VALIDATE_DIR_H

#include "fit/fit.h"

struct mq_replay_call {
	const char *executor;
	const char *dir; /* samples folder */
	uint32_t launches, warmup, reps, cores, first_launch;
	uint64_t seed;
	double deadline_s, settle_s, budget_s; /* budget_s: for all launches, 0 = no limit */
	const char *cpu_types;                 /* "" = none */
	bool oversubscribe, share_gpu;
	bool hold;      /* calls are timed without launching them, see maquette-replay --hold */
	uint32_t local; /* ranks to start without MPI; 0 = the executor's way */
	uint32_t n_names;
	const char *const *name; /* [n_names] schedules, without folder and ".jsonl" */
};
/* Runs the replay `launches` times; returns its error message and exit status. */
enum mq_status mq_replay_measure(const struct mq_replay_call *call, struct mq_err *err);
/* Prints the command lines to do the same on another node. */
void mq_replay_print(const struct mq_replay_call *call);

/* Number and type of an executor's devices here. */
enum mq_status mq_replay_devices(const char *executor, struct mq_arena *arena, uint32_t *n, const char **text,
				 struct mq_err *err);

/* All schedules of a folder, by name, each with the samples of all launches. */
struct mq_samples {
	uint32_t n, n_launches; /* n_launches: launches with samples; folders of earlier ones may remain */
	const char **name;
	struct mq_measured *measured;
	const char *environment; /* text of the first environment.txt, or "" */
};
enum mq_status mq_samples_load(const char *dir, struct mq_arena *arena, struct mq_samples *samples, struct mq_err *err);

/* Writes the platform file of a GPU node with a folder of samples: from the topology there, else as a usual machine;
 * prints which of the two. */
struct mq_node_gpus {
	struct mq_calibration *fit; /* gets the links between its GPUs */
	const char *samples;
	uint32_t n_devices;
	uint32_t n_cpus; /* CPU devices beside them, and their calibration */
	const struct mq_calibration *cpu;
};
/* link: the class between the GPUs. MQ_ENODEV: CPU devices without a topology. */
enum mq_status mq_node_gpu_save(const struct mq_node_gpus *node, const char *path, const char **link,
				struct mq_err *err);

#endif

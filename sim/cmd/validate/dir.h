/* dir.h - what calibrate and validate share: driving maquette-replay, and reading back what it measured.
 *
 * A folder of samples holds schedules NAME.jsonl and, per launch of the replay, launch-K/NAME.timeline.csv and
 * launch-K/environment.txt: the same whether it was filled here or brought from another node.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_CMD_VALIDATE_DIR_H
#define MQ_CMD_VALIDATE_DIR_H

#include "fit/fit.h"

struct mq_replay_call {
	const char *executor;
	const char *dir; /* samples folder */
	uint32_t launches, warmup, reps, cores, first_launch;
	uint64_t seed;
	double deadline_s, settle_s, budget_s; /* budget_s: of all launches, 0 = none */
	const char *cpu_types;                 /* "" = none */
	bool oversubscribe, share_gpu;
	bool hold;      /* calls are timed without launching them, see maquette-replay --hold */
	uint32_t local; /* ranks to start without MPI; 0 = as the executor does */
	uint32_t n_names;
	const char *const *name; /* [n_names] schedules, without folder and ".jsonl" */
};
/* Runs the replay `launches` times; its one-line message and exit status become ours. */
enum mq_status mq_replay_measure(const struct mq_replay_call *call, struct mq_err *err);
/* The command lines that do the same on another node. */
void mq_replay_print(const struct mq_replay_call *call);

/* How many devices an executor has here, and of which type. */
enum mq_status mq_replay_devices(const char *executor, struct mq_arena *arena, uint32_t *n, const char **text,
				 struct mq_err *err);

/* All schedules of a folder, in name order, each with the samples of all launches. */
struct mq_samples {
	uint32_t n, n_launches; /* n_launches: those with samples, folders of earlier ones may be there too */
	const char **name;
	struct mq_measured *measured;
	const char *environment; /* text of the first environment.txt, or "" */
};
enum mq_status mq_samples_load(const char *dir, struct mq_arena *arena, struct mq_samples *samples, struct mq_err *err);

/* Writes the platform file of a node of GPUs whose samples are in a folder: from the topology there, else
 * one machine as is usual. Says which on standard output. */
struct mq_node_gpus {
	struct mq_calibration *fit; /* how its GPUs are joined is added */
	const char *samples;
	uint32_t n_devices;
	uint32_t n_cpus; /* CPU devices beside them, and their calibration */
	const struct mq_calibration *cpu;
};
/* `link`: the class that joins the GPUs. MQ_ENODEV: CPU devices, and no topology to put them in. */
enum mq_status mq_node_gpu_save(const struct mq_node_gpus *node, const char *path, const char **link,
				struct mq_err *err);

#endif

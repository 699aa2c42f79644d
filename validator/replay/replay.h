/*
 * replay.h - the parts of maquette-replay: settings, plug-in loading, launching of ranks, the
 * record of what was measured.
 */
#ifndef MQ_VALIDATOR_REPLAY_H
#define MQ_VALIDATOR_REPLAY_H

#include <stdio.h>

#include "executor.h"

struct replay_settings {
	const char *executor; /* name */
	const char *plugins;  /* folder of the executors */
	const char *out;      /* file, or folder when there are several schedules */
	uint32_t n_paths;
	char **path; /* schedule files */
	uint32_t warmup, reps;
	bool dry_run, in_order, list;
	uint32_t local_ranks; /* --local */
	struct mq_replay_options options;
};

struct replay_job {
	struct replay_settings *set;
	struct mq_replay_session session;
	const struct mq_replay_executor *executor;
};

/* validator/replay/plugin.c: dlopen and checks; MQ_ENODEV where a library it needs is missing,
 * MQ_EINPUT (listing what exists) where there is no such executor. */
enum mq_status replay_load_executor(const char *folder, const char *name, struct mq_arena *arena,
                                    const struct mq_replay_executor **executor, struct mq_err *err);

/* validator/replay/launch.c: start the ranks of this command and wait for them under the deadline.
 * Returns the status that the ranks ended with; one clear line is in `err`. */
enum mq_status replay_launch(const struct replay_job *job, char **argv, struct mq_err *err);
/* Who this process is, from Open MPI, Slurm, torchrun or our own variables; false = nobody said. */
bool replay_rank_from_environment(uint32_t *rank, uint32_t *size, uint32_t *local);

/* validator/replay/measure.c: warm-up and repetitions of all schedules; rank 0 writes the files. */
enum mq_status replay_measure(const struct replay_job *job, struct mq_err *err);

/* validator/replay/record.c: timeline files with a row per task and sample. */
struct replay_record {
	FILE *file;
	const char *path;
};
enum mq_status replay_record_open(struct replay_record *record, const char *path,
                                  struct mq_err *err);
void replay_record_sample(struct replay_record *record, const struct mq_schedule *schedule,
                          const char *executor, uint32_t sample,
                          const struct mq_replay_sample *values);
enum mq_status replay_record_close(struct replay_record *record, struct mq_err *err);
/* Where the record of schedule i goes. */
const char *replay_record_path(const struct replay_job *job, uint32_t index,
                               struct mq_arena *arena);

#endif

/*
 * score_spawn.h - rows of one platform, given to worker processes of `score`.
 */
#ifndef MQ_CMD_SCORE_SPAWN_H
#define MQ_CMD_SCORE_SPAWN_H

#include <fcntl.h>
#include <sys/types.h>

#include "cmd/score_runs.h"

struct mq_work_item {
	const struct mq_case *c;
	enum mq_verdict verdict;   /* the answer: N_VERDICTS until there is one */
	double step_s, peak_B, limit_B;
	const char *message;
};

/* Files in memory, without a name: nothing is left behind, however this process ends. The first three
 * are a worker's standard ones. */
enum mq_work_file { MQ_WORK_INPUT, MQ_WORK_OUTPUT, MQ_WORK_ERRORS, MQ_WORK_PLATFORM, MQ_WORK_FILES };

/* The items of one platform. */
struct mq_work_group {
	struct mq_work_item **item;
	uint32_t n, room;
	uint32_t next;             /* items before it have their answer */
	pid_t pid;                 /* of the running worker, 0 = none */
	int file[MQ_WORK_FILES];   /* what a worker reads and writes; while `open` */
	bool open;
};

/* Fills the answers of all items, options->jobs workers at a time. */
enum mq_status mq_work_run(const struct mq_score_options *options, const char *table,
			   struct mq_work_group *group, uint32_t n, struct mq_err *err) MQ_MUST_CHECK;

#endif

/*
 * score_spawn.h - rows of one platform, given to worker processes of `score`.
 */
#ifndef MQ_CMD_SCORE_SCORE_SPAWN_H
#define MQ_CMD_SCORE_SCORE_SPAWN_H

#include <fcntl.h>
#include <sys/types.h>

#include "cmd/score/score_runs.h"

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

/* One table and what becomes of its rows. */
struct mq_work_table {
	const char *path, *stem;
	struct mq_run *run;
	uint32_t n;
	struct mq_case *c;         /* [n] */
	struct mq_work_item *item; /* [n]; message = reason where refused */
	bool *ready;               /* [n] asked for and not refused: there is something to simulate */
	struct mq_work_group *group;
	uint32_t n_groups, group_room;
};
/* Reads the table at `path`, makes its rows ready and refuses those that cannot be scored. */
enum mq_status mq_work_load(const struct mq_score_options *options,
			    const struct mq_score_tables *tables, struct mq_work_table *table,
			    struct mq_err *err) MQ_MUST_CHECK;
/* Groups the ready rows, or those of them that are `wanted` ([n] or NULL = all), for mq_work_run. */
void mq_work_group_rows(struct mq_work_table *table, const bool *wanted, struct mq_arena *arena);
/* Has the row a prediction and a measurement to hold it against? A run that fitted is scored even where
 * the memory model says that it should not have. */
bool mq_work_scored(const struct mq_work_table *table, uint32_t row);

/* Fills the answers of all items, options->jobs workers at a time. */
enum mq_status mq_work_run(const struct mq_score_options *options, const char *table,
			   struct mq_work_group *group, uint32_t n, struct mq_err *err) MQ_MUST_CHECK;

#endif

/* job.h - the question that worker processes answer again and again: which model, platform, calibrations and training
 * options. It travels as the arguments of the hidden command `worker`. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_JUDGE_JOB_H
#define MQ_JUDGE_JOB_H

#include "maquette/calib.h"
#include "judge/outputs.h"
#include "schedule/jitter.h"
#include "maquette/question.h"
#include "software/asked.h"

struct mq_job {
	/* The question; no model: only routes are asked. Its platform is the path of a file; calib and change are not
	 * looked at. */
	struct mq_asked asked;
	const char *software_dir; /* folder of the software's files; without software it is mq_software_plain() */
	const char *const *calib; /* [n_calib] files, or folders of files, each on top of those before */
	uint32_t n_calib;
	const char *const *type;   /* of the platform's devices, each once, NULL at the end; NULL = the file says it */
	const char *const *change; /* [n_change] what-if changes of the hardware (hardware/change.h) */
	uint32_t n_change;
	double max_tasks;        /* of one plan's simulation; 0 = what memory allows */
	double memory_high;      /* see mq_question_memory_high; 0 = nothing is known */
	bool analytic;           /* one pass without contention in place of the simulation */
	bool times_only;         /* see mq_judge */
	struct mq_jitter jitter; /* draws 0: nothing varies */
	double wall_s;           /* clock seconds per plan before its worker is replaced; +inf = none */
	struct mq_outputs outputs;
};

/* A batch of 1, no software, no time-outs but 600 s of clock time per plan. */
void mq_job_init(struct mq_job *job);

/* "key=value" arguments, NULL-terminated, without a program name; *argc of them. */
char **mq_job_encode(const struct mq_job *job, struct mq_arena *arena, int *argc);
/* A job and a plan of it as bytes for a pipe. Calibrations and changes, which are the same for all plans of a pool, are
 * not in it. */
void *mq_job_pack(const struct mq_job *job, const struct mq_plan *plan, struct mq_arena *arena, size_t *size);
/* The parts of such bytes: arguments, each ended by a zero, and a packed plan. MQ_EBUG: cut short. */
struct mq_job_parts {
	const char *args, *plan;
	uint32_t args_size;
	size_t plan_size;
};
enum mq_status mq_job_parts(const void *bytes, size_t size, struct mq_job_parts *parts, struct mq_err *err);
/* Reads the arguments; calibrations and changes of `job` stay. */
enum mq_status mq_job_unpack(const struct mq_job_parts *parts, struct mq_arena *arena, struct mq_job *job,
			     struct mq_err *err);
/* MQ_EINPUT: an unknown key or a bad value. */
enum mq_status mq_job_decode(int argc, char **argv, struct mq_arena *arena, struct mq_job *job, struct mq_err *err);

/* Model, software and training options of a job, as a question without cluster and calibration. `job` is
 * borrowed by it. A job without model has none. */
enum mq_status mq_job_question(const struct mq_job *job, struct mq_arena *arena, struct mq_question *q,
			       struct mq_err *err);

/* All calibrations of the job, in order, from the one at `first` on. */
enum mq_status mq_job_calib(const struct mq_job *job, uint32_t first, struct mq_calib *calib, struct mq_err *err);

#endif

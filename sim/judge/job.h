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
	/* The question. Without a model the pool only answers routes. asked.platform is a file's path; asked.calib and
	 * asked.change are ignored in favour of the lists below. */
	struct mq_asked asked;
	const char *software_dir; /* folder of software files; no asked.software: mq_software_plain() */
	const char *const *calib; /* [n_calib] files or folders of files; a later one overrides earlier ones */
	uint32_t n_calib;
	const char *const *type;   /* the platform's device types, NULL-terminated; NULL = read them from its file */
	const char *const *change; /* [n_change] what-if changes of the hardware (hardware/change.h) */
	uint32_t n_change;
	double max_tasks;        /* limit for one plan's simulation; 0 = what memory allows */
	double memory_high;      /* see mq_question_memory_high; 0 = nothing is known */
	bool analytic;           /* time plans by one pass without contention, not by simulation */
	bool times_only;         /* see mq_judge */
	bool any_memory;         /* likewise */
	struct mq_jitter jitter; /* draws 0: nothing varies */
	double wall_s;           /* clock seconds per plan before its worker is replaced; +inf = none */
	struct mq_outputs outputs;
};

/* Defaults: batch 1, no software, no limit on simulated time, 600 s of clock time per plan. */
void mq_job_init(struct mq_job *job);

/* The job as *argc "key=value" arguments without a program name, NULL-terminated. */
char **mq_job_encode(const struct mq_job *job, struct mq_arena *arena, int *argc);
/* Packs a job and a plan into bytes for a worker's socket, without calibrations and changes, which all plans of a pool
 * share. */
void *mq_job_pack(const struct mq_job *job, const struct mq_plan *plan, struct mq_arena *arena, size_t *size);
/* The parts of packed bytes: arguments, each ended by a zero byte, and a packed plan. MQ_EBUG: bytes are missing. */
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

/* Loads model, software and training options into *q, which borrows `job`; the caller sets cluster and calibration. A
 * job without a model gives q->model NULL. */
enum mq_status mq_job_question(const struct mq_job *job, struct mq_arena *arena, struct mq_question *q,
			       struct mq_err *err);

/* Loads job->calib[first ..] into `calib`, in order. */
enum mq_status mq_job_calib(const struct mq_job *job, uint32_t first, struct mq_calib *calib, struct mq_err *err);

#endif

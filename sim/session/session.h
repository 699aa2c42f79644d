/* session.h - shared by the commands: the question (software/asked.h), its loading, installed files, output folders,
 * results under jitter and failures, and the ranks of mpirun or Slurm.
 *
 * 	mq_asked_init(&o.asked);
 * 	const struct mq_args args = { { { mq_question_args, &o.asked }, { rows, &o } }, .doc = "..." };
 * 	MQ_TRY(mq_args_parse(&args, argc, argv, err));
 * 	MQ_TRY(mq_session_open(&session, &o.asked, NULL, err)); SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_SESSION_H
#define MQ_SESSION_SESSION_H

#include <stdio.h>

#include "base/paths.h"
#include "base/quantity.h"
#include "maquette/engine.h"
#include "maquette/question.h"
#include "schedule/failures.h"
#include "schedule/jitter.h"
#include "search/search.h"
#include "software/asked.h"

#define MQ_STRING_OF(text) #text
#define MQ_STRING(macro)   MQ_STRING_OF(macro)
#define MQ_VERSION         MQ_STRING(MQ_VERSION_NUMBER)

/* Prepares for a limit on memory (limits.c): may start the program again. MQ_ENODEV: the limit is too low. */
enum mq_status mq_limits_meet(char **argv, struct mq_err *err);

/* Reads --fix and --max. */
enum mq_status mq_asked_limits(const struct mq_asked *asked, struct mq_limits *limits, struct mq_err *err);
/* Writes the job file's lines of the question. */
static inline void mq_asked_print(const struct mq_asked *asked, FILE *file)
{
	mq_args_print(mq_question_args, asked, 0, file);
}

/* Installed files that are the same for every question, read once and shared by sessions. */
struct mq_shipped {
	struct mq_arena *arena; /* borrowed; outlives them */
	struct mq_calib *calib; /* platforms/calib as read; NULL = not read yet */
	struct mq_trust *trust; /* the shipped index alone; NULL = not read yet, or none */
	const struct mq_software_record *software;
	uint32_t n_software; /* software files marked "listed"; 0 = not read yet (mq_listed_software) */
};

/* A loaded question. Everything lives in `arena`. */
struct mq_session {
	struct mq_arena arena;
	struct mq_arena screening;    /* freed after each screen */
	struct mq_index *replays;     /* kept for all screens */
	const struct mq_asked *asked; /* the question asked, its open options filled in */
	struct mq_question q;         /* its pointers lead to fields below or into `arena` */
	struct mq_model *model;
	struct mq_cluster *cluster; /* bound to calib; only the devices of --devices */
	struct mq_calib *calib;
	struct mq_software_record software;
	struct mq_limits limits;   /* --fix and --max */
	struct mq_train train;     /* options not given are the software's */
	const char *platform_path; /* the XML file that SimGrid loads */
	struct mq_plan *start;     /* --start, or NULL */
	struct mq_pool *pool;      /* worker processes; see judge/pool.h */
	struct mq_ranks *ranks;    /* other ranks that judge for this search, or NULL */
	uint32_t n_ranks;
	const char *platform_calib; /* file of calibrations beside platform_path, or NULL */
	bool own_platform;          /* platform_path is temporary: removed on close */
	bool batch_of_model;        /* the batch is the model file's */
	struct mq_shipped *shipped; /* borrowed, or NULL */
	struct mq_trust *trust;     /* index of errors with the files of --trust-with; NULL = none */
	struct mq_session_files *files;
};

/* Loads and checks model, platform (through a worker process), calibrations and start plan. The dtype is that of
 * mq_software_dtype. The default batch is the model file's; without one, training is an error unless the model brings a
 * profile. `shipped`: NULL = not shared with other sessions. */
enum mq_status mq_session_open(struct mq_session *session, const struct mq_asked *asked, struct mq_shipped *shipped,
			       struct mq_err *err);
void mq_session_close(struct mq_session *session);
/* Closes a session at the end of its block: MQ_CLOSED struct mq_session session = { .model = NULL }. */
#define MQ_CLOSED __attribute__((cleanup(mq_session_close)))
/* What a user may take for granted and the answer has not: generation in inference, ports of twice what TCP gets. */
const char *mq_session_left_out(const struct mq_session *session, struct mq_arena *arena);
/* "2266 GB in the host memory of a machine; ...", where the platform does not say how much there is; else "". */
const char *mq_session_host_memory(const struct mq_result *result, struct mq_arena *arena);
/* "X1: no fp8; ...": what was assumed of devices, ports, the mode and, by `result` (or NULL), host memory; "" = none. */
const char *mq_session_assumed(const struct mq_session *session, const struct mq_result *result,
			       struct mq_arena *arena);
/* Prints notes on the question: device types without calibration, assumptions, a missing index of errors. */
void mq_session_note(const struct mq_session *session, FILE *file);
/* Is the device the first of its type among the devices `among` (NULL: all)? */
bool mq_first_of_type(const struct mq_cluster *cluster, uint32_t device, const bool *among);
/* The calibration of a link class for the platform's first GPU; NULL: none. */
const struct mq_link_calib *mq_session_link(const struct mq_session *session, const char *class);
/* The question for worker processes; lives as long as the session. */
struct mq_job;
const struct mq_job *mq_session_job(const struct mq_session *session);
/* Judges plans by simulation in the session's worker processes. */
enum mq_status mq_session_judge(struct mq_session *session, const struct mq_plan *const *plan, uint32_t n,
				struct mq_result *result, struct mq_err *err);
/* What a screen of a plan answers, by the analytic executor: whether it fits and its step time; the step time alone,
 * even if it does not fit; only whether it fits. */
enum mq_screen_of { MQ_SCREEN_BOTH, MQ_SCREEN_TIME, MQ_SCREEN_MEMORY };
/* Screens a plan in this process; q: the session's question, or one on a part of its cluster. False: no answer, and the
 * verdict MQ_N_VERDICTS. */
bool mq_session_screen_here(struct mq_session *session, const struct mq_question *q, enum mq_screen_of what,
			    const struct mq_plan *plan, struct mq_result *result);
/* MQ_SCREEN_TIME of several plans, by the workers if there are several; the verdict MQ_N_VERDICTS means no answer. */
enum mq_status mq_session_screen(struct mq_session *session, const struct mq_plan *const *plan, uint32_t n,
				 struct mq_result *result, struct mq_err *err);
/* Makes the folder `dir` and writes the tables of `simulate` for a plan to it. */
enum mq_status mq_session_detail(struct mq_session *session, const struct mq_plan *plan, const char *dir,
				 struct mq_err *err);

/* Loads the shipped calibrations (platforms/calib) and then --calib files. `shipped` may be NULL. */
enum mq_status mq_calib_open(const struct mq_list *files, struct mq_shipped *shipped, struct mq_arena *arena,
			     struct mq_calib **calib, struct mq_err *err);

/* Loads a software by name, with options, from the shipped files. */
enum mq_status mq_software_open(const char *text, struct mq_arena *arena, struct mq_software_record *record,
				struct mq_err *err);

/* Finds a platform file: a path, or the name of a shipped one with or without ".xml". */
enum mq_status mq_find_platform(const char *name, struct mq_arena *arena, const char **path, struct mq_err *err);

/* Translates "64xH100 KEY=VALUE..." (devices, in machines of 8 or gpus=) and "8 x p5.48xlarge" (machines of
 * platforms/machines.csv) to keys of `platform generate`; any other text is returned as it is. MQ_EINPUT: no such
 * machine, or devices that do not fill machines. */
enum mq_status mq_platform_words(const char *text, struct mq_arena *arena, const char **keys, struct mq_err *err);
/* A platform of option -p (but `model`): its XML file or its keys, in a temporary folder if generated. */
struct mq_platform_file {
	const char *path;        /* of the XML file, or of keys (mq_platform_is_keys) */
	const char *const *type; /* its device types, NULL-terminated; NULL = `path` was given as a file */
	const char *dir;         /* temporary folder to remove, or NULL */
	int held;                /* descriptor that locks `dir`, -1 = none */
};
enum mq_status mq_platform_open(const char *text, const struct mq_calib *calib, struct mq_arena *arena,
				struct mq_platform_file *file, struct mq_err *err);
/* Makes such a folder and sets file->path in it; writes no file. */
enum mq_status mq_platform_folder(struct mq_arena *arena, struct mq_platform_file *file, struct mq_err *err);
void mq_platform_file_close(const struct mq_platform_file *file);

/* MQ_EINPUT: `output` is the same file or folder as an input, whatever their names. NULL (output or input) = none. */
enum mq_status mq_output_apart(const char *option, const char *output, const char *const *input, uint32_t n,
			       struct mq_err *err);

/* Makes the output folder (and its parents). */
enum mq_status mq_make_dir(const char *path, struct mq_err *err);

/* Claims an output folder for a command until the claim is released. MQ_EINPUT, and nothing is changed: another command
 * is writing there, or run.ini is another command's or another question's. `asked`: the job file's lines that decide
 * results; NULL = any question. */
struct mq_claim {
	int fd;
	bool resumes; /* run.ini is there and has the same question */
};
enum mq_status mq_job_claim(const char *dir, const char *command, const char *asked, struct mq_claim *claim,
			    struct mq_err *err);
void mq_job_release(struct mq_claim *claim);
/* From now on the first Ctrl-C, SIGTERM or SIGHUP prints a line that ends in `said` (NULL: prints nothing; borrowed) and
 * requests a stop; one that comes two seconds later or more ends the program. */
#define MQ_JOB_RESUMES "the same command goes on from here\n"
void mq_job_stops(const char *said);
bool mq_job_stopped(void);
/* After all is written: ends the program by the signal that was caught; returns if there was none. */
void mq_job_end_stopped(void);

/* Begins DIR/run.ini with "command = NAME"; the caller adds lines (mq_ini_put); mq_job_end adds the section [about]
 * (date, host, versions), which `run` ignores. */
enum mq_status mq_job_begin(const char *dir, const char *command, FILE **file, struct mq_err *err);
enum mq_status mq_job_end(FILE *file, const char *dir, double wall_s, struct mq_err *err);
/* Reads the question of a search's folder from DIR/run.ini; options of `argv` override it. MQ_EINPUT: no folder
 * of a search. */
enum mq_status mq_asked_of_folder(const char *dir, int argc, char **argv, struct mq_arena *arena,
				  struct mq_asked *asked, struct mq_err *err);
/* Parses options (a struct of `size` bytes). If no model or no platform is given and the plan lies beside a search's
 * run.ini, that question is the default, which is noted on standard error. */
enum mq_status mq_args_parse_plan(const struct mq_args *args, void *options, size_t size, const struct mq_asked *asked,
				  const char *const *plan, int argc, char **argv, struct mq_arena *arena,
				  struct mq_err *err);
/* MQ_EINPUT: the line of a job file names a program to run (exec:), and the file is not trusted (allow_exec). */
struct mq_ini_item;
enum mq_status mq_job_allows(const struct mq_ini_item *item, bool allow_exec, struct mq_err *err);

/* Time as text: "1.23 ms". */
const char *mq_text_s(double seconds, char text[32]);
/* Price as text: "$0.8117", "$4899", "$18.37 million". */
const char *mq_text_usd(double usd, char text[32]);
const char *mq_text_B(double bytes, char text[32]);

/* Step times of a plan under jitter (schedule/jitter.h), for printing: jitter->draws samples, as drawn and sorted.
 * none: a sample has no step time; `refused` has its verdict, and the status is MQ_OK. The seed is the session's. All
 * lives in the session's arena. */
struct mq_jitter_samples {
	uint32_t n;
	double *step_s, *sorted_s;
	double p50_s, p90_s, p99_s, mean_s;
	bool none;
	struct mq_result refused;
};
enum mq_status mq_session_jitter_sample(struct mq_session *session, const struct mq_plan *plan,
					const struct mq_jitter *jitter, bool analytic, struct mq_jitter_samples *draws,
					struct mq_err *err);

/* Goodput under failures of a plan with this result. */
struct mq_goodput mq_session_goodput(const struct mq_session *session, const struct mq_plan *plan,
				     const struct mq_result *result, const struct mq_failures *failures);

/* ---- ranks.c: one search's simulations and screens on several machines ----------------------------------------
 *
 * Under mpirun or Slurm the first rank searches and the others judge and screen plans for it, each as many at once as
 * it has workers.
 *
 * Ranks exchange files in DIR/ranks, a folder that all share: N.judge holds a plan, N.screen one or several, N (from
 * 1) is the number of this group, N.got holds its results; all are written atomically. A rank that answers group N
 * locks byte N of DIR/ranks/claims; the first rank locks byte 0 as long as it lives, and every other a byte of its own
 * once it has seen that. Locks end with their process, so another rank answers a lost rank's group. No rank calls MPI,
 * whose waiting calls spin a core. Results do not depend on the rank. */
struct mq_ranks;

/* This process's rank, and *n ranks, from the environment of Open MPI, Slurm or MPICH; NULL: a single process. */
const char *mq_rank_of_many(uint32_t *n);

/* First rank: opens the folder; closes and removes it, after ranks that come late have seen it. */
enum mq_status mq_ranks_open(struct mq_session *session, const char *dir, struct mq_arena *arena,
			     struct mq_ranks **ranks, struct mq_err *err);
void mq_ranks_close(struct mq_ranks *ranks);
/* First rank: mq_session_judge and mq_pool_until for all ranks. */
enum mq_status mq_ranks_judge(struct mq_ranks *ranks, const struct mq_plan *const *plan, uint32_t n,
			      struct mq_result *result, struct mq_err *err);
void mq_ranks_until(struct mq_ranks *ranks, double left_s);
/* First rank: mq_session_screen for all ranks, if the screens take long enough. */
enum mq_status mq_ranks_screen(struct mq_ranks *ranks, const struct mq_plan *const *plan, uint32_t n,
			       struct mq_result *result, struct mq_err *err);

/* Other ranks: answer until the first rank ends. MQ_ETIME: it never appeared. */
enum mq_status mq_ranks_serve(struct mq_session *session, const char *dir, struct mq_err *err);

#endif

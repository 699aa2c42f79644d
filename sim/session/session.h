/* session.h - what the commands share: the question they ask (software/asked.h), its loading, where installed files
 * are, and output folders.
 *
 *	mq_asked_init(&o.asked);
 *	const struct mq_args args = { { { mq_question_args, &o.asked }, { rows, &o } }, .doc = "..." };
 *	MQ_TRY(mq_args_parse(&args, argc, argv, err));
 *	MQ_TRY(mq_session_open(&session, &o.asked, err)); SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_SESSION_H
#define MQ_SESSION_SESSION_H

#include <stdio.h>

#include "base/paths.h"
#include "base/quantity.h"
#include "maquette/engine.h"
#include "maquette/question.h"
#include "software/asked.h"

#define MQ_STRING_OF(text) #text
#define MQ_STRING(macro)   MQ_STRING_OF(macro)
#define MQ_VERSION         MQ_STRING(MQ_VERSION_NUMBER)

/* Makes do with a limit on memory, see limits.c: may start the program anew. MQ_ENODEV: it is too low. */
enum mq_status mq_limits_meet(char **argv, struct mq_err *err);

/* Reads --fix and --max. */
enum mq_status mq_asked_limits(const struct mq_asked *asked, struct mq_limits *limits, struct mq_err *err);
/* Writes the job file's lines of the question. */
static inline void mq_asked_print(const struct mq_asked *asked, FILE *file)
{
	mq_args_print(mq_question_args, asked, 0, file);
}

/* What is installed and the same for every question, read once for the sessions that are given it. */
struct mq_shipped {
	struct mq_arena *arena; /* borrowed; outlives them */
	struct mq_calib *calib; /* of platforms/calib, as in the files; NULL = not read yet */
	struct mq_trust *trust; /* without --trust-with; NULL = not read yet, or there is none */
	const struct mq_software_record *software;
	uint32_t n_software; /* those listed; 0 = not read yet (session/search_run.h) */
};

/* A loaded question. Everything lives in `arena`. */
struct mq_session {
	struct mq_arena arena;
	struct mq_arena screening;    /* lifetime: one screen */
	struct mq_replays *replays;   /* of all screens */
	const struct mq_asked *asked; /* what was asked, with what was left open filled in */
	struct mq_question q;         /* what they point to is below, or in `arena` */
	struct mq_model *model;
	struct mq_cluster *cluster; /* bound to calib; a part where --devices says so */
	struct mq_calib *calib;
	struct mq_software_record software;
	struct mq_limits limits;   /* --fix and --max */
	struct mq_train train;     /* what was left to the software is its */
	const char *platform_path; /* the XML file that SimGrid loads */
	struct mq_plan *start;     /* --start, or NULL */
	struct mq_pool *pool;      /* worker processes; see judge/pool.h */
	struct mq_ranks *ranks;    /* other ranks that simulate for this search, or NULL; ranks.h */
	uint32_t n_ranks;
	const char *platform_calib; /* the file of calibrations beside it, where there is one */
	bool own_platform;          /* platform_path is a temporary file: removed on close */
	bool batch_of_model;        /* the batch is what the model's file says */
	struct mq_shipped *shipped; /* borrowed, or NULL */
	struct mq_trust *trust;     /* the index of errors and the files of --trust-with; NULL = there is none */
	struct mq_session_files *files;
};

/* Model, platform (through a worker process), calibrations, start plan; checks each. A dtype that was left open
 * becomes bf16 where every GPU has it, else fp16, fp32 where there are CPUs alone; a batch that was left open is
 * that of the model's file, or else an error in training, unless the model brings its profile. `shipped`: NULL where the process opens no other. */
enum mq_status mq_session_open(struct mq_session *session, const struct mq_asked *asked, struct mq_shipped *shipped,
			       struct mq_err *err);
void mq_session_close(struct mq_session *session);
/* A session that is closed at the end of its block: MQ_CLOSED struct mq_session session = { .model = NULL }. */
#define MQ_CLOSED __attribute__((cleanup(mq_session_close)))
/* "X1: no fp8; ...": what stands in for what is not known of device types that nobody described; "" = nothing. */
const char *mq_session_assumed(const struct mq_session *session, struct mq_arena *arena);
/* What people are to know of the question: device types without calibration, what was assumed, no index of errors. */
void mq_session_note(const struct mq_session *session, FILE *file);
/* Has no device before it its type, of those `among` (NULL: of all)? */
bool mq_first_of_type(const struct mq_cluster *cluster, uint32_t device, const bool *among);
/* The calibration of a class of links, for the platform's first GPU; NULL: there is none. */
const struct mq_link_calib *mq_session_link(const struct mq_session *session, const char *class);
/* The question as worker processes are asked it; lives as long as the session. */
struct mq_job;
const struct mq_job *mq_session_job(const struct mq_session *session);
/* Judges plans by simulation in the session's worker processes. */
enum mq_status mq_session_judge(struct mq_session *session, const struct mq_plan *const *plan, uint32_t n,
				struct mq_result *result, struct mq_err *err);
/* The same of the analytic executor. */
enum mq_status mq_session_screen(struct mq_session *session, const struct mq_plan *const *plan, uint32_t n,
				 struct mq_result *result, struct mq_err *err);
/* The tables that `simulate` leaves of a plan, into the folder `dir`, which is made. */
enum mq_status mq_session_detail(struct mq_session *session, const struct mq_plan *plan, const char *dir,
				 struct mq_err *err);

/* Shipped calibrations (platforms/calib) and then --calib files. `shipped` may be NULL. */
enum mq_status mq_calib_open(const struct mq_list *files, struct mq_shipped *shipped, struct mq_arena *arena,
			     struct mq_calib **calib, struct mq_err *err);

/* A software by name with options, from the shipped files. */
enum mq_status mq_software_open(const char *text, struct mq_arena *arena, struct mq_software_record *record,
				struct mq_err *err);

/* A platform file: a path as given, or the name of a shipped one with or without ".xml". */
enum mq_status mq_find_platform(const char *name, struct mq_arena *arena, const char **path, struct mq_err *err);

/* "64xH100 KEY=VALUE...", devices in machines of 8 (or gpus=), and "8 x p5.48xlarge", machines of platforms/machines.csv,
 * as keys of `platform generate`; any other text as it is. MQ_EINPUT: no such machine, devices that fill none. */
enum mq_status mq_platform_words(const char *text, struct mq_arena *arena, const char **keys, struct mq_err *err);
/* A platform as -p takes it (but `model`): its XML file, or its keys, in a folder of its own where it is generated. */
struct mq_platform_file {
	const char *path;        /* of XML, or of keys (mq_platform_is_keys) */
	const char *const *type; /* of its devices, each once, NULL-terminated; NULL = path is a file that was given */
	const char *dir;         /* to be removed, or NULL */
	int held;                /* its lock, -1 = none */
};
enum mq_status mq_platform_open(const char *text, const struct mq_calib *calib, struct mq_arena *arena,
				struct mq_platform_file *file, struct mq_err *err);
/* Such a folder, with room for a platform file; nothing is written. */
enum mq_status mq_platform_folder(struct mq_arena *arena, struct mq_platform_file *file, struct mq_err *err);
void mq_platform_file_close(const struct mq_platform_file *file);

/* MQ_EINPUT where an output is the same file or folder as one of the inputs (NULL entries are none; so is output NULL),
 * by whatever name. */
enum mq_status mq_output_apart(const char *option, const char *output, const char *const *input, uint32_t n,
			       struct mq_err *err);

/* Makes the output folder (and its parents). */
enum mq_status mq_make_dir(const char *path, struct mq_err *err);

/* Claims an output folder for a command until the claim is released: MQ_EINPUT, and nothing changed, where
 * another command is writing there, or where run.ini is of another command or, with `asked`, of another
 * question (the lines of the job file that decide results; NULL = any will do). */
struct mq_claim {
	int fd;
	bool resumes; /* run.ini is there, of the same question */
};
enum mq_status mq_job_claim(const char *dir, const char *command, const char *asked, struct mq_claim *claim,
			    struct mq_err *err);
void mq_job_release(struct mq_claim *claim);
/* From now on Ctrl-C says that the same command goes on and asks it to stop; the second one ends the program. */
void mq_job_resumable(void);
bool mq_job_stopped(void);
/* Ends the program as the signal would have, once all is written; returns where there was none. */
void mq_job_end_stopped(void);

/* Starts DIR/run.ini: "command = NAME" first; the caller adds lines (mq_ini_put), then mq_job_end adds the
 * [about] section (date, host, versions), which `run` ignores. */
enum mq_status mq_job_begin(const char *dir, const char *command, FILE **file, struct mq_err *err);
enum mq_status mq_job_end(FILE *file, const char *dir, double wall_s, struct mq_err *err);
/* May a line of a job file be followed? MQ_EINPUT: it names a program to run (exec:), and nobody said that
 * the file is trusted. */
struct mq_ini_item;
/* The question of a search's folder, DIR/run.ini, with `argv` on top. MQ_EINPUT: it is none. */
enum mq_status mq_asked_of_folder(const char *dir, int argc, char **argv, struct mq_arena *arena,
				  struct mq_asked *asked, struct mq_err *err);
/* Parses options of `size` bytes; where no model or no platform is given and the plan lies beside a search's run.ini,
 * over the question there, and says so on standard error. */
enum mq_status mq_args_parse_plan(const struct mq_args *args, void *options, size_t size, const struct mq_asked *asked,
				  const char *const *plan, int argc, char **argv, struct mq_arena *arena,
				  struct mq_err *err);
enum mq_status mq_job_allows(const struct mq_ini_item *item, bool allow_exec, struct mq_err *err);

/* Text for people: "1.23 ms", "4.5 GB", "312 GFLOP/s"-like engineering numbers. */
const char *mq_text_s(double seconds, char text[32]);
/* Money for people: "$0.8117", "$4899", "$18.37 million". */
const char *mq_text_usd(double usd, char text[32]);
const char *mq_text_B(double bytes, char text[32]);

#endif

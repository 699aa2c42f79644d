/* run.c - `maquette run FILE.ini`: a job file says what the command line would: `command = NAME`, then a line `option =
 * value` per option (long names; flags are `true`). Keys that repeat are repeatable options. The section [about] is for
 * people. Options after the file override those in it. A file that names a program to run is followed only where
 * --allow-exec says that it is trusted: files come from others. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <string.h>

#include "session/session.h"
#include "base/ini.h"
#include "base/text.h"

static const char allow_exec_word[] = "--allow-exec";

struct job {
	struct mq_arena arena;
	const char *path, *command;
	bool allow_exec;
	struct mq_argv options;
};

static enum mq_status take(void *context, const struct mq_ini_item *item, struct mq_err *err)
{
	struct job *job = context;

	if (!strcmp(item->section, "about"))
		return MQ_OK;
	if (*item->section)
		return mq_bad(err, "%s:%u: section [%s] means nothing here; only [about] may follow the options",
			      item->path, item->line, item->section);
	if (!strcmp(item->key, "command")) {
		job->command = item->value;
		return MQ_OK;
	}
	if (!item->quoted && !strcmp(item->value, "false"))
		return MQ_OK;
	MQ_TRY(mq_job_allows(item, job->allow_exec, err));
	bool flag = !item->quoted && !strcmp(item->value, "true");
	mq_argv_add(&job->options, flag ? "--%s" : "--%s=%s", item->key, item->value);
	return MQ_OK;
}

static const struct mq_command *find_command(const char *name)
{
	for (const struct mq_command *const *c = mq_commands; *c; c++)
		if (!strcmp((*c)->name, name))
			return *c;
	return NULL;
}

/* The file's options, then those after it; without --allow-exec, which is said to this command. */
static enum mq_status run_job(struct job *job, int argc, char **argv, struct mq_err *err)
{
	for (int i = 2; i < argc; i++)
		job->allow_exec |= !strcmp(argv[i], allow_exec_word);
	MQ_TRY(mq_ini_read(job->path, &job->arena, take, job, err));
	if (!job->command)
		return mq_bad(err, "%s: no `command = NAME`; see maquette --help", job->path);
	const struct mq_command *command = find_command(job->command);
	if (!command || !strcmp(job->command, "run"))
		return mq_bad(err, "%s: command = %s is no command; see maquette --help", job->path, job->command);
	struct mq_argv full = { .arena = &job->arena };
	mq_argv_add(&full, "%s", job->command);
	for (uint32_t i = 0; i < job->options.n; i++)
		mq_argv_add(&full, "%s", job->options.word[i]);
	for (int i = 2; i < argc; i++)
		if (strcmp(argv[i], allow_exec_word))
			mq_argv_add(&full, "%s", argv[i]);
	char **word = mq_argv_end(&full);
	return command->run((int)full.n, word, err);
}

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct job, field, __VA_ARGS__)
static const struct mq_arg rows[] = {
	ROW(TEXT, "FILE.ini", path, NULL, NULL, .flags = MQ_ARG_POSITIONAL),
	ROW(FLAG, "allow-exec", allow_exec, NULL, "allow a file to run programs (engine = exec:PROGRAM)"),
	{ .type = MQ_ARG_END },
};

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	struct job job = { .arena = MQ_ARENA_INIT };
	const struct mq_args args = {
		.table = { { rows, &job } },
		.args_doc = "FILE.ini [OPTION=VALUE...]",
		.doc = "Runs a job file: `command = NAME`, then a line `option = value` per option. Options given "
		       "after the file override it. `run.ini` in a results folder is such a file.",
	};

	if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "--usage")))
		return mq_args_parse(&args, argc, argv, err);
	if (argc < 2 || argv[1][0] == '-')
		return mq_bad(err, "give a job file: maquette run FILE.ini [options]");
	job.path = argv[1];
	job.options.arena = &job.arena;
	enum mq_status status = run_job(&job, argc, argv, err);
	mq_arena_fini(&job.arena);
	return status;
}

MQ_DEFINE_COMMAND(run, "run a job file (FILE.ini)");

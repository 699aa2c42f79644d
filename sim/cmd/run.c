/*
 * run.c - `maquette run FILE.ini`: a job file says what the command line would: `command = NAME`, then a
 * line `option = value` per option (long names; flags are `true`). Keys that repeat are repeatable
 * options. The section [about] is for people. Options after the file override those in it.
 */
#include "cmd/cmd.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>

#include "cmd/common.h"
#include "core/opt.h"

struct job {
	struct mq_arena arena;
	const char *path, *command;
	char **arg;
	uint32_t n, room;
	bool bad_section;
	char section[64];
};

static int take(void *user, const char *section, const char *name, const char *value)
{
	struct job *job = user;

	if (!strcmp(section, "about"))
		return 1;
	if (*section) {
		job->bad_section = true;
		snprintf(job->section, sizeof(job->section), "%s", section);
		return 0;
	}
	if (!strcmp(name, "command")) {
		job->command = mq_arena_strdup(&job->arena, value);
		return 1;
	}
	bool flag = !strcmp(value, "true");
	if (!strcmp(value, "false"))
		return 1;
	char *arg = mq_arena_printf(&job->arena, flag ? "--%s" : "--%s=%s", name, value);
	MQ_PUSH(&job->arena, job->arg, job->n, job->room, arg);
	return 1;
}

static enum mq_status read_job(struct job *job, struct mq_err *err)
{
	FILE *file = fopen(job->path, "r");

	if (!file)
		return mq_fail(err, MQ_EINPUT, "%s: cannot open the job file: %s", job->path,
			       strerror(errno));
	int line = ini_parse_file(file, take, job);
	fclose(file);
	if (job->bad_section)
		return mq_fail(err, MQ_EINPUT, "%s:%d: section [%s] means nothing here; only [about] may "
			       "follow the options", job->path, line, job->section);
	if (line)
		return mq_fail(err, MQ_EINPUT,
			       "%s:%d: not `option = value`, or a line of more than 198 characters",
			       job->path, line);
	if (!job->command)
		return mq_fail(err, MQ_EINPUT, "%s: no `command = NAME`; see maquette --help", job->path);
	return MQ_OK;
}

static const struct mq_command *find_command(const char *name)
{
	for (const struct mq_command *const *c = mq_commands; *c; c++)
		if (!strcmp((*c)->name, name))
			return *c;
	return NULL;
}

static enum mq_status run_job(struct job *job, int argc, char **argv, struct mq_err *err)
{
	MQ_TRY(read_job(job, err));
	const struct mq_command *command = find_command(job->command);
	if (!command || !strcmp(job->command, "run"))
		return mq_fail(err, MQ_EINPUT, "%s: command = %s is no command; see maquette --help",
			       job->path, job->command);
	uint32_t total = 1 + job->n + (uint32_t)(argc - 2);
	char **full = mq_arena_array(&job->arena, total + 1, char *);
	full[0] = mq_arena_strdup(&job->arena, job->command);
	for (uint32_t i = 0; i < job->n; i++)
		full[1 + i] = job->arg[i];
	for (int i = 2; i < argc; i++)
		full[1 + job->n + (uint32_t)i - 2] = argv[i];
	return command->run((int)total, full, err);
}

static const char help[] =
	"Usage: maquette run FILE.ini [options]\n"
	"Runs what a job file says: `command = NAME`, then a line `option = value` per option.\n"
	"Options given after the file override it. `run.ini` in a results folder is such a file.\n";

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	struct job job = { .arena = MQ_ARENA_INIT };

	if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "--usage"))) {
		fputs(help, stdout);
		return MQ_OK;
	}
	if (argc < 2 || argv[1][0] == '-')
		return mq_fail(err, MQ_EINPUT, "give a job file: maquette run FILE.ini [options]");
	job.path = argv[1];
	enum mq_status status = run_job(&job, argc, argv, err);
	mq_arena_fini(&job.arena);
	return status;
}

const struct mq_command mq_command_run = {
	.name = "run", .summary = "run what a job file (FILE.ini) says", .run = run
};

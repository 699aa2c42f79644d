/* main.c - `maquette COMMAND [options]`: runs the command, prints its error, returns its exit code. lib/commands.c has
 * the table of commands. SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <locale.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <gsl/gsl_errno.h>

#include "cmd/cmd.h"
#include "session/session.h"
#include "version.h"

enum { MAX_COMMANDS = 63 };

static bool reader_left(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO };

	return poll(&out, 1, 0) == 1 && out.revents & POLLERR;
}

static int usage(FILE *file)
{
	fprintf(file, "Usage: maquette COMMAND [options]\n\n"
		      "Tries training plans on a model of a cluster before anyone pays for it.\n\n");
	for (const struct mq_command *const *c = mq_commands; *c; c++)
		if ((*c)->summary)
			fprintf(file, "  %-11s %s\n", (*c)->name, (*c)->summary);
	fprintf(file,
		"\n`maquette COMMAND --help` lists a command's options; --help --json prints those of all for programs. Exit codes:\n");
#define PRINT(name, code, words) fprintf(file, "  %-3d " words "\n", code);
	MQ_STATUSES(PRINT)
#undef PRINT
	fprintf(file, "Verdicts on plans, with the exit code where a single plan is asked about:\n");
	for (int v = 0; v < MQ_N_VERDICTS; v++)
		fprintf(file, "  %-8s %d\n", mq_verdict_name((enum mq_verdict)v),
			(int)mq_verdict_status((enum mq_verdict)v));
	return ferror(file) && !reader_left() ? MQ_EINPUT : MQ_OK;
}

/* Prints the commands, or the one of that name, with options as JSON: a Python module is generated from it. */
static int describe(const char *name)
{
	static char help[] = "--help", json[] = "--json";
	const char *between = "";

	printf("{\"version\": \"%s\", \"commands\": {", MQ_VERSION_TEXT);
	for (const struct mq_command *const *c = mq_commands; *c; c++) {
		struct mq_err err = MQ_ERR_INIT;
		char command[32], *argv[] = { command, help, json, NULL };

		if (!(*c)->summary || (name && strcmp(name, (*c)->name)))
			continue;
		snprintf(command, sizeof(command), "%s", (*c)->name);
		printf("%s\n \"%s\": {\"summary\": \"%s\", ", between, command, (*c)->summary);
		(void)!(*c)->run(3, argv, &err);
		putchar('}');
		between = ",";
	}
	puts("\n}}");
	return fflush(stdout) && !reader_left() ? MQ_EINPUT : MQ_OK;
}

static int unknown(const char *word)
{
	const char *names[MAX_COMMANDS + 1];
	size_t n = 0;

	for (const struct mq_command *const *c = mq_commands; *c && n < MAX_COMMANDS; c++)
		if ((*c)->summary)
			names[n++] = (*c)->name;
	names[n] = NULL;
	const char *near = mq_nearest(word, names);
	if (near)
		fprintf(stderr, "maquette: unknown command '%s'; did you mean '%s'?\n", word, near);
	else
		fprintf(stderr, "maquette: unknown command '%s'; see maquette --help\n", word);
	return MQ_EINPUT;
}

static int run(const struct mq_command *command, int argc, char **argv)
{
	struct mq_err err = MQ_ERR_INIT;
	enum mq_status status = command->run(argc, argv, &err);

	/* Standard output is part of the result: a full disk is an error; a closed pipe is not. */
	if ((fflush(stdout) || ferror(stdout)) && status == MQ_OK && !reader_left())
		status = mq_bad(&err, "cannot write to standard output");
	if (status != MQ_OK && err.text[0])
		fprintf(stderr, "maquette %s: %s\n", command->name, err.text);
	return status;
}

int main(int argc, char **argv)
{
	struct mq_err err = MQ_ERR_INIT;

	/* Keep memory from plan to plan: giving pages back and having them cleared again takes longer than
	 * many a simulation. */
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	setlocale(LC_ALL, "C");
	gsl_set_error_handler_off();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is an error of the write */
	if (mq_limits_meet(argv, &err) != MQ_OK) {
		fprintf(stderr, "maquette: %s\n", err.text);
		_exit(err.status); /* exit() would wait for threads of libraries */
	}
	if (argc < 2) {
		usage(stderr);
		return MQ_EINPUT;
	}
	if (!strcmp(argv[1], "help") && argc > 2) { /* help COMMAND */
		static char option[] = "--help";
		argv[1] = argv[2];
		argv[2] = option;
		argc = 3;
	}
	if (mq_args_describe(argc, argv))
		return describe(NULL);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		return usage(stdout);
	if (!strcmp(argv[1], "--version")) {
		puts("maquette " MQ_VERSION_TEXT);
		return MQ_OK;
	}
	for (const struct mq_command *const *c = mq_commands; *c; c++)
		if (!strcmp((*c)->name, argv[1]))
			return mq_args_describe(argc - 1, argv + 1) ? describe(argv[1]) : run(*c, argc - 1, argv + 1);
	return unknown(argv[1]);
}

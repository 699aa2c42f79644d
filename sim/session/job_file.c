/* job_file.c - the job file of a results folder (run.ini): it records the command that made the results, and makes them
 * again. A command locks it, so that no other writes there at the same time. SPDX-License-Identifier: Apache-2.0 */
#include "session/search_run.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/ini.h"
#include "base/text.h"

enum mq_status mq_job_begin(const char *dir, const char *command, FILE **file, struct mq_err *err)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/run.ini", dir);
	MQ_TRY(mq_file_open(path, file, err));
	fputs("; runs this again: maquette run ", *file);
	mq_ini_put_value(*file, path);
	fprintf(*file, "\ncommand = %s\n", command);
	return MQ_OK;
}

enum mq_status mq_job_end(FILE *file, const char *dir, double wall_s, struct mq_err *err)
{
	char date[64], path[4096];
	struct utsname host = { .sysname = "?" };
	time_t now = time(NULL);

	uname(&host);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
	fprintf(file, "\n[about]\ndate = %s\nhost = %s\nsystem = %s %s %s\nversion = %s\n", date, host.nodename,
		host.sysname, host.release, host.machine, MQ_VERSION);
	if (wall_s > 0)
		fprintf(file, "wall_s = %.3f\n", wall_s);
	snprintf(path, sizeof(path), "%s/run.ini", dir);
	return mq_file_close(file, path, err);
}

/* ---- an earlier run's file ---------------------------------------------------------------------- */

struct old_job {
	char command[32];
	bool whole;  /* false: a kill interrupted its writing */
	FILE *lines; /* the lines that decide results */
};

/* Does the key decide results? False: it sets only how long to search or what to show. */
static bool is_question(const char *key)
{
	const struct mq_arg *row = mq_arg_find(mq_search_args, key);

	return !(row && row->flags & MQ_ARG_EFFORT);
}

static enum mq_status take_old(void *context, const struct mq_ini_item *item, struct mq_err *err)
{
	struct old_job *old = context;

	(void)err;
	if (!strcmp(item->section, "about"))
		old->whole |= !strcmp(item->key, "version");
	else if (!strcmp(item->key, "command"))
		snprintf(old->command, sizeof(old->command), "%s", item->value);
	else if (is_question(item->key) && item->quoted)
		mq_ini_put(old->lines, item->key, item->value);
	else if (is_question(item->key))
		fprintf(old->lines, "%s = %s\n", item->key, item->value);
	return MQ_OK;
}

/* The error that shows the first line in which two job files differ. */
static enum mq_status say_difference(const char *path, const char *old, const char *asked, struct mq_err *err)
{
	while (*old && *asked && strcspn(old, "\n") == strcspn(asked, "\n") &&
	       !strncmp(old, asked, strcspn(old, "\n") + 1)) {
		old += strcspn(old, "\n") + 1;
		asked += strcspn(asked, "\n") + 1;
	}
	int n = (int)strcspn(old, "\n"), m = (int)strcspn(asked, "\n");
	return mq_bad(err,
		      "%s: written by another command: there `%.*s`, here `%.*s`; choose another "
		      "-o, or remove the folder",
		      path, n < 100 ? n : 100, old, m < 100 ? m : 100, asked);
}

/* Has the command's table a row? A command that failed before it wrote one does not own the folder. */
static bool has_results(const char *dir, const char *command)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	FILE *f = fopen(
		mq_arena_printf(&arena, "%s/%s", dir, !strcmp(command, "search") ? "candidates.csv" : "summary.csv"),
		"r");
	int lines = 0;

	for (int c; f && lines < 2 && (c = getc(f)) != EOF;)
		lines += c == '\n';
	if (f)
		fclose(f);
	return lines == 2;
}

static enum mq_status check_old(const char *dir, const char *path, const char *command, const char *asked,
				bool *resumes, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct old_job old = { .command = "" };
	enum mq_status status = MQ_OK;
	struct mq_err lost;
	struct stat st;
	char *text;
	size_t size;

	old.lines = open_memstream(&text, &size);
	mq_assert(old.lines);
	*resumes = !stat(path, &st) && S_ISREG(st.st_mode) &&
		   mq_ini_read(path, &arena, take_old, &old, &lost) == MQ_OK && old.whole &&
		   has_results(dir, old.command);
	fclose(old.lines);
	if (*resumes && strcmp(old.command, command))
		status = mq_bad(err, "%s: the folder has the results of `%s`; choose another -o, or remove it", path,
				old.command);
	else if (*resumes && asked && strcmp(text, asked))
		status = say_difference(path, text, asked, err);
	free(text);
	return status;
}

/* flock() belongs to the open file, not to the process, so reading the file elsewhere does not release it; it ends with
 * the process in any case. */
enum mq_status mq_job_claim(const char *dir, const char *command, const char *asked, struct mq_claim *claim,
			    struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	const char *path = mq_arena_printf(&arena, "%s/run.ini", dir);
	enum mq_status status;

	claim->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	claim->resumes = false;
	if (claim->fd < 0)
		status = mq_bad(err, "%s: cannot write: %s", path, strerror(errno));
	else if (fcntl(claim->fd, F_OFD_SETLK, &lock) && (errno == EAGAIN || errno == EACCES))
		status = mq_bad(err,
				"%s: another command is writing its results there; wait for it, or choose another -o",
				dir);
	else
		status = check_old(dir, path, command, asked, &claim->resumes, err);
	if (status != MQ_OK)
		mq_job_release(claim);
	return status;
}

void mq_job_release(struct mq_claim *claim)
{
	if (claim->fd >= 0)
		close(claim->fd);
	claim->fd = -1;
}

/* ---- the question in a folder ------------------------------------------------------------------- */

/* Keys of the search itself (engine, evals, ...) are not part of the question. */
static enum mq_status take_key(void *context, const struct mq_ini_item *item, struct mq_err *err)
{
	struct mq_argv *w = context;
	bool flag = !item->quoted && !strcmp(item->value, "true");
	const struct mq_arg *row = mq_arg_find(mq_question_args, item->key);

	(void)err;
	if (!*item->section && row && !(row->flags & MQ_ARG_CONSTRAINT) &&
	    (item->quoted || strcmp(item->value, "false")))
		mq_argv_add(w, flag ? "--%s" : "--%s=%s", item->key, item->value);
	return MQ_OK;
}

static enum mq_status words_of(const char *dir, const char *command, int argc, char **argv, struct mq_argv *w,
			       struct mq_err *err)
{
	const char *path = mq_arena_printf(w->arena, "%s/run.ini", dir);

	mq_argv_add(w, "%s", command);
	if (access(path, R_OK))
		return mq_bad(err, "%s: cannot read it (%s): is %s the folder of a search?", path, strerror(errno),
			      dir);
	MQ_TRY(mq_ini_read(path, w->arena, take_key, w, err));
	for (int i = 0; i < argc; i++)
		mq_argv_add(w, "%s", argv[i]);
	mq_argv_end(w);
	return MQ_OK;
}

enum mq_status mq_asked_of_folder(const char *dir, int argc, char **argv, struct mq_arena *arena,
				  struct mq_asked *asked, struct mq_err *err)
{
	const struct mq_args args = { .table = { { mq_question_args, asked } } };
	struct mq_argv w = { .arena = arena };

	MQ_TRY(words_of(dir, "validate", argc, argv, &w, err));
	mq_asked_init(asked);
	return mq_args_parse(&args, (int)w.n, w.word, err);
}

enum mq_status mq_args_parse_plan(const struct mq_args *args, void *options, size_t size, const struct mq_asked *asked,
				  const char *const *plan, int argc, char **argv, struct mq_arena *arena,
				  struct mq_err *err)
{
	struct mq_argv w = { .arena = arena };
	void *before = mq_arena_alloc(arena, size);

	memcpy(before, options, size);
	MQ_TRY(mq_args_parse(args, argc, argv, err));
	if ((asked->model && asked->platform) || !*plan || !strcmp(*plan, "-"))
		return MQ_OK;
	if (access(*plan, R_OK))
		return mq_bad(err, "%s: cannot open: %s", *plan, strerror(errno));
	char *dir = mq_arena_strdup(arena, *plan), *slash = strrchr(dir, '/');
	dir = slash ? (*slash = '\0', dir) : mq_arena_strdup(arena, ".");
	if (access(mq_arena_printf(arena, "%s/run.ini", dir), R_OK))
		return MQ_OK;
	MQ_TRY(words_of(dir, argv[0], argc - 1, argv + 1, &w, err));
	memcpy(options, before, size);
	MQ_TRY(mq_args_parse(args, (int)w.n, w.word, err));
	fprintf(stderr, "note: the question is that of %s/run.ini: -m %s -p %s --batch %.0f --software %s\n", dir,
		asked->model ? asked->model : "?", asked->platform ? asked->platform : "?", asked->train.batch,
		asked->software);
	return MQ_OK;
}

/* ---- programs in job files ---------------------------------------------------------------------- */

/* Does one item of a list of engines, separated by commas, begin with exec:? Blanks are ignored, because a study's
 * lists lose theirs. */
static bool names_program(const char *value)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	char *bare = mq_arena_strdup(&arena, value), *to = bare;
	bool found = false;

	for (; *value; value++)
		if (!isspace((unsigned char)*value))
			*to++ = *value;
	*to = '\0';
	for (const char *c = bare; !found && (c = strstr(c, "exec:")); c++)
		found = c == bare || strchr(",;", c[-1]);
	return found;
}

enum mq_status mq_job_allows(const struct mq_ini_item *item, bool allow_exec, struct mq_err *err)
{
	if (allow_exec || !names_program(item->value))
		return MQ_OK;
	return mq_bad(err,
		      "%s:%u: %s = %.100s runs a program of your machine; if you trust this file, add --allow-exec",
		      item->path, item->line, item->key, item->value);
}

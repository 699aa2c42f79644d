/*
 * score_spawn.c - starts worker processes of `score`, one per platform, several at a time.
 *
 * Input and output of a worker are files in memory, so that no pipe can fill up and block. A worker
 * that dies costs the row it was at; what is left is given to a new one.
 */
#include "cmd/score/score_spawn.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/platform_generate.h"

extern char **environ;

/* The file under a name that can be opened, once again and from its start. */
static const char *file_path(int fd, struct mq_arena *arena)
{
	return mq_arena_printf(arena, "/proc/self/fd/%d", fd);
}

static enum mq_status write_platform(struct mq_work_group *g, struct mq_arena *arena,
				     struct mq_err *err)
{
	struct mq_platform_spec spec;

	MQ_TRY(mq_case_platform(g->item[0]->c, &spec, arena, err));
	return mq_platform_generate(&spec, file_path(g->file[MQ_WORK_PLATFORM], arena), err);
}

static enum mq_status write_input(struct mq_work_group *g, struct mq_arena *arena,
				  struct mq_err *err)
{
	FILE *file = fopen(file_path(g->file[MQ_WORK_INPUT], arena), "w");
	bool bad = false;

	for (uint32_t i = g->next; file && i < g->n; i++)
		bad |= fprintf(file, "%u\n", g->item[i]->c->run->line) < 0;
	if (!file || fclose(file) || bad)
		return mq_fail(err, MQ_EBUG, "cannot write the rows for a worker process: %m");
	return MQ_OK;
}

/* The descriptors' own positions are what a worker starts at. */
static enum mq_status rewind_files(struct mq_work_group *g, struct mq_err *err)
{
	bool bad = ftruncate(g->file[MQ_WORK_OUTPUT], 0) || ftruncate(g->file[MQ_WORK_ERRORS], 0);

	for (int i = 0; i < MQ_WORK_FILES; i++)
		bad |= lseek(g->file[i], 0, SEEK_SET) != 0;
	return bad ? mq_fail(err, MQ_EBUG, "cannot rewind the files of a worker process: %m") : MQ_OK;
}

static const char **worker_arguments(const struct mq_score_options *o, const char *table)
{
	const char *const fixed[] = { "maquette", "score", "--worker",
				      file_path(MQ_WORK_PLATFORM, o->arena), "--executor",
				      o->executor, "--platforms", o->platforms, "--row-seconds",
				      mq_arena_printf(o->arena, "%.17g", o->row_seconds), "-o",
				      o->out, table };
	enum { N_FIXED = sizeof(fixed) / sizeof(*fixed) };
	const char **argv = mq_arena_array(o->arena, N_FIXED + 2 * o->set.n + 1, const char *);
	uint32_t n = N_FIXED;

	memcpy(argv, fixed, sizeof(fixed));
	for (uint32_t i = 0; i < o->set.n; i++) {
		argv[n++] = "--set";
		argv[n++] = o->set.item[i];
	}
	return argv;
}

static enum mq_status start(const struct mq_score_options *o, const char *table,
			    struct mq_work_group *g, struct mq_err *err)
{
	const char **argv = worker_arguments(o, table);
	posix_spawn_file_actions_t files;
	int failed;

	MQ_TRY(write_input(g, o->arena, err));
	MQ_TRY(rewind_files(g, err));
	posix_spawn_file_actions_init(&files);
	for (int i = 0; i < MQ_WORK_FILES; i++)
		posix_spawn_file_actions_adddup2(&files, g->file[i], i); /* platform: 3 */
	failed = posix_spawn(&g->pid, "/proc/self/exe", &files, NULL, (char *const *)(uintptr_t)argv,
			     environ);
	posix_spawn_file_actions_destroy(&files);
	if (failed)
		return mq_fail(err, MQ_EBUG, "cannot start a worker process: %s", strerror(failed));
	return MQ_OK;
}

/* "LINE verdict step peak limit message" into the item of that line. */
static bool read_answer(struct mq_work_group *g, char *text, struct mq_arena *arena)
{
	char verdict[32];
	double step, peak, limit;
	unsigned line;
	int used = 0;

	text[strcspn(text, "\n")] = '\0';
	if (sscanf(text, "%u %31s %lf %lf %lf %n", &line, verdict, &step, &peak, &limit, &used) < 5 ||
	    g->next >= g->n || g->item[g->next]->c->run->line != line)
		return false;
	struct mq_work_item *item = g->item[g->next++];
	item->verdict = (enum mq_verdict)MQ_ENUM_FIND(mq_verdict_name, MQ_N_VERDICTS, verdict);
	item->step_s = step;
	item->peak_B = peak;
	item->limit_B = limit;
	item->message = mq_arena_strdup(arena, text + used);
	return true;
}

static const char *last_line(int fd, struct mq_arena *arena)
{
	FILE *file = fopen(file_path(fd, arena), "r");
	char text[512], *last = mq_arena_strdup(arena, "the simulation broke down");

	while (file && fgets(text, sizeof(text), file)) {
		text[strcspn(text, "\n")] = '\0';
		if (*text)
			last = mq_arena_strdup(arena, text);
	}
	if (file)
		fclose(file);
	return last;
}

/* Takes in what a finished worker wrote; a row without an answer is where it died. */
static void collect(struct mq_work_group *g, bool late, struct mq_arena *arena)
{
	FILE *file = fopen(file_path(g->file[MQ_WORK_OUTPUT], arena), "r");
	char text[1024];

	while (file && fgets(text, sizeof(text), file) && read_answer(g, text, arena))
		continue;
	if (file)
		fclose(file);
	g->pid = 0;
	if (g->next < g->n) {
		struct mq_work_item *item = g->item[g->next++];

		item->step_s = item->peak_B = item->limit_B = NAN;
		item->verdict = late ? MQ_VERDICT_TIMEOUT : MQ_VERDICT_CRASH;
		item->message = late ? "the simulation took more processor time than --row-seconds" :
				       last_line(g->file[MQ_WORK_ERRORS], arena);
	}
}

static void clean_up(struct mq_work_group *g)
{
	for (int i = 0; g->open && i < MQ_WORK_FILES; i++)
		if (g->file[i] >= 0)
			close(g->file[i]);
	g->open = false;
}

static enum mq_status prepare(struct mq_work_group *g, struct mq_arena *arena, struct mq_err *err)
{
	bool bad = false;

	for (int i = 0; i < MQ_WORK_FILES; i++) {
		g->file[i] = memfd_create("maquette-score", MFD_CLOEXEC);
		bad |= g->file[i] < 0;
	}
	g->open = true;
	if (bad)
		return mq_fail(err, MQ_EBUG, "cannot make a file in memory for a worker process: %m");
	return write_platform(g, arena, err);
}

static struct mq_work_group *finished(struct mq_work_group *group, uint32_t n, bool *late)
{
	int code;
	pid_t pid;

	do
		pid = waitpid(-1, &code, 0);
	while (pid < 0 && errno == EINTR);
	*late = pid > 0 && WIFSIGNALED(code) && WTERMSIG(code) == SIGPROF;
	for (uint32_t i = 0; i < n; i++)
		if (pid > 0 && group[i].pid == pid)
			return &group[i];
	return NULL;
}

enum mq_status mq_work_run(const struct mq_score_options *o, const char *table,
			   struct mq_work_group *group, uint32_t n, struct mq_err *err)
{
	uint32_t running = 0, next = 0;
	enum mq_status status = MQ_OK;
	bool late;

	while (status == MQ_OK && (next < n || running)) {
		if (next < n && running < o->jobs) {
			status = prepare(&group[next], o->arena, err);
			if (status == MQ_OK)
				status = start(o, table, &group[next], err);
			running += status == MQ_OK;
			next++;
			continue;
		}
		struct mq_work_group *g = finished(group, n, &late);
		if (!g)
			continue;
		running--;
		collect(g, late, o->arena);
		if (g->next < g->n) {
			status = start(o, table, g, err);
			running += status == MQ_OK;
		} else {
			clean_up(g);
		}
	}
	while (running) /* after a failure: let the others end */
		running -= finished(group, n, &late) != NULL;
	for (uint32_t i = 0; i < n; i++)
		clean_up(&group[i]);
	return status;
}

/* child.c - a process in which SimGrid may abort, and the platform loaded in it. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/platform/words.h"
#include "maquette/spawn.h"
#include "executors/simgrid/conductor.h"
#include "hardware/platform/platform.h"

static void keep(struct mq_err *err, char *line, bool aborted)
{
	const char *words = aborted ? mq_platform_complaint(line) : line;

	if (!words || !*words || (aborted && err->text[0]))
		return; /* SimGrid says what is wrong first, our commands last */
	if (!strncmp(words, "maquette platform: ", 19))
		words += 19;
	snprintf(err->text, sizeof(err->text), "%.*s", (int)sizeof(err->text) - 1, words);
}

static void read_message(FILE *from, bool aborted, struct mq_err *err)
{
	char line[600];

	err->text[0] = '\0';
	rewind(from);
	while (fgets(line, sizeof(line), from)) {
		line[strcspn(line, "\n")] = '\0';
		keep(err, line, aborted);
	}
}

static enum mq_status spawn_self(char **argv, int messages, int *status, struct mq_err *err)
{
	const struct mq_spawn self = { .path = "/proc/self/exe",
				       .argv = argv,
				       .on_death = SIGKILL,
				       .n_fds = 1,
				       .fd = { { messages, STDERR_FILENO } } };
	pid_t child;

	setenv("OPENBLAS_NUM_THREADS", "1", 1); /* its threads' memory would count as the file's */
	int bad = mq_spawn(&self, &child);
	if (bad)
		return mq_fail(err, MQ_EBUG, "cannot start a process: %s", strerror(bad));
	while (waitpid(child, status, 0) < 0)
		if (errno != EINTR)
			return mq_fail(err, MQ_EBUG, "lost a process: %m");
	return MQ_OK;
}

enum mq_status mq_platform_child(const char *word, const char *file, int argc, char **argv, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	char **child = mq_arena_array(&arena, argc + 4, char *);
	FILE *messages = tmpfile();
	int status;

	if (!messages)
		return mq_bad(err, "cannot make a temporary file: %m");
	child[0] = mq_arena_strdup(&arena, "maquette");
	child[1] = mq_arena_strdup(&arena, "platform");
	child[2] = mq_arena_strdup(&arena, word);
	memcpy(child + 3, argv, (size_t)argc * sizeof(*argv));
	fflush(stdout);
	enum mq_status done = spawn_self(child, fileno(messages), &status, err);
	if (done == MQ_OK) {
		read_message(messages, WIFSIGNALED(status), err);
		done = WIFSIGNALED(status) ? MQ_EINPUT : (enum mq_status)WEXITSTATUS(status);
		const char *base = strrchr(file, '/');
		if (WIFSIGNALED(status) && err->text[0] && !strstr(err->text, base ? base + 1 : file))
			mq_wrap(err, "%s", file);
		if (done != MQ_OK && !err->text[0])
			mq_fail(err, done, "%s: is broken: the library that reads it crashed", file);
		err->status = done;
	}
	fclose(messages);
	return done;
}

struct exploring {
	const struct mq_cluster *cluster;
	const struct mq_platform_sample *sample;
	enum mq_status status;
	struct mq_err *err;
};

static void explore(void *data)
{
	struct exploring *e = data;
	const struct mq_platform_sample *s = e->sample;
	uint32_t n = e->cluster->n_devices;
	const struct mq_route *route;

	for (uint32_t i = 0; i < s->n; i++)
		for (uint32_t j = 0; j < s->n && e->status == MQ_OK; j++)
			if (i != j)
				e->status = mq_cluster_route(e->cluster, s->device[i], s->device[j], &route, e->err);
	for (uint32_t i = 0; i < n - n % 2 && e->status == MQ_OK; i++)
		e->status = mq_cluster_route(e->cluster, i, mq_platform_partner(n, i), &route, e->err);
}

enum mq_status mq_platform_explore(const char *path, const struct mq_calib *calib, struct mq_arena *arena,
				   struct mq_cluster **cluster, struct mq_err *err)
{
	struct mq_platform_sample sample;
	struct exploring e = { .sample = &sample, .err = err };
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none); /* an abort is an answer here, not a bug to look at */
	mq_platform_start("maquette");
	MQ_TRY(mq_platform_is_keys(path) ? mq_platform_build_file(path, calib, arena, cluster, err) :
					   mq_platform_load(path, arena, cluster, err));
	mq_platform_sample(*cluster, arena, &sample);
	e.cluster = *cluster;
	mq_conduct(*cluster, explore, &e);
	return e.status;
}

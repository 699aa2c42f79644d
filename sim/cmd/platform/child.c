/* child.c - a child process in which SimGrid may abort, and the platform loaded there.
 * SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/text.h"
#include "cmd/platform/words.h"
#include "maquette/spawn.h"
#include "executors/simgrid/conductor.h"
#include "hardware/platform/platform.h"

/* The error is SimGrid's first line if it aborted, else the last line, our command's. */
static void read_message(char *said, bool aborted, struct mq_err *err)
{
	err->text[0] = '\0';
	for (char *line = strtok(said, "\n"); line; line = strtok(NULL, "\n")) {
		const char *words = aborted ? mq_platform_complaint(line) : line;

		if (!words || !*words || (aborted && err->text[0]))
			continue;
		if (!strncmp(words, "maquette platform: ", 19))
			words += 19;
		snprintf(err->text, sizeof(err->text), "%.*s", (int)sizeof(err->text) - 1, words);
	}
}

enum mq_status mq_platform_child(const char *word, const char *file, int argc, char **argv, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_argv words = { .arena = &arena };
	char *said;
	int status;

	mq_argv_add(&words, "maquette");
	mq_argv_add(&words, "platform");
	mq_argv_add(&words, "%s", word);
	for (int i = 0; i < argc; i++)
		mq_argv_add(&words, "%s", argv[i]);
	const struct mq_spawn self = { .path = "/proc/self/exe", .argv = mq_argv_end(&words), .on_death = SIGKILL };
	fflush(stdout);
	setenv("OPENBLAS_NUM_THREADS", "1", 1); /* memory of its threads would count against the file's limit */
	int bad = mq_run(&self, false, &arena, &said, &status);
	if (bad)
		return mq_fail(err, MQ_EBUG, "cannot start a process: %s", strerror(bad));
	bool aborted = WIFSIGNALED(status);
	enum mq_status done = aborted ? MQ_EINPUT : (enum mq_status)WEXITSTATUS(status);
	read_message(said, aborted, err);
	if (aborted && err->text[0] && !strstr(err->text, basename(file)))
		(void)mq_wrap(err, "%s", file);
	if (done != MQ_OK && !err->text[0])
		(void)mq_fail(err, done, "%s: is broken: the library that reads it crashed", file);
	return err->status = done;
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

	setrlimit(RLIMIT_CORE, &none); /* an abort is an answer here, not a bug */
	mq_platform_start("maquette");
	MQ_TRY(mq_platform_is_keys(path) ? mq_platform_build_file(path, calib, arena, cluster, err) :
					   mq_platform_load(path, arena, cluster, err));
	mq_platform_sample(*cluster, arena, &sample);
	e.cluster = *cluster;
	mq_conduct(*cluster, explore, &e);
	return e.status;
}

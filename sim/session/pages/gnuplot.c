/* gnuplot.c - see gnuplot.h. SPDX-License-Identifier: Apache-2.0 */
#include "session/pages/gnuplot.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>

#include "maquette/spawn.h"

const char *mq_gnuplot_quoted(struct mq_arena *arena, const char *text)
{
	char *to = mq_arena_alloc(arena, 2 * strlen(text) + 3), *c = to;

	*c++ = '\'';
	for (; *text; text++) {
		if (*text == '\'')
			*c++ = '\'';
		*c++ = iscntrl((unsigned char)*text) ? ' ' : *text; /* a line break would end the command */
	}
	*c++ = '\'';
	return to;
}

const char *mq_gnuplot_path(struct mq_arena *arena, const char *path)
{
	return mq_gnuplot_quoted(arena, *path == '/' ? path : mq_arena_printf(arena, "./%s", path));
}

static enum mq_status run(const char *settings, const char *script, struct mq_err *err)
{
	char name[] = "gnuplot", flag[] = "-e", said[256] = "", line[256];
	char *const argv[] = { name, flag, (char *)(uintptr_t)settings, (char *)(uintptr_t)script, NULL };
	FILE *words = tmpfile();
	pid_t pid;
	int status;

	const struct mq_spawn program = { .path = name,
					  .argv = argv,
					  .on_death = SIGTERM,
					  .n_fds = words != NULL,
					  .fd = { { words ? fileno(words) : 2, 2 } } };
	int bad = mq_spawn(&program, &pid);
	while (!bad && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (words) {
		rewind(words);
		while (fgets(line, sizeof(line), words))
			if (strspn(line, " ^\n") < strlen(line)) /* the last line with words in it */
				snprintf(said, sizeof(said), "%.*s", (int)strcspn(line, "\n"), line);
		fclose(words);
	}
	if (bad)
		return mq_fail(err, MQ_ENODEV, "gnuplot cannot be started: %s; install gnuplot-nox", strerror(bad));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return mq_fail(err, MQ_ENODEV, "gnuplot is not there; install gnuplot-nox");
	if (status)
		return mq_bad(err, "gnuplot failed on %s: %s", script, said);
	return MQ_OK;
}

enum mq_status mq_gnuplot(const struct mq_figure *f, struct mq_arena *arena, struct mq_err *err)
{
	static const char *const formats[] = { "svg", "png" };
	const char *common = mq_arena_printf(arena, "%s/common.gp", f->scripts);

	for (int i = 0; i < 2; i++)
		MQ_TRY(run(mq_arena_printf(arena, "common=%s; fmt='%s'; out=%s; title=%s; %s",
					   mq_gnuplot_path(arena, common), formats[i], mq_gnuplot_path(arena, f->out),
					   mq_gnuplot_quoted(arena, f->title), f->settings),
			   mq_arena_printf(arena, "%s/%s.gp", f->scripts, f->name), err));
	return MQ_OK;
}

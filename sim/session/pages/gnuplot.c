/* gnuplot.c - see gnuplot.h. SPDX-License-Identifier: Apache-2.0 */
#include "session/pages/gnuplot.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/paths.h"
#include "maquette/spawn.h"

const char *mq_gnuplot_quoted(struct mq_arena *arena, const char *text)
{
	char *to = mq_arena_alloc(arena, 2 * strlen(text) + 3), *c = to;

	*c++ = '\'';
	for (; *text; text++) {
		if (*text == '\'')
			*c++ = '\'';
		*c++ = iscntrl((unsigned char)*text) ? ' ' : *text; /* a line break would end gnuplot's command */
	}
	*c++ = '\'';
	return to;
}

const char *mq_gnuplot_path(struct mq_arena *arena, const char *path)
{
	return mq_gnuplot_quoted(arena, *path == '/' ? path : mq_arena_printf(arena, "./%s", path));
}

static enum mq_status run(const char *settings, const char *script, struct mq_arena *arena, struct mq_err *err)
{
	char name[] = "gnuplot", flag[] = "-e", *said;
	const char *last = "";
	char *const argv[] = { name, flag, (char *)(uintptr_t)settings, (char *)(uintptr_t)script, NULL };
	const struct mq_spawn program = { .path = name, .argv = argv, .on_death = SIGTERM };
	int status, bad = mq_run(&program, false, arena, &said, &status);

	if (bad)
		return mq_fail(err, MQ_ENODEV, "gnuplot cannot be started: %s; install gnuplot-nox", strerror(bad));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return mq_fail(err, MQ_ENODEV, "gnuplot is not there; install gnuplot-nox");
	for (char *line = strtok(said, "\n"); line; line = strtok(NULL, "\n"))
		if (line[strspn(line, " ^")]) /* keep the last line that has words */
			last = line;
	return status ? mq_bad(err, "gnuplot failed on %s: %s", script, last) : MQ_OK;
}

enum mq_status mq_draw(struct mq_drawing *d, const struct mq_figure *f, struct mq_err *err, const char *settings, ...)
{
	static const char *const formats[] = { "svg", "png" };
	struct mq_arena *arena = &d->arena;
	const char *scripts, *out = mq_arena_printf(arena, "%s/%s", d->out, f->name);
	va_list values;

	MQ_TRY(mq_find_dir("plots", arena, &scripts, err));
	va_start(values, settings);
	const char *more = mq_arena_vprintf(arena, settings, values);
	va_end(values);
	for (int i = 0; i < 2; i++)
		MQ_TRY(run(mq_arena_printf(arena, "common=%s; fmt='%s'; out=%s; title=%s; file=%s; %s",
					   mq_gnuplot_path(arena, mq_arena_printf(arena, "%s/common.gp", scripts)),
					   formats[i], mq_gnuplot_path(arena, out),
					   mq_gnuplot_quoted(arena, f->title ? f->title : d->title),
					   mq_gnuplot_path(arena, f->table), more),
			   mq_arena_printf(arena, "%s/%s.gp", scripts, f->script ? f->script : f->name), arena, err));
	if (d->says)
		printf("%s.png\n%s.svg\n", out, out);
	d->n++;
	return MQ_OK;
}

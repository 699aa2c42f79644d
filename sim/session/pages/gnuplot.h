/* gnuplot.h - figures: gnuplot runs the scripts in plots/. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_PAGES_GNUPLOT_H
#define MQ_SESSION_PAGES_GNUPLOT_H

#include "maquette/arena.h"

/* 'text' for gnuplot, which doubles quotes, on one line; in the arena. */
const char *mq_gnuplot_quoted(struct mq_arena *arena, const char *text);
/* The same for the name of a file: gnuplot takes one that begins with '<' or '|' for a command to run, and
 * some others ("-", "+") for no file at all. */
const char *mq_gnuplot_path(struct mq_arena *arena, const char *path);

/* A figure as OUT.svg and OUT.png, drawn by SCRIPTS/NAME.gp after `settings` (further assignments). What gnuplot says
 * is shown only if it fails: it warns of every series that has no point to draw. MQ_ENODEV: gnuplot is not there. */
struct mq_figure {
	const char *scripts, *name, *out, *title, *settings;
};
enum mq_status mq_gnuplot(const struct mq_figure *figure, struct mq_arena *arena, struct mq_err *err) MQ_MUST_CHECK;

#endif

/* gnuplot.h - figures: gnuplot runs the scripts in plots/. */
#ifndef MQ_SESSION_PAGES_GNUPLOT_H
#define MQ_SESSION_PAGES_GNUPLOT_H

#include "maquette/arena.h"

/* 'text' for gnuplot, which doubles quotes, on one line; in the arena. */
const char *mq_gnuplot_quoted(struct mq_arena *arena, const char *text);
/* The same for the name of a file: gnuplot takes one that begins with '<' or '|' for a command to run, and
 * some others ("-", "+") for no file at all. */
const char *mq_gnuplot_path(struct mq_arena *arena, const char *path);

/* Runs a script after `settings` (assignments). What gnuplot says is shown only if it fails: it warns of
 * every series that has no point to draw. MQ_ENODEV: gnuplot is not there. */
enum mq_status mq_gnuplot(const char *settings, const char *script, struct mq_err *err) MQ_MUST_CHECK;

#endif

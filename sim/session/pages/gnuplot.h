/* gnuplot.h - figures: gnuplot runs the scripts in plots/. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_PAGES_GNUPLOT_H
#define MQ_SESSION_PAGES_GNUPLOT_H

#include <stdbool.h>

#include "maquette/arena.h"

/* 'text' for gnuplot, which doubles quotes, on one line; in the arena. */
const char *mq_gnuplot_quoted(struct mq_arena *arena, const char *text);
/* The same for the name of a file: gnuplot takes one that begins with '<' or '|' for a command to run, and
 * some others ("-", "+") for no file at all. */
const char *mq_gnuplot_path(struct mq_arena *arena, const char *path);

/* The figures of a folder's tables: DIR/TABLE, drawn by the scripts in plots/ as OUT/NAME.svg and OUT/NAME.png. */
struct mq_drawing {
	struct mq_arena arena;
	const char *dir, *out, *title;
	bool says;  /* prints the names of what is drawn */
	uint32_t n; /* figures so far */
};
struct mq_figure {
	const char *name, *script; /* script: NULL = as the name */
	const char *title;         /* NULL = that of the drawing */
	const char *table;         /* path of the file that the script reads */
};
/* Draws one figure after further assignments, as printf makes them. What gnuplot says is shown only if it fails: it
 * warns of every series that has no point to draw. MQ_ENODEV: gnuplot is not there. */
enum mq_status mq_draw(struct mq_drawing *drawing, const struct mq_figure *figure, struct mq_err *err,
		       const char *settings, ...) __attribute__((format(printf, 4, 5)));

#endif

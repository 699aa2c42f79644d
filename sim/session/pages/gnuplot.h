/* gnuplot.h - draws figures: gnuplot runs the scripts in plots/. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_PAGES_GNUPLOT_H
#define MQ_SESSION_PAGES_GNUPLOT_H

#include <stdbool.h>

#include "maquette/arena.h"

/* The text as a gnuplot string in single quotes (quotes doubled, on one line), in the arena. */
const char *mq_gnuplot_quoted(struct mq_arena *arena, const char *text);
/* The same for a file's name: gnuplot would run one that begins with '<' or '|' as a command, and read some others
 * ("-", "+") as no file. */
const char *mq_gnuplot_path(struct mq_arena *arena, const char *path);

/* Figures of the tables in folder `dir`, drawn by the scripts in plots/ as OUT/NAME.svg and OUT/NAME.png. */
struct mq_drawing {
	struct mq_arena arena;
	const char *dir, *out, *title;
	bool says;  /* print the names of the figures */
	uint32_t n; /* figures so far */
};
struct mq_figure {
	const char *name, *script; /* script: NULL = `name` */
	const char *title;         /* NULL = the drawing's */
	const char *table;         /* path of the table that the script reads */
};
/* Draws one figure; `settings`, a printf format, gives further assignments for the script. gnuplot's output is shown
 * only if it fails, since it warns of every series without points. MQ_ENODEV: no gnuplot. */
enum mq_status mq_draw(struct mq_drawing *drawing, const struct mq_figure *figure, struct mq_err *err,
		       const char *settings, ...) __attribute__((format(printf, 4, 5)));

#endif

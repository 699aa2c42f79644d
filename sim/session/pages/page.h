/*
 * page.h - what commands write for browsers and for other programs: text made safe for HTML and JSON, and
 * pages that are one file and fetch nothing.
 */
#ifndef MQ_SESSION_PAGES_PAGE_H
#define MQ_SESSION_PAGES_PAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"

/* Text as HTML shows it, and as a JSON value; a number that is none is null. */
void mq_page_text(FILE *file, const char *text);
void mq_json_put_text(FILE *file, const char *text);
void mq_json_put_f64(FILE *file, double value);

/* DIR/report.html: light or dark as the browser is, columns of tables sort at a click on their head. NULL and err
 * where it cannot be written. What closes it is the command that made DIR (its run.ini). */
FILE *mq_page_open(const char *dir, const char *title, struct mq_err *err) MQ_MUST_CHECK;
enum mq_status mq_page_close(FILE *file, const char *dir, struct mq_err *err) MQ_MUST_CHECK;
/* Text as it is, in a frame: what the terminal showed. */
void mq_page_words(FILE *file, const char *words);

/* Points in a plane with axes at round numbers; those with a label have it beside them, all have it as tooltip. */
struct mq_page_point {
	double x, y;
	const char *label; /* or NULL */
	const char *tip;
};
struct mq_page_plot {
	const char *title, *x, *y; /* axes, with units */
	const struct mq_page_point *point;
	uint32_t n;
	bool against; /* predictions (y) against measurements (x), both > 0: logarithmic, with the diagonal */
};
/* Lower left is better, and the points that no other beats in both are joined, unless `against`. */
void mq_page_put_plot(FILE *file, const struct mq_page_plot *plot, struct mq_arena *arena);

/* DIR/report.html of a simulated plan, from the tables of DIR; `words` is what was printed. */
enum mq_status mq_plan_page(const char *dir, const char *title, const char *words, struct mq_err *err) MQ_MUST_CHECK;

#endif

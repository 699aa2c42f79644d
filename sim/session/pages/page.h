/* page.h - report.html, the page that commands write to their folder: one file that loads nothing. Its frame, style and
 * script are plots/report.html, report.css and report.js, read when the page is written. Also the tables of the folder
 * as JSON. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_PAGES_PAGE_H
#define MQ_SESSION_PAGES_PAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/text.h"
#include "maquette/arena.h"
#include "schedule/columns.h"

struct mq_page {
	FILE *f;
	struct mq_arena arena; /* freed when the page is closed */
	const char *dir, *title;
	struct mq_words body; /* memory that `f` writes to */
};

void mq_page_open(struct mq_page *page, const char *dir, const char *title);
/* Writes DIR/report.html, and frees the page. `status`: of the body; an error is returned, and no page is written.
 * MQ_EINPUT: the page cannot be written, or plots/ is not installed. */
enum mq_status mq_page_close(struct mq_page *page, enum mq_status status, struct mq_err *err);

/* The text with HTML's special characters escaped, in the page's arena. */
const char *mq_html(struct mq_page *page, const char *text);
/* Writes a number; null if it is not finite. */
void mq_json_put_f64(FILE *file, double value);
/* Add members to an object, each after a comma: a text, a number, or numbers of a result (mq_table_numbers). */
void mq_json_add_text(FILE *file, const char *key, const char *text);
void mq_json_add_f64(FILE *file, const char *key, double value);
void mq_json_add_numbers(FILE *file, enum mq_table_id table, const char *first, const struct mq_result *result);
/* Writes a JSON string inside a <script>, escaped so that it cannot end the script. */
void mq_page_put_string(struct mq_page *page, const char *text);

/* Loads a table of the folder; false: it is missing or empty. */
bool mq_page_load(struct mq_page *page, const char *name, struct mq_csv *csv);
/* Writes preformatted text in a frame: `words`, or a file's text (none if it cannot be read). */
void mq_page_words(struct mq_page *page, const char *words);
void mq_page_file(struct mq_page *page, const char *path);
/* Writes the job file that makes the folder again, if there is one. */
void mq_page_command(struct mq_page *page);

/* Writes a table whose columns can be sorted: begin (`heads` ends in NULL), cells row by row, end. A number is sorted
 * by `value` and shown as `text`; if it is not finite, as "-". */
void mq_page_table_begin(struct mq_page *page, const char *id, const char *const *heads);
void mq_page_number(struct mq_page *page, double value, const char *text);
void mq_page_cell(struct mq_page *page, const char *text);
void mq_page_table_end(struct mq_page *page);

/* A point of a scatter plot. Points of a series are joined. */
struct mq_page_point {
	const char *at; /* place on an x axis of a study's values, which may be words; NULL: `x` */
	double x, y;
	const char *label, *tip, *series; /* label and series may be NULL */
};
struct mq_page_plot {
	const char *title, *x[2], *y[2]; /* axes: name, and unit ("s" is scaled to ms, us, ...) */
	const struct mq_page_point *point;
	uint32_t n;
	bool against; /* x measured, y predicted, both > 0: logarithmic, with the diagonal */
	double limit; /* a line at this y; 0 = none */
};
/* Without series, and unless `against`, lower left is better, and the points of the Pareto front are joined. */
void mq_page_put_plot(struct mq_page *page, const struct mq_page_plot *plot);

/* A stream's lane in the timeline: 0 compute, 1 collectives, 2 sends, receives and copies. */
uint32_t mq_page_lane(const char *stream);
/* Writes the timeline of a timeline.csv, which can be zoomed; nothing if no task has a time. */
void mq_page_put_timeline(struct mq_page *page, const struct mq_csv *timeline);

/* Simulates the best plan into DIR/best and writes its step, stages, memory and links. */
struct mq_session;
struct mq_plan;
enum mq_status mq_page_put_best(struct mq_page *page, struct mq_session *session, const struct mq_plan *plan,
				struct mq_err *err);

/* Writes the calibrations of the session's devices and links, with their sources. */
void mq_page_put_sources(struct mq_page *page, const struct mq_session *session);

/* Writes DIR/report.html of a simulated plan, from the tables of DIR; `words`: the printed text. */
enum mq_status mq_plan_page(const char *dir, const char *title, const char *words, struct mq_err *err);

/* ---- tables.c: the tables that a command wrote to its folder, as report.html and as JSON (--json) ---- */

/* A table of the folder to show; tables that are missing or empty are left out. */
struct mq_shown_table {
	const char *file;  /* "score.csv" */
	const char *title; /* heading on the page; NULL ends a list */
	const char *label; /* column that labels rows in a plot of measured_s and predicted_s; NULL: no plot */
};

/* Writes the tables to an open page, plots of predictions against measurements first. */
void mq_page_tables(struct mq_page *page, const struct mq_shown_table *table);
/* Writes DIR/report.html: plots of predictions against measurements, sortable tables, the printed text (may be NULL),
 * and the job file if there is one. */
enum mq_status mq_tables_page(const char *dir, const char *title, const struct mq_shown_table *table, const char *words,
			      struct mq_err *err);

/* With --json standard output carries JSON alone: until mq_json_done all other output goes to standard error. Returns
 * the saved descriptor for mq_json_done; -1 if `json` is false, and then nothing is done. */
int mq_json_begin(bool json);
/* Prints {"score": [{"row_id": "a", "step_time_s": 1.5}, ...], ...}: a member per table (`table` NULL: prints nothing),
 * an object per row; its columns of trust are an object "trust" within. */
void mq_json_done(int saved, const char *dir, const struct mq_shown_table *table);

#endif

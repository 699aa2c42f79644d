/* page.h - report.html, the page that commands leave in their folder: one file that fetches nothing. Its frame, style
 * and scripts are plots/report.html, report.css and report.js, read when the page is written.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_PAGES_PAGE_H
#define MQ_SESSION_PAGES_PAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/text.h"
#include "maquette/arena.h"
#include "schedule/columns.h"

struct mq_page {
	FILE *f;
	struct mq_arena arena; /* until the page is closed */
	const char *dir, *title;
	struct mq_words body; /* what `f` is written to */
};

void mq_page_open(struct mq_page *page, const char *dir, const char *title);
/* Writes DIR/report.html, and frees the page. `status` is that of the body, which is returned where it is an error.
 * MQ_EINPUT: the page cannot be written, or plots/ is not installed. */
enum mq_status mq_page_close(struct mq_page *page, enum mq_status status, struct mq_err *err);

/* Text with HTML's own characters escaped; in the page's arena. */
const char *mq_html(struct mq_page *page, const char *text);
/* A number that is not finite is null. */
void mq_json_put_f64(FILE *file, double value);
/* Further members of an object: a text, a number, and the numbers of a result from `first` on (schedule/columns.h). */
void mq_json_add_text(FILE *file, const char *key, const char *text);
void mq_json_add_f64(FILE *file, const char *key, double value);
void mq_json_add_numbers(FILE *file, enum mq_table_id table, const char *first, const struct mq_result *result);
/* Text as a JSON string inside a <script>, which no text can end. */
void mq_page_put_string(struct mq_page *page, const char *text);

/* A table of the folder; false where it is not there, or empty. */
bool mq_page_load(struct mq_page *page, const char *name, struct mq_csv *csv);
/* Text in a frame, as the terminal showed it; a text file likewise, empty where it cannot be read. */
void mq_page_words(struct mq_page *page, const char *words);
void mq_page_file(struct mq_page *page, const char *path);
/* The job file that makes the folder again, where it has one. */
void mq_page_command(struct mq_page *page);

/* A table whose columns sort: begin (`heads` ends in NULL), then rows of cells. A number's text may differ from the
 * value that sorts it; one that is not finite shows as "-". */
void mq_page_table_begin(struct mq_page *page, const char *id, const char *const *heads);
void mq_page_number(struct mq_page *page, double value, const char *text);
void mq_page_cell(struct mq_page *page, const char *text);
void mq_page_table_end(struct mq_page *page);

/* Points in a plane; those with a label have it beside them, all have a tooltip. Points of a series are joined. */
struct mq_page_point {
	const char *at; /* the place on the x axis where it is a value of a study, perhaps a word; NULL: `x` */
	double x, y;
	const char *label, *tip, *series; /* label and series may be NULL */
};
struct mq_page_plot {
	const char *title, *x[2], *y[2]; /* axes: name, and unit ("s" is shown as its size needs) */
	const struct mq_page_point *point;
	uint32_t n;
	bool against; /* predictions (y) against measurements (x), both > 0: logarithmic, with the diagonal */
	double limit; /* on the y axis; 0 = none */
};
/* Without series lower left is better, and the points that no other beats in both are joined, unless `against`. */
void mq_page_put_plot(struct mq_page *page, const struct mq_page_plot *plot);

/* Lanes of a device: compute; collectives; sends, receives and copies. */
uint32_t mq_page_lane(const char *stream);
/* The timeline of a timeline.csv, to zoom into. Nothing is drawn where no task has a time. */
void mq_page_put_timeline(struct mq_page *page, const struct mq_csv *timeline);

/* The best plan of a folder, simulated into DIR/best: its step, stages, memory and links. */
struct mq_session;
struct mq_plan;
enum mq_status mq_page_put_best(struct mq_page *page, struct mq_session *session, const struct mq_plan *plan,
				struct mq_err *err);

/* The calibrations of the session's devices and links, with their sources. */
void mq_page_put_sources(struct mq_page *page, const struct mq_session *session);

/* DIR/report.html of a simulated plan, from the tables of DIR; `words` is what was printed. */
enum mq_status mq_plan_page(const char *dir, const char *title, const char *words, struct mq_err *err);

#endif

/* tables.h - the tables that a command left in its folder, once more for people (report.html) and for other programs
 * (--json). SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_PAGES_TABLES_H
#define MQ_SESSION_PAGES_TABLES_H

#include "session/pages/page.h"

/* One table of a folder; those that are not there, or have no rows, are left out. */
struct mq_shown_table {
	const char *file;  /* "score.csv" */
	const char *title; /* of its part of the page; NULL ends a list */
	const char *label; /* column that names a row in the plot; NULL: no plot of measured_s and predicted_s */
};

/* The tables on an open page: predictions against measurements first. */
void mq_page_tables(struct mq_page *page, const struct mq_shown_table *table);
/* DIR/report.html: each table with a head that sorts, predictions against measurements where a table has both,
 * the words that were printed (may be NULL), the job file if there is one. */
enum mq_status mq_tables_page(const char *dir, const char *title, const struct mq_shown_table *table, const char *words,
			      struct mq_err *err);

/* With --json standard output is for the result alone: until mq_json_done what is printed for people goes to
 * standard error. Returns what mq_json_done needs; -1 where `json` is false, and nothing is done. */
int mq_json_begin(bool json);
/* Prints {"score": [{"row_id": "a", "step_time_s": 1.5}, ...], ...}: a member per table (NULL: there are none to print),
 * an object per row; what says how far to trust a prediction is an object in it, "trust". */
void mq_json_done(int saved, const char *dir, const struct mq_shown_table *table);

#endif

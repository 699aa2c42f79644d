/* tables.h - the tables that a command wrote to its folder, as report.html and as JSON (--json).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_PAGES_TABLES_H
#define MQ_SESSION_PAGES_TABLES_H

#include "session/pages/page.h"

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

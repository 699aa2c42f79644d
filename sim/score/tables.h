/*
 * tables.h - look-ups in the tables of row.h.
 */
#ifndef MQ_SCORE_TABLES_H
#define MQ_SCORE_TABLES_H

#include "score/row.h"
#include "model/format.h"

/* Does `text` fit one of the ';'-separated patterns? An empty list fits all. Names of models and devices
 * are written in every case: there it does not count. */
bool mq_pattern_fits(const char *patterns, const char *text);
bool mq_name_fits(const char *patterns, const char *name);
/* Cells by column name; a number that is absent is `missing`, one below 0 is refused. */
const char *mq_table_text(const struct mq_csv *csv, uint32_t row, const char *name);
enum mq_status mq_table_f64(const struct mq_csv *csv, uint32_t row, const char *name, double missing, double *value,
			    struct mq_err *err) MQ_MUST_CHECK;

enum mq_status mq_system_find(const struct mq_score_tables *tables, const struct mq_run *run, struct mq_system *system,
			      struct mq_err *err) MQ_MUST_CHECK;
/* A row of models.csv. */
struct mq_known_model {
	const char *builder;
	const char *given;           /* "key=value,..." for the builder where the row says nothing */
	const char *batch;           /* see mq_run_complete */
	const struct mq_format *own; /* no row: the cell is a specification, as -m takes it */
};
/* Both NULL where no row fits the run's model, source, locator, gpu, gpus, precision and sequence, and no builder
 * has that name. MQ_EINPUT: the row that fits names no builder and says why. */
enum mq_status mq_known_model(const struct mq_score_tables *tables, const struct mq_run *run,
			      struct mq_known_model *known, struct mq_err *err) MQ_MUST_CHECK;
/* The number behind KEY= in "key=value,...", NaN where there is none. */
double mq_given_value(const char *given, const char *key);

#endif

/* tables.h - look-ups in tables. */
#ifndef MQ_SCORE_TABLES_H
#define MQ_SCORE_TABLES_H

#include "score/row.h"

/* Does `text` fit one of the ';'-separated patterns? An empty list fits all. */
bool mq_pattern_fits(const char *patterns, const char *text);
/* Cells by column name. */
const char *mq_table_text(const struct mq_csv *csv, uint32_t row, const char *name);

#endif

/*
 * cells.c - cells of the tables by column name, and the patterns that find a row.
 */
#include <fnmatch.h>
#include <string.h>

#include "score/tables.h"

static bool fits(const char *patterns, const char *text, int flags)
{
	char one[256];

	if (!*patterns)
		return true;
	while (*patterns) {
		size_t n = strcspn(patterns, ";");

		if (n < sizeof(one)) {
			memcpy(one, patterns, n);
			one[n] = '\0';
			if (!fnmatch(one, text, flags))
				return true;
		}
		patterns += n + (patterns[n] == ';');
	}
	return false;
}

bool mq_pattern_fits(const char *patterns, const char *text)
{
	return fits(patterns, text, 0);
}

bool mq_name_fits(const char *patterns, const char *name)
{
	return fits(patterns, name, FNM_CASEFOLD);
}

const char *mq_table_text(const struct mq_csv *csv, uint32_t row, const char *name)
{
	return mq_csv_text(csv, row, mq_csv_column(csv, name));
}

enum mq_status mq_table_f64(const struct mq_csv *csv, uint32_t row, const char *name, double missing, double *value,
			    struct mq_err *err)
{
	if (!mq_csv_f64(csv, row, mq_csv_column(csv, name), missing, value) || !(*value >= 0))
		return mq_fail(err, MQ_EINPUT, "%s:%u: %s '%s' is not a number", csv->path, csv->line[row], name,
			       mq_table_text(csv, row, name));
	return MQ_OK;
}

/* kernels_row.c - reads the cells of a row, see kernels.h. SPDX-License-Identifier: Apache-2.0 */
#include "score/kernels.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

enum mq_status mq_kernel_numbers(const struct mq_kernel_row *row, const struct mq_kernel_column *column,
				 struct mq_err *err)
{
	for (; column->name; column++)
		if (mq_text_has_word(row->format->needed, column->name) || *mq_kernel_text(row, column->name))
			MQ_TRY(mq_csv_range(row->csv, row->i, column->name, NAN, 1e-6, MQ_KERNEL_MOST, column->value,
					    err));
	return MQ_OK;
}

enum mq_status mq_kernel_word(const struct mq_kernel_row *row, const char *column, const char *const *words, int *value,
			      struct mq_err *err)
{
	const char *text = mq_kernel_text(row, column);

	for (*value = 0; words[*value]; ++*value)
		if (!*text || !strcmp(words[*value], text))
			return MQ_OK;
	return mq_bad(err, "%s:%u: %s '%s' is unknown; results/README.md has the words", row->csv->path, row->line,
		      column, text);
}

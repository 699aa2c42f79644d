/* kernels.h - what the parts of `score --kernels` share. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCORE_KERNELS_H
#define MQ_SCORE_KERNELS_H

#include "score/score.h"

struct mq_kernel_format;

struct mq_kernel_row {
	const struct mq_kernel_format *format;
	const struct mq_csv *csv; /* its row `i` */
	uint32_t i;
	const char *table; /* stem of its file */
	uint32_t line;
	const char *gpu, *type; /* as the table says, and the calibrated device */
	const char *kernel, *implementation, *mode;
	bool memory;     /* peak bytes instead of seconds */
	double measured; /* s or B */
	double predicted;
	const char *bound;   /* memory, host, compute */
	const char *refused; /* why it cannot be predicted; NULL = it is */
};

/* Columns that a table must have and may have ("a b c"), and what fills in kernel, memory, measured and predicted or
 * refused of a row. `d` is its device. MQ_EINPUT: a number or a word that is none, or is missing. */
struct mq_kernel_format {
	const char *needed, *known;
	enum mq_status (*row)(const struct mq_device_calib *d, struct mq_arena *arena, struct mq_kernel_row *row,
			      struct mq_err *err);
};
extern const struct mq_kernel_format mq_kernel_parts, mq_kernel_attention, mq_kernel_experts, mq_kernel_exchange;

/* The cell of a row; "" where there is none. */
static inline const char *mq_kernel_text(const struct mq_kernel_row *row, const char *column)
{
	return mq_csv_word(row->csv, row->i, column);
}
/* Sizes and times of kernels are below this: no machine makes more, and all fit an integer. */
#define MQ_KERNEL_MOST 1e15
/* Positive numbers of a row, up to a column without a name. Of those that its format does not need an empty cell, or no
 * such column, leaves the value as it is. */
struct mq_kernel_column {
	const char *name;
	double *value;
};
enum mq_status mq_kernel_numbers(const struct mq_kernel_row *row, const struct mq_kernel_column *column,
				 struct mq_err *err);
/* The position of a cell's word among the NULL-terminated ones; an empty cell is the first. */
enum mq_status mq_kernel_word(const struct mq_kernel_row *row, const char *column, const char *const *words, int *value,
			      struct mq_err *err);

#endif

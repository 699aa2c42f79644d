/* kernels.h - shared by the parts of `score --kernels`. SPDX-License-Identifier: Apache-2.0 */
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
	const char *gpu, *type; /* name in the table; calibrated device */
	const char *kernel, *implementation, *mode;
	bool memory;     /* peak bytes instead of seconds */
	double measured; /* s or B */
	double predicted;
	const char *bound;   /* memory, host, compute */
	const char *refused; /* why it cannot be predicted; NULL = predicted */
};

/* Mandatory and optional columns of a table ("a b c"), and the function that fills kernel, memory, measured and
 * predicted or refused of a row of device `d`. MQ_EINPUT: a wrong or missing number or word. */
struct mq_kernel_format {
	const char *needed, *known;
	enum mq_status (*row)(const struct mq_device_calib *d, struct mq_arena *arena, struct mq_kernel_row *row,
			      struct mq_err *err);
};
extern const struct mq_kernel_format mq_kernel_parts, mq_kernel_attention, mq_kernel_experts, mq_kernel_exchange;

/* The cell of a row; "" = none. */
static inline const char *mq_kernel_text(const struct mq_kernel_row *row, const char *column)
{
	return mq_csv_word(row->csv, row->i, column);
}
/* Upper limit on sizes and times of kernels, which fits an integer. */
#define MQ_KERNEL_MOST 1e15
/* Reads positive numbers of a row, up to a column without a name. For optional columns, an empty or missing cell leaves
 * the value unchanged. */
struct mq_kernel_column {
	const char *name;
	double *value;
};
enum mq_status mq_kernel_numbers(const struct mq_kernel_row *row, const struct mq_kernel_column *column,
				 struct mq_err *err);
/* The index of a cell's word in a NULL-terminated list; an empty cell is the first. */
enum mq_status mq_kernel_word(const struct mq_kernel_row *row, const char *column, const char *const *words, int *value,
			      struct mq_err *err);

#endif

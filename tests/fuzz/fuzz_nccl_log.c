/* fuzz_nccl_log.c - logs of nccl-tests: rows with a size, a time and a number of ranks, or the line that is wrong.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <math.h>

#include "fit/fit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_nccl_row *row;
	struct mq_err err = MQ_ERR_INIT;
	uint32_t n;
	enum mq_status status = mq_nccl_log_load(fuzz_file(data, size, "all_reduce.log"), &arena, &row, &n, &err);

	fuzz_refused(status, &err);
	for (uint32_t i = 0; status == MQ_OK && i < n; i++)
		mq_assert(row[i].bytes > 0 && isfinite(row[i].bytes) && row[i].seconds > 0 &&
			  isfinite(row[i].seconds) && row[i].ranks >= 2 && row[i].line);
	mq_arena_fini(&arena);
	return 0;
}

/* fuzz_csv.c - tables: every cell of what is read can be asked for. SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "base/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_csv csv;
	struct mq_err err = MQ_ERR_INIT;

	if (mq_csv_load(fuzz_file(data, size, ".csv"), &arena, &csv, &err) != MQ_OK) {
		mq_assert(err.text[0]);
	} else {
		mq_assert(csv.n_columns > 0);
		for (uint32_t row = 0; row < csv.n_rows; row++)
			for (uint32_t column = 0; column < csv.n_columns; column++) {
				double value;

				mq_assert(mq_csv_text(&csv, row, column));
				mq_csv_f64(&csv, row, column, 0, &value);
			}
	}
	mq_arena_fini(&arena);
	return 0;
}

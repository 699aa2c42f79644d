/*
 * fuzz_evaluations.c - evaluations.csv when a search is resumed: a row that is taken matches its check sum, and
 * what is added to the file is found in it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "search/search.h"

enum { CONTEXT = 0x1234 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct mq_result result = { .verdict = MQ_VERDICT_OK,
					  .step_time_s = .25,
					  .samples_per_s = 32,
					  .n_simulated = 17,
					  .bottleneck = "compute" },
			       *found;
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_cache cache;
	struct mq_err err = MQ_ERR_INIT;

	fuzz_file(data, size, "evaluations.csv");
	enum mq_status status = mq_cache_open(&cache, fuzz_folder(), CONTEXT, &arena, &err);
	fuzz_refused(status, &err);
	if (status == MQ_OK) {
		mq_assert(mq_cache_add(&cache, 7, &result, &err) == MQ_OK);
		mq_assert(mq_cache_close(&cache, &err) == MQ_OK);
		mq_assert(mq_cache_open(&cache, fuzz_folder(), CONTEXT, &arena, &err) == MQ_OK);
		found = mq_cache_find(&cache, 7);
		mq_assert(found && found->verdict == MQ_VERDICT_OK && found->n_simulated == 17);
	}
	(void)!mq_cache_close(&cache, &err);
	mq_arena_fini(&arena);
	return 0;
}

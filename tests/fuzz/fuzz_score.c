/*
 * fuzz_score.c - tables of measured runs: every row becomes a job, with its model, machines and plan, or is
 * refused with a reason.
 * SPDX-License-Identifier: Apache-2.0 */
#include "scored.h"

enum { MOST_ROWS = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct mq_score_options *known = scored_platforms();
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_score_options options = *known;
	struct mq_run *run;
	struct mq_err err = MQ_ERR_INIT;
	uint32_t n = 0;

	options.arena = &arena;
	enum mq_status status = mq_runs_load(fuzz_file(data, size, ".csv"), &arena, &run, &n, &err);
	fuzz_refused(status, &err);
	for (uint32_t i = 0; status == MQ_OK && i < n && i < MOST_ROWS; i++) {
		struct mq_case c;

		fuzz_refused(mq_case_build(&options, &run[i], &c, &err), &err);
	}
	mq_arena_fini(&arena);
	return 0;
}

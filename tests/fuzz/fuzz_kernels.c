/* fuzz_kernels.c - tables of timed kernels in each of their formats, scored whole. */
#include "fuzz.h"

#include "cmd/score/score_runs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct mq_arena lasting = MQ_ARENA_INIT;
	static struct mq_score_options known = { .platforms = "platforms", MQ_SCORE_DEFAULTS };
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_score_options options;
	struct mq_err err = MQ_ERR_INIT;
	double mean;

	if (!known.arena) {
		known.arena = &lasting;
		mq_assert(mq_score_open(&known, &err) == MQ_OK);
	}
	options = known;
	options.arena = &arena;
	options.input = fuzz_file(data, size, ".csv");
	options.out = fuzz_folder();
	fuzz_refused(mq_score_kernels(&options, &mean, &err), &err);
	mq_arena_fini(&arena);
	return 0;
}

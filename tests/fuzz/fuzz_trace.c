/*
 * fuzz_trace.c - traces of PyTorch's profiler, of Nsight Systems and of Chakra: whatever was kept of one, its
 * collectives, the shapes of its products and the shares of its steps are numbers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <math.h>

#include "trace/trace.h"

static void use(const struct mq_trace *trace, struct mq_arena *arena)
{
	struct mq_trace_call *call;
	struct mq_trace_row *row;
	struct mq_trace_work *work;
	struct mq_trace_shares shares;
	struct mq_err err = MQ_ERR_INIT;
	uint32_t n_calls, n_works;
	uint64_t without;

	enum mq_status status = mq_trace_calls(trace, arena, &call, &n_calls, &err);
	fuzz_refused(status, &err);
	if (status == MQ_OK) {
		mq_trace_align(&call, &n_calls, 1);
		uint32_t n_rows = mq_trace_rows(&call, &n_calls, 1, arena, &row);
		for (uint32_t i = 0; i < n_rows; i++)
			mq_assert(*mq_trace_call_name(row[i].kind) && row[i].count && row[i].median_s >= 0);
	}
	status = mq_trace_works(&trace, 1, arena, &work, &n_works, &without, &err);
	fuzz_refused(status, &err);
	for (uint32_t i = 0; status == MQ_OK && i < n_works; i++)
		mq_assert(work[i].count && work[i].median_s >= 0 && isfinite(work[i].kernel.flop) &&
			  isfinite(work[i].kernel.bytes));
	mq_trace_shares(trace, arena, &shares);
	for (int c = 0; c < MQ_N_CLASSES; c++)
		mq_assert(isfinite(shares.share_s[c]));
}

/* What begins as JSON or SQLite is told by its first bytes, Chakra's by its name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "rank.json", "rank.0.et" };

	for (int i = 0; i < 2; i++) {
		struct mq_arena arena = MQ_ARENA_INIT;
		struct mq_trace trace;
		struct mq_err err = MQ_ERR_INIT;
		const char *path = fuzz_file(data, size, names[i]);

		mq_trace_probe(path);
		enum mq_status status = mq_trace_load(path, &arena, &trace, &err);
		fuzz_refused(status, &err);
		if (status == MQ_OK)
			use(&trace, &arena);
		mq_arena_fini(&arena);
	}
	return 0;
}

/* fuzz_snapshot.c - memory snapshots: pickles of anything are refused or give finite bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <math.h>

#include "trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_snapshot s;
	struct mq_err err = MQ_ERR_INIT;
	enum mq_status status = mq_snapshot_load(fuzz_file(data, size, "rank.pickle"), &arena, &s, &err);

	fuzz_refused(status, &err);
	for (int p = 0; p < MQ_N_SNAPSHOT_PURPOSES && status == MQ_OK; p++)
		mq_assert(isfinite(s.of_B[p]) && s.of_B[p] > -1 && isfinite(s.reserved_B) && s.allocated_B > 0);
	mq_arena_fini(&arena);
	return 0;
}

/* fuzz_schedule.c - schedule files: what is read passes the check or gives a reason.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "maquette/schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_schedule *schedule;
	struct mq_err err = MQ_ERR_INIT;
	bool deadlock = false;

	if (mq_schedule_load(fuzz_file(data, size, ".jsonl"), &arena, &schedule, &err) != MQ_OK)
		mq_assert(err.text[0]);
	else if (mq_schedule_check(schedule, &deadlock, &err) != MQ_OK)
		mq_assert(err.text[0]);
	mq_arena_fini(&arena);
	return 0;
}

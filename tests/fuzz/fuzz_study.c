/* fuzz_study.c - study files: their points are questions, or there is a reason. SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "study/study.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_study study;
	struct mq_point point;
	struct mq_err err = MQ_ERR_INIT;
	enum mq_status status = mq_study_load(fuzz_file(data, size, ".ini"), false, &arena, &study, &err);

	fuzz_refused(status, &err);
	if (status == MQ_OK) {
		mq_assert(study.n_points > 0 && study.n_points <= MQ_MAX_POINTS);
		mq_assert(*mq_study_header(&study, &arena));
		fuzz_refused(mq_study_point(&study, 0, &arena, &point, &err), &err);
		fuzz_refused(mq_study_point(&study, study.n_points - 1, &arena, &point, &err), &err);
	}
	mq_arena_fini(&arena);
	return 0;
}

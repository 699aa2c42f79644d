/* fuzz_calib.c - calibration files. SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "maquette/calib.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_calib *calib = mq_calib_new(&arena);
	struct mq_err err = MQ_ERR_INIT;

	if (mq_calib_load(calib, fuzz_file(data, size, ".json"), &err) != MQ_OK)
		mq_assert(err.text[0]);
	mq_arena_fini(&arena);
	return 0;
}

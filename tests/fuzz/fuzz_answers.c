/*
 * fuzz_answers.c - a study's own table when it is resumed: tables and words that are made of it, whatever it
 * holds.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "study/study.h"

static const char text[] = "platform.nodes = 1, 2, 4\nplatform.gpus = 8\nrank.0.clock = 1, 0.5\nefficiency = 0.8\n"
			   "epoch = 1000\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_study study;
	struct mq_err err = MQ_ERR_INIT;
	FILE *nowhere = fopen("/dev/null", "w");
	const char *path = fuzz_file((const uint8_t *)text, sizeof(text) - 1, "s.ini");

	mq_assert(nowhere && mq_study_load(path, false, &arena, &study, &err) == MQ_OK);
	fuzz_file(data, size, "whatif.csv");
	fuzz_refused(mq_study_answers(&study, fuzz_folder(), nowhere, &err), &err);
	fclose(nowhere);
	mq_arena_fini(&arena);
	return 0;
}

/*
 * fuzz_pages.c - the tables of an output folder, read again for its pages, whatever has become of them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "session/pages/page.h"
#include "study/study.h"

static const char study_text[] = "model = gpt:layers=2,hidden=64,heads=2,vocab=512\nbatch = 8, 16\n"
				 "platform = dgx1_v100\nengine = expert\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const tables[] = { "timeline.csv", "memory.csv", "links.csv" };
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_study study;
	struct mq_err err = MQ_ERR_INIT;
	const char *path = fuzz_file((const uint8_t *)study_text, sizeof(study_text) - 1, "s.ini");

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		fuzz_file(data, size, tables[i]);
	fuzz_refused(mq_plan_page(fuzz_folder(), "title", "words", &err), &err);
	fuzz_file(data, size, "whatif.csv");
	mq_assert(mq_study_load(path, false, &arena, &study, &err) == MQ_OK);
	fuzz_refused(mq_study_report(&study, fuzz_folder(), NULL, NULL, &err), &err);
	mq_arena_fini(&arena);
	return 0;
}

/* fuzz_solve.c - the problem files of `solve`, and training records of the tag engine.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "pase/tables.h"
#include "pipedream/dp.h"
#include "piper/dp.h"
#include "lib/sfb.h"
#include "tag/net.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = fuzz_file(data, size, ".json");
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_pase_tables pase;
	struct mq_pipedream pipedream;
	struct mq_piper piper;
	struct mq_sfb_cases cases;
	struct mq_tag_record *record;
	uint32_t n;

	if (mq_pase_tables_probe(path))
		fuzz_refused(mq_pase_tables_load(path, &arena, &pase, &err), &err);
	if (mq_pipedream_probe(path))
		fuzz_refused(mq_pipedream_load(path, &arena, &pipedream, &err), &err);
	if (mq_piper_probe(path))
		fuzz_refused(mq_piper_load(path, &arena, &piper, &err), &err);
	if (mq_sfb_cases_probe(path))
		fuzz_refused(mq_sfb_cases_load(path, &arena, &cases, &err), &err);
	if (mq_tag_records_probe(path))
		fuzz_refused(mq_tag_records_load(path, &arena, &n, &record, &err), &err);
	mq_arena_fini(&arena);
	return 0;
}

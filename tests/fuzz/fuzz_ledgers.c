/*
 * fuzz_ledgers.c - the tables of platforms/ that users extend: names of models, and the ledger of fitted values. The bytes stand in for each in turn, and a few rows are made ready with what they then say.
 * SPDX-License-Identifier: Apache-2.0 */
#include "scored.h"

#include <sys/stat.h>
#include <unistd.h>

#include "score/fitted.h"

enum { N_TABLES = 2 };
static const char *const table[N_TABLES] = { "models.csv", "fitted.csv" };
static const char rows[] = "row_id,model,gpu,gpus,gpus_per_node,precision,tp,pp,seq,mbs,gbs,step_time_s\n"
			   "a,GPT-3 1.3B,A100-80GB,16,8,bf16,2,2,1024,1,32,0.5\n";

/* platforms/ as links in a folder, but for one table. */
static const char *folder_without(int missing, struct mq_arena *arena)
{
	const char *dir = mq_arena_printf(arena, "%s/%d", fuzz_folder(), missing);
	char here[2048];

	mq_assert(getcwd(here, sizeof(here)));
	mq_assert(!mkdir(dir, 0700));
	for (int i = 0; i < N_TABLES + 2; i++) {
		const char *name = i < N_TABLES ? table[i] : i == N_TABLES ? "calib" : "software";

		if (i != missing)
			mq_assert(!symlink(mq_arena_printf(arena, "%s/platforms/%s", here, name),
					   mq_arena_printf(arena, "%s/%s", dir, name)));
	}
	return dir;
}

static void use(const struct mq_score_options *options, const char *path)
{
	struct mq_run *run;
	struct mq_case c;
	struct mq_err err = MQ_ERR_INIT;
	uint32_t n;

	mq_assert(mq_runs_load(path, options->arena, &run, &n, &err) == MQ_OK);
	for (uint32_t i = 0; i < n; i++)
		fuzz_refused(mq_case_build(options, &run[i], &c, &err), &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct mq_score_options *known = scored_platforms();
	static const char *dir[N_TABLES];
	struct mq_err err = MQ_ERR_INIT;

	for (int i = 0; !dir[N_TABLES - 1] && i < N_TABLES; i++)
		dir[i] = folder_without(i, known->arena);
	const char *path = fuzz_file((const uint8_t *)rows, sizeof(rows) - 1, "rows.csv");
	for (int i = 0; i < N_TABLES; i++) {
		struct mq_arena arena = MQ_ARENA_INIT;
		struct mq_score_options options = *known;
		struct mq_ledger ledger;

		options.arena = &arena;
		options.platforms = dir[i];
		fuzz_file(data, size, mq_arena_printf(&arena, "%d/%s", i, table[i]));
		enum mq_status status = mq_score_open_runs(&options, &err);
		fuzz_refused(status, &err);
		options.software_dir = "platforms/software";
		if (i == N_TABLES - 1)
			fuzz_refused(mq_ledger_load(&options, &ledger, &err), &err);
		else if (status == MQ_OK)
			use(&options, path);
		mq_arena_fini(&arena);
	}
	return 0;
}

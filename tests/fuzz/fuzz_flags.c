/*
 * fuzz_flags.c - launchers' settings, `export --import`: shell, YAML, TOML, recipes, DeepSpeed's JSON. A
 * sound plan, or a reason why it is none.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "export/export.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const double batch = size % 2 ? 0 : 64; /* 0: the launch's */
	struct mq_train train = { .batch = 64, .dtype = MQ_BF16, .grad_dtype = MQ_FP32 };
	const struct mq_model_request request = { .spec = "gpt:layers=8,hidden=64,heads=8,vocab=512", .train = &train };
	struct mq_arena arena = MQ_ARENA_INIT;
	const struct mq_software software = { .file = "megatron-core" };
	struct mq_export e = { .train = &train, .software = &software, .arena = &arena };
	struct mq_model *model;
	struct mq_plan plan;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_import_notes notes;
	struct mq_launch launch;
	char *text = mq_arena_alloc(&arena, size + 1);

	if (size)
		memcpy(text, data, size);
	mq_assert(mq_model_load(&request, &arena, &model, &err) == MQ_OK);
	e.model = model;
	e.cluster = mq_cluster_flat(&arena, 16, "ideal", 1e12, 1e9, 1e9, 1e-6);
	for (int kind = 0; kind < 5; kind++) {
		static const char *const endings[] = { ".sh", ".yaml", ".toml" };
		train.batch = batch;
		enum mq_status status;

		if (kind < 3) {
			status = mq_launch_read(fuzz_file(data, size, endings[kind]), &arena, &launch, &err);
			if (status == MQ_OK)
				status = mq_import_megatron(&e, &launch, &plan, &notes, &err);
		} else {
			status = kind == 3 ?
					 mq_import_torchtitan(&e, text, &plan, &notes, &err) :
					 mq_import_deepspeed(&e, fuzz_file(data, size, ".json"), &plan, &notes, &err);
		}

		fuzz_refused(status, &err);
		train.batch = status == MQ_OK ? notes.batch : 64;
		if (status == MQ_OK)
			fuzz_refused(mq_plan_check(&plan, model, e.cluster, &train, &err), &err);
	}
	mq_arena_fini(&arena);
	return 0;
}

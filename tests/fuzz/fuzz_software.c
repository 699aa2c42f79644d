/* fuzz_software.c - files of training software; what is read can be asked what it runs, and dresses a plan.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "maquette/question.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct mq_train train = { .batch = 8, .dtype = MQ_BF16, .grad_dtype = MQ_FP32 };
	const struct mq_model_request request = { .spec = "gpt:layers=2,hidden=64,heads=2,vocab=512", .train = &train };
	const struct mq_shape shape = { .dp = 2, .tp = 2, .micro_batches = 2, .recompute = MQ_RECOMPUTE_SELECTIVE };
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_software_record record;
	struct mq_model *model;
	struct mq_plan plan, resolved;
	struct mq_err err = MQ_ERR_INIT;
	char why[256];
	enum mq_status status =
		mq_software_load("platforms/software", fuzz_file(data, size, ".json"), &arena, &record, &err);

	fuzz_refused(status, &err);
	if (status == MQ_OK) {
		struct mq_question q = { .train = &train, .software = &record.software };

		mq_assert(mq_model_load(&request, &arena, &model, &err) == MQ_OK);
		q.model = model;
		q.cluster = mq_cluster_flat(&arena, 4, "ideal", 1e12, 1e9, 1e9, 1e-6);
		mq_assert(mq_plan_from_shape(&shape, model, q.cluster, &arena, &plan, &err) == MQ_OK);
		mq_assert(mq_software_runs(&record.software, &q, &plan, why, sizeof(why)) || *why);
		mq_software_apply_defaults(&record.software, model, &plan, &arena, &resolved);
		mq_assert(resolved.n_ops == plan.n_ops);
	}
	mq_arena_fini(&arena);
	return 0;
}

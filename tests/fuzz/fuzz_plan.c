/* fuzz_plan.c - plan files: what is read passes the check or gives a reason; what is saved reads back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <string.h>

#include "maquette/plan.h"

static struct mq_model *two_ops(struct mq_arena *arena)
{
	struct mq_model_builder b;
	struct mq_model *model;
	struct mq_err err;

	mq_model_begin(&b, arena, "two");
	for (int i = 0; i < 2; i++) {
		uint32_t op = mq_model_add(&b, MQ_OP_GEMM, i ? "second" : "first");

		b.model->op[op].splits = (1u << MQ_DIM_BATCH) | (1u << MQ_DIM_OUT) | (1u << MQ_DIM_IN);
		b.model->op[op].extent[MQ_DIM_BATCH] = 1;
		b.model->op[op].extent[MQ_DIM_OUT] = b.model->op[op].extent[MQ_DIM_IN] = 8;
		b.model->op[op].flop = b.model->op[op].output = 8;
	}
	mq_model_connect(&b, 0, 1, 8);
	mq_assert(mq_model_finish(&b, &model, &err) == MQ_OK);
	return model;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct mq_train train = { .batch = 8, .dtype = MQ_FP16 };
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_model *model = two_ops(&arena);
	struct mq_cluster *cluster = mq_cluster_flat(&arena, 4, "ideal", 1e12, 1e9, 1e9, 1e-6);
	struct mq_plan plan, packed;
	struct mq_err err = MQ_ERR_INIT;
	size_t bytes;

	if (mq_plan_load(fuzz_file(data, size, ".json"), model, cluster, &arena, &plan, &err) != MQ_OK) {
		mq_assert(err.text[0]);
	} else if (mq_plan_check(&plan, model, cluster, &train, &err) == MQ_OK) {
		void *flat = mq_plan_pack(&plan, &arena, &bytes);

		mq_assert(mq_plan_unpack(flat, bytes, &arena, &packed, &err) == MQ_OK);
		mq_assert(mq_plan_hash(&packed) == mq_plan_hash(&plan));
		mq_assert(strlen(mq_plan_describe(&plan, cluster, &arena)) > 0);
	}
	mq_arena_fini(&arena);
	return 0;
}

/*
 * fuzz_model.c - every reader of models: bad bytes give one line of error, good ones a sound model.
 * corpus: onnx huggingface placement pipedream
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "maquette/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const suffixes[] = { ".json", ".onnx", ".txt", ".log" };
	const struct mq_train train = { .batch = 1, .dtype = MQ_FP16 };

	for (int i = 0; i < 4; i++) {
		struct mq_arena arena = MQ_ARENA_INIT;
		struct mq_model_request request = { .spec = fuzz_file(data, size, suffixes[i]), .train = &train };
		struct mq_model *model;
		struct mq_err err = MQ_ERR_INIT;

		if (mq_model_load(&request, &arena, &model, &err) == MQ_OK)
			mq_assert(mq_model_check(model, &err) == MQ_OK);
		else
			mq_assert(err.text[0]);
		mq_arena_fini(&arena);
	}
	return 0;
}

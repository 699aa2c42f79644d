/* fuzz_spec.c - arbitrary text as a model specification, "NAME:key=value,...". SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct mq_train train = { .batch = 1, .dtype = MQ_FP16, .grad_dtype = MQ_FP32 };
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_model *model = NULL;
	char *spec = mq_arena_alloc(&arena, size + 1);

	if (size)
		memcpy(spec, data, size);
	spec[strcspn(spec, "\n/")] = '\0'; /* names alone, not files elsewhere */
	const struct mq_model_request request = { .spec = spec, .train = &train };
	enum mq_status status = mq_model_load(&request, &arena, &model, &err);

	mq_assert(status == MQ_OK || (status == MQ_EINPUT && *err.text && !strchr(err.text, '\n')));
	if (status == MQ_OK)
		fuzz_use_model(model, &train);
	mq_arena_fini(&arena);
	return 0;
}

/*
 * fuzz_format.h - the generic target of model readers: FUZZ_FORMAT(name) tests mq_format_NAME.
 *
 * Whatever the bytes are, a reader must end with a sound model, whose kernels have finite amounts,
 * or with MQ_EINPUT and one line of text.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_FUZZ_FORMAT_H
#define MQ_TESTS_FUZZ_FORMAT_H

#include <math.h>
#include <string.h>

#include "maquette/question.h"
#include "model/format.h"
#include "fuzz.h"
#include "../unit/libraries.h"

/* A model that was accepted must be one that everything else can work with. */
static inline void fuzz_use_model(const struct mq_model *model, const struct mq_train *train)
{
	const struct mq_share share = { .samples = 2 };
	struct mq_kernel kernel[MQ_MAX_KERNELS_PER_OP];
	const struct mq_question q = { .model = model, .calib = library_calib(), .train = train };
	struct mq_err err = MQ_ERR_INIT;

	mq_assert(mq_model_check(model, &err) == MQ_OK);
	for (uint32_t op = 0; op < model->n_ops; op++)
		for (int phase = 0; phase < MQ_N_PHASES; phase++) {
			uint32_t n = mq_op_kernels(&q, op, (enum mq_phase)phase, &share, "accelerator", kernel);

			for (uint32_t i = 0; i < n; i++) {
				mq_assert(isfinite(kernel[i].flop) && kernel[i].flop >= 0);
				mq_assert(isfinite(kernel[i].bytes) && kernel[i].bytes >= 0);
			}
		}
}

static inline int fuzz_format(const struct mq_format *format, const uint8_t *data, size_t size)
{
	const struct mq_train train = { .batch = 1, .dtype = MQ_FP16, .grad_dtype = MQ_FP32 };
	const char *path = fuzz_file(data, size, "");
	const struct mq_model_request request = { .spec = path, .train = &train };
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_model *model = NULL;
	enum mq_status status = format->load(path, &request, &arena, &model, &err);

	mq_assert(status == MQ_OK || (status == MQ_EINPUT && *err.text && !strchr(err.text, '\n')));
	if (status == MQ_OK)
		fuzz_use_model(model, &train);
	mq_arena_fini(&arena);
	return 0;
}

#define FUZZ_FORMAT(name)                                            \
	extern const struct mq_format mq_format_##name;              \
	int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) \
	{                                                            \
		return fuzz_format(&mq_format_##name, data, size);   \
	}                                                            \
	_Static_assert(1, "ends the macro with a semicolon")

#endif

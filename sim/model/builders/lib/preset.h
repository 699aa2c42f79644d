/* preset.h - published sizes of the built-in models: how a builder's rows are searched.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_BUILDERS_LIB_PRESET_H
#define MQ_MODEL_BUILDERS_LIB_PRESET_H

#include "maquette/arena.h"
#include "maquette/err.h"

/* The first member of a row; the first row of a model is its default. */
struct mq_preset {
	const char *model, *size;
};

struct mq_presets {
	const void *rows;
	size_t n, stride; /* bytes from row to row */
};
#define MQ_PRESETS(array) (&(struct mq_presets){ array, sizeof(array) / sizeof(*(array)), sizeof(*(array)) })

/* The index of the row of a model and size, of its default where the size is NULL. MQ_EINPUT lists the sizes there are. */
enum mq_status mq_preset_find(const struct mq_presets *table, const struct mq_preset *wanted, struct mq_arena *arena,
			      uint32_t *row, struct mq_err *err) MQ_MUST_CHECK;

/* A dimension that the user gave, or else. */
static inline uint32_t mq_either(uint32_t given, uint32_t otherwise)
{
	return given ? given : otherwise;
}

#endif

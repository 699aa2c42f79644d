/* preset.h - published sizes of the built-in models, platforms/models/sizes.json: builder options as a user would write
 * them, by model and size; a model's first size is its default. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_BUILDERS_LIB_PRESET_H
#define MQ_MODEL_BUILDERS_LIB_PRESET_H

#include "maquette/opt.h"

/* Fills two structures of a builder's options, whose first option is the size: `given` from the user's text (may be
 * NULL), `preset` from the published size. MQ_EINPUT: a wrong option; an unknown size, with the known ones. */
enum mq_status mq_preset_read(const struct mq_opt *opts, const char *model, const char *text, void *given, void *preset,
			      struct mq_arena *arena, struct mq_err *err);

/* Sets options that the user left at their defaults to the preset's. */
void mq_preset_merge(const struct mq_opt *opts, void *given, const void *preset);

/* An integer option of at least 1 whose field differs from its name. */
#define MQ_RENAMED(name, type, field, initial, max, help)                            \
	{                                                                            \
		MQ_OPT_U32, name, offsetof(type, field), initial, 1, max, NULL, help \
	}
/* For builders whose options begin with a description. */
#define MQ_FUSED_ATTENTION                                                                             \
	{                                                                                              \
		MQ_OPT_BOOL, "fused_attention", offsetof(struct mq_transformer, fused), 1, 0, 1, NULL, \
			"attention that never stores its scores (flash)"                               \
	}

/* "MODEL:OPTIONS", or "MODEL" without options. */
const char *mq_builtin_name(const char *model, const char *options, struct mq_arena *arena);

/* The dimension that the user gave, else `otherwise`. */
static inline uint32_t mq_either(uint32_t given, uint32_t otherwise)
{
	return given ? given : otherwise;
}

#endif

/* preset.h - published sizes of the built-in models, platforms/models/sizes.json: options of a builder as a user would
 * write them, by model and size; the first of a model is its default. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_BUILDERS_LIB_PRESET_H
#define MQ_MODEL_BUILDERS_LIB_PRESET_H

#include "maquette/opt.h"

/* Fills two structures of a builder's options, the first of which is the size: `given` from what the user wrote (may be
 * NULL), `preset` from what is published of that size. MQ_EINPUT: an option, or no such size, with those that there are. */
enum mq_status mq_preset_read(const struct mq_opt *opts, const char *model, const char *text, void *given, void *preset,
			      struct mq_arena *arena, struct mq_err *err);

/* What the user left at its default becomes the preset's. */
void mq_preset_merge(const struct mq_opt *opts, void *given, const void *preset);

/* A whole number of at least 1 whose field has another name than the option. */
#define MQ_RENAMED(name, type, field, initial, max, help)                            \
	{                                                                            \
		MQ_OPT_U32, name, offsetof(type, field), initial, 1, max, NULL, help \
	}
/* Of builders whose options begin with a description. */
#define MQ_FUSED_ATTENTION                                                                             \
	{                                                                                              \
		MQ_OPT_BOOL, "fused_attention", offsetof(struct mq_transformer, fused), 1, 0, 1, NULL, \
			"attention that never stores its scores (flash)"                               \
	}

/* "MODEL:OPTIONS", or "MODEL" where there are none. */
const char *mq_builtin_name(const char *model, const char *options, struct mq_arena *arena);

/* A dimension that the user gave, or else. */
static inline uint32_t mq_either(uint32_t given, uint32_t otherwise)
{
	return given ? given : otherwise;
}

#endif

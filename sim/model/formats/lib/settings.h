/* settings.h - files of settings as a list: each value with the keys that lead to it.
 *
 * References of OmegaConf to other keys of the file are followed; what other files define is not.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMATS_LIB_SETTINGS_H
#define MQ_MODEL_FORMATS_LIB_SETTINGS_H

#include <stdbool.h>

#include "maquette/arena.h"
#include "maquette/err.h"

struct mq_setting {
	const char *path; /* "model.optim.name"; items of a list: "model.freq.0" */
	const char *value;
};

struct mq_settings {
	struct mq_arena *arena;
	const char *file; /* for errors */
	struct mq_setting *setting;
	uint32_t n, room;
};

void mq_settings_add(struct mq_settings *settings, const char *path, const char *value);
/* Adds those of a YAML or JSON text. Aliases stay unread, as keys without a value. */
enum mq_status mq_settings_yaml(struct mq_settings *settings, const char *text, struct mq_err *err);
/* Does the path end with these parts? */
bool mq_setting_is(const char *path, const char *key);
/* The first whose path ends with these parts, or NULL. */
const struct mq_setting *mq_settings_find(const struct mq_settings *settings, const char *key);
/* A value with references followed, 1_440 as 1440, and NeMo's "${multiply:4, ${.hidden_size}}" evaluated if both are
 * numbers. */
const char *mq_settings_value(const struct mq_settings *settings, const char *value);

#endif

/* megatron.h - a stack of blocks from flags of Megatron-LM.
 *
 * Flags and defaults are those of `megatron/training/arguments.py` and the dataclasses that it turns into flags;
 * tests/flags/megatron-lm.txt has their names and the version. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMATS_LIB_MEGATRON_H
#define MQ_MODEL_FORMATS_LIB_MEGATRON_H

#include "model/builders/lib/transformer.h"

/* A command-line flag: what follows it (a number, a number from 1, nothing, a word, words up to the next flag), and
 * where its value is stored. BESIDE: a launch with only such flags defines no plan. */
enum mq_flag_kind {
	MQ_FLAG_NUMBER,
	MQ_FLAG_DEGREE,
	MQ_FLAG_REAL,
	MQ_FLAG_SWITCH,
	MQ_FLAG_WORD,
	MQ_FLAG_WORDS,
	MQ_FLAG_BESIDE = 8
};
struct mq_flag {
	const char *name;
	uint32_t kind;
	size_t offset;
};
/* The flag of a word "--name" or "--name=value"; NULL: none. The last of the list has no name. */
const struct mq_flag *mq_flag_find(const struct mq_flag *list, const char *word);
/* Stores its value in the structure `to`; *word moves to its last word. MQ_EINPUT: a wrong value. */
enum mq_status mq_flag_take(const struct mq_flag *flag, const char *const **word, void *to, struct mq_arena *arena,
			    struct mq_err *err);

/* Reads the flags among `word` (NULL-terminated); missing ones get Megatron's defaults. MQ_EINPUT: a wrong value. Does
 * not check the description. */
enum mq_status mq_megatron_read(const char *const *word, struct mq_arena *arena, struct mq_transformer *t,
				struct mq_err *err);
/* Does the flag describe the model; does a value follow it? */
bool mq_megatron_describes(const char *flag, bool *has_value);
/* The settings in a YAML file, by its path, or else in a log, as flags, NULL-terminated. MQ_EINPUT, which names the path:
 * broken YAML, a model flag with two values, or a model of another kind. */
enum mq_status mq_megatron_settings(const char *path, const char *text, struct mq_arena *arena,
				    const char *const **word, struct mq_err *err);
/* Do the words describe a model? */
bool mq_megatron_has_model(const char *const *word);

#endif

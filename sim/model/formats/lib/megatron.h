/* megatron.h - a stack of blocks as flags of Megatron-LM, and back.
 *
 * Flags and their defaults as `megatron/training/arguments.py` and the dataclasses that it makes flags of define them;
 * tests/flags/megatron-lm.txt has their names and the version that was read. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMATS_LIB_MEGATRON_H
#define MQ_MODEL_FORMATS_LIB_MEGATRON_H

#include <stdio.h>

#include "model/builders/lib/transformer.h"

/* A flag of a command line: how it is followed (by a number, one from 1, nothing, a word, words up to the next flag), and
 * where its value is kept. BESIDE: a launch that has none but such says no plan. */
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
/* That of a word "--name" or "--name=value"; the list ends without a name. */
const struct mq_flag *mq_flag_find(const struct mq_flag *list, const char *word);
/* Keeps its value in the structure `to`; *word is then the last that belongs to it. MQ_EINPUT: not such a value. */
enum mq_status mq_flag_take(const struct mq_flag *flag, const char *const **word, void *to, struct mq_arena *arena,
			    struct mq_err *err);

/* One " \\\n  --flag value" per setting. What has no flag is left out: who writes reads back and compares. */
void mq_megatron_write(const struct mq_transformer *t, FILE *file);
/* The program of Megatron's that trains such a stack. */
const char *mq_megatron_program(const struct mq_transformer *t);

/* Reads the flags among `word` (up to NULL); what they do not say is Megatron's default. MQ_EINPUT: a value that
 * cannot be one. The description has not been checked. */
enum mq_status mq_megatron_read(const char *const *word, struct mq_arena *arena, struct mq_transformer *t,
				struct mq_err *err);
/* Is it a flag that describes the model, and is it followed by a value? */
bool mq_megatron_describes(const char *flag, bool *has_value);
/* Do the words say the model at all? */
bool mq_megatron_has_model(const char *const *word);

#endif

/* torchtitan.h - what the writer and the reader of torchtitan's recipes share. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_EXPORT_TORCHTITAN_H
#define MQ_EXPORT_TORCHTITAN_H

#include "maquette/err.h"
#include "model/builders/lib/transformer.h"

/* Which of torchtitan's models has the parts for a stack. */
enum mq_titan_family { MQ_TITAN_LLAMA3, MQ_TITAN_QWEN3, MQ_TITAN_DEEPSEEK };
enum mq_titan_family mq_titan_family(const struct mq_transformer *t);

/* The model of a recipe as `export` writes them. MQ_EINPUT: a setting is missing, or is no number. */
enum mq_status mq_titan_read_model(const char *text, struct mq_arena *arena, struct mq_transformer *t,
				   struct mq_err *err) MQ_MUST_CHECK;

#endif

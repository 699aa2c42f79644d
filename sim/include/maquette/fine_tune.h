/* fine_tune.h - what of a model is trained: all of it, adapters of low rank beside frozen weights (LoRA, Hu et al.
 * 2022; QLoRA, Dettmers et al. 2023), or all but the ops whose names fit a pattern.
 *
 * Fine-tuning is part of the training options (mq_train.tuning, a text) and becomes part of the model when it is
 * loaded: ops are marked as frozen, adapters are ops of their own, and the amounts of the backward pass shrink to what
 * is left. Whatever reads a model afterwards, from kernels to engines, sees it so. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_FINE_TUNE_H
#define MAQUETTE_FINE_TUNE_H

#include "maquette/model.h"

enum mq_tuning_kind { MQ_TUNE_FULL, MQ_TUNE_LORA, MQ_TUNE_FROZEN };

struct mq_tuning {
	enum mq_tuning_kind kind;
	const char *frozen; /* FROZEN: patterns of op names, '+' between */
	/* LORA */
	const char *targets; /* GEMMs with an adapter, '+' between: the frameworks' names, or patterns of op names */
	uint32_t rank;
	uint32_t alpha; /* the adapters' output is scaled by alpha / rank */
	double dropout; /* probability, of the adapters' input */
	uint32_t base;  /* enum mq_frozen - 1: how the layers' frozen matrices are held */
};

/* Reads "full" (also NULL, ""), "lora[:rank=16,targets=qkv+proj,dropout=.1,base=fp8,alpha=32]" or "frozen:PATTERN".
 * `what` names the option or column in messages. MQ_EINPUT: another word, an unknown key, a value out of range. */
MQ_API enum mq_status mq_tuning_read(const char *what, const char *text, struct mq_arena *arena,
				     struct mq_tuning *tuning, struct mq_err *err);

/* The model with this part of it trained; the same where all of it is. MQ_EINPUT: a target or pattern that fits no op
 * (with the names that there are), a model of measured times or with backward ops of its own, nothing left to train. */
MQ_API enum mq_status mq_tuning_apply(const struct mq_tuning *tuning, struct mq_arena *arena, struct mq_model **model,
				      struct mq_err *err);

#endif

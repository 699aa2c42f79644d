/* fine_tune.h - the trained part of a model: all of it, low-rank adapters on frozen weights (LoRA, Hu et al. 2022;
 * QLoRA, Dettmers et al. 2023), or all but the ops whose names match a pattern.
 *
 * Fine-tuning is part of the training options (mq_train.tuning, a text) and becomes part of the model when it is
 * loaded: ops are marked as frozen, adapters are ops, and the backward pass shrinks accordingly. All later readers of
 * the model, from kernels to engines, see the result. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_FINE_TUNE_H
#define MAQUETTE_FINE_TUNE_H

#include "maquette/model.h"

enum mq_tuning_kind { MQ_TUNE_FULL, MQ_TUNE_LORA, MQ_TUNE_FROZEN };

struct mq_tuning {
	enum mq_tuning_kind kind;
	const char *frozen; /* FROZEN: patterns of op names, separated by '+' */
	/* LORA */
	const char *targets; /* GEMMs with an adapter, separated by '+': frameworks' names, or patterns of op names */
	uint32_t rank;
	uint32_t alpha; /* the adapters' output is scaled by alpha / rank */
	double dropout; /* probability, of the adapters' input */
	uint32_t base;  /* enum mq_frozen - 1: type of the layers' frozen matrices */
};

/* Reads "full" (also NULL, ""), "lora[:rank=16,targets=qkv+proj,dropout=.1,base=fp8,alpha=32]" or "frozen:PATTERN".
 * `what` names the option or column in messages. MQ_EINPUT: another word, an unknown key, a value out of range. */
MQ_API enum mq_status mq_tuning_read(const char *what, const char *text, struct mq_arena *arena,
				     struct mq_tuning *tuning, struct mq_err *err);

/* Replaces *model by one with this part trained; unchanged for FULL. MQ_EINPUT: a target or pattern that matches no op
 * (lists the names), a model of measured times or with explicit backward ops, nothing left to train. */
MQ_API enum mq_status mq_tuning_apply(const struct mq_tuning *tuning, struct mq_arena *arena, struct mq_model **model,
				      struct mq_err *err);

#endif

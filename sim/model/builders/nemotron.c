/* nemotron.c - the built-in stacks with state-space layers: mamba2 (Dao and Gu 2024, published sizes) and nemotron-h,
 * which mixes them with attention, feed-forward and expert layers.
 *
 * Sizes (platforms/models/sizes.json): Nemotron-H (NVIDIA, arXiv 2504.03624), Nemotron Nano 2 (2508.14444), Nemotron 3
 * Nano (2512.20848) and the published configurations of Nemotron 3 Super. Experts and feed-forward layers have squared
 * ReLU (one matrix up); attention has no position encoding. Any dimension may be changed by an option.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/builders/lib/transformer.h"
#include "model/builders/lib/preset.h"

struct options {
	struct mq_transformer t; /* first: options of its fields' names are these */
	const char *size;
};

#define DIM(field, min, max, help)    MQ_U32(struct mq_transformer, field, 0, min, max, help)
#define MAMBA(name, field, max, help) MQ_RENAMED(name, struct mq_transformer, mamba.field, 0, max, help)

static const struct mq_opt opts[] = {
	MQ_STR(struct options, size, NULL,
	       "published size: mamba2 1.3b 130m 370m 780m 2.7b; nemotron-h 8b 4b 47b 56b nano-9b-v2 "
	       "nano-12b-v2 3-nano 3-super"),
	MQ_STR(struct mq_transformer, pattern, NULL,
	       "a letter per layer: M Mamba-2, * attention, - feed-forward, E experts"),
#include "model/builders/nemotron_options.def"
	MQ_FUSED_ATTENTION, MQ_END
};

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	const char *what = mq_arena_printf(arena, "model '%s'", name);
	struct options o = { 0 }, published = { 0 };
	struct mq_transformer *t = &o.t;

	MQ_TRY(mq_preset_read(opts, name, options, &o, &published, arena, err));
	/* Another hidden size changes the number of state-space heads: their total width is twice the hidden size. */
	if (t->hidden && t->hidden != published.t.hidden)
		published.t.mamba.heads = 2 * t->hidden / mq_either(t->mamba.head_dim, published.t.mamba.head_dim);
	published.t.head_dim = 128;
	mq_preset_merge(opts, &o, &published);
	t->name = mq_builtin_name(name, options, arena);
	t->layers = (uint32_t)strlen(t->pattern);
	t->mtp_shared = t->relu = t->squared = t->rms = t->causal = true;
	t->tied = !strcmp(name, "mamba2");
	return mq_transformer_build(t, what, request, arena, model, err);
}

const struct mq_builder mq_builder_nemotron = {
	.summary = "mamba2, nemotron-h: stacks with state-space layers",
	.names = (const char *const[]){ "mamba2", "nemotron-h", NULL },
	.opts = opts,
	.build = build,
};

/* nemotron.c - the built-in stacks with state-space layers: mamba2 (Dao and Gu 2024, published sizes) and nemotron-h,
 * which mixes them with attention, feed-forward and expert layers.
 *
 * Sizes (platforms/models/sizes.json): Nemotron-H (NVIDIA, arXiv 2504.03624), Nemotron Nano 2 (2508.14444), Nemotron 3 Nano (2512.20848) and the
 * published configurations of Nemotron 3 Super. Experts and feed-forward layers have squared ReLU (one matrix up);
 * attention has no position encoding. Any dimension may be changed by an option. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/builders/lib/transformer.h"
#include "model/builders/lib/preset.h"

struct options {
	const char *size, *pattern;
	uint32_t hidden, heads, kv_heads, head_dim, ffn, vocab, seq;
	uint32_t mamba_heads, mamba_head_dim, groups, state, kernel, chunk;
	uint32_t experts, top_k, shared_ffn, latent, mtp;
	bool fused_attention;
};

#define DIM(field, min, max, help) MQ_U32(struct options, field, 0, min, max, help)

static const struct mq_opt opts[] = {
	MQ_STR(struct options, size, NULL,
	       "published size: mamba2 1.3b 130m 370m 780m 2.7b; nemotron-h 8b 4b 47b 56b nano-9b-v2 "
	       "nano-12b-v2 3-nano 3-super"),
	MQ_STR(struct options, pattern, NULL, "a letter per layer: M Mamba-2, * attention, - feed-forward, E experts"),
	DIM(hidden, 1, 1e7, "width of the residual stream"),
	DIM(heads, 1, 1e6, "attention heads"),
	DIM(kv_heads, 1, 1e6, "heads of keys and values"),
	DIM(head_dim, 1, 1e6, "width of an attention head"),
	DIM(ffn, 1, 1e8, "inner width of feed-forward layers and experts"),
	DIM(vocab, 1, 1e8, "vocabulary"),
	DIM(seq, 1, 1e8, "tokens of a sequence"),
	DIM(mamba_heads, 1, 1e6, "heads of the state-space layers"),
	DIM(mamba_head_dim, 1, 1e6, "width of such a head"),
	DIM(groups, 1, 1e6, "groups of heads that share B and C"),
	DIM(state, 1, 1e6, "state of a head and channel"),
	DIM(kernel, 1, 1e3, "taps of the convolution"),
	DIM(chunk, 1, 1e5, "tokens of a chunk of the scan"),
	DIM(experts, 1, 1e5, "experts of a layer E"),
	DIM(top_k, 1, 1e5, "experts that a token visits"),
	DIM(shared_ffn, 0, 1e8, "width of the experts that every token visits"),
	DIM(latent, 0, 1e7, "width in which tokens travel to experts; 0 = hidden"),
	DIM(mtp, 0, 100, "further tokens predicted, with one set of layers *E"),
	MQ_BOOL(struct options, fused_attention, 1, "attention that never stores its scores (flash)"),
	MQ_END
};

static struct mq_mamba mixer(const struct options *o, const struct options *p)
{
	bool wide = !o->hidden || o->hidden == p->hidden;
	uint32_t dim = mq_either(o->mamba_head_dim, p->mamba_head_dim);

	return (struct mq_mamba){
		.heads = mq_either(o->mamba_heads, wide ? p->mamba_heads : 2 * o->hidden / dim),
		.head_dim = dim,
		.groups = mq_either(o->groups, p->groups),
		.state = mq_either(o->state, p->state),
		.kernel = mq_either(o->kernel, p->kernel),
		.chunk = mq_either(o->chunk, p->chunk),
	};
}

static void fill(struct mq_transformer *t, const char *name, const struct options *o, const struct options *p)
{
	*t = (struct mq_transformer){
		.pattern = o->pattern ? o->pattern : p->pattern,
		.hidden = mq_either(o->hidden, p->hidden),
		.heads = mq_either(o->heads, p->heads),
		.kv_heads = mq_either(o->kv_heads, p->kv_heads),
		.head_dim = mq_either(o->head_dim, 128),
		.ffn = mq_either(o->ffn, p->ffn),
		.vocab = mq_either(o->vocab, p->vocab),
		.seq = mq_either(o->seq, p->seq),
		.mamba = mixer(o, p),
		.experts = mq_either(o->experts, p->experts),
		.top_k = mq_either(o->top_k, p->top_k),
		.shared_ffn = mq_either(o->shared_ffn, p->shared_ffn),
		.latent = mq_either(o->latent, p->latent),
		.mtp = o->mtp,
		.mtp_shared = true,
		.relu = true,
		.squared = true,
		.rms = true,
		.tied = !strcmp(name, "mamba2"),
		.causal = true,
		.fused = o->fused_attention,
	};
	t->layers = (uint32_t)strlen(t->pattern);
}

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	const char *what = mq_arena_printf(arena, "model '%s'", name);
	struct options o, published;
	struct mq_transformer t;

	MQ_TRY(mq_preset_read(opts, name, options, &o, &published, arena, err));
	fill(&t, name, &o, &published);
	t.name = mq_builtin_name(name, options, arena);
	return mq_transformer_build(&t, what, request, arena, model, err);
}

const struct mq_format mq_format_nemotron = {
	.name = "nemotron",
	.summary = "mamba2, nemotron-h: stacks with state-space layers",
	.names = (const char *const[]){ "mamba2", "nemotron-h", NULL },
	.opts = opts,
	.build = build,
};

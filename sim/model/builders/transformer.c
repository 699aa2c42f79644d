/* transformer.c - the built-in transformers of one stack: gpt, llama, moe (Mixtral, DeepSeek-MoE), bert.
 *
 * Sizes (platforms/models/sizes.json) are the published ones: GPT-3 (Brown et al. 2020) and Megatron-LM's scaling table
 * (Narayanan et al. 2021, Korthikanti et al. 2022); Llama 2 and 3 model cards; Mixtral (Jiang et al. 2024); DeepSeekMoE
 * (Dai et al. 2024); BERT (Devlin et al. 2018). Any dimension may be changed by an option.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/builders/lib/transformer.h"
#include "model/builders/lib/preset.h"

struct options {
	struct mq_transformer t; /* first: options of its fields' names are these */
	const char *size;
	uint32_t task; /* enum task */
	/* 0 = as the size says, 1 = no, 2 = yes */
	uint32_t gated, rms, rope, bias, tied, head, dropout, attention_dropout, causal, clamp, yarn;
};

enum task { TASK_PRETRAIN, TASK_SPAN };

#define DIM(field, min, max, help) MQ_U32(struct mq_transformer, field, 0, min, max, help)
#define FLAG(field, help)          MQ_CHOICE(struct options, field, 0, "auto|false|true", help)

static const struct mq_opt opts[] = {
	MQ_STR(struct options, size, NULL,
	       "published size: gpt 1.3b 125m..1t, llama 8b 70b 405b 7b.., moe 8x7b deepseek-v3.., bert base large"),
#include "model/builders/transformer_options.def"
	MQ_FUSED_ATTENTION, MQ_END
};

static bool flag(uint32_t given, bool otherwise)
{
	return given ? given == 2 : otherwise;
}

/* Takes what the user left out from the published size, except: MLP widths with another hidden size, KV heads with
 * another hidden size or given heads, expert groups with another number of experts. */
static void complete(struct options *o, struct options *p)
{
	bool wide = !o->t.hidden || o->t.hidden == p->t.hidden;

	if (!wide)
		p->t.ffn = p->t.shared_ffn = p->t.dense_ffn = 0;
	if (!wide || o->t.heads)
		p->t.kv_heads = 0;
	if (o->t.experts && o->t.experts != p->t.experts)
		p->t.expert_groups = 0;
	mq_preset_merge(opts, o, p);
}

static void settle(struct mq_transformer *t, const char *name, const struct options *o)
{
	bool bert = !strcmp(name, "bert"), old = bert || !strcmp(name, "gpt");

	t->biases = flag(o->bias, old);
	t->gated = flag(o->gated, !old);
	t->clamp = flag(o->clamp, false);
	t->yarn = flag(o->yarn, false);
	if (t->yarn)
		t->rope = (struct mq_rope){
			.kind = "yarn", .factor = 32, .length = 4096, .fast = 32, .slow = 1, .unrounded = true
		};
	t->full_every = t->window ? 2 : 0;
	t->rms = flag(o->rms, !old);
	t->rotary = flag(o->rope, !old);
	t->headless = !flag(o->head, true);
	t->tied = flag(o->tied, false) && !t->headless;
	t->causal = flag(o->causal, !bert);
	t->dropout = flag(o->dropout, old);
	t->undropped = !flag(o->attention_dropout, true);
	t->token_types = bert ? 2 : 0;
	t->post_norm = t->pretrain_heads = bert;
	t->span_head = o->task == TASK_SPAN;
	if (t->kv_rank) {
		t->nope_dim = t->value_dim = 128;
		t->rope_dim = 64;
	}
}

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	const char *what = mq_arena_printf(arena, "model '%s'", name);
	struct options o = { 0 }, published = { 0 };
	struct mq_transformer *t = &o.t;

	MQ_TRY(mq_preset_read(opts, name, options, &o, &published, arena, err));
	complete(&o, &published);
	settle(t, name, &o);
	t->name = mq_builtin_name(name, options, arena);
	if ((t->experts || t->top_k || t->shared_ffn || t->dense_layers) && strcmp(name, "moe"))
		return mq_bad(err, "%s has no experts; use the model 'moe'", what);
	if (t->span_head && strcmp(name, "bert"))
		return mq_bad(err, "%s is not trained on spans; use the model 'bert'", what);
	if (t->headless && (t->mtp || t->pretrain_heads))
		return mq_bad(err, "%s: head=false beside %s", what, t->mtp ? "mtp" : "BERT's heads");
	if (!t->rotary) /* a learned position table with a row per token; BERT's has 512 */
		t->positions = request->seq ? request->seq : t->seq;
	if (t->token_types && t->positions < 512)
		t->positions = 512;
	return mq_transformer_build(t, what, request, arena, model, err);
}

const struct mq_builder mq_builder_transformer = {
	.summary = "gpt, llama, moe, bert: transformers of one stack",
	.names = (const char *const[]){ "bert", "gpt", "llama", "moe", NULL },
	.opts = opts,
	.build = build,
};

/* transformer.c - the built-in transformers of one stack: gpt, llama, moe (Mixtral, DeepSeek-MoE), bert.
 *
 * Sizes (platforms/models/sizes.json) are the published ones: GPT-3 (Brown et al. 2020) and Megatron-LM's scaling table (Narayanan et al. 2021,
 * Korthikanti et al. 2022); Llama 2 and 3 model cards; Mixtral (Jiang et al. 2024); DeepSeekMoE (Dai et al. 2024); BERT
 * (Devlin et al. 2018). Any dimension may be changed by an option. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/builders/lib/transformer.h"
#include "model/builders/lib/preset.h"

struct options {
	const char *size;
	uint32_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, seq;
	uint32_t experts, top_k, shared_ffn, dense_layers, dense_ffn;
	uint32_t predictions, mtp, window;
	uint32_t q_rank, kv_rank;            /* latent attention, with heads of 128 + 64 and 128 */
	uint32_t expert_groups, group_limit; /* where routing is limited to some groups of experts */
	uint32_t task;                       /* enum task */
	/* 0 = as the size says, 1 = no, 2 = yes */
	uint32_t gated, rms, rope, bias, tied, head, dropout, attention_dropout, causal, clamp, yarn;
	bool sigmoid_router, fused_attention;
};

enum task { TASK_PRETRAIN, TASK_SPAN };

#define DIM(field, min, max, help) MQ_U32(struct options, field, 0, min, max, help)
#define FLAG(field, help)          MQ_CHOICE(struct options, field, 0, "auto|false|true", help)

static const struct mq_opt opts[] = {
	MQ_STR(struct options, size, NULL,
	       "published size: gpt 1.3b 125m..1t, llama 8b 70b 405b 7b.., moe 8x7b deepseek-v3.., bert base large"),
	DIM(layers, 1, 10000, "blocks"),
	DIM(hidden, 1, 1e7, "width of the residual stream"),
	DIM(heads, 1, 1e6, "attention heads"),
	DIM(kv_heads, 1, 1e6, "heads of keys and values (grouped-query attention)"),
	DIM(head_dim, 1, 1e6, "width of a head; default hidden / heads"),
	DIM(ffn, 0, 1e8, "inner width of the feed-forward part; 0 = 4 hidden"),
	DIM(vocab, 1, 1e8, "vocabulary"),
	DIM(seq, 1, 1e8, "tokens of a sequence"),
	DIM(experts, 1, 1e5, "experts of a layer"),
	DIM(top_k, 1, 1e5, "experts that a token visits"),
	DIM(shared_ffn, 0, 1e8, "width of the experts that every token visits"),
	DIM(dense_layers, 0, 1e5, "first layers without experts"),
	DIM(dense_ffn, 0, 1e8, "inner width of those layers"),
	DIM(expert_groups, 1, 1e5, "groups of experts, of which a token visits some"),
	DIM(group_limit, 1, 1e5, "so many"),
	DIM(q_rank, 1, 1e6, "latent attention: width of compressed queries; default: they are not"),
	DIM(kv_rank, 1, 1e6, "latent attention: width of compressed keys and values"),
	MQ_BOOL(struct options, sigmoid_router, 0, "experts are scored by sigmoids"),
	DIM(predictions, 1, 1e8, "bert: masked tokens that the head looks at; default 15 %"),
	MQ_CHOICE(struct options, task, TASK_PRETRAIN, "pretrain|span",
		  "bert: what is trained; span: question answering (SQuAD)"),
	DIM(mtp, 0, 100, "further tokens predicted, each by one more block (DeepSeek-V3)"),
	DIM(window, 0, 1e8, "keys that the queries of every second layer see; 0 = all"),
	FLAG(clamp, "experts clamp what goes into their gated activation"),
	FLAG(gated, "gated activation (SwiGLU): two matrices going up"),
	FLAG(rms, "RMS norms instead of layer norms"),
	FLAG(rope, "rotary positions instead of a learned table"),
	FLAG(yarn, "they scale what they turn (YaRN's concentration factor)"),
	FLAG(bias, "biases in the products"),
	FLAG(tied, "the head uses the embedding's parameters"),
	FLAG(head, "a product with the vocabulary before the loss"),
	FLAG(dropout, "dropout behind attention, projections and embedding"),
	FLAG(attention_dropout, "that of attention's probabilities"),
	FLAG(causal, "each token sees only earlier ones"),
	MQ_BOOL(struct options, fused_attention, 1, "attention that never stores its scores (flash)"),
	MQ_END
};

static bool flag(uint32_t given, bool otherwise)
{
	return given ? given == 2 : otherwise;
}

/* A preset's narrower dimensions belong to its width: another width drops them. */
static void fill(struct mq_transformer *t, const char *name, const struct options *o, const struct options *p)
{
	bool bert = !strcmp(name, "bert"), gpt = !strcmp(name, "gpt"), old = bert || gpt;
	bool wide = !o->hidden || o->hidden == p->hidden, same = !o->heads && wide;
	uint32_t kv_rank = mq_either(o->kv_rank, p->kv_rank);

	*t = (struct mq_transformer){
		.layers = mq_either(o->layers, p->layers),
		.hidden = mq_either(o->hidden, p->hidden),
		.heads = mq_either(o->heads, p->heads),
		.kv_heads = mq_either(o->kv_heads, same ? p->kv_heads : 0),
		.head_dim = o->head_dim,
		.ffn = mq_either(o->ffn, wide ? p->ffn : 0),
		.vocab = mq_either(o->vocab, p->vocab),
		.seq = mq_either(o->seq, p->seq),
		.experts = mq_either(o->experts, p->experts),
		.top_k = mq_either(o->top_k, p->top_k),
		.shared_ffn = mq_either(o->shared_ffn, wide ? p->shared_ffn : 0),
		.dense_layers = mq_either(o->dense_layers, p->dense_layers),
		.dense_ffn = mq_either(o->dense_ffn, wide ? p->dense_ffn : 0),
		.biases = flag(o->bias, old),
		.gated = flag(o->gated, !old),
		.clamp = flag(o->clamp, false),
		.yarn = flag(o->yarn, false),
		.window = o->window,
		.full_every = o->window ? 2 : 0,
		.rms = flag(o->rms, !old),
		.rotary = flag(o->rope, !old),
		.headless = !flag(o->head, true),
		.tied = flag(o->tied, p->tied == 2) && flag(o->head, true),
		.causal = flag(o->causal, !bert),
		.dropout = flag(o->dropout, old),
		.undropped = !flag(o->attention_dropout, true),
		.fused = o->fused_attention,
		.token_types = bert ? 2 : 0,
		.post_norm = bert,
		.pretrain_heads = bert,
		.span_head = o->task == TASK_SPAN,
		.predictions = o->predictions,
		.mtp = o->mtp,
		.sigmoid_router = o->sigmoid_router || p->sigmoid_router,
		.expert_groups = o->experts && o->experts != p->experts ? o->expert_groups :
									  mq_either(o->expert_groups, p->expert_groups),
		.group_limit = mq_either(o->group_limit, p->group_limit),
		.q_rank = mq_either(o->q_rank, p->q_rank),
		.kv_rank = kv_rank,
		.nope_dim = kv_rank ? 128 : 0,
		.rope_dim = kv_rank ? 64 : 0,
		.value_dim = kv_rank ? 128 : 0,
	};
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
	if ((o.experts || o.top_k || o.shared_ffn || o.dense_layers) && strcmp(name, "moe"))
		return mq_bad(err, "%s has no experts; use the model 'moe'", what);
	if (t.span_head && strcmp(name, "bert"))
		return mq_bad(err, "%s is not trained on spans; use the model 'bert'", what);
	if (t.headless && (t.mtp || t.pretrain_heads))
		return mq_bad(err, "%s: head=false beside %s", what, t.mtp ? "mtp" : "BERT's heads");
	if (!t.rotary) /* a learned table, as long as the sequences; BERT's has 512 rows */
		t.positions = request->seq ? request->seq : t.seq;
	if (t.token_types && t.positions < 512)
		t.positions = 512;
	return mq_transformer_build(&t, what, request, arena, model, err);
}

const struct mq_format mq_format_transformer = {
	.name = "transformer",
	.summary = "gpt, llama, moe, bert: transformers of one stack",
	.names = (const char *const[]){ "bert", "gpt", "llama", "moe", NULL },
	.opts = opts,
	.build = build,
};

/* transformer.c - the built-in transformers of one stack: gpt, llama, moe (Mixtral, DeepSeek-MoE), bert.
 *
 * Sizes are the published ones: GPT-3 (Brown et al. 2020) and Megatron-LM's scaling table (Narayanan et al. 2021,
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
	uint32_t task; /* enum task */
	/* 0 = as the size says, 1 = no, 2 = yes */
	uint32_t gated, rms, rope, bias, tied, head, dropout, attention_dropout, causal, clamp, yarn;
	bool fused_attention;
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

struct preset {
	struct mq_preset is; /* the first of a model is its default */
	uint32_t layers, hidden, heads, kv_heads, ffn, vocab, seq;
	uint32_t experts, top_k, shared_ffn, dense_layers, dense_ffn;
	bool tied;
	uint32_t expert_groups, group_limit; /* where routing is limited to some groups of experts */
	uint32_t q_rank, kv_rank;            /* latent attention, with heads of 128 + 64 and 128 */
};

#define GPT(s, l, h, a)                                                                                             \
	{                                                                                                           \
		.is = { "gpt", s }, .layers = l, .hidden = h, .heads = a, .vocab = 51200, .seq = 2048, .tied = true \
	}
#define LLAMA(s, l, h, a, kv, f, v, q) \
	.is = { "llama", s }, .layers = l, .hidden = h, .heads = a, .kv_heads = kv, .ffn = f, .vocab = v, .seq = q

#define MOE(s, l, h, a, kv, f, v, e, k)                                                                              \
	.is = { "moe", s }, .layers = l, .hidden = h, .heads = a, .kv_heads = kv, .ffn = f, .vocab = v, .seq = 4096, \
	.experts = e, .top_k = k
#define SHARED(f, dense, dense_f) .shared_ffn = f, .dense_layers = dense, .dense_ffn = dense_f
#define GROUPS(limit)             .q_rank = 1536, .kv_rank = 512, .expert_groups = 8, .group_limit = limit
#define BERT(s, l, h, a)                                                                                             \
	{                                                                                                            \
		.is = { "bert", s }, .layers = l, .hidden = h, .heads = a, .ffn = 4 * h, .vocab = 30522, .seq = 512, \
		.tied = true                                                                                         \
	}

static const struct preset presets[] = {
	GPT("1.3b", 24, 2048, 16),
	GPT("125m", 12, 768, 12),
	GPT("350m", 24, 1024, 16),
	GPT("760m", 24, 1536, 16),
	GPT("1.7b", 24, 2304, 24),
	GPT("2.7b", 32, 2560, 32),
	GPT("3.6b", 30, 3072, 32),
	GPT("6.7b", 32, 4096, 32),
	GPT("7.5b", 36, 4096, 32),
	GPT("13b", 40, 5120, 40),
	GPT("18b", 40, 6144, 48),
	GPT("22b", 48, 6144, 64),
	GPT("39b", 48, 8192, 64),
	GPT("76b", 60, 10240, 80),
	GPT("145b", 80, 12288, 96),
	GPT("175b", 96, 12288, 96),
	GPT("310b", 96, 16384, 128),
	GPT("530b", 105, 20480, 128),
	GPT("1t", 128, 25600, 160),
	{ LLAMA("8b", 32, 4096, 32, 8, 14336, 128256, 8192) },
	{ LLAMA("1b", 16, 2048, 32, 8, 8192, 128256, 8192), .tied = true },
	{ LLAMA("3b", 28, 3072, 24, 8, 8192, 128256, 8192), .tied = true },
	{ LLAMA("70b", 80, 8192, 64, 8, 28672, 128256, 8192) },
	{ LLAMA("405b", 126, 16384, 128, 8, 53248, 128256, 8192) },
	{ LLAMA("7b", 32, 4096, 32, 32, 11008, 32000, 4096) },
	{ LLAMA("13b", 40, 5120, 40, 40, 13824, 32000, 4096) },
	{ LLAMA("llama2-70b", 80, 8192, 64, 8, 28672, 32000, 4096) },
	{ MOE("8x7b", 32, 4096, 32, 8, 14336, 32000, 8, 2) },
	{ MOE("8x22b", 56, 6144, 48, 8, 16384, 32768, 8, 2) },
	{ MOE("deepseek-16b", 28, 2048, 16, 16, 1408, 102400, 64, 6), SHARED(2816, 1, 10944) },
	{ MOE("deepseek-v2-lite", 27, 2048, 16, 0, 1408, 102400, 64, 6), SHARED(2816, 1, 10944), .kv_rank = 512 },
	{ MOE("deepseek-v2", 60, 5120, 128, 0, 1536, 102400, 160, 6), SHARED(3072, 1, 12288), GROUPS(3) },
	{ MOE("deepseek-v3", 61, 7168, 128, 0, 2048, 129280, 256, 8), SHARED(2048, 3, 18432), GROUPS(4) },
	BERT("base", 12, 768, 12),
	BERT("large", 24, 1024, 16),
};

static bool flag(uint32_t given, bool otherwise)
{
	return given ? given == 2 : otherwise;
}

/* A preset's narrower dimensions belong to its width: another width drops them. */
static void fill(struct mq_transformer *t, const struct options *o, const struct preset *p)
{
	bool bert = !strcmp(p->is.model, "bert"), gpt = !strcmp(p->is.model, "gpt"), old = bert || gpt;
	bool wide = !o->hidden || o->hidden == p->hidden, same = !o->heads && wide;

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
		.tied = flag(o->tied, p->tied) && flag(o->head, true),
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
		.sigmoid_router = !strcmp(p->is.size, "deepseek-v3"),
		.expert_groups = o->experts && o->experts != p->experts ? 0 : p->expert_groups,
		.group_limit = p->group_limit,
		.q_rank = p->q_rank,
		.kv_rank = p->kv_rank,
		.nope_dim = p->kv_rank ? 128 : 0,
		.rope_dim = p->kv_rank ? 64 : 0,
		.value_dim = p->kv_rank ? 128 : 0,
	};
}

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	const char *what = mq_arena_printf(arena, "model '%s'", name);
	uint32_t row = 0;
	struct mq_transformer t;
	struct options o;

	mq_opt_defaults(opts, &o);
	MQ_TRY(mq_opt_parse(opts, &o, what, options, arena, err));
	MQ_TRY(mq_preset_find(MQ_PRESETS(presets), &(struct mq_preset){ name, o.size }, arena, &row, err));
	const struct preset *preset = &presets[row];
	fill(&t, &o, preset);
	t.name = options && *options ? mq_arena_printf(arena, "%s:%s", name, options) : name;
	if ((o.experts || o.top_k || o.shared_ffn || o.dense_layers) && strcmp(name, "moe"))
		return mq_fail(err, MQ_EINPUT, "%s has no experts; use the model 'moe'", what);
	if (t.span_head && strcmp(name, "bert"))
		return mq_fail(err, MQ_EINPUT, "%s is not trained on spans; use the model 'bert'", what);
	if (t.headless && (t.mtp || t.pretrain_heads))
		return mq_fail(err, MQ_EINPUT, "%s: head=false beside %s", what, t.mtp ? "mtp" : "BERT's heads");
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

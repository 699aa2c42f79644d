/* seq2seq.c - the built-in encoder-decoder transformers: t5 (Raffel et al. 2019), transformer (Vaswani et al. 2017,
 * base and big), bart (Lewis et al. 2019) and whisper (Radford et al. 2022).
 *
 * Layers are numbered over both stacks: encoder first, then decoder, whose blocks attend to the encoder's output. T5:
 * RMS norms before each part, no biases, a table of relative positions in the first attention of each stack, one
 * embedding for both sides and the head. transformer: layer norms after each part, biases in the MLP (and, as in most
 * code, in attention), fixed sine positions, one shared embedding. BART: as transformer, with GELU, learned positions
 * on each side and a norm after the embedding. Whisper: norms before each part, biases, GELU; its encoder reads 3000
 * frames of a spectrogram through two convolutions, the second with stride 2. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "model/builders/lib/preset.h"
#include "model/builders/lib/transformer.h"

struct options {
	struct mq_transformer t; /* first: options of its fields' names are these */
	const char *size;
	uint32_t decoder_layers, target, bins;
	uint32_t dropout; /* 0 auto, 1 no, 2 yes */
};

#define DIM(field, max, help) MQ_U32(struct mq_transformer, field, 0, 1, max, help)
#define OWN(field, max, help) MQ_U32(struct options, field, 0, 1, max, help)

static const struct mq_opt opts[] = {
	MQ_STR(struct options, size, NULL,
	       "t5: small base large 3b 11b; transformer: base big; bart: base large; "
	       "whisper: tiny base small medium large"),
	DIM(layers, 10000, "encoder blocks"),
	OWN(decoder_layers, 10000, "decoder blocks; default: as many as the encoder's"),
	DIM(hidden, 1e7, "width of the residual stream"),
	DIM(heads, 1e6, "attention heads"),
	DIM(head_dim, 1e6, "width of a head; default hidden / heads"),
	DIM(ffn, 1e8, "inner width of the feed-forward part; default 4 hidden"),
	DIM(vocab, 1e8, "vocabulary"),
	DIM(experts, 100000, "experts of a layer that has them (Switch; Fedus et al. 2022)"),
	DIM(top_k, 1000, "experts that a token visits"),
	DIM(capacity, 1e8, "tokens of a sample that an expert takes, the rest passes by it; default: all"),
	DIM(moe_every, 10000, "every so many blocks of a side have experts, from the last of these on"),
	DIM(seq, 1e8, "tokens that the encoder reads"),
	OWN(target, 1e8, "tokens that the decoder writes; default: as many as are read"),
	MQ_U32(struct options, bins, 80, 1, 1e5, "whisper: frequencies of a frame"),
	MQ_CHOICE(struct options, dropout, 0, "auto|false|true", "dropout; auto: yes"),
	MQ_BOOL(struct mq_transformer, gated, 0, "gated activation (T5 1.1): two matrices going up"),
	MQ_BOOL(struct mq_transformer, tied, 1, "the head uses the embedding's parameters"),
	MQ_FUSED_ATTENTION,
	MQ_END
};

enum {
	T5_BUCKETS = 32,           /* buckets of relative positions */
	BART_POSITIONS = 1024 + 2, /* learned positions, after two unused rows */
	WHISPER_TOKENS = 448,
};

/* Both stacks under construction. */
struct stacks {
	struct mq_net net;
	struct options o;
	bool t5, bart, whisper;
	double q; /* heads * head_dim */
};

static enum mq_status complete(struct stacks *s, struct options *p, const struct mq_model_request *request,
			       const char *what, struct mq_err *err)
{
	struct options *o = &s->o;
	struct mq_transformer *t = &o->t;
	bool wide = !t->hidden || t->hidden == p->t.hidden;

	if (!wide)
		p->t.ffn = 0;
	if (!wide || (t->heads && t->heads != p->t.heads))
		p->t.head_dim = 0;
	mq_preset_merge(opts, o, p);
	o->decoder_layers = mq_either(o->decoder_layers, t->layers);
	t->seq = request->seq ? request->seq : t->seq;
	o->target = mq_either(o->target, s->whisper ? WHISPER_TOKENS : t->seq);
	t->fused = mq_model_fuses(request, t->fused);
	t->post_norm = !s->t5 && !s->whisper;
	t->relu = !s->bart && !s->whisper;
	if (!t->experts && (t->top_k || t->capacity || t->moe_every))
		return mq_bad(err, "%s: top_k, capacity and moe_every are of experts; give experts=", what);
	t->top_k = t->experts ? mq_either(t->top_k, 1) : 0;
	if (t->moe_every && t->layers % t->moe_every) /* layers are counted on from the encoder to the decoder */
		return mq_bad(err, "%s: layers=%u is not a multiple of moe_every=%u", what, t->layers, t->moe_every);
	MQ_TRY(mq_transformer_check(t, what, err));
	s->q = (double)t->heads * t->head_dim;
	return MQ_OK;
}

static uint32_t cross_attention(struct stacks *s, uint32_t stream, uint32_t memory)
{
	const struct mq_transformer *t = &s->o.t;
	struct mq_net *net = &s->net;
	double rows = net->rows;
	const struct mq_attention a = {
		.heads = t->heads, .kv_heads = t->heads, .head_dim = t->head_dim, .keys = t->seq, .fused = t->fused
	};
	uint32_t x = t->post_norm ? stream : mq_net_norm(net, "norm2", stream, t->hidden);

	uint32_t q = mq_net_by_head(net, mq_net_gemm(net, "cross.q", x, t->hidden, s->q), t->heads, false);
	net->rows = t->seq;
	uint32_t kv = mq_net_by_head(net, mq_net_gemm(net, "cross.kv", memory, t->hidden, 2 * s->q), t->heads, false);
	net->rows = rows;
	x = mq_net_attention(net, "cross.attention", q, kv, &a);
	x = mq_net_gemm(net, "cross.proj", x, s->q, t->hidden);
	x = mq_net_residual(net, "residual2", x, stream, t->hidden);
	return t->post_norm ? mq_net_norm(net, "norm2", x, t->hidden) : x;
}

static void enter(struct stacks *s, uint32_t layer, const char *side, uint32_t index)
{
	s->net.layer = layer;
	s->net.prefix = mq_arena_printf(s->net.arena, "%s%u.", side, index);
	s->o.t.relative = s->t5 && !index ? T5_BUCKETS : 0;
}

static void leave(struct stacks *s, const char *prefix)
{
	s->net.layer = MQ_NONE;
	s->net.prefix = prefix;
}

/* Tokens and embedding of one side, with dropout; the table is the encoder's. */
static uint32_t embed(struct stacks *s, uint32_t owner)
{
	struct mq_net *net = &s->net;
	uint32_t id = mq_net_embedding(net, mq_net_tokens(net, "tokens"), s->o.t.vocab, s->o.t.hidden);
	struct mq_op *op = mq_net_at(net, id);

	if (owner != MQ_NONE)
		mq_net_tie(net, id, owner);
	if (net->dropout) {
		op->saved = op->output / 2;
		op->masks = op->output;
		op->write += op->output / 2;
		op->kernels = 2;
	}
	return id;
}

/* Two convolutions of width three over the frames, as GEMMs. */
static uint32_t listen(struct stacks *s)
{
	struct mq_net *net = &s->net;
	double h = s->o.t.hidden, bins = s->o.bins;

	net->rows = 2.0 * s->o.t.seq;
	uint32_t x = mq_net_gemm(net, "conv1", mq_net_tokens(net, "frames"), 3 * bins, h);
	mq_net_no_grad(net);
	x = mq_net_activation(net, "activation1", x, h, MQ_ACT_GELU);
	net->rows = s->o.t.seq;
	x = mq_net_gemm(net, "conv2", x, 3 * h, h);
	return mq_net_activation(net, "activation2", x, h, MQ_ACT_GELU);
}

/* After the embedding: learned positions, and in BART a norm. */
static uint32_t place(struct stacks *s, uint32_t embedding)
{
	struct mq_net *net = &s->net;

	if (!s->bart && !s->whisper)
		return embedding;
	/* backward: gradient of the table; the stream's passes unchanged */
	uint32_t id = mq_net_step(net, "position", embedding, s->o.t.hidden, &(struct mq_step){ 1, 1, 1, 1, 1, 0 });
	mq_net_at(net, id)->param = (s->bart ? fmax(net->rows + 2, BART_POSITIONS) : net->rows) * s->o.t.hidden;
	return s->bart ? mq_net_norm(net, "embedding.norm", id, s->o.t.hidden) : id;
}

/* The norm after the last block of a stack, unless each part has its norm behind it. */
static uint32_t last_norm(struct stacks *s, const char *prefix, uint32_t x)
{
	leave(s, prefix);
	return s->o.t.post_norm ? x : mq_net_norm(&s->net, "norm", x, s->o.t.hidden);
}

static uint32_t encode(struct stacks *s, uint32_t *embedding)
{
	const struct mq_transformer *t = &s->o.t;

	s->net.rows = t->seq;
	leave(s, "encoder.");
	*embedding = s->whisper ? MQ_NONE : embed(s, MQ_NONE);
	uint32_t x = place(s, s->whisper ? listen(s) : *embedding);
	for (uint32_t i = 0; i < t->layers; i++) {
		enter(s, i, "encoder", i);
		x = mq_transformer_part(&s->net, t, x, false, "1");
		x = mq_transformer_part(&s->net, t, x, true, "2");
	}
	return last_norm(s, "encoder.", x);
}

static uint32_t decode(struct stacks *s, uint32_t memory, uint32_t *embedding)
{
	struct mq_transformer *t = &s->o.t;

	s->net.rows = s->o.target;
	leave(s, "decoder.");
	uint32_t x = embed(s, *embedding);
	*embedding = *embedding == MQ_NONE ? x : *embedding;
	x = place(s, x);
	t->causal = true;
	for (uint32_t i = 0; i < s->o.decoder_layers; i++) {
		enter(s, t->layers + i, "decoder", i);
		x = mq_transformer_part(&s->net, t, x, false, "1");
		x = cross_attention(s, x, memory);
		x = mq_transformer_part(&s->net, t, x, true, "3");
	}
	return last_norm(s, "decoder.", x);
}

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	const char *what = mq_arena_printf(arena, "model '%s'", name);
	bool infer = request->train && request->train->infer, whisper = !strcmp(name, "whisper"),
	     t5 = !strcmp(name, "t5");
	struct stacks s = { .t5 = t5, .bart = !strcmp(name, "bart"), .whisper = whisper };
	struct options published = { 0 };
	uint32_t embedding;

	MQ_TRY(mq_preset_read(opts, name, options, &s.o, &published, arena, err));
	MQ_TRY(complete(&s, &published, request, what, err));
	mq_net_begin(&s.net, arena, mq_builtin_name(name, options, arena));
	s.net.rms = s.t5;
	s.net.biases = !s.t5;
	s.net.dropout = s.o.dropout != 1 && !infer;
	uint32_t memory = encode(&s, &embedding);
	uint32_t x = decode(&s, memory, &embedding);
	leave(&s, "");
	x = mq_transformer_head(&s.net, &s.o.t, x, embedding);
	if (!infer)
		mq_net_loss(&s.net, x, s.o.t.vocab);
	mq_transformer_describe(s.net.b.model, &s.o.t, s.o.t.layers + s.o.decoder_layers);
	s.net.b.model->tokens_per_sample = (double)s.o.t.seq + s.o.target;
	return mq_model_finish(&s.net.b, model, err);
}

const struct mq_builder mq_builder_seq2seq = {
	.summary = "t5, transformer, bart, whisper: encoder and decoder",
	.names = (const char *const[]){ "bart", "t5", "transformer", "whisper", NULL },
	.opts = opts,
	.build = build,
};

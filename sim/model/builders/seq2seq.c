/* seq2seq.c - the built-in encoder-decoder transformers: t5 (Raffel et al. 2019), transformer (Vaswani et al. 2017,
 * base and big), bart (Lewis et al. 2019) and whisper (Radford et al. 2022).
 *
 * Blocks are numbered through: encoder first, then decoder, whose blocks attend to the encoder's output. T5: RMS norms
 * before each part, no biases, a table of relative positions in the first attention of each stack, one embedding for
 * both sides and the head. Vaswani's: layer norms behind each part, biases in the feed-forward part (and, as in most
 * code, in attention), fixed sine positions, one shared embedding. BART: as Vaswani's, with GELU, learned positions on
 * each side and a norm behind the embedding. Whisper: norms before each part, biases, GELU; its encoder reads 3000 frames
 * of a spectrum through two convolutions, the second of which halves them. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "model/builders/lib/layers.h"
#include "model/builders/lib/preset.h"

struct options {
	const char *size;
	uint32_t layers, decoder_layers, hidden, heads, head_dim, ffn, vocab, seq, target, bins;
	uint32_t dropout; /* 0 auto, 1 no, 2 yes */
	bool gated, tied, fused_attention;
};

#define DIM(field, max, help) MQ_U32(struct options, field, 0, 1, max, help)

static const struct mq_opt opts[] = {
	MQ_STR(struct options, size, NULL,
	       "t5: small base large 3b 11b; transformer: base big; bart: base large; "
	       "whisper: tiny base small medium large"),
	DIM(layers, 10000, "encoder blocks"),
	DIM(decoder_layers, 10000, "decoder blocks; default: as many as the encoder's"),
	DIM(hidden, 1e7, "width of the residual stream"),
	DIM(heads, 1e6, "attention heads"),
	DIM(head_dim, 1e6, "width of a head; default hidden / heads"),
	DIM(ffn, 1e8, "inner width of the feed-forward part; default 4 hidden"),
	DIM(vocab, 1e8, "vocabulary"),
	DIM(seq, 1e8, "tokens that the encoder reads"),
	DIM(target, 1e8, "tokens that the decoder writes; default: as many as are read"),
	DIM(bins, 1e5, "whisper: frequencies of a frame; default 80"),
	MQ_CHOICE(struct options, dropout, 0, "auto|false|true", "dropout; auto: yes"),
	MQ_BOOL(struct options, gated, 0, "gated activation (T5 1.1): two matrices going up"),
	MQ_BOOL(struct options, tied, 1, "the head uses the embedding's parameters"),
	MQ_BOOL(struct options, fused_attention, 1, "attention that never stores its scores (flash)"),
	MQ_END
};

enum {
	T5_BUCKETS = 32,           /* relative positions that T5 tells apart */
	BART_POSITIONS = 1024 + 2, /* learned ones, behind two that are never looked up */
	WHISPER_TOKENS = 448,
	WHISPER_BINS = 80,
};

/* A stack under construction. */
struct stack {
	struct mq_net net;
	struct options o;
	bool t5, bart, whisper;
	bool pre; /* norms stand before each part */
	double q; /* heads * head_dim */
};

static enum mq_status complete(struct options *o, const struct options *p, const struct mq_model_request *request,
			       const char *what, struct mq_err *err)
{
	bool same = (!o->hidden || o->hidden == p->hidden) && (!o->heads || o->heads == p->heads);

	if (!o->head_dim && same)
		o->head_dim = p->head_dim;
	if (!o->ffn)
		o->ffn = !o->hidden || o->hidden == p->hidden ? p->ffn : 4 * o->hidden;
	o->layers = mq_either(o->layers, p->layers);
	o->decoder_layers = mq_either(o->decoder_layers, o->layers);
	o->hidden = mq_either(o->hidden, p->hidden);
	o->heads = mq_either(o->heads, p->heads);
	o->vocab = mq_either(o->vocab, p->vocab);
	o->fused_attention = mq_model_fuses(request, o->fused_attention);
	o->seq = request->seq ? request->seq : o->seq ? o->seq : p->seq;
	o->target = o->target ? o->target : o->seq;
	if (!o->head_dim && o->hidden % o->heads)
		return mq_bad(err, "%s: hidden=%u is not a multiple of heads=%u; change one, or give head_dim", what,
			      o->hidden, o->heads);
	if (!o->head_dim)
		o->head_dim = o->hidden / o->heads;
	return MQ_OK;
}

/* Normalises before a part (T5, Whisper), or passes the stream on. */
static uint32_t before(struct stack *s, const char *name, uint32_t stream)
{
	return s->pre ? mq_net_norm(&s->net, name, stream, s->o.hidden) : stream;
}

/* Adds a part's result to the stream, and normalises behind it (Vaswani). */
static uint32_t behind(struct stack *s, const char *index, uint32_t branch, uint32_t stream)
{
	stream = mq_net_residual(&s->net, mq_arena_printf(s->net.arena, "residual%s", index), branch, stream,
				 s->o.hidden);
	if (s->pre)
		return stream;
	return mq_net_norm(&s->net, mq_arena_printf(s->net.arena, "norm%s", index), stream, s->o.hidden);
}

static uint32_t self_attention(struct stack *s, uint32_t stream, bool causal, bool first)
{
	struct mq_net *net = &s->net;
	const struct mq_attention a = { .heads = s->o.heads,
					.kv_heads = s->o.heads,
					.head_dim = s->o.head_dim,
					.keys = net->rows,
					.causal = causal,
					.fused = s->o.fused_attention };
	uint32_t x = before(s, "norm1", stream);

	x = mq_net_by_head(net, mq_net_gemm(net, "qkv", x, s->o.hidden, 3 * s->q), s->o.heads, false);
	x = mq_net_attention(net, "attention", x, MQ_NONE, &a);
	if (s->t5 && first)
		mq_net_at(net, x)->param = (double)T5_BUCKETS * s->o.heads;
	x = mq_net_gemm(net, "proj", x, s->q, s->o.hidden);
	return behind(s, "1", x, stream);
}

static uint32_t cross_attention(struct stack *s, uint32_t stream, uint32_t memory)
{
	struct mq_net *net = &s->net;
	double rows = net->rows;
	const struct mq_attention a = { .heads = s->o.heads,
					.kv_heads = s->o.heads,
					.head_dim = s->o.head_dim,
					.keys = s->o.seq,
					.fused = s->o.fused_attention };
	uint32_t x = before(s, "norm2", stream);

	uint32_t q = mq_net_by_head(net, mq_net_gemm(net, "cross.q", x, s->o.hidden, s->q), s->o.heads, false);
	net->rows = s->o.seq;
	uint32_t kv =
		mq_net_by_head(net, mq_net_gemm(net, "cross.kv", memory, s->o.hidden, 2 * s->q), s->o.heads, false);
	net->rows = rows;
	x = mq_net_attention(net, "cross.attention", q, kv, &a);
	x = mq_net_gemm(net, "cross.proj", x, s->q, s->o.hidden);
	return behind(s, "2", x, stream);
}

static uint32_t feed_forward(struct stack *s, uint32_t stream, const char *index)
{
	struct mq_net *net = &s->net;
	uint32_t x = before(s, mq_arena_printf(net->arena, "norm%s", index), stream);

	x = mq_net_gemm(net, "up", x, s->o.hidden, s->o.gated ? 2.0 * s->o.ffn : s->o.ffn);
	x = mq_net_activation(net, "activation", x, s->o.ffn,
			      s->o.gated            ? MQ_ACT_GATED :
			      s->bart || s->whisper ? MQ_ACT_GELU :
						      MQ_ACT_RELU);
	x = mq_net_gemm(net, "down", x, s->o.ffn, s->o.hidden);
	return behind(s, index, x, stream);
}

static void enter(struct stack *s, uint32_t layer, const char *side, uint32_t index)
{
	s->net.layer = layer;
	s->net.prefix = mq_arena_printf(s->net.arena, "%s%u.", side, index);
}

static void leave(struct stack *s, const char *prefix)
{
	s->net.layer = MQ_NONE;
	s->net.prefix = prefix;
}

/* Tokens and embedding of one side, with dropout; the table is the encoder's. */
static uint32_t embed(struct stack *s, uint32_t owner)
{
	struct mq_net *net = &s->net;
	uint32_t id = mq_net_embedding(net, mq_net_tokens(net, "tokens"), s->o.vocab, s->o.hidden);
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

/* Two convolutions over three frames each, as GEMMs. */
static uint32_t listen(struct stack *s)
{
	struct mq_net *net = &s->net;
	double h = s->o.hidden, bins = s->o.bins;

	net->rows = 2.0 * s->o.seq;
	uint32_t x = mq_net_gemm(net, "conv1", mq_net_tokens(net, "frames"), 3 * bins, h);
	mq_net_no_grad(net);
	x = mq_net_activation(net, "activation1", x, h, MQ_ACT_GELU);
	net->rows = s->o.seq;
	x = mq_net_gemm(net, "conv2", x, 3 * h, h);
	return mq_net_activation(net, "activation2", x, h, MQ_ACT_GELU);
}

/* What comes behind the embedding: learned positions, and in BART a norm. */
static uint32_t place(struct stack *s, uint32_t embedding)
{
	struct mq_net *net = &s->net;

	if (!s->bart && !s->whisper)
		return embedding;
	/* backward: the table's gradient; the stream's passes through */
	uint32_t id = mq_net_step(net, "position", embedding, s->o.hidden, &(struct mq_step){ 1, 1, 1, 1, 1, 0 });
	mq_net_at(net, id)->param = (s->bart ? fmax(net->rows + 2, BART_POSITIONS) : net->rows) * s->o.hidden;
	return s->bart ? mq_net_norm(net, "embedding.norm", id, s->o.hidden) : id;
}

static uint32_t encode(struct stack *s, uint32_t *embedding)
{
	s->net.rows = s->o.seq;
	leave(s, "encoder.");
	*embedding = s->whisper ? MQ_NONE : embed(s, MQ_NONE);
	uint32_t x = place(s, s->whisper ? listen(s) : *embedding);
	for (uint32_t i = 0; i < s->o.layers; i++) {
		enter(s, i, "encoder", i);
		x = self_attention(s, x, false, !i);
		x = feed_forward(s, x, "2");
	}
	leave(s, "encoder.");
	return before(s, "norm", x);
}

static uint32_t decode(struct stack *s, uint32_t memory, uint32_t *embedding)
{
	s->net.rows = s->o.target;
	leave(s, "decoder.");
	uint32_t x = embed(s, *embedding);
	*embedding = *embedding == MQ_NONE ? x : *embedding;
	x = place(s, x);
	for (uint32_t i = 0; i < s->o.decoder_layers; i++) {
		enter(s, s->o.layers + i, "decoder", i);
		x = self_attention(s, x, true, !i);
		x = cross_attention(s, x, memory);
		x = feed_forward(s, x, "3");
	}
	leave(s, "decoder.");
	return before(s, "norm", x);
}

static uint32_t head(struct stack *s, uint32_t x, uint32_t embedding)
{
	leave(s, "");
	s->net.biases = false;
	x = mq_net_gemm(&s->net, "head", x, s->o.hidden, s->o.vocab);
	if (s->o.tied)
		mq_net_tie(&s->net, x, embedding);
	return x;
}

static void describe(const struct stack *s)
{
	struct mq_model *m = s->net.b.model;

	m->n_layers = s->o.layers + s->o.decoder_layers;
	m->tokens_per_sample = (double)s->o.seq + s->o.target;
	m->hidden = s->o.hidden;
	m->heads = m->kv_heads = s->o.heads;
	m->head_dim = s->o.head_dim;
	m->ffn = s->o.ffn;
	m->vocab = s->o.vocab;
	m->seq = s->o.seq;
	m->tied_embeddings = s->o.tied;
}

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	const char *what = mq_arena_printf(arena, "model '%s'", name);
	bool infer = request->train && request->train->infer, whisper = !strcmp(name, "whisper"),
	     t5 = !strcmp(name, "t5");
	struct stack s = { .t5 = t5, .bart = !strcmp(name, "bart"), .whisper = whisper, .pre = t5 || whisper };
	struct options published;
	uint32_t embedding;

	MQ_TRY(mq_preset_read(opts, name, options, &s.o, &published, arena, err));
	if (s.whisper && !s.o.target)
		s.o.target = WHISPER_TOKENS;
	s.o.bins = mq_either(s.o.bins, WHISPER_BINS);
	MQ_TRY(complete(&s.o, &published, request, what, err));
	s.q = (double)s.o.heads * s.o.head_dim;
	mq_net_begin(&s.net, arena, mq_builtin_name(name, options, arena));
	s.net.rms = s.t5;
	s.net.biases = !s.t5;
	s.net.dropout = s.o.dropout != 1 && !infer;
	uint32_t memory = encode(&s, &embedding);
	uint32_t x = decode(&s, memory, &embedding);
	x = head(&s, x, embedding);
	if (!infer)
		mq_net_loss(&s.net, x, s.o.vocab);
	describe(&s);
	return mq_model_finish(&s.net.b, model, err);
}

const struct mq_format mq_format_seq2seq = {
	.name = "seq2seq",
	.summary = "t5, transformer, bart, whisper: encoder and decoder",
	.names = (const char *const[]){ "bart", "t5", "transformer", "whisper", NULL },
	.opts = opts,
	.build = build,
};

/*
 * transformer_xl.c - the built-in Transformer-XL (Dai et al., "Transformer-XL: attentive language
 * models beyond a fixed-length context", ACL 2019): a decoder whose keys and values also come from
 * the stored hidden states of the segment before, with relative positions, and an adaptive softmax
 * (Grave et al., "Efficient softmax approximation for GPUs", 2017) over a large vocabulary of
 * words.
 *
 * Sizes are those of the authors' WikiText-103 models, and the base model with the widths that
 * NVIDIA's examples round to powers of two.
 *
 * Attention: scores are Q K' + Q R', R being the projected encodings of relative positions; the
 * second product ("position") is shifted row by row before the sum. One product makes Q, K and V
 * of memory and segment alike, as all published code does, although Q of the memory is not used.
 *
 * Adaptive softmax: the head has the most frequent words and one entry per cluster; only tokens
 * whose target lies in a cluster are multiplied with it. Words are taken to follow Zipf's law,
 * f(r) ~ r^-s.
 *
 * Kernels are those of the published code: nothing fuses shift, sum and mask of the scores, Q is
 * copied with either bias, and the gradients of the embedding from its look-up and from each
 * cluster are tensors of the whole table, set to zero and added up.
 *
 * Not modelled: the projection of the encodings, which is done once for the whole batch (its
 * parameters count with attention's), and the shuffling of tokens into clusters.
 */
#include <math.h>
#include <string.h>

#include "model/builders/lib/layers.h"
#include "model/builders/lib/preset.h"

enum { MAX_CLUSTERS = 4 }; /* the head among them */

struct options {
	const char *size;
	uint32_t layers, hidden, heads, head_dim, ffn, vocab, seq, memory, divide;
	double zipf;
	uint32_t dropout; /* 0 auto, 1 no, 2 yes */
	bool fused_attention;
};

#define DIM(field, max, help) MQ_U32(struct options, field, 0, 1, max, help)

static const struct mq_opt opts[] = { MQ_STR(struct options, size, NULL, "base large nvidia-base"),
				      DIM(layers, 10000, "blocks"),
				      DIM(hidden, 1e7, "width of the residual stream"),
				      DIM(heads, 1e6, "attention heads"),
				      DIM(head_dim, 1e6, "width of a head; default hidden / heads"),
				      DIM(ffn, 1e8, "inner width of the feed-forward part"),
				      DIM(vocab, 1e8, "vocabulary; clusters begin at 20, 40 and 200 thousand words"),
				      DIM(seq, 1e8, "tokens of a segment"),
				      DIM(memory, 1e8, "tokens before it that are attended to; default: as many"),
				      DIM(divide, 64, "embedding width of a cluster / that of the next"),
				      MQ_F64(struct options, zipf, 1.2, 0.5, 3, "Zipf's exponent of the words"),
				      MQ_CHOICE(struct options, dropout, 0, "auto|false|true", "dropout; auto: yes"),
				      MQ_BOOL(struct options, fused_attention, 0,
					      "attention that never stores its scores; published code stores them"),
				      MQ_END };

struct preset {
	struct mq_preset is; /* the first is the default */
	uint32_t layers, hidden, heads, head_dim, ffn, seq, divide;
	bool drop_scores; /* dropout of attention's probabilities */
};

static const struct preset presets[] = {
	{ { "transformer_xl", "base" }, 16, 410, 10, 41, 2100, 150, 1, false },
	{ { "transformer_xl", "large" }, 18, 1024, 16, 64, 4096, 384, 4, true },
	{ { "transformer_xl", "nvidia-base" }, 16, 512, 8, 64, 2048, 192, 1, false },
};

enum { VOCAB = 267735 }; /* words of WikiText-103 */

struct xl {
	struct mq_net net;
	struct options o;
	bool infer, drop_scores;
	double q;                                            /* heads * head_dim */
	uint32_t n_clusters;                                 /* with the head */
	double begin[MAX_CLUSTERS + 1];                      /* words of cluster i: begin[i] .. begin[i + 1] - 1 */
	double share[MAX_CLUSTERS];                          /* of the tokens */
	uint32_t table[MAX_CLUSTERS], project[MAX_CLUSTERS]; /* ops that own the embedding */
};

static enum mq_status complete(struct xl *x, const struct mq_model_request *request, struct mq_arena *arena,
			       struct mq_err *err)
{
	struct options *o = &x->o;
	uint32_t row = 0;

	MQ_TRY(mq_preset_find(MQ_PRESETS(presets), &(struct mq_preset){ "transformer_xl", o->size }, arena, &row, err));
	const struct preset *p = &presets[row];
	bool wide = !o->hidden || o->hidden == p->hidden;
	bool same = wide && (!o->heads || o->heads == p->heads);
	o->layers = mq_either(o->layers, p->layers);
	o->hidden = mq_either(o->hidden, p->hidden);
	o->heads = mq_either(o->heads, p->heads);
	o->ffn = mq_either(o->ffn, wide ? p->ffn : 4 * o->hidden);
	o->vocab = mq_either(o->vocab, VOCAB);
	o->seq = request->seq ? request->seq : mq_either(o->seq, p->seq);
	o->memory = mq_either(o->memory, o->seq);
	o->divide = mq_either(o->divide, p->divide);
	x->drop_scores = p->drop_scores;
	if (!o->head_dim && !same && o->hidden % o->heads)
		return mq_fail(err, MQ_EINPUT,
			       "model 'transformer_xl': hidden=%u is not a multiple "
			       "of heads=%u; change one, or give head_dim",
			       o->hidden, o->heads);
	if (!o->head_dim)
		o->head_dim = same ? p->head_dim : o->hidden / o->heads;
	return MQ_OK;
}

/* Integral of Zipf's law between two ranks, not normalised. */
static double zipf(double s, double from, double to)
{
	if (s == 1)
		return log(to / from);
	return (pow(from, 1 - s) - pow(to, 1 - s)) / (s - 1);
}

static void clusters(struct xl *x)
{
	static const double cuts[] = { 0, 20000, 40000, 200000 };
	double all = zipf(x->o.zipf, .5, x->o.vocab + .5);

	for (size_t i = 0; i < sizeof(cuts) / sizeof(*cuts); i++)
		if (cuts[i] < x->o.vocab)
			x->begin[x->n_clusters++] = cuts[i];
	x->begin[x->n_clusters] = x->o.vocab;
	/* so that head and cluster entries together are a round number */
	for (uint32_t i = 1; i < x->n_clusters; i++)
		x->begin[i] -= x->n_clusters - 1;
	for (uint32_t i = 0; i < x->n_clusters; i++)
		x->share[i] = zipf(x->o.zipf, x->begin[i] + .5, x->begin[i + 1] + .5) / all;
}

/* Narrower the rarer the words are; every cluster of an undivided table has the full width. */
static double width(const struct xl *x, uint32_t cluster)
{
	return fmax(floor(x->o.hidden / pow(x->o.divide, cluster)), 1);
}

static double words(const struct xl *x, uint32_t cluster)
{
	return x->begin[cluster + 1] - x->begin[cluster];
}

/* Ops from `first` on work on the tokens of a cluster, wherever these are in the segment. */
static void scatter(struct mq_net *net, uint32_t first)
{
	for (uint32_t id = first; id < net->b.model->n_ops; id++) {
		mq_net_at(net, id)->splits &= ~(1u << MQ_DIM_SEQ);
		mq_net_at(net, id)->extent[MQ_DIM_SEQ] = 0;
	}
}

/* An undivided table is one embedding; a divided one is looked up and projected cluster by
 * cluster. */
static uint32_t embed(struct xl *x, uint32_t tokens)
{
	struct mq_net *net = &x->net;
	double rows = net->rows, hidden = x->o.hidden;

	if (x->o.divide == 1) {
		uint32_t id = x->table[0] = mq_net_embedding(net, tokens, x->o.vocab, hidden);
		struct mq_op *op = mq_net_at(net, id);

		/* one gradient of the look-up and one per cluster set to zero; sums read two,
		 * write one */
		op->fixed_bwd = (1 + 4. * x->n_clusters) * op->param;
		return id;
	}
	uint32_t parts[MAX_CLUSTERS];
	for (uint32_t i = 0; i < x->n_clusters; i++) {
		net->prefix = mq_arena_printf(net->arena, "cluster%u.", i);
		net->rows = rows * x->share[i];
		x->table[i] = mq_net_embedding(net, tokens, words(x, i), width(x, i));
		/* the gradient of its look-up set to zero, then added to that of its logits */
		mq_net_at(net, x->table[i])->fixed_bwd = 4 * mq_net_at(net, x->table[i])->param;
		parts[i] = x->project[i] = mq_net_gemm(net, "project", x->table[i], width(x, i), hidden);
	}
	scatter(net, x->table[0]);
	net->prefix = "";
	net->rows = rows;
	uint32_t sum = mq_net_add(net, MQ_OP_RESHAPE, "embedding.gather");
	struct mq_op *op = mq_net_at(net, sum);
	op->read = op->write = op->output = rows * hidden;
	op->moved_bwd = 2 * rows * hidden;
	for (uint32_t i = 0; i < x->n_clusters; i++)
		mq_model_connect(&net->b, parts[i], sum, rows * x->share[i] * hidden);
	return sum;
}

/* Through dropout, which writes its mask. */
static uint32_t drop(struct xl *x, uint32_t id)
{
	struct mq_op *op = mq_net_at(&x->net, id);

	if (!x->net.dropout)
		return id;
	op->saved += op->output / 2;
	op->masks += op->output;
	op->write += op->output / 2;
	op->moved_bwd += op->output / 2;
	op->kernels += 1;
	return id;
}

/* Q with the bias of contents and Q with that of positions. */
static uint32_t biased_queries(struct xl *x, uint32_t qkv)
{
	struct mq_net *net = &x->net;
	uint32_t id = mq_net_add(net, MQ_OP_ELEMENTWISE, "queries");
	struct mq_op *op = mq_net_at(net, id);
	double elems = net->rows * x->q;

	op->flop = op->flop_bwd = 2 * elems;
	op->read = elems;
	op->write = op->output = 2 * elems;
	op->moved_bwd = 3 * elems;
	op->saved = elems; /* the other copy is kept as attention's Q */
	op->kernels = 2;
	op->splits |= 1u << MQ_DIM_HEAD;
	op->extent[MQ_DIM_HEAD] = x->o.heads;
	mq_net_join(net, qkv, id, x->q);
	return id;
}

/* Q R': the scores of relative positions, then shifted row by row: a copy behind a column of
 * zeros. */
static uint32_t position_scores(struct xl *x, uint32_t queries, double keys)
{
	struct mq_net *net = &x->net;
	uint32_t id = mq_net_add(net, MQ_OP_BMM, "position"), shift;
	struct mq_op *op = mq_net_at(net, id);
	double scores = net->rows * keys * x->o.heads;

	op->m = net->rows;
	op->n = keys;
	op->k = x->o.head_dim;
	op->count = x->o.heads;
	op->flop = 2 * scores * op->k;
	op->flop_bwd = 2 * op->flop;
	op->read = net->rows * x->q;
	op->write = op->output = scores;
	op->moved_bwd = 2 * (op->read + op->write);
	op->splits |= 1u << MQ_DIM_HEAD;
	op->extent[MQ_DIM_HEAD] = x->o.heads;
	mq_net_join(net, queries, id, x->q);
	shift = mq_net_add(net, MQ_OP_RESHAPE, "shift");
	op = mq_net_at(net, shift);
	op->read = op->write = op->output = scores;
	op->moved_bwd = 3 * scores; /* zeros, then a copy into them */
	op->kernels = 2;
	op->splits |= 1u << MQ_DIM_HEAD;
	op->extent[MQ_DIM_HEAD] = x->o.heads;
	mq_model_connect(&net->b, id, shift, scores);
	return shift;
}

/* Relative scores on top of plain attention: in one fused kernel half as many products again;
 * otherwise the sum is a kernel (reads both, writes one) and so is the mask. */
static void add_relative(struct xl *x, uint32_t attention, uint32_t qkv, double keys)
{
	struct mq_net *net = &x->net;
	double scores = net->rows * keys * x->o.heads;

	/* the encodings' projection, and once for all blocks the biases of Q */
	mq_net_at(net, attention)->param = x->o.hidden * x->q + (net->layer ? 0 : 2 * x->q);
	if (x->o.fused_attention) {
		mq_net_at(net, attention)->flop *= 1.5;
		mq_net_at(net, attention)->flop_bwd *= 1.5;
		return;
	}
	uint32_t shift = position_scores(x, biased_queries(x, qkv), keys);
	struct mq_op *op = mq_net_at(net, attention);
	op->read += 3 * scores;
	op->write += 2 * scores;
	op->moved_bwd += 4 * scores;
	op->kernels += 2;
	mq_model_connect(&net->b, shift, attention, scores);
}

static uint32_t attend(struct xl *x, uint32_t stream)
{
	struct mq_net *net = &x->net;
	double rows = net->rows, keys = rows + x->o.memory, hidden = x->o.hidden;
	const struct mq_attention a = {
		.heads = x->o.heads,
		.kv_heads = x->o.heads,
		.head_dim = x->o.head_dim,
		.keys = keys,
		.fused = x->o.fused_attention, /* masked, but not half of it */
	};
	bool dropout = net->dropout;

	/* memory and segment are put together; the memory needs no gradient */
	uint32_t both = mq_net_add(net, MQ_OP_RESHAPE, "memory");
	struct mq_op *op = mq_net_at(net, both);
	op->read = op->write = op->output = keys * hidden;
	op->saved = x->o.memory * hidden;
	op->moved_bwd = 2 * rows * hidden;
	mq_net_join(net, stream, both, hidden);
	net->rows = keys;
	net->biases = false;
	uint32_t qkv = mq_net_gemm(net, "qkv", both, hidden, 3 * x->q);
	mq_net_at(net, qkv)->splits |= 1u << MQ_DIM_HEAD;
	mq_net_at(net, qkv)->extent[MQ_DIM_HEAD] = x->o.heads;
	net->rows = rows;
	net->dropout = dropout && x->drop_scores;
	uint32_t id = mq_net_attention(net, "attention", qkv, MQ_NONE, &a);
	net->dropout = dropout;
	add_relative(x, id, qkv, keys);
	id = mq_net_gemm(net, "proj", id, x->q, hidden);
	net->biases = true;
	return id;
}

static uint32_t block(struct xl *x, uint32_t stream)
{
	struct mq_net *net = &x->net;
	double hidden = x->o.hidden, ffn = x->o.ffn;

	stream = mq_net_residual(net, "residual1", attend(x, stream), stream, hidden);
	stream = mq_net_norm(net, "norm1", stream, hidden);
	uint32_t up = mq_net_gemm(net, "up", stream, hidden, ffn);
	up = drop(x, mq_net_activation(net, "activation", up, ffn, MQ_ACT_RELU));
	uint32_t down = mq_net_gemm(net, "down", up, ffn, hidden);
	stream = mq_net_residual(net, "residual2", down, stream, hidden);
	return mq_net_norm(net, "norm2", stream, hidden);
}

/* The logits of one cluster, for the tokens whose target is there, and their loss. */
static void cluster(struct xl *x, uint32_t i, uint32_t stream)
{
	struct mq_net *net = &x->net;
	bool divided = x->o.divide > 1;
	double n = words(x, i) + (i ? 0 : x->n_clusters - 1), hidden = x->o.hidden;
	uint32_t first = net->b.model->n_ops;

	net->prefix = i ? mq_arena_printf(net->arena, "tail%u.", i) : "";
	net->rows = i ? x->o.seq * x->share[i] : x->o.seq;
	if (divided) {
		stream = mq_net_gemm(net, "narrow", stream, hidden, width(x, i));
		if (i) { /* the head's own projection is not tied */
			mq_net_at(net, stream)->param = 0;
			mq_net_at(net, stream)->tied = x->project[i];
		}
	}
	uint32_t head = mq_net_gemm(net, "head", stream, width(x, i), n);
	mq_net_at(net, head)->param = 0;
	mq_net_at(net, head)->tied = x->table[divided ? i : 0];
	/* the clusters' own rows in the head and all biases belong to no table */
	uint32_t bias = mq_net_add(net, MQ_OP_ELEMENTWISE, "head.bias");
	struct mq_op *op = mq_net_at(net, bias);
	op->param = n + (i ? 0 : (x->n_clusters - 1) * width(x, 0));
	op->output = net->rows * n;
	op->flop = op->flop_bwd = op->output;
	op->kernels = 0; /* added by the product itself: nothing moves */
	op->splits |= 1u << MQ_DIM_OUT;
	op->extent[MQ_DIM_OUT] = n;
	mq_net_join(net, head, bias, n);
	if (!x->infer)
		mq_net_loss(net, bias, n);
	if (i)
		scatter(net, first);
}

static void describe(const struct xl *x)
{
	struct mq_model *m = x->net.b.model;

	m->n_layers = x->o.layers;
	m->tokens_per_sample = m->seq = x->o.seq;
	m->hidden = x->o.hidden;
	m->heads = m->kv_heads = x->o.heads;
	m->head_dim = x->o.head_dim;
	m->ffn = x->o.ffn;
	m->vocab = x->o.vocab;
	m->tied_embeddings = true;
}

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	struct xl x = { .infer = request->train && request->train->infer };
	struct mq_net *net = &x.net;

	mq_opt_defaults(opts, &x.o);
	MQ_TRY(mq_opt_parse(opts, &x.o, "model 'transformer_xl'", options, arena, err));
	MQ_TRY(complete(&x, request, arena, err));
	x.q = (double)x.o.heads * x.o.head_dim;
	clusters(&x);
	mq_net_begin(net, arena, options && *options ? mq_arena_printf(arena, "%s:%s", name, options) : name);
	net->rows = x.o.seq;
	net->dropout = x.o.dropout != 1 && !x.infer;
	uint32_t stream = drop(&x, embed(&x, mq_net_tokens(net, "tokens")));
	net->biases = true;
	for (uint32_t i = 0; i < x.o.layers; i++) {
		net->layer = i;
		net->prefix = mq_arena_printf(arena, "layer%u.", i);
		stream = block(&x, stream);
	}
	net->layer = MQ_NONE;
	net->biases = false;
	for (uint32_t i = 0; i < x.n_clusters; i++)
		cluster(&x, i, stream);
	describe(&x);
	return mq_model_finish(&net->b, model, err);
}

const struct mq_format mq_format_transformer_xl = {
	.name = "transformer-xl",
	.summary = "transformer_xl: recurrence over segments, relative positions, adaptive softmax",
	.names = (const char *const[]){ "transformer_xl", NULL },
	.opts = opts,
	.build = build,
};

/*
 * gnmt.c - the built-in LSTM networks. gnmt: the translator (Wu et al. 2016) in the variant that
 * MLPerf and PipeDream train, with additive attention (Bahdanau et al. 2015) computed once per step
 * of the first decoder layer, whose context goes into every decoder layer above. rnnlm: a language
 * model (Zaremba et al. 2014).
 *
 * Encoder: a bidirectional layer, one of twice the input width, then plain ones; decoder: a first
 * layer that reads the embedding, the others [h; context]. From the third encoder and the third
 * decoder layer on, layers have a residual around them. Each LSTM has two bias vectors.
 * Not modelled: that the first decoder layer and attention alternate step by step (they are one op
 * after the other, with the same work).
 */
#include <string.h>

#include "model/builders/lib/layers.h"

struct options {
	uint32_t layers, hidden, vocab, seq, target;
	uint32_t dropout;
};

static const struct mq_opt opts[] = {
	MQ_U32(struct options, layers, 8, 2, 1000, "LSTM layers of the encoder, and of the decoder; rnnlm: 2"),
	MQ_U32(struct options, hidden, 1024, 1, 1e6, "width of the LSTMs; rnnlm: 2048"),
	MQ_U32(struct options, vocab, 32000, 1, 1e8, "vocabulary; rnnlm: 10000"),
	MQ_U32(struct options, seq, 50, 1, 1e6, "tokens that the encoder reads; rnnlm: 40"),
	MQ_U32(struct options, target, 0, 1, 1e6, "tokens that the decoder writes; default: as many"),
	MQ_CHOICE(struct options, dropout, 0, "auto|false|true", "dropout; auto: yes"),
	MQ_END
};

static const double GATES = 4;

/* One direction of one layer over the whole sequence. */
static uint32_t lstm(struct mq_net *net, const char *name, double inputs, double hidden)
{
	uint32_t id = mq_net_add(net, MQ_OP_RECURRENT, name);
	struct mq_op *op = mq_net_at(net, id);

	op->splits = 1u << MQ_DIM_BATCH | 1u << MQ_DIM_OUT; /* steps are serial */
	op->extent[MQ_DIM_SEQ] = 0;
	op->extent[MQ_DIM_OUT] = hidden;
	op->m = net->rows;
	op->n = GATES * hidden;
	op->k = inputs + hidden;
	op->count = 1;
	op->param = op->n * op->k + 2 * op->n;
	op->flop = (2 * op->k + 2) * op->n * op->m;
	op->flop_bwd = 2 * op->flop;
	op->read = net->rows * inputs;
	op->write = op->output = net->rows * hidden;
	op->moved_bwd = 2 * (op->read + op->write) + 2 * GATES * op->write;
	op->saved = net->rows * (inputs + (GATES + 2) * hidden); /* input, gates, cell, output */
	return id;
}

static uint32_t encoder(struct mq_net *net, const struct options *o, uint32_t x)
{
	double h = o->hidden;

	for (uint32_t i = 0; i < o->layers; i++) {
		uint32_t in = x, forward;

		net->layer = i;
		net->prefix = mq_arena_printf(net->arena, "encoder%u.", i);
		if (!i) { /* two directions side by side; the next layer reads both */
			forward = lstm(net, "forward", h, h);
			x = lstm(net, "backward", h, h);
			mq_net_join(net, in, forward, h);
			mq_net_join(net, in, x, h);
			uint32_t both = mq_net_add(net, MQ_OP_RESHAPE, "concat");
			struct mq_op *op = mq_net_at(net, both);
			op->read = op->write = op->output = 2 * net->rows * h;
			op->moved_bwd = 2 * op->read;
			mq_net_join(net, forward, both, h);
			mq_net_join(net, x, both, h);
			x = both;
			continue;
		}
		x = lstm(net, "lstm", i == 1 ? 2 * h : h, h);
		mq_net_join(net, in, x, i == 1 ? 2 * h : h);
		if (i > 1)
			x = mq_net_residual(net, "residual", x, in, h);
	}
	return x;
}

/* Scores v' tanh(W q + U k) of every pair of steps: a tensor of rows x keys x hidden is stored. */
static uint32_t attention(struct mq_net *net, const struct options *o, uint32_t query, uint32_t memory)
{
	double h = o->hidden, rows = net->rows, keys = o->seq;

	uint32_t q = mq_net_gemm(net, "attention.q", query, h, h);
	net->rows = keys;
	uint32_t k = mq_net_gemm(net, "attention.k", memory, h, h);
	net->rows = rows;
	uint32_t id = mq_net_add(net, MQ_OP_ELEMENTWISE, "attention");
	struct mq_op *op = mq_net_at(net, id);
	double pairs = rows * keys;
	op->param = h;                          /* v */
	op->flop = pairs * (4 * h + 5 + 2 * h); /* add, tanh, times v; softmax; weighted sum */
	op->flop_bwd = 2 * op->flop;
	op->read = rows * h + 2 * keys * h + 2 * pairs * h;
	op->write = pairs * h + pairs + rows * h;
	op->output = rows * h;
	op->moved_bwd = 3 * pairs * h + 2 * (rows + 2 * keys) * h;
	op->saved = pairs * h + pairs + (rows + keys) * h;
	op->kernels = 5;
	mq_net_join(net, q, id, h);
	mq_model_connect(&net->b, k, id, keys * h);
	mq_model_connect(&net->b, memory, id, keys * h);
	return id;
}

static uint32_t decoder(struct mq_net *net, const struct options *o, uint32_t x, uint32_t memory)
{
	double h = o->hidden;
	uint32_t context = MQ_NONE;

	for (uint32_t i = 0; i < o->layers; i++) {
		uint32_t in = x;

		net->layer = o->layers + i;
		net->prefix = mq_arena_printf(net->arena, "decoder%u.", i);
		x = lstm(net, "lstm", i ? 2 * h : h, h);
		mq_net_join(net, in, x, h);
		if (!i)
			context = attention(net, o, x, memory);
		else
			mq_net_join(net, context, x, h);
		if (i > 1)
			x = mq_net_residual(net, "residual", x, in, h);
	}
	return x;
}

static uint32_t embed(struct mq_net *net, const struct options *o, const char *prefix, double rows)
{
	net->rows = rows;
	net->layer = MQ_NONE;
	net->prefix = prefix;
	return mq_net_embedding(net, mq_net_tokens(net, "tokens"), o->vocab, o->hidden);
}

/* Language model of Zaremba et al. 2014: embedding, LSTM layers, classifier over the vocabulary. */
static uint32_t language_model(struct mq_net *net, const struct options *o)
{
	uint32_t x = embed(net, o, "", o->seq);

	for (uint32_t i = 0; i < o->layers; i++) {
		uint32_t in = x;

		net->layer = i;
		net->prefix = mq_arena_printf(net->arena, "layer%u.", i);
		x = lstm(net, "lstm", o->hidden, o->hidden);
		mq_net_join(net, in, x, o->hidden);
	}
	return x;
}

static uint32_t translator(struct mq_net *net, const struct options *o)
{
	uint32_t memory = encoder(net, o, embed(net, o, "encoder.", o->seq));
	uint32_t x = embed(net, o, "decoder.", o->target);

	return decoder(net, o, x, memory);
}

/* rnnlm: the sizes that FlexFlow and PaSE search over. */
static void defaults(struct options *o, bool translates)
{
	mq_opt_defaults(opts, o);
	if (translates)
		return;
	o->layers = 2;
	o->hidden = 2048;
	o->vocab = 10000;
	o->seq = 40;
}

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	bool infer = request->train && request->train->infer, translates = !strcmp(name, "gnmt");
	const char *what = mq_arena_printf(arena, "model '%s'", name);
	struct options o;
	struct mq_net net;

	defaults(&o, translates);
	MQ_TRY(mq_opt_parse(opts, &o, what, options, arena, err));
	o.seq = request->seq ? request->seq : o.seq;
	o.target = o.target ? o.target : o.seq;
	mq_net_begin(&net, arena, options && *options ? mq_arena_printf(arena, "%s:%s", name, options) : name);
	net.dropout = o.dropout != 1 && !infer;
	uint32_t x = translates ? translator(&net, &o) : language_model(&net, &o);
	net.layer = MQ_NONE;
	net.prefix = "";
	net.biases = true;
	x = mq_net_gemm(&net, "classifier", x, o.hidden, o.vocab);
	if (!infer)
		mq_net_loss(&net, x, o.vocab);
	net.b.model->n_layers = translates ? 2 * o.layers : o.layers;
	net.b.model->tokens_per_sample = (double)o.seq + (translates ? o.target : 0);
	net.b.model->hidden = o.hidden;
	net.b.model->vocab = o.vocab;
	net.b.model->seq = o.seq;
	return mq_model_finish(&net.b, model, err);
}

const struct mq_format mq_format_gnmt = {
	.name = "gnmt",
	.summary = "gnmt, rnnlm: LSTM translator with attention, LSTM language model",
	.names = (const char *const[]){ "gnmt", "rnnlm", NULL },
	.opts = opts,
	.build = build,
};

/* electra.c - the built-in ELECTRA (Clark et al., "ELECTRA: pre-training text encoders as discriminators rather than
 * generators", ICLR 2020): a narrow BERT, the generator, fills in masked tokens; a wide one, the discriminator, tells
 * for every token whether it was replaced. Both share one embedding. Fine-tuning (task=span) trains the discriminator
 * alone.
 *
 * Sizes are the released ones (table 6 there): the generator has the discriminator's layers, a third or a quarter of
 * its width, heads of 64. The vocabulary's logits are wanted for masked tokens only; the implementations of Hugging
 * Face and NVIDIA make them for all and then choose (logits=all).
 *
 * Blocks are numbered through: the generator's first. Not modelled: which tokens are masked is drawn on the device in a
 * few small kernels. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/builders/lib/transformer.h"
#include "model/builders/lib/preset.h"

enum task { TASK_PRETRAIN, TASK_SPAN };
enum logits { LOGITS_MASKED, LOGITS_ALL };

struct options {
	struct mq_transformer t; /* first: options of its fields' names are these */
	const char *size;
	uint32_t embedding, generator;
	uint32_t task, logits;
	uint32_t dropout; /* 0 auto, 1 no, 2 yes */
};

enum { HEAD_DIM = 64, POSITIONS = 512, SEGMENTS = 2, VOCAB = 30522 };

#define DIM(field, max, help) MQ_U32(struct mq_transformer, field, 0, 1, max, help)
#define OWN(field, max, help) MQ_U32(struct options, field, 0, 1, max, help)

static const struct mq_opt opts[] = {
	MQ_STR(struct options, size, NULL, "base small large"),
	DIM(layers, 10000, "blocks of the discriminator, and of the generator"),
	DIM(hidden, 1e7, "width of the discriminator"),
	DIM(heads, 1e6, "its attention heads"),
	DIM(ffn, 1e8, "its inner feed-forward width; default 4 hidden"),
	OWN(embedding, 1e7, "width of the shared embedding"),
	OWN(generator, 1e7, "width of the generator, a multiple of its heads' 64"),
	DIM(vocab, 1e8, "vocabulary"),
	DIM(seq, 1e8, "tokens of a sequence"),
	DIM(predictions, 1e8, "masked tokens; default 15 %"),
	MQ_CHOICE(struct options, task, TASK_PRETRAIN, "pretrain|span",
		  "what is trained; span: question answering (SQuAD), the discriminator alone"),
	MQ_CHOICE(struct options, logits, LOGITS_MASKED, "masked|all", "tokens for which the generator makes logits"),
	MQ_CHOICE(struct options, dropout, 0, "auto|false|true", "dropout; auto: yes"),
	MQ_FUSED_ATTENTION,
	MQ_END
};

struct electra {
	struct mq_net net;
	struct options o;
	struct mq_transformer table, generator, discriminator; /* table: the embedding they share */
	uint32_t embedding, positions, norm;                   /* ops that own it; MQ_NONE before they exist */
};

/* What the user leaves open; of another width only the layers stay published. */
static enum mq_status complete(struct options *o, struct options *p, const struct mq_model_request *request,
			       struct mq_err *err)
{
	struct mq_transformer *t = &o->t;

	if (t->hidden && t->hidden != p->t.hidden) {
		p->t.heads = t->hidden / HEAD_DIM;
		p->embedding = t->hidden;
		p->generator = HEAD_DIM;
	}
	p->t.vocab = VOCAB;
	p->t.seq = POSITIONS;
	mq_preset_merge(opts, o, p);
	t->fused = mq_model_fuses(request, t->fused);
	t->seq = request->seq ? request->seq : t->seq;
	t->predictions = mq_either(t->predictions, (uint32_t)fmax(round(.15 * t->seq), 1));
	t->positions = t->seq > POSITIONS ? t->seq : POSITIONS;
	t->token_types = SEGMENTS;
	t->biases = t->tied = t->post_norm = true;
	if (o->generator % HEAD_DIM)
		return mq_bad(err, "model 'electra': generator=%u is not a multiple of %d, the width of its heads",
			      o->generator, HEAD_DIM);
	return MQ_OK;
}

static struct mq_transformer stack(const struct mq_transformer *like, uint32_t hidden, uint32_t heads)
{
	struct mq_transformer t = *like;

	t.hidden = hidden;
	t.heads = heads;
	t.ffn = 0;
	return t;
}

static enum mq_status stacks(struct electra *e, struct mq_err *err)
{
	const struct options *o = &e->o;

	e->table = stack(&o->t, o->embedding, 1);
	e->discriminator = o->t;
	e->generator = stack(&o->t, o->generator, o->generator / HEAD_DIM);
	MQ_TRY(mq_transformer_check(&e->table, "model 'electra'", err));
	MQ_TRY(mq_transformer_check(&e->discriminator, "model 'electra'", err));
	return mq_transformer_check(&e->generator, "model 'electra', generator", err);
}

/* Both stacks look up the same table; the second names the first as the owner. Positions come next to the embedding. */
static uint32_t embed(struct electra *e, uint32_t tokens, uint32_t width)
{
	uint32_t embedding, norm = mq_transformer_embed(&e->net, &e->table, tokens, &embedding);

	if (e->embedding == MQ_NONE) {
		e->embedding = embedding;
		e->positions = embedding + 1;
		e->norm = norm;
	} else {
		mq_net_tie(&e->net, embedding, e->embedding);
		mq_net_tie(&e->net, embedding + 1, e->positions);
		mq_net_tie(&e->net, norm, e->norm);
	}
	if (e->o.embedding == width)
		return norm;
	return mq_net_gemm(&e->net, "project", norm, e->o.embedding, width);
}

/* The logits of all tokens are made, those of the masked ones copied out; backwards a tensor of
 * zeros takes their gradient back. */
static uint32_t choose(struct electra *e, uint32_t logits)
{
	struct mq_net *net = &e->net;
	double all = net->rows * e->o.t.vocab, chosen = (double)e->o.t.predictions * e->o.t.vocab;

	net->rows = e->o.t.predictions;
	uint32_t id = mq_net_add(net, MQ_OP_RESHAPE, "choose");
	struct mq_op *op = mq_net_at(net, id);
	op->read = op->write = op->output = chosen;
	op->moved_bwd = all + 2 * chosen;
	mq_model_connect(&net->b, logits, id, all);
	return id;
}

/* One token is drawn from each masked one's distribution: noise is added to the logits, their
 * softmax and its maximum are taken. Nothing flows back. Returns what the discriminator reads. */
static uint32_t sample(struct electra *e, uint32_t logits)
{
	struct mq_net *net = &e->net;
	uint32_t id = mq_net_step(net, "sample", logits, e->o.t.vocab, &(struct mq_step){ 8, 0, 2, 1, 0, 0 });

	mq_net_at(net, id)->kernels = 4;
	mq_net_at(net, id)->output = e->o.t.seq;
	mq_net_no_grad(net);
	net->rows = e->o.t.seq;
	return id;
}

static uint32_t generate(struct electra *e, uint32_t tokens)
{
	struct mq_net *net = &e->net;

	net->prefix = "generator.";
	uint32_t x = embed(e, tokens, e->o.generator);
	x = mq_transformer_blocks(net, &e->generator, "generator.", 0, x);
	if (e->o.logits == LOGITS_MASKED)
		net->rows = e->o.t.predictions;
	x = mq_transformer_predict(net, &e->table, "mlm", e->o.generator, x, e->embedding);
	if (e->o.logits == LOGITS_ALL)
		x = choose(e, x);
	mq_net_loss(net, x, e->o.t.vocab);
	return sample(e, x);
}

/* Was this token replaced? */
static uint32_t detect(struct electra *e, uint32_t x)
{
	struct mq_net *net = &e->net;
	double hidden = e->o.t.hidden;

	x = mq_net_gemm(net, "detect.transform", x, hidden, hidden);
	x = mq_net_activation(net, "detect.activation", x, hidden, MQ_ACT_GELU);
	return mq_net_gemm(net, "detect", x, hidden, 1);
}

static void discriminate(struct electra *e, uint32_t tokens, uint32_t first, bool infer)
{
	struct mq_net *net = &e->net;
	bool span = e->o.task == TASK_SPAN;

	net->prefix = "discriminator.";
	uint32_t x = embed(e, tokens, e->o.t.hidden);
	x = mq_transformer_blocks(net, &e->discriminator, "discriminator.", first, x);
	x = span ? mq_transformer_span(net, &e->discriminator, x) : detect(e, x);
	if (!infer)
		mq_net_loss(net, x, span ? 2 : 1);
}

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	bool infer = request->train && request->train->infer, both;
	struct electra e = { .embedding = MQ_NONE };
	struct options published = { 0 };

	MQ_TRY(mq_preset_read(opts, name, options, &e.o, &published, arena, err));
	MQ_TRY(complete(&e.o, &published, request, err));
	MQ_TRY(stacks(&e, err));
	mq_net_begin(&e.net, arena, mq_builtin_name(name, options, arena));
	e.net.rows = e.o.t.seq;
	e.net.biases = true;
	e.net.dropout = e.o.dropout != 1 && !infer;
	both = e.o.task == TASK_PRETRAIN && !infer; /* what is used in the end is the discriminator */
	uint32_t tokens = mq_net_tokens(&e.net, "tokens");
	if (both)
		tokens = generate(&e, tokens);
	discriminate(&e, tokens, both ? e.o.t.layers : 0, infer);
	mq_transformer_describe(e.net.b.model, &e.discriminator, both ? 2 * e.o.t.layers : e.o.t.layers);
	return mq_model_finish(&e.net.b, model, err);
}

const struct mq_format mq_format_electra = {
	.name = "electra",
	.summary = "electra: a generator and a discriminator on one embedding",
	.names = (const char *const[]){ "electra", NULL },
	.opts = opts,
	.build = build,
};

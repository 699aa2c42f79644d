/* transformer_model.c - a whole model: embedding, encoders, blocks, heads and losses; see transformer.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/builders/lib/tower.h"

/* Adds learned positions and segments to the embedding, with dropout. */
static uint32_t add_positions(struct mq_net *net, const struct mq_transformer *t, uint32_t embedding)
{
	double mask = net->dropout ? .5 : 0, flop = t->token_types ? 2 : 1;
	const struct mq_step step = { flop, flop, 1, 1 + mask, 2 + mask, mask };
	uint32_t id = mq_net_step(net, "position", embedding, t->hidden, &step);
	struct mq_op *op = mq_net_at(net, id);

	op->param = ((double)t->positions + t->token_types) * t->hidden;
	op->masks = 2 * op->saved;
	op->kernels = 1 + (t->token_types ? 2 : 0) + net->dropout;
	return id;
}

uint32_t mq_transformer_head(struct mq_net *net, const struct mq_transformer *t, uint32_t input, uint32_t embedding)
{
	bool biases = net->biases;

	net->biases = false;
	uint32_t id = mq_net_gemm(net, "head", input, t->hidden, t->vocab);
	net->biases = biases;
	if (t->tied)
		mq_net_tie(net, id, embedding);
	return id;
}

/* BERT's heads: pooler and next-sentence classifier read the first token alone; a dense layer and a norm precede the
 * prediction of masked tokens. */
static uint32_t pretrain_heads(struct mq_net *net, const struct mq_transformer *t, uint32_t stream, uint32_t embedding)
{
	uint32_t pooler = mq_net_gemm_once(net, "pooler", stream, t->hidden, t->hidden);

	mq_net_gemm_once(net, "next_sentence", pooler, t->hidden, 2);
	net->rows = t->predictions ? t->predictions : fmax(round(.15 * net->rows), 1);
	uint32_t x = mq_net_gemm(net, "mlm.transform", stream, t->hidden, t->hidden);
	x = mq_net_activation(net, "mlm.activation", x, t->hidden, MQ_ACT_GELU);
	x = mq_net_norm(net, "mlm.norm", x, t->hidden);
	x = mq_transformer_head(net, t, x, embedding);
	/* The bias over the vocabulary is not tied, so a separate op owns it. */
	x = mq_net_step(net, "mlm.bias", x, t->vocab, &(struct mq_step){ .flop = 1, .flop_bwd = 1 });
	struct mq_op *op = mq_net_at(net, x);
	op->param = t->vocab;
	op->kernels = 0; /* part of the GEMM: moves no bytes */
	op->splits |= 1u << MQ_DIM_OUT;
	op->extent[MQ_DIM_OUT] = t->vocab;
	return x;
}

/* One depth d of multi-token prediction: predicts the token d + 1 positions ahead from the stream of depth d - 1 and
 * the embedding of the token before it (DeepSeek-V3 technical report, 2.2). It is on the last stage. */
static uint32_t predict_next(struct mq_net *net, const struct mq_transformer *t, uint32_t stream, uint32_t embedding,
			     uint32_t weights_of_head)
{
	const char *pattern = t->pattern ? "*E" : NULL;
	const char *prefix = net->prefix;
	uint32_t next = mq_net_embedding(net, mq_net_tokens(net, "tokens"), t->vocab, t->hidden);

	mq_net_tie(net, next, embedding);
	uint32_t a = mq_net_norm(net, "norm.stream", stream, t->hidden);
	uint32_t b = mq_net_norm(net, "norm.embedding", next, t->hidden);
	uint32_t x = mq_net_gemm(net, "project", a, 2.0 * t->hidden, t->hidden);
	net->b.model->edge[net->b.model->n_edges - 1].elems /= 2; /* the other half is b */
	mq_net_join(net, b, x, t->hidden);
	for (const char *p = pattern; p && *p; p++) {
		net->prefix = mq_arena_printf(net->arena, "%s%u.", prefix, (unsigned)(p - pattern));
		x = mq_transformer_layer(net, t, *p, x);
	}
	net->prefix = prefix;
	if (!pattern)
		x = mq_transformer_layer(net, t, 0, x);
	uint32_t logits = mq_transformer_head(net, t, mq_net_norm(net, "final.norm", x, t->hidden), embedding);
	mq_net_tie(net, logits, weights_of_head);
	mq_net_loss(net, logits, t->vocab);
	return x;
}

static void predict_further(struct mq_net *net, const struct mq_transformer *t, uint32_t stream, uint32_t embedding,
			    uint32_t main_head)
{
	uint32_t owner = mq_net_at(net, main_head)->tied, first = net->b.model->n_ops;

	for (uint32_t d = 1; d <= t->mtp; d++) {
		uint32_t start = net->b.model->n_ops;

		net->prefix = mq_arena_printf(net->arena, "mtp%u.", d);
		stream = predict_next(net, t, stream, embedding, owner != MQ_NONE ? owner : main_head);
		for (uint32_t i = start; i < net->b.model->n_ops && t->mtp_shared && d > 1; i++)
			if (mq_net_at(net, i)->param > 0) /* the weights of the op as many ids before it */
				mq_net_tie(net, i, i - (start - first));
	}
	net->prefix = "";
}

/* The all-to-all moves one copy of a token per expert that it visits. */
static void count_copies(struct mq_model *m, uint32_t top_k)
{
	for (uint32_t i = 0; i < m->n_edges; i++) {
		struct mq_edge *e = &m->edge[i];

		if (m->op[e->src].kind == MQ_OP_COMBINE ||
		    (m->op[e->dst].kind == MQ_OP_DISPATCH && m->op[e->src].kind != MQ_OP_ROUTER))
			e->elems *= top_k;
	}
}

/* The vectors of text and image, and the softmax (or sigmoids) over all pairs of a device's samples. */
static void pair(struct mq_net *net, const struct mq_transformer *t, uint32_t text, bool infer)
{
	double rows = net->rows, width = t->contrast;

	net->rows = 1;
	net->biases = !t->causal; /* SigLIP's */
	text = mq_net_gemm(net, "projection", text, t->hidden, width);
	net->rows = rows;
	uint32_t image = mq_net_image_vector(net, *t->towers, width, !t->causal);
	if (infer)
		return;
	uint32_t loss = mq_net_add(net, MQ_OP_LOSS, "loss");
	struct mq_op *op = mq_net_at(net, loss);
	op->flop = op->flop_bwd = op->read = 2 * width;
	op->moved_bwd = 4 * width;
	op->output = 1;
	op->kernels = 3;
	mq_model_connect(&net->b, text, loss, width);
	mq_model_connect(&net->b, image, loss, width);
}

enum mq_status mq_transformer_build(struct mq_transformer *t, const char *what, const struct mq_model_request *request,
				    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	bool infer = request->train && request->train->infer;
	struct mq_net net;

	if (request->seq)
		t->seq = request->seq;
	t->fused = mq_model_fuses(request, t->fused);
	MQ_TRY(mq_transformer_check(t, what, err));
	mq_net_begin(&net, arena, t->name);
	net.rows = t->seq;
	net.dropout = t->dropout && !infer;
	net.biases = t->biases;
	net.rms = t->rms;
	uint32_t embedding = mq_net_embedding(&net, mq_net_tokens(&net, "tokens"), t->vocab, t->hidden), x = embedding;
	if (t->positions || t->token_types)
		x = add_positions(&net, t, x);
	if (t->post_norm || t->embedding_norm)
		x = mq_net_norm(&net, "embedding.norm", x, t->hidden);
	for (const struct mq_tower *const *tower = t->towers; tower && *tower && !t->contrast; tower++)
		x = mq_net_tower(&net, *tower, x, t->hidden);
	uint32_t stream = mq_transformer_blocks(&net, t, 0, x);
	x = stream;
	if (!t->post_norm)
		x = mq_net_norm(&net, "final.norm", x, t->hidden);
	if (t->contrast)
		pair(&net, t, x, infer);
	else if (t->span_head)
		x = mq_net_gemm(&net, "span", x, t->hidden, 2); /* start and end of the answer */
	else if (t->pretrain_heads)
		x = pretrain_heads(&net, t, x, embedding);
	else if (!t->headless)
		x = mq_transformer_head(&net, t, x, embedding);
	if (!infer && !t->contrast) {
		mq_net_loss(&net, x, t->span_head ? 2 : t->headless ? t->hidden : t->vocab);
		predict_further(&net, t, stream, embedding, x);
	}
	count_copies(net.b.model, t->top_k);
	mq_transformer_describe(net.b.model, t, t->layers);
	if (t->towers && *t->towers) /* not a single stack, which exports could write */
		return mq_model_finish(&net.b, model, err);
	struct mq_transformer *kept = mq_arena_alloc(arena, sizeof(*kept));
	*kept = *t;
	for (size_t i = 0; i < 3; i++) {
		const char **letters = (const char **[]){ &kept->pattern, &kept->mixers, &kept->feeds }[i];

		*letters = *letters ? mq_arena_strdup(arena, *letters) : NULL;
	}
	net.b.model->stack = kept;
	return mq_model_finish(&net.b, model, err);
}

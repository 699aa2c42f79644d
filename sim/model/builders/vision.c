/* vision.c - the built-in vision transformers: vit (Dosovitskiy et al. 2020, sizes of its table 1), dit (Peebles and
 * Xie, "Scalable diffusion models with transformers", 2022: XL/2 and smaller sizes, adaLN-Zero) and flux.
 *
 * Each patch of the image is a token. ViT adds a class token and learned positions; its classifier reads that token
 * alone. DiT works on latent images: timestep and class make one conditioning vector (an MLP for the timestep, a table
 * for the class), from which each block makes six vectors of the hidden size that shift, scale and gate (adaLN); the
 * last layer makes two, and a GEMM gives patches of twice the channels (noise and its variance). flux (Black Forest
 * Labs 2024; singles=0: Stable Diffusion 3, Esser et al. 2024, without norms and rotary embedding of Q and K): patches
 * of the latent image and text tokens share attention, first in blocks with separate weights per stream (double), then
 * in one stream whose attention and MLP share their GEMMs (single). Not modelled: text and image encoders.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/builders/lib/preset.h"
#include "model/builders/lib/transformer.h"

struct options {
	struct mq_transformer t; /* first: options of its fields' names are these */
	const char *size;
	uint32_t image, patch, channels, singles, text, joint, pooled;
	bool guidance;
};

#define DIM(field, max, help)          MQ_U32(struct mq_transformer, field, 0, 1, max, help)
#define OWN(field, initial, max, help) MQ_U32(struct options, field, initial, 1, max, help)

enum { CLASSES = 1000, FREQUENCIES = 256 }; /* sines and cosines of a timestep */

static const struct mq_opt opts[] = {
	MQ_STR(struct options, size, NULL, "published size: vit base large huge; dit xl l b s; flux dev schnell"),
	DIM(layers, 10000, "blocks"),
	DIM(hidden, 1e7, "width of the stream"),
	DIM(heads, 1e6, "attention heads"),
	DIM(head_dim, 1e6, "width of a head; default hidden / heads"),
	DIM(ffn, 1e8, "inner width of the feed-forward part; default 4 hidden"),
	OWN(image, 0, 1e5, "side of the (latent) image in pixels"),
	OWN(patch, 0, 1e4, "side of a patch"),
	OWN(channels, 0, 1e4, "channels of the image"),
	MQ_RENAMED("classes", struct mq_transformer, vocab, CLASSES, 1e7, "classes"),
	MQ_U32(struct options, singles, 38, 0, 10000, "flux: blocks of one stream"),
	OWN(text, 512, 1e6, "flux: tokens of the text"),
	OWN(joint, 4096, 1e7, "flux: width in which they come"),
	OWN(pooled, 768, 1e7, "flux: width of the text's one vector"),
	MQ_BOOL(struct options, guidance, 1, "flux: the strength of guidance is told to the model"),
	MQ_FUSED_ATTENTION,
	MQ_END
};

/* An element-wise op over the stream with per-sample vectors: shift and scale, or a gate. */
static uint32_t modulate(struct mq_net *net, const char *name, uint32_t stream, uint32_t vectors, double width,
			 double flop)
{
	uint32_t id = mq_net_step(net, name, stream, width, &(struct mq_step){ flop, 2 * flop, 1, 1, 3, 1 });

	mq_model_connect(&net->b, vectors, id, 2 * width);
	return id;
}

/* adaLN: a norm without weights, shifted and scaled by per-sample vectors. */
static uint32_t shifted_norm(struct mq_net *net, const char *name, uint32_t stream, uint32_t vectors, double width)
{
	uint32_t norm = mq_net_norm(net, name, stream, width);

	mq_net_at(net, norm)->param = 0;
	return modulate(net, mq_arena_printf(net->arena, "%s.shift", name), norm, vectors, width, 2);
}

/* One stream's part of a block: half_in makes Q, K and V, half_out is everything after attention. */
static uint32_t half_in(struct mq_net *net, const struct mq_transformer *t, uint32_t stream, uint32_t six)
{
	double h = t->hidden, width = (double)t->heads * t->head_dim;
	uint32_t qkv = mq_net_gemm(net, "qkv", shifted_norm(net, "norm1", stream, six, h), h, 3 * width);

	return mq_net_by_head(net, qkv, t->heads, false);
}

static uint32_t half_out(struct mq_net *net, const struct mq_transformer *t, uint32_t stream, uint32_t attention,
			 uint32_t six)
{
	double h = t->hidden;
	uint32_t x = mq_net_gemm(net, "proj", attention, (double)t->heads * t->head_dim, h);

	stream = mq_net_residual(net, "residual1", modulate(net, "gate1", x, six, h, 1), stream, h);
	x = mq_net_gemm(net, "up", shifted_norm(net, "norm2", stream, six, h), h, t->ffn);
	x = mq_net_activation(net, "activation", x, t->ffn, MQ_ACT_GELU);
	x = mq_net_gemm(net, "down", x, t->ffn, h);
	return mq_net_residual(net, "residual2", modulate(net, "gate2", x, six, h, 1), stream, h);
}

/* Full attention. flux: RMS norms per stream and rotary embedding of Q and K. */
static uint32_t attend(struct mq_net *net, const struct mq_transformer *t, uint32_t qkv, uint32_t other,
		       uint32_t streams)
{
	struct mq_attention a = { .heads = t->heads, .kv_heads = t->heads, .head_dim = t->head_dim, .keys = net->rows };

	a.fused = t->fused;
	a.rotary = t->rotary;
	uint32_t id = mq_net_attention(net, "attention", qkv, other, &a);
	if (t->qk_norm) {
		mq_net_at(net, id)->param = 2.0 * streams * t->head_dim;
		mq_net_at(net, id)->kernels += 2.0 * streams;
	}
	return id;
}

/* The last layer, to `out` elements per token; in training also the squared error. */
static void finish(struct mq_net *net, uint32_t stream, uint32_t vector, double h, double out, bool infer)
{
	double elems = net->rows * out;

	net->layer = MQ_NONE;
	net->prefix = "final.";
	uint32_t two = mq_net_gemm_once(net, "modulation", vector, h, 2 * h);
	uint32_t x = mq_net_gemm(net, "patches", shifted_norm(net, "norm", stream, two, h), h, out);
	net->prefix = "";
	if (infer)
		return;
	uint32_t id = mq_net_add(net, MQ_OP_LOSS, "loss");
	struct mq_op *op = mq_net_at(net, id);
	op->flop = op->flop_bwd = op->moved_bwd = 3 * elems;
	op->read = 2 * elems;
	op->saved = elems;
	op->output = net->rows;
	op->kernels = 2;
	mq_net_join(net, x, id, out);
}

/* An MLP of two layers on per-sample data, added to the earlier conditioning vector (MQ_NONE: none). */
static uint32_t condition(struct mq_net *net, const char *name, double width, double h, uint32_t before)
{
	const char *up = mq_arena_printf(net->arena, "%s.up", name);
	uint32_t x = mq_net_gemm_once(net, up, mq_net_tokens(net, name), width, h);

	x = mq_net_gemm_once(net, mq_arena_printf(net->arena, "%s.down", name), x, h, h);
	if (before != MQ_NONE)
		mq_model_connect(&net->b, before, x, h);
	return x;
}

static void build_dit(struct mq_net *net, const struct options *o, bool infer)
{
	const struct mq_transformer *t = &o->t;
	double h = t->hidden, out = 2.0 * o->patch * o->patch * o->channels;
	uint32_t stream = mq_net_patches(net, "image", out / 2, h, 0);
	uint32_t level = condition(net, "level", FREQUENCIES, h, MQ_NONE);

	mq_net_at(net, level)->param += (t->vocab + 1.0) * h; /* the class table, with a row for no class */
	for (uint32_t i = 0; i < t->layers; i++) {
		net->layer = i;
		net->prefix = mq_arena_printf(net->arena, "layer%u.", i);
		uint32_t six = mq_net_gemm_once(net, "modulation", level, h, 6 * h), qkv = half_in(net, t, stream, six);
		stream = half_out(net, t, stream, attend(net, t, qkv, MQ_NONE, 1), six);
	}
	finish(net, stream, level, h, out, infer);
}

/* streams: image and text, of rows[] tokens. */
static void double_block(struct mq_net *net, const struct mq_transformer *t, uint32_t streams[2], const double rows[2],
			 uint32_t condition)
{
	static const char *const names[] = { "image.", "text." };
	const char *prefix = net->prefix;
	uint32_t six[2], qkv[2];

	for (int i = 0; i < 2; i++) {
		net->prefix = mq_arena_printf(net->arena, "%s%s", prefix, names[i]);
		net->rows = rows[i];
		six[i] = mq_net_gemm_once(net, "modulation", condition, t->hidden, 6.0 * t->hidden);
		qkv[i] = half_in(net, t, streams[i], six[i]);
	}
	net->prefix = prefix;
	net->rows = rows[0] + rows[1];
	uint32_t attention = attend(net, t, qkv[0], qkv[1], 2);
	net->b.model->edge[net->b.model->n_edges - 1].elems = rows[1] * 3 * t->hidden;
	net->b.model->edge[net->b.model->n_edges - 2].elems = rows[0] * 3 * t->hidden;
	for (int i = 0; i < 2; i++) {
		net->prefix = mq_arena_printf(net->arena, "%s%s", prefix, names[i]);
		net->rows = rows[i];
		streams[i] = half_out(net, t, streams[i], attention, six[i]);
	}
}

static uint32_t single_block(struct mq_net *net, const struct mq_transformer *t, uint32_t stream, uint32_t condition)
{
	double h = t->hidden;
	uint32_t three = mq_net_gemm_once(net, "modulation", condition, h, 3 * h);
	uint32_t x = shifted_norm(net, "norm1", stream, three, h);
	uint32_t qkv = mq_net_gemm(net, "qkv", x, h, 3 * h);
	uint32_t act = mq_net_activation(net, "activation", mq_net_gemm(net, "up", x, h, t->ffn), t->ffn, MQ_ACT_GELU);
	uint32_t attention = attend(net, t, qkv, MQ_NONE, 1);

	x = mq_net_gemm(net, "proj", attention, h + t->ffn, h);
	net->b.model->edge[net->b.model->n_edges - 1].elems = net->rows * h; /* the rest feeds the MLP */
	mq_net_join(net, act, x, t->ffn);
	return mq_net_residual(net, "residual1", modulate(net, "gate1", x, three, h, 1), stream, h);
}

static void build_flux(struct mq_net *net, const struct options *o, bool infer)
{
	const struct mq_transformer *t = &o->t;
	double h = t->hidden, pixels = (double)o->patch * o->patch * o->channels;
	const double rows[2] = { t->seq, o->text };
	uint32_t vector = condition(net, "level", FREQUENCIES, h, MQ_NONE), streams[2];

	vector = condition(net, "pooled", o->pooled, h, vector);
	if (o->guidance)
		vector = condition(net, "guidance", FREQUENCIES, h, vector);
	net->rows = rows[1];
	streams[1] = mq_net_gemm(net, "text", mq_net_tokens(net, "tokens"), o->joint, h);
	net->rows = rows[0];
	streams[0] = mq_net_gemm(net, "patches", mq_net_tokens(net, "image"), pixels, h);
	for (uint32_t i = 0; i < t->layers + o->singles; i++) {
		net->layer = i;
		net->prefix = mq_arena_printf(net->arena, "layer%u.", i);
		net->rows = rows[0] + rows[1];
		if (i < t->layers)
			double_block(net, t, streams, rows, vector);
		else
			streams[0] = single_block(net, t, streams[0], vector);
		if (i == t->layers)
			mq_model_connect(&net->b, streams[1], streams[0], rows[1] * h);
	}
	net->rows = rows[0];
	finish(net, streams[0], vector, h, pixels, infer);
}

static void build_vit(struct mq_net *net, const struct options *o, bool infer)
{
	const struct mq_transformer *t = &o->t;
	double pixels = (double)o->patch * o->patch * o->channels;
	/* parameters: positions and class token */
	uint32_t x = mq_net_patches(net, "image", pixels, t->hidden, (net->rows + 1) * t->hidden);

	x = mq_transformer_blocks(net, t, 0, x);
	x = mq_net_norm(net, "final.norm", x, t->hidden);
	net->rows = 1;
	x = mq_net_gemm(net, "head", x, t->hidden, t->vocab);
	mq_net_at(net, x)->splits &= ~(1u << MQ_DIM_SEQ);
	if (!infer)
		mq_net_at(net, mq_net_loss(net, x, t->vocab))->splits &= ~(1u << MQ_DIM_SEQ);
}

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	const char *what = mq_arena_printf(arena, "model '%s'", name);
	bool infer = request->train && request->train->infer, vit = !strcmp(name, "vit"), flux = !strcmp(name, "flux");
	struct options o = { 0 }, published = { 0 };
	struct mq_transformer *t = &o.t;
	struct mq_net net;

	MQ_TRY(mq_preset_read(opts, name, options, &o, &published, arena, err));
	if (!t->hidden)
		t->hidden = t->head_dim * mq_either(t->heads, published.t.heads);
	mq_preset_merge(opts, &o, &published);
	if (o.image % o.patch)
		return mq_bad(err, "%s: an image of %u pixels is no multiple of patches of %u", what, o.image, o.patch);
	t->seq = o.image / o.patch * (o.image / o.patch) + vit;
	t->biases = true;
	t->qk_norm = t->rotary = flux && o.singles;
	t->fused = mq_model_fuses(request, t->fused);
	if (request->seq)
		return mq_bad(err,
			      "%s: its tokens are the patches of an image; give image= and patch= instead of --seq",
			      what);
	MQ_TRY(mq_transformer_check(t, what, err));
	mq_net_begin(&net, arena, mq_builtin_name(name, options, arena));
	net.b.model->unit = "image";
	net.rows = t->seq;
	net.biases = true;
	(vit ? build_vit : flux ? build_flux : build_dit)(&net, &o, infer);
	mq_transformer_describe(net.b.model, t, t->layers + (flux ? o.singles : 0));
	net.b.model->tokens_per_sample = 0;
	return mq_model_finish(&net.b, model, err);
}

const struct mq_builder mq_builder_vision = {
	.summary = "vit, dit, flux: transformers of images",
	.names = (const char *const[]){ "dit", "flux", "vit", NULL },
	.opts = opts,
	.build = build,
};

/*
 * transgan.c - the built-in image generator made of transformers: transgan (Jiang, Chang, Wang,
 * "TransGAN: two pure transformers can make one strong GAN, and that can scale up", NeurIPS 2021).
 *
 * A linear layer turns a latent vector into bottom x bottom tokens; stages of transformer blocks
 * follow, each on a grid twice as wide as the one before. The first `upsample` steps repeat tokens at
 * full width, the others shuffle features into pixels: four times the tokens, a quarter of the width.
 * The first `whole` stages attend to all their tokens, later ones to windows of window x window. Norms have
 * no parameters (x over its root mean square), attention a table of relative positions per block. A
 * 1x1 convolution makes colours of the last features; the loss is their mean (a discriminator is
 * a network of its own and no part of this one).
 *
 * `layer` numbers the items of the network as a list of modules, the way DeepSpeed pipelines
 * hold it: every linear layer, view, position table, block, change of grid, division into windows and
 * its reverse counts, whatever it costs. As a pipeline needs it, items that only pass on a mask are there too.
 *
 * Not modelled: the discriminator; a token's noise is drawn but not counted as an input; drop path.
 */
#include <stdlib.h>
#include <string.h>

#include "model/builders/lib/layers.h"

enum { MAX_STAGES = 12 };

struct options {
	uint32_t width, bottom, heads, window, whole, upsample, latent, mlp;
	const char *depth;
	bool fused_attention, noise, qkv_bias;
};

static const struct mq_opt opts[] = {
	MQ_U32(struct options, width, 1024, 1, 1e6, "features of a token in the first stage"),
	MQ_U32(struct options, bottom, 8, 1, 4096, "tokens along a side of the first stage's grid"),
	MQ_STR(struct options, depth, "5/4/4/4/4/4", "blocks of each stage, '/' between them"),
	MQ_U32(struct options, heads, 4, 1, 1e6, "attention heads, in every stage"),
	MQ_U32(struct options, window, 16, 1, 4096, "tokens along a side of an attention window"),
	MQ_U32(struct options, whole, 3, 1, MAX_STAGES, "stages that attend to the whole grid"),
	MQ_U32(struct options, upsample, 2, 0, MAX_STAGES,
	       "steps between stages that keep the width; later ones quarter it"),
	MQ_U32(struct options, latent, 512, 1, 1e6, "size of the latent vector"),
	MQ_U32(struct options, mlp, 4, 1, 64, "inner width of the feed-forward part / width"),
	MQ_BOOL(struct options, noise, 0, "noise of a learned strength before attention"),
	MQ_BOOL(struct options, qkv_bias, 0, "a bias of queries, keys and values"),
	MQ_BOOL(struct options, fused_attention, 0, "attention that never stores its scores (flash)"),
	MQ_END
};

/* The generator under construction, at the stage reached. */
struct generator {
	struct mq_net net;
	struct options o;
	uint32_t depth[MAX_STAGES], stages;
	uint32_t items;
	double side, width; /* of the grid in tokens, of a token in features */
	double window;      /* tokens that attend to one another, along a side */
};

/* The next item of the list begins. */
static void item(struct generator *g, const char *kind)
{
	g->net.layer = g->items;
	g->net.prefix = mq_arena_printf(g->net.arena, "item%u.%s", g->items, kind);
	g->items++;
}

static double elements(const struct generator *g)
{
	return g->net.rows * g->width;
}

/* Tokens are independent but for attention and changes of the grid: these cannot be split by sequence. */
static void keep_together(struct mq_op *op)
{
	op->splits &= ~(1u << MQ_DIM_SEQ);
	op->extent[MQ_DIM_SEQ] = 0;
}

/* An item that reads `in` elements and writes the grid anew, or (in = 0) only renames its dimensions. */
static uint32_t reshape(struct generator *g, const char *kind, uint32_t x, double in)
{
	item(g, kind);
	uint32_t id = mq_net_add(&g->net, MQ_OP_RESHAPE, "");
	struct mq_op *op = mq_net_at(&g->net, id);

	keep_together(op);
	op->output = elements(g);
	op->kernels = in > 0;
	if (in > 0) {
		op->read = in;
		op->write = op->output;
		op->moved_bwd = op->read + op->write;
	}
	mq_model_connect(&g->net.b, x, id, in > 0 ? in : op->output);
	return id;
}

static uint32_t view(struct generator *g, const char *kind, uint32_t x)
{
	return reshape(g, kind, x, 0);
}

/* Learned positions are added: nothing of it is kept. */
static uint32_t position(struct generator *g, uint32_t x)
{
	item(g, "position");
	uint32_t id = mq_net_add(&g->net, MQ_OP_ELEMENTWISE, "");
	struct mq_op *op = mq_net_at(&g->net, id);

	op->param = op->flop = op->flop_bwd = op->output = op->write = elements(g);
	op->read = op->output;
	op->moved_bwd = 2 * op->output; /* summed over the samples */
	mq_net_join(&g->net, x, id, g->width);
	return id;
}

/* ---- a block ------------------------------------------------------------------------------------- */

/* x over its root mean square. */
static uint32_t norm(struct generator *g, const char *name, uint32_t x)
{
	uint32_t id = mq_net_norm(&g->net, name, x, g->width);

	mq_net_at(&g->net, id)->param = 0;
	return id;
}

static uint32_t noise(struct generator *g, uint32_t x)
{
	uint32_t id = mq_net_add(&g->net, MQ_OP_ELEMENTWISE, "noise");
	struct mq_op *op = mq_net_at(&g->net, id);

	op->param = 1;
	op->flop = op->flop_bwd = op->read = op->write = op->output = elements(g);
	op->moved_bwd = 2 * op->output;
	op->saved = op->output; /* what the next GEMM reads */
	mq_net_join(&g->net, x, id, g->width);
	return id;
}

static uint32_t attention(struct generator *g, uint32_t x)
{
	struct mq_net *net = &g->net;
	double tokens = g->window * g->window, rows = net->rows, distances = 2 * g->window - 1;
	double windows = rows / tokens;
	const struct mq_attention a = { .heads = g->o.heads * windows,
					.kv_heads = g->o.heads * windows,
					.head_dim = g->width / g->o.heads,
					.keys = tokens,
					.fused = g->o.fused_attention };

	net->rows = tokens; /* each window has heads of its own */
	uint32_t id = mq_net_attention(net, "attention", x, MQ_NONE, &a);
	net->rows = rows;
	struct mq_op *op = mq_net_at(net, id);
	op->extent[MQ_DIM_HEAD] = g->o.heads;
	keep_together(op);
	op->param = distances * distances * g->o.heads;
	op->kernels += !g->o.fused_attention; /* looks the biases up */
	return id;
}

static uint32_t block(struct generator *g, uint32_t stream)
{
	struct mq_net *net = &g->net;
	double w = g->width;

	item(g, "block.");
	uint32_t x = norm(g, "norm1", stream);
	if (g->o.noise)
		x = noise(g, x);
	net->biases = g->o.qkv_bias;
	x = mq_net_gemm(net, "qkv", x, w, 3 * w);
	mq_net_at(net, x)->splits |= 1u << MQ_DIM_HEAD;
	mq_net_at(net, x)->extent[MQ_DIM_HEAD] = g->o.heads;
	net->biases = true;
	x = attention(g, x);
	x = mq_net_gemm(net, "proj", x, w, w);
	stream = mq_net_residual(net, "residual1", x, stream, w);
	x = norm(g, "norm2", stream);
	x = mq_net_gemm(net, "up", x, w, g->o.mlp * w);
	x = mq_net_activation(net, "activation", x, g->o.mlp * w, MQ_ACT_GELU);
	mq_net_at(net, x)->saved *= 2; /* a GELU written out in tensor operations keeps four tensors */
	x = mq_net_gemm(net, "down", x, g->o.mlp * w, w);
	return mq_net_residual(net, "residual2", x, stream, w);
}

/* ---- stages -------------------------------------------------------------------------------------- */

/* From stage s - 1 to stage s: a grid twice as wide, its positions, and its division into windows. */
static uint32_t enter(struct generator *g, uint32_t s, uint32_t x)
{
	double before = elements(g);
	bool windows = s >= g->o.whole, shuffle = s > g->o.upsample;

	g->side *= 2;
	g->width /= shuffle ? 4 : 1;
	g->net.rows = g->side * g->side;
	g->window = windows ? g->o.window : g->side;
	x = reshape(g, shuffle ? "shuffle" : "upsample", x, before);
	x = position(g, x);
	if (windows) {
		x = view(g, "view", x);
		x = reshape(g, "partition", x, elements(g));
		x = view(g, "view", x);
	}
	return x;
}

static uint32_t leave(struct generator *g, uint32_t s, uint32_t x)
{
	if (s < g->o.whole)
		return x;
	x = view(g, "view", x);
	return reshape(g, "reverse", x, elements(g));
}

/* Items that the list has between certain stages: a copy of the first stage's output, and two that pass
 * their input on. */
static uint32_t between(struct generator *g, uint32_t s, uint32_t x)
{
	if (s == 1)
		return view(g, "pass", x);
	return s == g->o.whole ? view(g, "mask", x) : x;
}

static uint32_t stages(struct generator *g, uint32_t x)
{
	for (uint32_t s = 0; s < g->stages; s++) {
		if (s == 1)
			x = reshape(g, "copy", x, elements(g));
		if (s)
			x = between(g, s, enter(g, s, x));
		for (uint32_t i = 0; i < g->depth[s]; i++)
			x = block(g, x);
		x = leave(g, s, x);
	}
	return x;
}

static uint32_t latent(struct generator *g)
{
	struct mq_net *net = &g->net;
	double tokens = g->side * g->side;

	net->rows = 1;
	uint32_t id = mq_net_add(net, MQ_OP_INPUT, "latent");
	mq_net_at(net, id)->output = g->o.latent;
	mq_net_at(net, id)->kernels = 0;
	item(g, "linear");
	id = mq_net_gemm(net, "", id, g->o.latent, tokens * g->width);
	struct mq_op *op = mq_net_at(net, id);
	op->splits = 1u << MQ_DIM_BATCH; /* a small product that every rank makes for itself */
	op->flop_bwd = op->flop;         /* no gradient of the input */
	net->b.model->edge[net->b.model->n_edges - 1].no_grad = true;
	net->rows = tokens;
	return position(g, view(g, "view", id));
}

static uint32_t colours(struct generator *g, uint32_t x)
{
	item(g, "colours");
	uint32_t id = mq_net_gemm(&g->net, "", x, g->width, 3);
	struct mq_op *op = mq_net_at(&g->net, id);

	op->kind = MQ_OP_CONV;
	op->splits = 1u << MQ_DIM_BATCH;
	op->extent[MQ_DIM_SEQ] = 0;
	op->saved = op->read;
	return id;
}

static void mean(struct generator *g, uint32_t x)
{
	g->net.layer = MQ_NONE;
	g->net.prefix = "";
	uint32_t id = mq_net_add(&g->net, MQ_OP_ELEMENTWISE, "loss");
	struct mq_op *op = mq_net_at(&g->net, id);

	keep_together(op);
	op->flop = op->flop_bwd = op->read = op->moved_bwd = 3 * g->net.rows;
	op->output = op->write = 1;
	mq_net_join(&g->net, x, id, 3);
}

/* ---- options ------------------------------------------------------------------------------------- */

static enum mq_status read_depth(struct generator *g, const char *what, struct mq_err *err)
{
	for (const char *p = g->o.depth; *p; g->stages++) {
		char *end;
		unsigned long n = strtoul(p, &end, 10);

		if (end == p || (*end && *end != '/') || n > 10000 || g->stages == MAX_STAGES)
			return mq_fail(err, MQ_EINPUT,
				       "%s: depth=%s is no list of at most %d numbers of "
				       "blocks, like 5/4/2",
				       what, g->o.depth, MAX_STAGES);
		g->depth[g->stages] = (uint32_t)n;
		p = end + (*end == '/');
	}
	if (!g->stages)
		return mq_fail(err, MQ_EINPUT,
			       "%s: depth is empty; give the blocks of each stage, like "
			       "5/4/2",
			       what);
	return MQ_OK;
}

/* Every stage with blocks must divide: its grid into windows, its width into heads. */
static enum mq_status check(const struct generator *g, const char *what, struct mq_err *err)
{
	double side = g->o.bottom, width = g->o.width;

	for (uint32_t s = 0; s < g->stages; s++, side *= 2) {
		if (s > g->o.upsample)
			width /= 4;
		uint32_t w = (uint32_t)width;
		if (w != width || w % g->o.heads)
			return mq_fail(err, MQ_EINPUT,
				       "%s: stage %u would be %g wide, which %u heads do "
				       "not divide; change width, heads, upsample or depth",
				       what, s + 1, width, g->o.heads);
		if (s >= g->o.whole && (uint32_t)side % g->o.window)
			return mq_fail(err, MQ_EINPUT,
				       "%s: the grid of stage %u, %g wide, is not a multiple "
				       "of window=%u; change window, bottom or whole",
				       what, s + 1, side, g->o.window);
	}
	return MQ_OK;
}

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	const char *what = mq_arena_printf(arena, "model '%s'", name);
	struct generator g = { 0 };

	mq_opt_defaults(opts, &g.o);
	MQ_TRY(mq_opt_parse(opts, &g.o, what, options, arena, err));
	MQ_TRY(read_depth(&g, what, err));
	MQ_TRY(check(&g, what, err));
	mq_net_begin(&g.net, arena, options && *options ? mq_arena_printf(arena, "%s:%s", name, options) : name);
	g.net.rms = g.net.biases = true;
	g.side = g.o.bottom;
	g.width = g.o.width;
	g.window = g.side;
	uint32_t x = colours(&g, stages(&g, latent(&g)));
	if (!request->train || !request->train->infer)
		mean(&g, x);
	struct mq_model *m = g.net.b.model;
	m->unit = "image";
	m->n_layers = g.items; /* no two stages have one width: `hidden` and its like stay 0 */
	return mq_model_finish(&g.net.b, model, err);
}

const struct mq_format mq_format_transgan = {
	.name = "transgan",
	.summary = "transgan: image generator of transformer stages on growing grids",
	.names = (const char *const[]){ "transgan", NULL },
	.opts = opts,
	.build = build,
};

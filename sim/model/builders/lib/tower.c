/* tower.c - see tower.h. SPDX-License-Identifier: Apache-2.0 */
#include "model/builders/lib/tower.h"

static uint32_t project(struct mq_net *net, const struct mq_tower *w, uint32_t x)
{
	const uint32_t *width = w->widths;
	uint32_t i = 0;

	for (; width[i] && width[i + 1]; i++) {
		if (i)
			x = mq_net_activation(net, mq_arena_printf(net->arena, "projector.activation%u", i), x,
					      width[i], MQ_ACT_GELU);
		x = mq_net_gemm(net, mq_arena_printf(net->arena, "projector%u", i), x, width[i], width[i + 1]);
	}
	if (!w->gated)
		return x;
	x = mq_net_gemm(net, "projector.up", x, width[i], 2.0 * w->gated);
	x = mq_net_activation(net, "projector.activation", x, w->gated, MQ_ACT_GATED);
	return mq_net_gemm(net, "projector.down", x, w->gated, width[i]);
}

/* Overwrites the image tokens of the text with the embedded image. */
static uint32_t join(struct mq_net *net, const struct mq_tower *w, uint32_t stream, uint32_t x, double width)
{
	uint32_t id = mq_net_step(net, "join", stream, width, &(struct mq_step){ 0, 0, 1, 1, 2, 0 });

	mq_model_connect(&net->b, x, id, w->tokens * width);
	return id;
}

/* Patches through blocks and norm; *outside: the state of `net` that leave() restores. */
static uint32_t enter(struct mq_net *net, const struct mq_tower *w, struct mq_net *outside)
{
	*outside = *net;
	net->rows = w->t.seq;
	net->biases = w->t.biases;
	net->rms = w->t.rms;
	net->dropout = false;
	net->prefix = mq_arena_printf(net->arena, "%s.", w->name);
	uint32_t x = mq_net_patches(net, "input", w->stem, w->t.hidden, (double)w->t.positions * w->t.hidden);
	if (w->stem_param > 0)
		mq_net_at(net, x - 1)->param = w->stem_param;
	x = mq_transformer_blocks(net, &w->t, MQ_NONE, x);
	return mq_net_norm(net, "norm", x, w->t.hidden);
}

static void leave(struct mq_net *net, const struct mq_net *outside)
{
	net->rows = outside->rows;
	net->biases = outside->biases;
	net->rms = outside->rms;
	net->dropout = outside->dropout;
	net->prefix = outside->prefix;
}

uint32_t mq_net_tower(struct mq_net *net, const struct mq_tower *w, uint32_t stream, double width)
{
	struct mq_net outside;
	uint32_t patches = enter(net, w, &outside);
	const char *prefix = net->prefix;

	for (uint32_t i = 0; i < w->projectors; i++) {
		net->prefix = i ? mq_arena_printf(net->arena, "%sdeep%u.", prefix, i) : prefix; /* names are unique */
		net->rows = w->tokens;
		uint32_t tokens = project(net, w, patches);
		net->rows = outside.rows;
		stream = join(net, w, stream, tokens, width);
	}
	leave(net, &outside);
	return stream;
}

uint32_t mq_net_image_vector(struct mq_net *net, const struct mq_tower *w, double width, bool pooled)
{
	struct mq_net outside;
	uint32_t x = enter(net, w, &outside);
	double h = w->t.hidden;
	const struct {
		const char *name;
		double k, n;
	} gemms[] = {
		{ "pool.q", h, h }, { "pool.proj", h, h }, { "pool.up", h, w->t.ffn }, { "pool.down", w->t.ffn, h }
	};

	if (pooled)
		x = mq_net_gemm(net, "pool.kv", x, h, 2 * h);
	net->rows = 1;
	for (size_t i = 0; pooled && i < sizeof(gemms) / sizeof(*gemms); i++)
		x = mq_net_gemm(net, gemms[i].name, x, gemms[i].k, gemms[i].n);
	if (!pooled) {
		net->biases = false;
		x = mq_net_gemm(net, "projection", x, h, width);
	}
	leave(net, &outside);
	return x;
}

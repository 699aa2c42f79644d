/* mixers.c - see mixers.h. SPDX-License-Identifier: Apache-2.0 */
#include "model/builders/lib/mixers.h"

struct widths {
	double inner, mixed; /* D; x, B and C together: D + 2 G N */
	double heads;
};

/* Saves `kept` elements per token of in_proj's output. */
static uint32_t convolve(struct mq_net *net, uint32_t input, const struct mq_mamba *m, const struct widths *w,
			 double kept)
{
	uint32_t id = mq_net_by_head(net, mq_net_convolve(net, input, w->mixed, m->kernel, 4), w->heads, true);

	mq_net_at(net, id)->param += w->mixed; /* biases */
	mq_net_at(net, id)->saved = net->rows * kept;
	return id;
}

static uint32_t scan(struct mq_net *net, uint32_t proj, uint32_t conv, const struct mq_mamba *m, const struct widths *w)
{
	uint32_t id = mq_net_by_head(net, mq_net_add(net, MQ_OP_SCAN, "scan"), w->heads, true);
	struct mq_op *op = mq_net_at(net, id);
	double bc = (double)m->groups * m->state, products = 2.0 * m->chunk * m->groups;
	double states = 2 * w->inner * m->state / m->chunk;

	op->param = 3 * w->heads; /* A, D and the bias of dt */
	op->flop = net->rows * (2.0 * m->chunk * (bc + w->inner) + 4.0 * m->state * w->inner);
	op->flop_bwd = 3 * op->flop;
	op->read = net->rows * (2 * w->inner + 4 * bc + products + 2 * states);
	op->write = net->rows * (w->inner + products + 2 * states);
	op->output = net->rows * w->inner;
	op->moved_bwd = 3 * (op->read + op->write);
	op->saved = op->output;
	op->kernels = 5;
	mq_net_join(net, proj, id, w->heads);
	mq_net_join(net, conv, id, w->mixed);
	return id;
}

/* The selective scan of Mamba-1: reads u, dt, z, B and C, writes y. */
static uint32_t selective_scan(struct mq_net *net, uint32_t proj, uint32_t conv, uint32_t steps,
			       const struct mq_mamba *m, const struct widths *w)
{
	uint32_t id = mq_net_by_head(net, mq_net_add(net, MQ_OP_SCAN, "scan"), w->heads, true);
	struct mq_op *op = mq_net_at(net, id);

	op->param = w->inner * (m->state + 1.0); /* A and D */
	op->flop = net->rows * 9 * w->inner * m->state;
	op->flop_bwd = 3 * op->flop;
	op->read = net->rows * (3 * w->inner + 2.0 * m->state);
	op->write = op->output = net->rows * w->inner;
	op->moved_bwd = 2 * (op->read + op->write);
	op->saved = op->output;
	mq_net_join(net, proj, id, w->inner);
	mq_net_join(net, conv, id, w->inner);
	mq_net_join(net, steps, id, w->inner);
	return id;
}

static uint32_t mamba1(struct mq_net *net, uint32_t input, double hidden, const struct mq_mamba *m)
{
	double inner = (double)m->heads * m->head_dim, low = m->rank + 2.0 * m->state;
	const struct widths w = { .inner = inner, .mixed = inner, .heads = inner };
	bool biases = net->biases;
	uint32_t proj = mq_net_by_head(net, mq_net_gemm(net, "in_proj", input, hidden, 2 * inner), inner, false);
	uint32_t conv = convolve(net, proj, m, &w, 3 * inner); /* x before and after it, and z */
	uint32_t x = mq_net_gemm(net, "x_proj", conv, inner, low);

	if (m->norms)
		x = mq_net_norm(net, "x_norm", x, low);
	net->biases = true;
	uint32_t steps = mq_net_by_head(net, mq_net_gemm(net, "dt_proj", x, m->rank, inner), inner, false);
	net->biases = biases;
	return mq_net_gemm(net, "out_proj", selective_scan(net, proj, conv, steps, m, &w), inner, hidden);
}

uint32_t mq_net_mamba(struct mq_net *net, uint32_t input, double hidden, const struct mq_mamba *m)
{
	if (m->rank)
		return mamba1(net, input, hidden, m);
	double inner = (double)m->heads * m->head_dim, bc = (double)m->groups * m->state;
	const struct widths w = { .inner = inner, .mixed = inner + 2 * bc, .heads = m->heads };
	double all = inner + w.mixed + w.heads;
	uint32_t proj = mq_net_by_head(net, mq_net_gemm(net, "in_proj", input, hidden, all), w.heads, false);
	uint32_t conv = convolve(net, proj, m, &w, all); /* z, x, B, C and dt */
	uint32_t gated = mq_net_gate(net, scan(net, proj, conv, m, &w), proj, inner, m->ungated ? 0 : inner);

	return mq_net_gemm(net, "out_proj", mq_net_by_head(net, gated, w.heads, false), inner, hidden);
}

/* ---- delta-net, lightning attention, short convolution ------------------------------------------------ */

static const double CHUNK = 64, BLOCK = 256;

static uint32_t linear_scan(struct mq_net *net, uint32_t input, double width, double out, double flop, double moved)
{
	uint32_t id = mq_net_add(net, MQ_OP_SCAN, "scan");
	struct mq_op *op = mq_net_at(net, id);

	op->flop = net->rows * flop;
	op->flop_bwd = 3 * op->flop;
	op->output = op->write = net->rows * out;
	op->read = net->rows * (moved - out);
	op->moved_bwd = 3 * net->rows * moved;
	op->saved = net->rows * (width + out);
	mq_net_join(net, input, id, width);
	return id;
}

/* A low-rank projection: a GEMM to `rank`, a GEMM to all channels. */
static uint32_t low_rank(struct mq_net *net, const char *name, uint32_t input, double hidden, double rank, double width)
{
	uint32_t down = mq_net_gemm_whole(net, mq_arena_printf(net->arena, "%s_down", name), input, hidden, rank);

	return mq_net_gemm(net, mq_arena_printf(net->arena, "%s_up", name), down, rank, width);
}

uint32_t mq_net_delta(struct mq_net *net, uint32_t input, double hidden, const struct mq_linear *l)
{
	double heads = l->value_heads, k = l->key_dim, v = l->value_dim, c = CHUNK;
	double mixed = 2 * k * l->key_heads + v * heads, out = v * heads;
	double flop = heads * (6 * c * k + 4 * c * v + 6 * k * v + 2 * c * c / 3);
	double moved = heads * (7 * k + 6 * v + 6 * c + 2 * k * v / c);
	uint32_t proj = mq_net_gemm(net, "in_proj", input, hidden, l->rank ? mixed + heads : mixed + out + 2 * heads);

	uint32_t decay = MQ_NONE, gates = mq_net_by_head(net, proj, l->key_heads, false);

	if (l->rank) {
		decay = mq_net_by_head(net, low_rank(net, "decay", input, hidden, l->rank, heads * k), heads, false);
		gates = mq_net_by_head(net, low_rank(net, "gate", input, hidden, l->rank, out), heads, false);
	}
	uint32_t conv = mq_net_by_head(net, mq_net_convolve(net, proj, mixed, l->kernel, 4), l->key_heads, true);
	uint32_t id = mq_net_by_head(net, linear_scan(net, conv, mixed, out, flop, moved), heads, true);
	mq_net_at(net, id)->kernels = 8; /* six, and the norms of Q and K */
	mq_net_at(net, id)->param = l->rank ? heads * (1 + k) : 2 * heads;
	if (decay != MQ_NONE)
		mq_net_join(net, decay, id, heads * k);
	return mq_net_gemm(net, "out_proj", mq_net_by_head(net, mq_net_gate(net, id, gates, out, v), heads, false), out,
			   hidden);
}

uint32_t mq_net_lightning(struct mq_net *net, uint32_t input, double hidden, const struct mq_linear *l)
{
	double heads = l->value_heads, k = l->key_dim, v = l->value_dim, out = heads * v;
	double mixed = 2 * heads * k + out;
	uint32_t proj = mq_net_by_head(net, mq_net_gemm(net, "in_proj", input, hidden, mixed + out), heads, false);
	uint32_t id = linear_scan(net, proj, mixed, out, heads * (2 * BLOCK * (k + v) + 4 * k * v),
				  heads * (3 * k + 3 * v + 2 * k * v / BLOCK));

	mq_net_by_head(net, id, heads, true);
	mq_net_at(net, id)->kernels = 4;
	return mq_net_gemm(net, "out_proj", mq_net_by_head(net, mq_net_gate(net, id, proj, out, out), heads, false),
			   out, hidden);
}

uint32_t mq_net_short_conv(struct mq_net *net, uint32_t input, double hidden, const struct mq_linear *l)
{
	uint32_t proj = mq_net_by_head(net, mq_net_gemm(net, "in_proj", input, hidden, 3 * hidden), hidden, false);
	uint32_t conv = mq_net_by_head(net, mq_net_convolve(net, proj, hidden, l->kernel, 2), hidden, true);

	mq_net_at(net, conv)->read *= 3; /* and two gates, each a kernel with the product */
	mq_net_at(net, conv)->write *= 2;
	mq_net_at(net, conv)->moved_bwd *= 2;
	mq_net_at(net, conv)->saved *= 3;
	mq_net_at(net, conv)->kernels = 3;
	return mq_net_gemm(net, "out_proj", conv, hidden, hidden);
}

/* mamba.c - see mamba.h. SPDX-License-Identifier: Apache-2.0 */
#include "model/builders/lib/mamba.h"

struct widths {
	double inner, mixed; /* D; x, B and C together: D + 2 G N */
	double heads;
};

/* Divided by heads, never along the tokens: each step needs the one before. */
static uint32_t by_head(struct mq_net *net, uint32_t id, const struct widths *w, bool serial)
{
	struct mq_op *op = mq_net_at(net, id);

	op->splits |= 1u << MQ_DIM_HEAD;
	op->extent[MQ_DIM_HEAD] = w->heads;
	if (serial) {
		op->splits &= ~(1u << MQ_DIM_SEQ);
		op->extent[MQ_DIM_SEQ] = 0;
	}
	return id;
}

/* Keeps z, x, B, C and dt: all that in_proj made. */
static uint32_t convolve(struct mq_net *net, uint32_t input, const struct mq_mamba *m, const struct widths *w)
{
	uint32_t id = by_head(net, mq_net_add(net, MQ_OP_ELEMENTWISE, "conv"), w, true);
	struct mq_op *op = mq_net_at(net, id);
	double elems = net->rows * w->mixed;

	op->param = w->mixed * ((double)m->kernel + 1);
	op->flop = elems * (2.0 * m->kernel + 4);
	op->flop_bwd = 3 * op->flop;
	op->read = op->write = op->output = elems;
	op->moved_bwd = 5 * elems;
	op->saved = net->rows * (w->inner + w->mixed + w->heads);
	mq_net_join(net, input, id, w->mixed);
	return id;
}

static uint32_t scan(struct mq_net *net, uint32_t proj, uint32_t conv, const struct mq_mamba *m, const struct widths *w)
{
	uint32_t id = by_head(net, mq_net_add(net, MQ_OP_SCAN, "scan"), w, true);
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

static uint32_t gate(struct mq_net *net, uint32_t proj, uint32_t scanned, const struct widths *w)
{
	uint32_t id = by_head(net, mq_net_add(net, MQ_OP_ELEMENTWISE, "gate"), w, false);
	struct mq_op *op = mq_net_at(net, id);
	double elems = net->rows * w->inner;

	op->param = w->inner;
	op->flop = 9 * elems; /* RMS norm 4, SiLU and GEMM 5 */
	op->flop_bwd = 2 * op->flop;
	op->read = 2 * elems;
	op->write = op->output = elems;
	op->moved_bwd = 5 * elems;
	op->saved = elems; /* out_proj's input */
	mq_net_join(net, proj, id, w->inner);
	mq_net_join(net, scanned, id, w->inner);
	return id;
}

/* The selective scan of Mamba-1: u, dt, z, B and C in, y out. */
static uint32_t selective_scan(struct mq_net *net, uint32_t proj, uint32_t conv, uint32_t steps,
			       const struct mq_mamba *m, const struct widths *w)
{
	uint32_t id = by_head(net, mq_net_add(net, MQ_OP_SCAN, "scan"), w, true);
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
	uint32_t proj = by_head(net, mq_net_gemm(net, "in_proj", input, hidden, 2 * inner), &w, false);
	uint32_t conv = convolve(net, proj, m, &w);
	uint32_t x = mq_net_gemm(net, "x_proj", conv, inner, low);

	mq_net_at(net, conv)->saved = net->rows * 3 * inner; /* x before and behind it, and z */
	if (m->norms)
		x = mq_net_norm(net, "x_norm", x, low);
	net->biases = true;
	uint32_t steps = by_head(net, mq_net_gemm(net, "dt_proj", x, m->rank, inner), &w, false);
	net->biases = biases;
	return mq_net_gemm(net, "out_proj", selective_scan(net, proj, conv, steps, m, &w), inner, hidden);
}

uint32_t mq_net_mamba(struct mq_net *net, uint32_t input, double hidden, const struct mq_mamba *m)
{
	if (m->rank)
		return mamba1(net, input, hidden, m);
	double inner = (double)m->heads * m->head_dim, bc = (double)m->groups * m->state;
	const struct widths w = { .inner = inner, .mixed = inner + 2 * bc, .heads = m->heads };
	uint32_t proj = by_head(net, mq_net_gemm(net, "in_proj", input, hidden, inner + w.mixed + w.heads), &w, false);
	uint32_t conv = convolve(net, proj, m, &w);
	uint32_t scanned = scan(net, proj, conv, m, &w);

	uint32_t gated = gate(net, proj, scanned, &w);
	if (m->ungated)
		mq_net_at(net, gated)->param = 0;
	return mq_net_gemm(net, "out_proj", gated, inner, hidden);
}

/* mamba.c - see mamba.h. SPDX-License-Identifier: Apache-2.0 */
#include "model/builders/lib/mamba.h"

struct widths {
	double inner, mixed; /* D; x, B and C together: D + 2 G N */
	double heads;
};

/* Keeps `kept` a token of all that in_proj made. */
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

/* The selective scan of Mamba-1: u, dt, z, B and C in, y out. */
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
	uint32_t conv = convolve(net, proj, m, &w, 3 * inner); /* x before and behind it, and z */
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

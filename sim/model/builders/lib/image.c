/* image.c - see image.h. SPDX-License-Identifier: Apache-2.0 */
#include "model/builders/lib/image.h"

#include <math.h>

static const double MASK = .5; /* one byte, in 16-bit elements */

static void allow(struct mq_op *op, enum mq_dim dim, double extent)
{
	if (extent < 1)
		return;
	op->splits |= 1u << dim;
	op->extent[dim] = extent;
}

static double elems_of(const struct mq_plane *p)
{
	return p->c * p->h * p->w;
}

/* Halo rows that a window reads from the neighbour's part. */
static double halo(const struct mq_window *w)
{
	return w->kh > w->stride ? ceil((w->kh - w->stride) / 2) * w->in.w * w->in.c : 0;
}

/* Pixels of whole 4x4 output tiles over pixels of the output, see struct mq_op; 0: no Winograd convolution. */
static double winograd(const struct mq_window *w)
{
	bool applies = w->kh == 3 && w->kw == 3 && w->stride == 1 && w->groups == 1;
	double tiles = ceil(w->out.h / 4) * ceil(w->out.w / 4);

	return applies ? 16 * tiles / (w->out.h * w->out.w) : 0;
}

/* The stride along an axis with equal padding on both sides; 0: the padding differs. */
static uint8_t stride_of(double in, double out, double size)
{
	for (double stride = 1; stride < 16; stride++) {
		double pad = ceil(((out - 1) * stride + size - in) / 2);

		if (out > 1 && pad >= 0 && pad < size && floor((in + 2 * pad - size) / stride) + 1 == out)
			return (uint8_t)stride;
	}
	return out == 1 && in == size;
}

static struct mq_conv_image image_of(const struct mq_window *w)
{
	uint8_t down = stride_of(w->in.h, w->out.h, w->kh), across = stride_of(w->in.w, w->out.w, w->kw);

	if (!down || !across || fmax(w->in.h, w->in.w) > UINT16_MAX || fmax(w->kh, w->kw) > UINT8_MAX ||
	    down != w->stride)
		return (struct mq_conv_image){ 0 };
	return (struct mq_conv_image){ .h = (uint16_t)w->in.h,
				       .w = (uint16_t)w->in.w,
				       .out_h = (uint16_t)w->out.h,
				       .out_w = (uint16_t)w->out.w,
				       .kh = (uint8_t)w->kh,
				       .kw = (uint8_t)w->kw,
				       .stride_h = down,
				       .stride_w = across };
}

void mq_amounts_conv(struct mq_op *op, const struct mq_window *w)
{
	double out = elems_of(&w->out);

	op->m = w->out.h * w->out.w;
	op->n = w->out.c / w->groups;
	op->k = w->in.c / w->groups * w->kh * w->kw;
	op->count = w->groups;
	op->param = op->n * op->k * op->count + (w->bias ? w->out.c : 0);
	op->flop = (2 * op->k + w->bias) * out;
	op->flop_bwd = (w->input_grad ? 2 : 1) * op->flop;
	op->read = elems_of(&w->in);
	op->write = op->output = out;
	op->moved_bwd = (w->input_grad ? 2 : 1) * (op->read + op->write);
	op->halo = halo(w);
	op->winograd = winograd(w);
	op->window = w->kh * w->kw;
	op->image = image_of(w);
	op->kernels = 1;
	allow(op, MQ_DIM_SPATIAL, w->out.h);
	allow(op, MQ_DIM_OUT, w->groups > 1 ? w->groups : w->out.c);
	if (w->groups == 1)
		allow(op, MQ_DIM_IN, w->in.c);
}

void mq_amounts_conv_transposed(struct mq_op *op, const struct mq_window *w)
{
	double out = elems_of(&w->out);

	op->m = w->in.h * w->in.w;
	op->n = w->out.c / w->groups * w->kh * w->kw;
	op->k = w->in.c / w->groups;
	op->count = w->groups;
	op->param = op->n * op->k * op->count + (w->bias ? w->out.c : 0);
	op->flop = 2 * op->m * op->n * op->k * op->count + (w->bias ? out : 0);
	op->flop_bwd = (w->input_grad ? 2 : 1) * op->flop;
	op->read = elems_of(&w->in);
	op->write = op->output = out;
	op->moved_bwd = 2 * (op->read + op->write);
	op->kernels = 1;
}

void mq_amounts_pool(struct mq_op *op, const struct mq_window *w, bool max)
{
	double out = elems_of(&w->out), in = elems_of(&w->in), mask = max ? MASK * out : 0;

	op->flop = op->flop_bwd = w->kh * w->kw * out;
	op->read = in;
	op->write = out + mask;
	op->output = out;
	op->moved_bwd = in + out + mask;
	op->saved = mask; /* place of the maximum in its window: a byte at least */
	op->masks = max ? out : 0;
	op->halo = halo(w);
	op->kernels = 1;
	allow(op, MQ_DIM_SPATIAL, w->out.h);
	allow(op, MQ_DIM_OUT, w->out.c);
}

void mq_amounts_gemm(struct mq_op *op, const double mnk[3], bool bias, bool input_grad)
{
	op->m = mnk[0];
	op->n = mnk[1];
	op->k = mnk[2];
	op->count = 1;
	op->param = op->n * op->k + (bias ? op->n : 0);
	op->output = op->m * op->n;
	op->flop = (2 * op->k + bias) * op->output;
	op->flop_bwd = (input_grad ? 2 : 1) * op->flop;
	op->read = op->m * op->k;
	op->write = op->output;
	op->moved_bwd = (input_grad ? 2 : 1) * (op->read + op->write);
	op->kernels = 1;
	allow(op, MQ_DIM_OUT, op->n);
	allow(op, MQ_DIM_IN, op->k);
}

void mq_amounts_norm(struct mq_op *op, const struct mq_plane *in, double flop_per_elem, bool train)
{
	double elems = elems_of(in);

	op->flop = flop_per_elem * elems;
	op->flop_bwd = 2 * op->flop;
	op->read = train ? 2 * elems : elems;
	op->write = op->output = elems;
	op->moved_bwd = 5 * elems; /* reads input and gradient twice (for the sums first), writes once */
	op->kernels = 1;
	allow(op, MQ_DIM_SPATIAL, in->h);
	allow(op, MQ_DIM_OUT, in->c);
}

void mq_amounts_elementwise(struct mq_op *op, double elems, double n_inputs, double flop_per_elem)
{
	op->flop = op->flop_bwd = flop_per_elem * elems;
	op->read = n_inputs * elems;
	op->write = op->output = elems;
	op->moved_bwd = 3 * elems; /* reads gradient and saved value (or two gradients), writes one */
	op->kernels = 1;
}

void mq_amounts_copy(struct mq_op *op, double in_elems, double out_elems)
{
	op->read = fmin(in_elems, out_elems);
	op->write = op->output = out_elems;
	op->moved_bwd = op->read + op->write;
	op->kernels = 1;
}

void mq_amounts_dropout(struct mq_op *op, double elems, bool train)
{
	op->output = elems;
	if (!train)
		return; /* the identity moves nothing */
	op->read = elems;
	op->write = elems * (1 + MASK);
	op->moved_bwd = elems * (2 + MASK);
	op->saved = elems * MASK;
	op->masks = elems;
	op->kernels = 1;
}

void mq_amounts_softmax(struct mq_op *op, double elems)
{
	mq_amounts_elementwise(op, elems, 1, 5);
}

void mq_amounts_saved(struct mq_model *m, const uint8_t *traits, struct mq_arena *arena)
{
	uint8_t *needed = mq_arena_array(arena, m->n_ops, uint8_t);

	for (uint32_t i = 0; i < m->n_edges; i++)
		if (traits[m->edge[i].dst] & MQ_NEEDS_INPUT)
			needed[m->edge[i].src] = 1;
	for (uint32_t i = 0; i < m->n_ops; i++)
		needed[i] |= (traits[i] & MQ_NEEDS_OUTPUT) != 0;
	/* Edges are added with their consumer, so they come in the order of their ends: going back,
	 * a view is settled before the op behind it is asked. */
	for (uint32_t i = m->n_edges; i-- > 0;)
		if (needed[m->edge[i].dst] && traits[m->edge[i].dst] & MQ_IS_VIEW)
			needed[m->edge[i].src] = 1;
	for (uint32_t i = 0; i < m->n_ops; i++)
		if (needed[i] && !(traits[i] & MQ_IS_VIEW))
			m->op[i].saved += m->op[i].output;
}

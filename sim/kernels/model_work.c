/* model_work.c - see model_work.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/model_work.h"

#include <math.h>

#include "kernels/model_chains.h"

/* Heads of keys and values that fused attention reads: fewer than `count` with grouped queries. */
static double kv_heads(const struct mq_op *op)
{
	double head = 2 * op->n * op->k, keys = op->read - op->m * op->k * op->count;

	return head > 0 && keys > head ? keys / head : 1;
}

struct mq_op_scale mq_op_scale_of(const struct mq_op *op, const struct mq_share *share)
{
	double e = mq_degree(share->split, MQ_DIM_EXPERT), h = mq_degree(share->split, MQ_DIM_HEAD);
	double o = mq_degree(share->split, MQ_DIM_OUT), i = mq_degree(share->split, MQ_DIM_IN);
	double space = mq_degree(share->split, MQ_DIM_SEQ) * mq_degree(share->split, MQ_DIM_SPATIAL);
	double rows = share->samples / space;
	struct mq_op_scale s = { .rows = rows, .cols = 1, .depth = 1, .count = 1, .keys = 1 };

	switch (op->kind) {
	case MQ_OP_GEMM:
	case MQ_OP_CONV:
	case MQ_OP_ROUTER:
		s.depth = 1 / i;
		if (op->kind == MQ_OP_CONV && op->count > 1) { /* groups */
			s.count = 1 / (o * e);
			s.read = rows / (i * o * e);
		} else {
			s.cols = 1 / (o * h);
			s.count = 1 / e;
			s.read = rows / (i * e);
		}
		s.write = rows / (o * h * e);
		s.flop = rows / (o * h * e * i);
		return s;
	case MQ_OP_ATTENTION:
		s.rows = 1 / space;
		s.count = share->samples / h;
		s.keys = share->keys > 0 ? share->keys : 1;
		s.read = s.write = rows / h;
		s.flop = s.read * s.keys;
		/* ranks that share a head each read it whole */
		s.kv = s.keys * share->samples / fmin(h, kv_heads(op));
		return s;
	case MQ_OP_BMM:
		s.rows = 1 / space;
		s.count = share->samples / (h * e);
		s.cols = 1 / o;
		s.read = s.write = s.flop = rows / (o * h * e);
		return s;
	case MQ_OP_EMBEDDING:
		s.read = rows / (i * o);
		s.write = rows / o;
		s.flop = rows / (i * o);
		return s;
	case MQ_OP_RECURRENT:
		s.cols = 1 / o;
		s.read = rows;
		s.write = s.flop = rows / o;
		return s;
	default:
		s.count = 1 / e;
		s.read = s.write = s.flop = rows / (o * h * e);
		return s;
	}
}

struct mq_kernel *mq_work_add(struct mq_op_work *w, enum mq_kernel_kind kind)
{
	mq_assert(w->n < MQ_MAX_KERNELS_PER_OP);
	w->kernel[w->n] = w->blank;
	w->kernel[w->n].kind = (uint8_t)kind;
	return &w->kernel[w->n++];
}

void mq_work_pass(struct mq_op_work *w, enum mq_kernel_kind kind, double bytes, double launches)
{
	struct mq_kernel *k = mq_work_add(w, kind);

	k->dtype = (uint8_t)w->dtype;
	k->bytes = bytes;
	k->launches = launches;
}

uint32_t mq_work_calls(const struct mq_op_work *w)
{
	bool each = w->op->kind == MQ_OP_GEMM || w->op->kind == MQ_OP_ELEMENTWISE;
	double experts = each ? w->op->count * w->scale.count : 1;

	return experts > 1 ? (uint32_t)ceil(experts) : 1;
}

void mq_work_gemm(struct mq_op_work *w, const double mnk[3], double flop, double elems)
{
	struct mq_kernel *k = mq_work_add(w, w->op->kind == MQ_OP_CONV ? MQ_KERNEL_CONV : MQ_KERNEL_GEMM);

	k->m = mnk[0];
	k->n = mnk[1];
	k->k = mnk[2];
	k->count = (w->op->count > 0 ? w->op->count : 1) * w->scale.count;
	k->grouped = k->kind == MQ_KERNEL_GEMM && k->count > 1 && mq_op_of_experts(w->op);
	k->apart = k->grouped && w->software->eager_experts;
	k->flop = flop;
	k->bytes = elems * mq_dtype_size(k->dtype);
	k->launches = w->op->kernels * mq_work_calls(w);
	if (w->software->aten_image_kernels && w->op->kind == MQ_OP_CONV) /* a workspace cleared, a layout changed */
		k->launches *= mq_channels_first(w->model, w->software, w->dtype) ? 3 : 2;
	k->winograd = w->op->winograd;
	k->volume = w->op->volume;
	k->layout = w->op->kind == MQ_OP_CONV && mq_channels_first(w->model, w->software, w->dtype) ?
			    w->software->layout_passes :
			    0;
	k->untimed = w->op->kind == MQ_OP_CONV && !w->software->cudnn_benchmark;
	k->image = mq_conv_image_part(w->op, w->strips);
}

void mq_work_cast(struct mq_op_work *w, double elems, uint32_t launches)
{
	if (w->cast_B > 0)
		mq_work_pass(w, MQ_KERNEL_COPY, elems * w->cast_B, launches * mq_work_calls(w));
}

static void add_memory(struct mq_op_work *w, double bytes, double work, double launches)
{
	struct mq_kernel *k;

	if (!(bytes > 0) && !(launches > 0) && !(work > 0))
		return;
	k = mq_work_add(w, MQ_KERNEL_MEMORY);
	k->bytes = fmax(bytes, 0);
	k->work = work;
	k->launches = fmax(launches, 0);
}

/* Norms, rotary embeddings and sums of the residual stream are in its type, activations in that of autocast's pow(). */
static enum mq_dtype type_of(const struct mq_op_work *w, enum mq_part part, enum mq_make make)
{
	bool stream = part == MQ_PART_RMS || part == MQ_PART_LAYER_NORM || part == MQ_PART_ROPE;

	return stream || make == MQ_MAKE_COMPOSITE ? w->stream : w->dtype;
}

/* Adds the kernels that memory limits and those that instructions may limit, one after the other, less the traffic of
 * the one fused kernel that the op counts already. */
void mq_work_made(struct mq_op_work *w, enum mq_part part, enum mq_make make, double elems, bool backward)
{
	const struct mq_part_kernels *own = mq_part_kernels(w->libraries, part, make);
	const struct mq_part_kernels *fused = mq_part_kernels(w->libraries, part, MQ_MAKE_FUSED);
	struct mq_part_sum e = mq_part_sum(backward ? own->backward : own->forward, type_of(w, part, make)), f = { 0 };

	if (fused)
		f = mq_part_sum(backward ? fused->backward : fused->forward, w->dtype);
	double streamed_B = e.streamed.bytes - f.streamed.bytes - f.worked.bytes;
	double worked_B = e.worked.bytes + fmin(streamed_B, 0);
	double launches = e.streamed.launches - f.streamed.launches - f.worked.launches;

	add_memory(w, elems * streamed_B, 0, launches);
	add_memory(w, elems * worked_B, elems * e.worked.work, e.worked.launches + fmin(launches, 0));
	if (e.blocked.launches > 0) {
		add_memory(w, elems * e.blocked.bytes, elems * e.blocked.work, e.blocked.launches);
		w->kernel[w->n - 1].blocks = w->op->extent[MQ_DIM_OUT];
	}
}

void mq_work_inputs(struct mq_op_work *w, double elems, uint32_t modules, bool backward)
{
	if (w->stream != w->dtype) {
		mq_work_made(w, MQ_PART_CAST, MQ_MAKE_AUTOCAST, modules * elems, backward);
		w->kernel[w->n - 1].launches = modules;
	}
	if (backward && modules > 1)
		add_memory(w, (modules - 1) * 3 * elems * mq_dtype_size(w->stream), 0, modules - 1);
}

void mq_work_as(struct mq_op_work *w, enum mq_part part, uint32_t fusion, double elems, bool backward)
{
	static const enum mq_make makes[] = { [MQ_EAGER] = MQ_MAKE_EAGER,
					      [MQ_APART] = MQ_MAKE_APART,
					      [MQ_XLA] = MQ_MAKE_XLA,
					      [MQ_TENSORFLOW] = MQ_MAKE_TENSORFLOW };

	if (fusion != MQ_FUSED && !w->model->image && mq_part_kernels(w->libraries, part, makes[fusion]))
		mq_work_made(w, part, makes[fusion], elems, backward);
}

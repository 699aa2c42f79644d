/* onnx_ops.c - the supported ONNX operators, and the model op that each becomes.
 *
 * A node with only constant inputs is folded: its outputs are constants, and weights if floating-point initializers
 * enter it. Weights count as parameters of the first op that uses them (batch norm's running statistics included).
 * Amounts are divided by the batch of the file's shapes. SPDX-License-Identifier: Apache-2.0 */
#include "model/formats/lib/onnx.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

#define X(class, kind) class,
enum class {
#include "model/formats/lib/onnx_classes.def"
};
#undef X

struct operator
{
	const char *types; /* separated by spaces */
	mq_onnx_infer *infer;
	const char *ranks; /* a digit per mandatory input: its minimum rank */
	enum class class;
	double flop;
	uint8_t traits;
};

#define IN  MQ_NEEDS_INPUT
#define OUT MQ_NEEDS_OUTPUT

static const struct operator operators[] = {
#define X(types, infer, ranks, class, flop, traits) { types, infer, ranks, class, flop, traits },
#include "model/formats/lib/onnx_operators.def"
#undef X
};

enum { N_OPERATORS = sizeof(operators) / sizeof(*operators) };

static enum mq_status unknown(const struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const char **names = NULL;
	uint32_t n = 0, room = 0;

	if (strstr(node->type, "Quantize") || !strncmp(node->type, "QLinear", 7) || strstr(node->type, "Integer") ||
	    strstr(node->type, "NBits"))
		return mq_onnx_fail(g, node, err,
				    "quantised weights are not trained; export the model in floating point");
	for (size_t i = 0; i < N_OPERATORS; i++)
		for (char *rest = mq_arena_strdup(g->arena, operators[i].types), *word; (word = strsep(&rest, " "));)
			MQ_PUSH(g->arena, names, n, room, word);
	MQ_PUSH(g->arena, names, n, room, NULL);
	const char *near = mq_nearest(node->type, names);
	return mq_onnx_fail(g, node, err,
			    "this operator is not supported%s%s%s; %d are, among them Conv, Gemm, "
			    "MatMul, BatchNormalization, LSTM and the element-wise ones",
			    near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "", (int)n - 1);
}

/* ---- amounts --------------------------------------------------------------------------------- */

/* The first spatial axis is the height, the product of the others the width. */
static struct mq_plane plane_of(const struct mq_onnx_tensor *t)
{
	struct mq_plane p = { 1, 1, 1 };

	for (uint32_t d = 1; d < t->rank; d++)
		*(d == 1 ? &p.c : d == 2 ? &p.h : &p.w) *= t->dim[d];
	return p;
}

static struct mq_window window_of(const struct mq_onnx_node *node)
{
	const struct mq_onnx_attribute *kernel = mq_onnx_attribute(node, "kernel_shape");
	const struct mq_onnx_attribute *strides = mq_onnx_attribute(node, "strides");
	const struct mq_onnx_tensor *x = node->in[0];
	struct mq_window w = {
		.in = plane_of(x),
		.out = plane_of(node->out[0]),
		.kh = 1,
		.kw = 1,
		.stride = strides && strides->n ? strides->list[0] : 1,
		.groups = mq_onnx_number(node, "group", 1),
		.bias = node->n_in > 2 && node->in[2],
		.input_grad = x->grad,
	};

	for (uint32_t d = 2; d < x->rank; d++) {
		double size = x->dim[d]; /* global pooling */

		if (node->n_in > 1 && node->in[1] && node->in[1]->rank == x->rank)
			size = node->in[1]->dim[d];
		else if (kernel && d - 2 < kernel->n)
			size = kernel->list[d - 2];
		*(d == 2 ? &w.kh : &w.kw) *= size;
	}
	return w;
}

/* Amounts of one image times the images in the tensor. */
static void scale(struct mq_op *op, double by)
{
	double *const amounts[] = { &op->m,     &op->flop,      &op->flop_bwd, &op->read,
				    &op->write, &op->moved_bwd, &op->output,   &op->saved };

	for (size_t i = 0; i < sizeof(amounts) / sizeof(*amounts); i++)
		*amounts[i] *= by;
}

static void products(struct mq_op *op, const struct mq_onnx_node *node)
{
	const struct mq_onnx_tensor *a = node->in[0], *b = node->in[1];
	bool gemm = !strcmp(node->type, "Gemm"), left = a->constant && !b->constant;
	double k = a->dim[gemm && mq_onnx_number(node, "transA", 0) != 0 ? 0 : a->rank - 1];
	double out = mq_onnx_elems(node->out[0]);
	bool bias = gemm && node->n_in > 2 && node->in[2];

	if (a->constant || b->constant) {
		/* W x is the same GEMM as x' W' */
		const struct mq_onnx_tensor *w = left ? a : b;
		double n = k > 0 && w->rank == 2 ? mq_onnx_elems(w) / k : 1;

		mq_amounts_gemm(op, (double[]){ n > 0 ? out / n : 0, n, k }, bias, left ? b->grad : a->grad);
		op->kind = MQ_OP_GEMM;
		return;
	}
	double n = b->rank > 1 ? b->dim[gemm && mq_onnx_number(node, "transB", 0) != 0 ? 0 : b->rank - 1] : 1;
	double m = a->rank > 1 ? a->dim[a->rank - 2] : 1;
	op->kind = MQ_OP_BMM;
	op->m = m;
	op->n = n;
	op->k = k;
	op->count = m * n > 0 ? out / (m * n) : 0;
	op->flop = (2 * k + bias) * out;
	op->flop_bwd = 2 * op->flop;
	op->read = mq_onnx_elems(a) + mq_onnx_elems(b);
	op->write = op->output = out;
	op->moved_bwd = 2 * (op->read + op->write);
	op->kernels = 1;
}

static void recurrent(struct mq_op *op, const struct mq_onnx_node *node, double gates)
{
	const struct mq_onnx_tensor *x = node->in[0], *r = node->in[2];
	double steps = x->dim[0], directions = r->dim[0], hidden = r->dim[2];

	op->m = steps * directions;
	op->n = gates * hidden;
	op->k = x->dim[2] + hidden;
	op->count = x->dim[1];
	op->flop = 2 * op->m * op->n * op->k * x->dim[1];
	op->flop_bwd = 2 * op->flop;
	op->read = mq_onnx_elems(x);
	op->write = steps * directions * x->dim[1] * hidden;
	op->moved_bwd = 2 * (op->read + op->write);
	op->output = op->write;
	op->saved = gates * op->write; /* the gates of each step */
	op->kernels = 1;
}

static double live_inputs(const struct mq_onnx_node *node)
{
	double n = 0;

	for (uint32_t i = 0; i < node->n_in; i++)
		n += node->in[i] && !node->in[i]->constant;
	return n;
}

/* Element-wise ops on images may be split along channels and height. */
static void allow_splits(struct mq_op *op, enum class class, const struct mq_onnx_tensor *out)
{
	if ((class != MAP && class != SUM && class != DROPOUT) || out->rank != 4)
		return;
	op->splits |= 1u << MQ_DIM_SPATIAL | 1u << MQ_DIM_OUT;
	op->extent[MQ_DIM_SPATIAL] = out->dim[2];
	op->extent[MQ_DIM_OUT] = out->dim[1];
}

static void normalise(const struct mq_onnx *g, struct mq_op *op, const struct operator* o,
		      const struct mq_onnx_node *node)
{
	struct mq_plane plane = plane_of(node->in[0]);
	double flop = o->class == LRN ? mq_onnx_number(node, "size", 5) + 3 : o->flop;

	mq_amounts_norm(op, &plane, flop, g->train && !strcmp(node->type, "BatchNormalization"));
	if (!strcmp(node->type, "LayerNormalization")) /* it normalizes over features, which no split divides */
		op->splits = 1u << MQ_DIM_BATCH;
}

static void fill(struct mq_onnx *g, struct mq_op *op, const struct operator* o, const struct mq_onnx_node *node)
{
	const struct mq_onnx_tensor *x = node->in[0];
	double elems = mq_onnx_elems(node->out[0]);
	double images = x && x->rank > 1 ? x->dim[0] : 1;
	struct mq_window w;

	switch (o->class) {
	case CONV:
		w = window_of(node);
		mq_amounts_conv(op, &w);
		op->volume = x->rank > 4;
		scale(op, images);
		break;
	case CONV_TRANSPOSE:
		w = window_of(node);
		mq_amounts_conv_transposed(op, &w);
		scale(op, images);
		break;
	case POOL_MAX:
	case POOL:
		w = window_of(node);
		mq_amounts_pool(op, &w, o->class == POOL_MAX && g->train);
		scale(op, images);
		break;
	case NORM:
	case LRN:
		normalise(g, op, o, node);
		scale(op, images);
		break;
	case GEMM:
		products(op, node);
		break;
	case RECURRENT:
		recurrent(op, node, o->flop);
		break;
	case MAP:
		mq_amounts_elementwise(op, elems, live_inputs(node), o->flop);
		break;
	case SUM:
		mq_amounts_elementwise(op, elems, live_inputs(node), fmax(node->n_in, 2) - 1);
		break;
	case REDUCE:
		mq_amounts_copy(op, mq_onnx_elems(x), elems);
		op->read = op->flop = op->flop_bwd = mq_onnx_elems(x);
		break;
	case SOFTMAX:
		mq_amounts_softmax(op, elems);
		break;
	case DROPOUT:
		mq_amounts_dropout(op, elems, g->train);
		break;
	case VIEW:
		op->output = elems;
		break;
	default: /* a Split has several outputs, other operators one */
		for (uint32_t i = 1; i < node->n_out; i++)
			elems += node->out[i] ? mq_onnx_elems(node->out[i]) : 0;
		mq_amounts_copy(op, !strcmp(node->type, "Concat") ? elems : mq_onnx_elems(x), elems);
		break;
	}
}

/* ---- ops ------------------------------------------------------------------------------------- */

#define X(class, kind) [class] = kind,
static const enum mq_op_kind kinds[] = {
#include "model/formats/lib/onnx_classes.def"
};
#undef X

/* Parameters: the input weights that no earlier op has counted. */
static double count_weights(const struct mq_onnx_node *node)
{
	double param = 0;

	for (uint32_t i = 0; i < node->n_in; i++) {
		struct mq_onnx_tensor *t = node->in[i];

		t = t && t->origin ? t->origin : t;
		if (!t || !t->weight || t->counted || !t->rank)
			continue;
		t->counted = true;
		param += mq_onnx_elems(t);
	}
	return param;
}

static void join(struct mq_onnx *g, const struct mq_onnx_node *node, uint32_t id)
{
	for (uint32_t i = 0; i < node->n_in; i++) {
		const struct mq_onnx_tensor *t = node->in[i];

		if (!t || t->producer == MQ_NONE)
			continue;
		mq_model_connect(&g->b, t->producer, id, mq_onnx_elems(t) / g->batch);
		g->b.model->edge[g->b.model->n_edges - 1].no_grad = !t->grad;
	}
}

static void add_op(struct mq_onnx *g, const struct operator* o, const struct mq_onnx_node *node)
{
	const char *name = mq_arena_printf(g->arena, "%s.%s", node->out[0]->name, node->type);
	bool embedding = o->class == GATHER && node->in[0]->weight;
	uint32_t id = mq_model_add(&g->b, embedding ? MQ_OP_EMBEDDING : kinds[o->class], name);
	struct mq_op *op = &g->b.model->op[id];
	double param = count_weights(node);
	bool grad = false;

	fill(g, op, o, node);
	allow_splits(op, o->class, node->out[0]);
	op->param = param;
	for (uint32_t i = 0; i < node->n_in; i++)
		grad = grad || (node->in[i] && (node->in[i]->grad || node->in[i]->weight));
	if (!grad)
		op->flop_bwd = op->moved_bwd = 0;
	scale(op, 1 / g->batch);
	if (op->kind == MQ_OP_BMM || op->kind == MQ_OP_RECURRENT) { /* samples: matrices, rows */
		op->m *= g->batch;
		op->count /= g->batch;
	}
	MQ_PUSH(g->arena, g->traits, g->n_traits, g->traits_room, (uint8_t)(grad ? o->traits : 0));
	join(g, node, id);
	for (uint32_t i = 0; i < node->n_out; i++)
		if (node->out[i]) {
			node->out[i]->producer = id;
			node->out[i]->grad = grad;
		}
}

enum mq_status mq_onnx_add_node(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct operator* o = NULL;
	bool constant = true, weight = false;

	for (size_t i = 0; i < N_OPERATORS && !o; i++)
		if (mq_text_has_word(operators[i].types, node->type))
			o = &operators[i];
	if (!o)
		return unknown(g, node, err);
	if (!node->n_out || !node->out[0])
		return mq_onnx_fail(g, node, err, "it has no output");
	for (uint32_t i = 0; o->ranks[i]; i++)
		MQ_TRY(mq_onnx_input(g, node, i, (uint32_t)(o->ranks[i] - '0'), err));
	MQ_TRY(o->infer(g, node, err));
	for (uint32_t i = 0; i < node->n_in; i++) {
		constant = constant && (!node->in[i] || node->in[i]->constant);
		weight = weight || (node->in[i] && node->in[i]->weight);
	}
	if (!constant && !node->out[0]->constant) {
		add_op(g, o, node);
		return MQ_OK;
	}
	bool view = weight && (o->class == VIEW || o->class == COPY) && node->n_out == 1 && node->in[0]->weight &&
		    mq_onnx_elems(node->in[0]) == mq_onnx_elems(node->out[0]);
	for (uint32_t i = 0; i < node->n_out; i++)
		if (node->out[i]) {
			node->out[i]->constant = true;
			node->out[i]->weight |= weight && !node->out[i]->integer;
		}
	if (view) /* a transposed weight is the same weight */
		node->out[0]->origin = node->in[0]->origin ? node->in[0]->origin : node->in[0];
	return MQ_OK;
}

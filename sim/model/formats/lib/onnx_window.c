/* onnx_window.c - output shapes of ONNX operators for convolution, pooling, resampling, matrix products and sequences;
 * see onnx_shape.c for others. SPDX-License-Identifier: Apache-2.0 */
#include "model/formats/lib/onnx.h"

#include <math.h>
#include <string.h>

/* ---- windows --------------------------------------------------------------------------------- */

/* Size along one spatial axis of a convolution or pool; `axis` counts spatial axes. */
static double window_out(const struct mq_onnx_node *node, double in, double kernel, uint32_t axis, uint32_t n_axes)
{
	const struct mq_onnx_list strides = mq_onnx_list(node, "strides", UINT32_MAX);
	const struct mq_onnx_list dilations = mq_onnx_list(node, "dilations", UINT32_MAX);
	const struct mq_onnx_list pads = mq_onnx_list(node, "pads", UINT32_MAX);
	const struct mq_onnx_attribute *mode = mq_onnx_attribute(node, "auto_pad");
	double stride = mq_onnx_entry(&strides, axis, 1);
	double reach = mq_onnx_entry(&dilations, axis, 1) * (kernel - 1) + 1;
	double pad = mq_onnx_entry(&pads, axis, 0) + mq_onnx_entry(&pads, axis + n_axes, 0);
	bool up = mq_onnx_number(node, "ceil_mode", 0) != 0;

	if (mode && mode->text && !strncmp(mode->text, "SAME", 4))
		return ceil(in / stride);
	if (mode && mode->text && !strcmp(mode->text, "VALID"))
		pad = 0;
	double steps = (in + pad - reach) / stride;
	return (up ? ceil(steps) : floor(steps)) + 1;
}

static enum mq_status check_windows(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	static const struct {
		const char *name;
		double min;
	} lists[] = { { "kernel_shape", 1 }, { "strides", 1 }, { "dilations", 1 }, { "pads", 0 } };

	for (size_t l = 0; l < sizeof(lists) / sizeof(*lists); l++) {
		const struct mq_onnx_list list = mq_onnx_list(node, lists[l].name, UINT32_MAX);

		for (uint32_t i = 0; i < list.n; i++)
			if (!(list.v[i] >= lists[l].min && list.v[i] <= 1e6))
				return mq_onnx_fail(g, node, err, "%s holds %g; give %g to 1e6", lists[l].name,
						    list.v[i], lists[l].min);
	}
	return MQ_OK;
}

enum mq_status mq_onnx_conv(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	MQ_TRY(check_windows(g, node, err));
	const struct mq_onnx_tensor *x = node->in[0], *w = node->in[1];
	struct mq_onnx_tensor shape = { .rank = x->rank, .dim = { x->dim[0], w->dim[0] } };
	double groups = mq_onnx_number(node, "group", 1);

	if (w->rank != x->rank)
		return mq_onnx_fail(g, node, err, "the weight has %u axes, the input %u", w->rank, x->rank);
	if (!(groups >= 1) || x->dim[1] != groups * w->dim[1] || fmod(w->dim[0], groups) != 0)
		return mq_onnx_fail(g, node, err,
				    "%g input channels do not fit a weight for %g in %g groups of %g filters",
				    x->dim[1], w->dim[1], groups, w->dim[0]);
	for (uint32_t d = 2; d < x->rank; d++) {
		shape.dim[d] = window_out(node, x->dim[d], w->dim[d], d - 2, x->rank - 2);
		if (!(shape.dim[d] >= 1))
			return mq_onnx_fail(g, node, err, "the window of %g exceeds the input of %g", w->dim[d],
					    x->dim[d]);
	}
	return mq_onnx_set_all(g, node, &shape, err);
}

enum mq_status mq_onnx_conv_transpose(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	MQ_TRY(check_windows(g, node, err));
	const struct mq_onnx_tensor *x = node->in[0], *w = node->in[1];
	const struct mq_onnx_list strides = mq_onnx_list(node, "strides", UINT32_MAX);
	const struct mq_onnx_list dilations = mq_onnx_list(node, "dilations", UINT32_MAX);
	const struct mq_onnx_list pads = mq_onnx_list(node, "pads", UINT32_MAX);
	const struct mq_onnx_list extra = mq_onnx_list(node, "output_padding", UINT32_MAX);
	double groups = mq_onnx_number(node, "group", 1);
	struct mq_onnx_tensor shape = { .rank = x->rank, .dim = { x->dim[0], w->dim[1] * groups } };

	if (w->rank != x->rank || !(groups >= 1) || x->dim[1] != w->dim[0] || fmod(x->dim[1], groups) != 0)
		return mq_onnx_fail(g, node, err, "%g input channels do not fit a weight for %g", x->dim[1], w->dim[0]);
	for (uint32_t d = 2; d < x->rank; d++) {
		uint32_t axis = d - 2;

		shape.dim[d] = (x->dim[d] - 1) * mq_onnx_entry(&strides, axis, 1) +
			       mq_onnx_entry(&dilations, axis, 1) * (w->dim[d] - 1) + 1 +
			       mq_onnx_entry(&extra, axis, 0) - mq_onnx_entry(&pads, axis, 0) -
			       mq_onnx_entry(&pads, axis + x->rank - 2, 0);
	}
	return mq_onnx_set_all(g, node, &shape, err);
}

enum mq_status mq_onnx_pool(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	MQ_TRY(check_windows(g, node, err));
	const struct mq_onnx_list kernel = mq_onnx_list(node, "kernel_shape", UINT32_MAX);
	const struct mq_onnx_tensor *x = node->in[0];
	struct mq_onnx_tensor shape = { .rank = x->rank, .dim = { x->dim[0], x->dim[1] } };

	if (kernel.n != x->rank - 2)
		return mq_onnx_fail(g, node, err, "kernel_shape has %u sizes; give one for each of the %u spatial axes",
				    kernel.n, x->rank - 2);
	for (uint32_t d = 2; d < x->rank; d++) {
		shape.dim[d] = window_out(node, x->dim[d], kernel.v[d - 2], d - 2, x->rank - 2);
		if (!(shape.dim[d] >= 1))
			return mq_onnx_fail(g, node, err, "the window of %g exceeds the input of %g", kernel.v[d - 2],
					    x->dim[d]);
	}
	return mq_onnx_set_all(g, node, &shape, err);
}

enum mq_status mq_onnx_global_pool(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	struct mq_onnx_tensor shape = *node->in[0];

	for (uint32_t d = 2; d < shape.rank; d++)
		shape.dim[d] = 1;
	return mq_onnx_set_all(g, node, &shape, err);
}

enum mq_status mq_onnx_resize(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	struct mq_onnx_tensor shape = *node->in[0];
	struct mq_onnx_list sizes = mq_onnx_list(node, "sizes", 3), scales = mq_onnx_list(node, "scales", 2);

	if (!scales.n)
		scales = mq_onnx_list(node, "scales", 1);
	if (sizes.n == shape.rank) {
		for (uint32_t d = 0; d < shape.rank; d++)
			shape.dim[d] = sizes.v[d];
	} else if (scales.n == shape.rank) {
		for (uint32_t d = 0; d < shape.rank; d++)
			shape.dim[d] = floor(shape.dim[d] * scales.v[d]);
	} else {
		return mq_onnx_fail(g, node, err, "neither sizes nor scales are constants of %u values", shape.rank);
	}
	return mq_onnx_set_all(g, node, &shape, err);
}

/* ---- products -------------------------------------------------------------------------------- */

enum mq_status mq_onnx_gemm(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_tensor *a = node->in[0], *b = node->in[1];
	bool ta = mq_onnx_number(node, "transA", 0) != 0, tb = mq_onnx_number(node, "transB", 0) != 0;
	const struct mq_onnx_tensor shape = { .rank = 2, .dim = { a->dim[ta], b->dim[!tb] } };

	if (a->rank != 2 || b->rank != 2 || a->dim[!ta] != b->dim[tb])
		return mq_onnx_fail(g, node, err, "matrices of depth %g and %g cannot be multiplied", a->dim[!ta],
				    b->dim[tb]);
	return mq_onnx_set_all(g, node, &shape, err);
}

enum mq_status mq_onnx_matmul(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_tensor *a = node->in[0], *b = node->in[1];
	const struct mq_onnx_tensor *longer = a->rank >= b->rank ? a : b;
	struct mq_onnx_tensor shape = *longer;
	double depth = b->rank > 1 ? b->dim[b->rank - 2] : b->dim[0];

	if (a->dim[a->rank - 1] != depth)
		return mq_onnx_fail(g, node, err, "matrices of depth %g and %g cannot be multiplied",
				    a->dim[a->rank - 1], depth);
	if (a->rank == 1 || b->rank == 1) {
		shape.rank = longer->rank - 1;
		if (a->rank == 1 && b->rank > 1)
			shape.dim[shape.rank - 1] = b->dim[b->rank - 1];
		return mq_onnx_set_all(g, node, &shape, err);
	}
	for (uint32_t d = 0; d + 2 < shape.rank; d++) {
		uint32_t skip_a = shape.rank - a->rank, skip_b = shape.rank - b->rank;
		double x = d < skip_a ? 1 : a->dim[d - skip_a], y = d < skip_b ? 1 : b->dim[d - skip_b];

		if (x != y && x != 1 && y != 1)
			return mq_onnx_fail(g, node, err, "batches of %g and %g do not fit", x, y);
		shape.dim[d] = fmax(x, y);
	}
	shape.dim[shape.rank - 2] = a->dim[a->rank - 2];
	shape.dim[shape.rank - 1] = b->dim[b->rank - 1];
	return mq_onnx_set_all(g, node, &shape, err);
}

enum mq_status mq_onnx_recurrent(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_tensor *x = node->in[0], *r = node->in[2];
	const struct mq_onnx_tensor all = { .rank = 4, .dim = { x->dim[0], r->dim[0], x->dim[1], r->dim[2] } };
	const struct mq_onnx_tensor last = { .rank = 3, .dim = { r->dim[0], x->dim[1], r->dim[2] } };

	for (uint32_t i = 0; i < node->n_out; i++)
		if (node->out[i])
			MQ_TRY(mq_onnx_set(g, node, node->out[i], i ? &last : &all, err));
	return MQ_OK;
}

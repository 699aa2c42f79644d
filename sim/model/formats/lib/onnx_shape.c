/* onnx_shape.c - output shapes of ONNX operators, by their specification (opsets 1-21).
 *
 * Every function gets a node with known inputs and fills its outputs. Attributes that later opsets made inputs (axes,
 * split, pads, ...) are read from either. SPDX-License-Identifier: Apache-2.0 */
#include "model/formats/lib/onnx.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const double MAX_DIM = 1e10, MAX_ELEMS = 1e13;

double mq_onnx_elems(const struct mq_onnx_tensor *t)
{
	double n = 1;

	for (uint32_t i = 0; i < t->rank; i++)
		n *= t->dim[i];
	return n;
}

enum mq_status mq_onnx_fail(const struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err,
			    const char *format, ...)
{
	char text[320];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	const char *out = node->n_out && node->out[0] ? node->out[0]->name : "?";
	return mq_bad(err, "%s: %.40s node '%.80s': %s", g->path, node->type, *node->name ? node->name : out, text);
}

const struct mq_onnx_attribute *mq_onnx_attribute(const struct mq_onnx_node *node, const char *name)
{
	for (uint32_t i = 0; i < node->n_attributes; i++)
		if (!strcmp(node->attribute[i].name, name))
			return &node->attribute[i];
	return NULL;
}

double mq_onnx_number(const struct mq_onnx_node *node, const char *name, double otherwise)
{
	const struct mq_onnx_attribute *a = mq_onnx_attribute(node, name);

	return a && isfinite(a->number) ? a->number : otherwise;
}

enum mq_status mq_onnx_input(const struct mq_onnx *g, const struct mq_onnx_node *node, uint32_t i, uint32_t rank,
			     struct mq_err *err)
{
	if (i >= node->n_in || !node->in[i])
		return mq_onnx_fail(g, node, err, "input %u is missing", i);
	if (node->in[i]->rank < rank)
		return mq_onnx_fail(g, node, err, "input '%.60s' has %u axes; at least %u are needed",
				    node->in[i]->name, node->in[i]->rank, rank);
	return MQ_OK;
}

enum mq_status mq_onnx_set(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_onnx_tensor *t,
			   const struct mq_onnx_tensor *shape, struct mq_err *err)
{
	double elems = 1;

	t->rank = shape->rank;
	for (uint32_t i = 0; i < shape->rank; i++) {
		t->dim[i] = shape->dim[i];
		elems *= t->dim[i];
		if (!(t->dim[i] >= 0 && t->dim[i] <= MAX_DIM) || t->dim[i] != floor(t->dim[i]))
			return mq_onnx_fail(g, node, err, "axis %u of '%.60s' would have the size %g; check the shapes",
					    i, t->name, t->dim[i]);
	}
	if (elems > MAX_ELEMS)
		return mq_onnx_fail(g, node, err, "'%.60s' would have %g elements; at most %g are read", t->name, elems,
				    MAX_ELEMS);
	t->known = true;
	return MQ_OK;
}

enum mq_status mq_onnx_set_all(struct mq_onnx *g, const struct mq_onnx_node *node, const struct mq_onnx_tensor *shape,
			       struct mq_err *err)
{
	for (uint32_t i = 0; i < node->n_out; i++)
		if (node->out[i])
			MQ_TRY(mq_onnx_set(g, node, node->out[i], shape, err));
	return MQ_OK;
}

/* Allocates the values of a small integer tensor; NULL: too large. */
static double *make_value(struct mq_onnx *g, struct mq_onnx_tensor *t)
{
	double n = mq_onnx_elems(t);

	if (n > MQ_ONNX_VALUES)
		return NULL;
	t->value = mq_arena_array(g->arena, (size_t)n, double);
	t->valued = t->integer = t->constant = true;
	return t->value;
}

static bool valued_inputs(const struct mq_onnx_node *node)
{
	for (uint32_t i = 0; i < node->n_in; i++)
		if (!node->in[i] || !node->in[i]->valued)
			return false;
	return node->n_in > 0;
}

static void pass_value(struct mq_onnx *g, const struct mq_onnx_node *node)
{
	double *v;

	if (node->in[0]->valued && node->n_out && node->out[0] &&
	    mq_onnx_elems(node->out[0]) == mq_onnx_elems(node->in[0]) && (v = make_value(g, node->out[0])))
		memcpy(v, node->in[0]->value, (size_t)mq_onnx_elems(node->out[0]) * sizeof(*v));
}

/* An axis from an attribute or, since opset 13, an input; negative ones count from the end. */
static bool resolve_axis(double axis, uint32_t rank, uint32_t *out)
{
	if (axis < 0)
		axis += rank;
	if (!(axis >= 0 && axis < rank))
		return false;
	*out = (uint32_t)axis;
	return true;
}

struct mq_onnx_list mq_onnx_list(const struct mq_onnx_node *node, const char *name, uint32_t input)
{
	const struct mq_onnx_attribute *a = mq_onnx_attribute(node, name);

	if (a && a->list)
		return (struct mq_onnx_list){ a->n, a->list, true };
	if (input < node->n_in && node->in[input] && node->in[input]->valued)
		return (struct mq_onnx_list){ (uint32_t)mq_onnx_elems(node->in[input]), node->in[input]->value, true };
	return (struct mq_onnx_list){ 0 };
}

double mq_onnx_entry(const struct mq_onnx_list *l, uint32_t i, double otherwise)
{
	return i < l->n ? l->v[i] : otherwise;
}

enum mq_status mq_onnx_same(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	MQ_TRY(mq_onnx_set_all(g, node, node->in[0], err));
	if (!strcmp(node->type, "Identity") || !strcmp(node->type, "Cast"))
		pass_value(g, node);
	return MQ_OK;
}

static double apply(const char *type, double a, double b)
{
	switch (*type) {
	case 'A':
		return a + b;
	case 'S':
		return a - b;
	case 'M':
		return a * b;
	default:
		return b != 0 ? floor(a / b) : (double)NAN;
	}
}

static void broadcast_values(struct mq_onnx *g, const struct mq_onnx_node *node)
{
	const struct mq_onnx_tensor *a = node->in[0], *b = node->n_in > 1 ? node->in[1] : NULL;
	struct mq_onnx_tensor *out = node->out[0];
	double *v;

	if (!mq_text_has_word("Add Sub Mul Div", node->type) || node->n_in != 2 || !valued_inputs(node) ||
	    a->rank > 1 || b->rank > 1 || !(v = make_value(g, out)))
		return;
	for (size_t i = 0; i < (size_t)mq_onnx_elems(out); i++) {
		v[i] = apply(node->type, a->value[mq_onnx_elems(a) > 1 ? i : 0],
			     b->value[mq_onnx_elems(b) > 1 ? i : 0]);
		out->valued = out->valued && isfinite(v[i]);
	}
}

enum mq_status mq_onnx_broadcast(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	struct mq_onnx_tensor shape = { .rank = 0 };

	for (uint32_t i = 0; i < node->n_in; i++) {
		MQ_TRY(mq_onnx_input(g, node, i, 0, err));
		if (node->in[i]->rank > shape.rank)
			shape.rank = node->in[i]->rank;
	}
	for (uint32_t d = 0; d < shape.rank; d++) {
		double size = 1;

		for (uint32_t i = 0; i < node->n_in; i++) {
			const struct mq_onnx_tensor *t = node->in[i];
			uint32_t skip = shape.rank - t->rank;
			double own = d < skip ? 1 : t->dim[d - skip];

			if (own != 1 && size != 1 && own != size)
				return mq_onnx_fail(g, node, err, "inputs of the sizes %g and %g do not fit together",
						    size, own);
			size = own != 1 ? own : size;
		}
		shape.dim[d] = size;
	}
	MQ_TRY(mq_onnx_set_all(g, node, &shape, err));
	broadcast_values(g, node);
	return MQ_OK;
}

/* ---- moving axes ----------------------------------------------------------------------------- */

enum mq_status mq_onnx_concat(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	uint32_t axis;
	double *v;

	struct mq_onnx_tensor shape = *node->in[0];
	if (!resolve_axis(mq_onnx_number(node, "axis", 1), shape.rank, &axis))
		return mq_onnx_fail(g, node, err, "axis %g is not among %u axes", mq_onnx_number(node, "axis", 1),
				    shape.rank);
	for (uint32_t i = 1; i < node->n_in; i++) {
		MQ_TRY(mq_onnx_input(g, node, i, 1, err));
		for (uint32_t d = 0; d < shape.rank; d++)
			if (node->in[i]->rank != shape.rank || (d != axis && node->in[i]->dim[d] != shape.dim[d]))
				return mq_onnx_fail(g, node, err, "'%.60s' differs from the other inputs along axis %u",
						    node->in[i]->name, d);
		shape.dim[axis] += node->in[i]->dim[axis];
	}
	MQ_TRY(mq_onnx_set_all(g, node, &shape, err));
	if (!valued_inputs(node) || shape.rank != 1 || !(v = make_value(g, node->out[0])))
		return MQ_OK;
	for (uint32_t i = 0; i < node->n_in; i++) {
		size_t n = (size_t)mq_onnx_elems(node->in[i]);

		memcpy(v, node->in[i]->value, n * sizeof(*v));
		v += n;
	}
	return MQ_OK;
}

enum mq_status mq_onnx_reshape(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_list wanted = mq_onnx_list(node, "shape", 1);
	struct mq_onnx_tensor shape = { .rank = wanted.n };
	double rest = 1;
	uint32_t open = MQ_NONE;

	if (!wanted.given || wanted.n > MQ_ONNX_RANK)
		return mq_onnx_fail(g, node, err, "the new shape is not a constant of up to %d sizes", MQ_ONNX_RANK);
	for (uint32_t d = 0; d < wanted.n; d++) {
		shape.dim[d] = wanted.v[d];
		if (wanted.v[d] == 0 && d < node->in[0]->rank && mq_onnx_number(node, "allowzero", 0) == 0)
			shape.dim[d] = node->in[0]->dim[d];
		if (wanted.v[d] == -1 && open == MQ_NONE)
			open = d;
		else
			rest *= shape.dim[d];
	}
	if (open != MQ_NONE)
		shape.dim[open] = rest > 0 ? mq_onnx_elems(node->in[0]) / rest : 0;
	if (mq_onnx_elems(&shape) != mq_onnx_elems(node->in[0]))
		return mq_onnx_fail(g, node, err, "%g elements do not fit the new shape of %g",
				    mq_onnx_elems(node->in[0]), mq_onnx_elems(&shape));
	MQ_TRY(mq_onnx_set_all(g, node, &shape, err));
	pass_value(g, node);
	return MQ_OK;
}

enum mq_status mq_onnx_flatten(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_tensor *x = node->in[0];
	struct mq_onnx_tensor shape = { .rank = 2, .dim = { 1, 1 } };
	double axis = mq_onnx_number(node, "axis", 1);

	if (axis < 0)
		axis += x->rank;
	for (uint32_t d = 0; d < x->rank; d++)
		shape.dim[d >= axis] *= x->dim[d];
	return mq_onnx_set_all(g, node, &shape, err);
}

enum mq_status mq_onnx_transpose(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_tensor *x = node->in[0];
	const struct mq_onnx_list perm = mq_onnx_list(node, "perm", UINT32_MAX);
	struct mq_onnx_tensor shape = { .rank = x->rank };
	uint32_t seen = 0;

	if (perm.given && perm.n != x->rank)
		return mq_onnx_fail(g, node, err, "perm has %u entries for %u axes", perm.n, x->rank);
	for (uint32_t d = 0; d < x->rank; d++) {
		double from = perm.given ? perm.v[d] : x->rank - 1 - d;

		if (!(from >= 0 && from < x->rank) || seen >> (uint32_t)from & 1)
			return mq_onnx_fail(g, node, err, "perm is no permutation of %u axes", x->rank);
		seen |= 1u << (uint32_t)from;
		shape.dim[d] = x->dim[(uint32_t)from];
	}
	return mq_onnx_set_all(g, node, &shape, err);
}

/* A bit per axis listed; false where one is out of range. */
static bool axes_mask(const struct mq_onnx_list *axes, uint32_t rank, uint32_t *mask)
{
	uint32_t axis;

	*mask = 0;
	for (uint32_t i = 0; i < axes->n; i++) {
		if (!resolve_axis(axes->v[i], rank, &axis))
			return false;
		*mask |= 1u << axis;
	}
	return true;
}

enum mq_status mq_onnx_squeeze(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_tensor *x = node->in[0];
	const struct mq_onnx_list axes = mq_onnx_list(node, "axes", 1);
	struct mq_onnx_tensor shape = { .rank = 0 };
	uint32_t mask;

	if (!axes_mask(&axes, x->rank, &mask))
		return mq_onnx_fail(g, node, err, "an axis is not among %u axes", x->rank);
	for (uint32_t d = 0; d < x->rank; d++)
		if (axes.given ? !(mask >> d & 1) : x->dim[d] != 1)
			shape.dim[shape.rank++] = x->dim[d];
	MQ_TRY(mq_onnx_set_all(g, node, &shape, err));
	pass_value(g, node);
	return MQ_OK;
}

enum mq_status mq_onnx_unsqueeze(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_tensor *x = node->in[0];
	const struct mq_onnx_list axes = mq_onnx_list(node, "axes", 1);
	struct mq_onnx_tensor shape = { .rank = x->rank + axes.n };
	uint32_t mask, next = 0;

	if (axes.n > MQ_ONNX_RANK || shape.rank > MQ_ONNX_RANK || !axes.given || !axes_mask(&axes, shape.rank, &mask) ||
	    __builtin_popcount(mask) != (int)axes.n)
		return mq_onnx_fail(g, node, err, "the axes do not fit an input of %u", x->rank);
	for (uint32_t d = 0; d < shape.rank; d++)
		shape.dim[d] = mask >> d & 1 ? 1 : x->dim[next++];
	MQ_TRY(mq_onnx_set_all(g, node, &shape, err));
	pass_value(g, node);
	return MQ_OK;
}

enum mq_status mq_onnx_reduce(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_tensor *x = node->in[0];
	bool arg = !strncmp(node->type, "Arg", 3);
	const double one = mq_onnx_number(node, "axis", 0);
	struct mq_onnx_list axes = arg ? (struct mq_onnx_list){ 1, &one, true } : mq_onnx_list(node, "axes", 1);
	bool keep = mq_onnx_number(node, "keepdims", 1) != 0;
	struct mq_onnx_tensor shape = { .rank = 0 };
	uint32_t mask;

	if (!axes_mask(&axes, x->rank, &mask))
		return mq_onnx_fail(g, node, err, "an axis is not among %u axes", x->rank);
	for (uint32_t d = 0; d < x->rank; d++) {
		bool gone = !axes.given || mask >> d & 1;

		if (!gone || keep)
			shape.dim[shape.rank++] = gone ? 1 : x->dim[d];
	}
	return mq_onnx_set_all(g, node, &shape, err);
}

enum mq_status mq_onnx_gather(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_tensor *x = node->in[0], *index = node->in[1];
	struct mq_onnx_tensor shape = { .rank = 0 };
	uint32_t axis;
	double *v;

	if (!resolve_axis(mq_onnx_number(node, "axis", 0), x->rank, &axis) || x->rank + index->rank - 1 > MQ_ONNX_RANK)
		return mq_onnx_fail(g, node, err, "the axis or the indices do not fit %u axes", x->rank);
	for (uint32_t d = 0; d < x->rank; d++) {
		if (d != axis) {
			shape.dim[shape.rank++] = x->dim[d];
			continue;
		}
		for (uint32_t i = 0; i < index->rank; i++)
			shape.dim[shape.rank++] = index->dim[i];
	}
	MQ_TRY(mq_onnx_set_all(g, node, &shape, err));
	if (!valued_inputs(node) || x->rank != 1 || !(v = make_value(g, node->out[0])))
		return MQ_OK;
	for (size_t i = 0; i < (size_t)mq_onnx_elems(node->out[0]); i++) {
		uint32_t at;

		if (!resolve_axis(index->value[i], (uint32_t)x->dim[0], &at))
			return mq_onnx_fail(g, node, err, "index %g is not among %g values", index->value[i],
					    x->dim[0]);
		v[i] = x->value[at];
	}
	return MQ_OK;
}

enum mq_status mq_onnx_split(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_list parts = mq_onnx_list(node, "split", 1);
	struct mq_onnx_tensor shape = *node->in[0];
	uint32_t axis;

	if (!resolve_axis(mq_onnx_number(node, "axis", 0), shape.rank, &axis) ||
	    (parts.given && parts.n != node->n_out))
		return mq_onnx_fail(g, node, err, "the axis or the %u parts do not fit", parts.n);
	double whole = shape.dim[axis], each = ceil(whole / fmax(node->n_out, 1)), left = whole;
	for (uint32_t i = 0; i < node->n_out; i++) {
		shape.dim[axis] = parts.given ? parts.v[i] : fmin(each, left);
		left -= shape.dim[axis];
		if (node->out[i])
			MQ_TRY(mq_onnx_set(g, node, node->out[i], &shape, err));
	}
	if (left != 0)
		return mq_onnx_fail(g, node, err, "the parts do not add up to %g", whole);
	return MQ_OK;
}

static double clamp(double x, double low, double high)
{
	return x < low ? low : x > high ? high : x;
}

enum mq_status mq_onnx_slice(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_tensor *x = node->in[0];
	const struct mq_onnx_list starts = mq_onnx_list(node, "starts", 1);
	const struct mq_onnx_list ends = mq_onnx_list(node, "ends", 2);
	const struct mq_onnx_list axes = mq_onnx_list(node, "axes", 3);
	const struct mq_onnx_list steps = mq_onnx_list(node, "steps", 4);
	struct mq_onnx_tensor shape = *x;
	double first = 0, step = 1, *v;

	if (!starts.given || !ends.given || starts.n != ends.n)
		return mq_onnx_fail(g, node, err, "starts and ends are not constants of one length");
	for (uint32_t i = 0; i < starts.n; i++) {
		uint32_t axis;

		if (!resolve_axis(mq_onnx_entry(&axes, i, i), x->rank, &axis))
			return mq_onnx_fail(g, node, err, "axis %g is not among %u axes", mq_onnx_entry(&axes, i, i),
					    x->rank);
		double n = x->dim[axis], from = starts.v[i], to = ends.v[i];

		step = mq_onnx_entry(&steps, i, 1);
		if (step == 0)
			return mq_onnx_fail(g, node, err, "a step is zero; give another");
		from = clamp(from < 0 ? from + n : from, 0, step > 0 ? n : n - 1);
		to = clamp(to < 0 ? to + n : to, step > 0 ? 0 : -1, n);
		shape.dim[axis] = fmax(ceil((to - from) / step), 0);
		first = from;
	}
	MQ_TRY(mq_onnx_set_all(g, node, &shape, err));
	if (x->valued && x->rank == 1 && (v = make_value(g, node->out[0])))
		for (size_t i = 0; i < (size_t)shape.dim[0]; i++)
			v[i] = x->value[(size_t)(first + (double)i * step)];
	return MQ_OK;
}

enum mq_status mq_onnx_pad(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	struct mq_onnx_list pads = mq_onnx_list(node, "pads", 1);
	struct mq_onnx_tensor shape = *node->in[0];

	if (!pads.n)
		pads = mq_onnx_list(node, "paddings", UINT32_MAX);
	if (pads.n != 2 * shape.rank)
		return mq_onnx_fail(g, node, err, "pads has %u sizes; give %u constants", pads.n, 2 * shape.rank);
	for (uint32_t d = 0; d < shape.rank; d++)
		shape.dim[d] += pads.v[d] + pads.v[d + shape.rank];
	return mq_onnx_set_all(g, node, &shape, err);
}

enum mq_status mq_onnx_expand(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_tensor *x = node->in[0];
	const struct mq_onnx_list wanted = mq_onnx_list(node, "shape", 1);
	struct mq_onnx_tensor shape = { .rank = wanted.n > x->rank ? wanted.n : x->rank };

	if (!wanted.given || wanted.n > MQ_ONNX_RANK)
		return mq_onnx_fail(g, node, err, "the new shape is not a constant of up to %d sizes", MQ_ONNX_RANK);
	for (uint32_t d = 0; d < shape.rank; d++) {
		uint32_t skip_x = shape.rank - x->rank, skip_w = shape.rank - wanted.n;
		double own = d < skip_x ? 1 : x->dim[d - skip_x];
		double want = d < skip_w ? 1 : wanted.v[d - skip_w];

		shape.dim[d] = own == 1 ? want : own;
	}
	return mq_onnx_set_all(g, node, &shape, err);
}

/* ---- constants ------------------------------------------------------------------------------- */

enum mq_status mq_onnx_shape(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_tensor *x = node->in[0];
	const struct mq_onnx_tensor shape = { .rank = 1, .dim = { x->rank } };
	double *v;

	MQ_TRY(mq_onnx_set_all(g, node, &shape, err));
	if ((v = make_value(g, node->out[0])))
		memcpy(v, x->dim, x->rank * sizeof(*v));
	return MQ_OK;
}

enum mq_status mq_onnx_constant(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_attribute *a = mq_onnx_attribute(node, "value");

	struct mq_onnx_tensor *out = node->out[0];
	if (a && a->tensor) {
		MQ_TRY(mq_onnx_set(g, node, out, a->tensor, err));
		out->integer = a->tensor->integer;
		out->valued = a->tensor->valued;
		out->value = a->tensor->value;
		/* some exporters store weights so; a single number is no weight */
		out->weight = !out->integer && mq_onnx_elems(out) > 1;
		return MQ_OK;
	}
	const struct mq_onnx_list ints = mq_onnx_list(node, "value_ints", UINT32_MAX);
	const struct mq_onnx_tensor shape = { .rank = ints.given, .dim = { ints.n } };
	double *v;
	MQ_TRY(mq_onnx_set(g, node, out, &shape, err));
	if ((ints.given || mq_onnx_attribute(node, "value_int")) && (v = make_value(g, out)))
		for (uint32_t i = 0; i < (uint32_t)mq_onnx_elems(out); i++)
			v[i] = ints.given ? ints.v[i] : mq_onnx_number(node, "value_int", 0);
	return MQ_OK;
}

/* ConstantOfShape. A floating-point one stands for a weight whose values were removed from the file. */
enum mq_status mq_onnx_fill(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_list wanted = mq_onnx_list(node, "shape", 0);
	const struct mq_onnx_attribute *a = mq_onnx_attribute(node, "value");
	struct mq_onnx_tensor shape = { .rank = wanted.n };
	double *v;

	if (!wanted.given || wanted.n > MQ_ONNX_RANK)
		return mq_onnx_fail(g, node, err, "its shape is not a constant of up to %d sizes", MQ_ONNX_RANK);
	if (wanted.n)
		memcpy(shape.dim, wanted.v, wanted.n * sizeof(double));
	MQ_TRY(mq_onnx_set_all(g, node, &shape, err));
	if (!a || !a->tensor || !a->tensor->integer) {
		node->out[0]->weight = true;
		return MQ_OK;
	}
	node->out[0]->integer = true;
	if (a->tensor->valued && mq_onnx_elems(a->tensor) >= 1 && (v = make_value(g, node->out[0])))
		for (size_t i = 0; i < (size_t)mq_onnx_elems(node->out[0]); i++)
			v[i] = a->tensor->value[0];
	return MQ_OK;
}

enum mq_status mq_onnx_range(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	double *v;

	for (uint32_t i = 0; i < 3; i++) {
		if (!node->in[i]->valued || mq_onnx_elems(node->in[i]) != 1)
			return mq_onnx_fail(g, node, err, "input %u is not a constant number", i);
	}
	double start = node->in[0]->value[0], limit = node->in[1]->value[0];
	double step = node->in[2]->value[0];
	if (step == 0)
		return mq_onnx_fail(g, node, err, "the step is zero; give another");
	const struct mq_onnx_tensor shape = { .rank = 1, .dim = { fmax(ceil((limit - start) / step), 0) } };
	MQ_TRY(mq_onnx_set_all(g, node, &shape, err));
	if ((v = make_value(g, node->out[0])))
		for (size_t i = 0; i < (size_t)shape.dim[0]; i++)
			v[i] = start + (double)i * step;
	return MQ_OK;
}

enum mq_status mq_onnx_tile(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	const struct mq_onnx_list repeats = mq_onnx_list(node, "repeats", 1);
	struct mq_onnx_tensor shape = *node->in[0];

	if (repeats.n != shape.rank)
		return mq_onnx_fail(g, node, err, "repeats has %u sizes; give %u constants", repeats.n, shape.rank);
	for (uint32_t d = 0; d < shape.rank; d++)
		shape.dim[d] *= repeats.v[d];
	return mq_onnx_set_all(g, node, &shape, err);
}

/* DepthToSpace and SpaceToDepth: channels to squares of pixels, and back. */
enum mq_status mq_onnx_blocks(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err)
{
	double size = mq_onnx_number(node, "blocksize", 0);
	double by = *node->type == 'D' ? size : 1 / size;
	struct mq_onnx_tensor shape = *node->in[0];

	if (!(size >= 1))
		return mq_onnx_fail(g, node, err, "blocksize is %g; give at least 1", size);
	shape.dim[1] /= by * by;
	shape.dim[2] *= by;
	shape.dim[3] *= by;
	return mq_onnx_set_all(g, node, &shape, err);
}

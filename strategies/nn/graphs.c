/* graphs.c - gathering, scattering, sums and attention along edges; normalisation. See nn.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "nn/tape.h"

/* ---- moves ----------------------------------------------------------------------------------------------------- */

static void back_move(struct nn_tape *t, struct nn_node *n)
{
	double *dx = nn_grad_of(t, n, 0);

	for (uint32_t i = 0; dx && i < n->n_moves; i++)
		for (uint32_t k = 0; k < n->width; k++)
			dx[n->index[i] + k] += n->grad.data[n->to[i] + k];
}

/* y[to[i] + k] += x[from[i] + k] for i < n, k < width, in a matrix of rows x cols. The gradient moves back. */
static struct nn_var move(struct nn_tape *t, struct nn_var a, uint32_t rows, uint32_t cols, uint32_t n, uint32_t width,
			  const uint32_t *from, const uint32_t *to)
{
	struct nn_var y = nn_op(t, rows, cols, a, NN_NONE_VAR, back_move);
	struct nn_node *node = &t->node[y.id];
	const struct nn_mat *x = nn_value(t, a);

	node->index = from;
	node->to = to;
	node->n_moves = n;
	node->width = width;
	for (uint32_t i = 0; i < n; i++) {
		mq_assert(from[i] + width <= nn_size(x) && to[i] + width <= rows * cols);
		for (uint32_t k = 0; k < width; k++)
			node->value.data[to[i] + k] += x->data[from[i] + k];
	}
	return y;
}

/* first + i step + index[i] stride for i < n; `index` may be NULL. */
static uint32_t *places(struct nn_tape *t, uint32_t n, uint32_t first, uint32_t step, const uint32_t *index,
			uint32_t stride)
{
	uint32_t *at = mq_arena_array(t->arena, n, uint32_t);

	for (uint32_t i = 0; i < n; i++)
		at[i] = first + i * step + (index ? index[i] * stride : 0);
	return at;
}

struct nn_var nn_rows(struct nn_tape *t, struct nn_var a, const uint32_t *index, uint32_t n)
{
	uint32_t w = nn_value(t, a)->cols;

	return move(t, a, n, w, n, w, places(t, n, 0, 0, index, w), places(t, n, 0, w, NULL, 0));
}

struct nn_var nn_group_sum(struct nn_tape *t, struct nn_var a, const uint32_t *group, uint32_t n)
{
	uint32_t rows = nn_value(t, a)->rows, w = nn_value(t, a)->cols;

	return move(t, a, n, w, rows, w, places(t, rows, 0, w, NULL, 0), places(t, rows, 0, 0, group, w));
}

struct nn_var nn_pick(struct nn_tape *t, struct nn_var a, const uint32_t *column)
{
	uint32_t n = nn_value(t, a)->rows, cols = nn_value(t, a)->cols;

	return move(t, a, n, 1, n, 1, places(t, n, 0, cols, column, 1), places(t, n, 0, 1, NULL, 0));
}

struct nn_var nn_transpose(struct nn_tape *t, struct nn_var a)
{
	uint32_t rows = nn_value(t, a)->rows, cols = nn_value(t, a)->cols, n = rows * cols;
	uint32_t *to = mq_arena_array(t->arena, n, uint32_t);

	for (uint32_t i = 0; i < n; i++)
		to[i] = i % cols * rows + i / cols;
	return move(t, a, cols, rows, n, 1, places(t, n, 0, 1, NULL, 0), to);
}

struct nn_var nn_concat(struct nn_tape *t, struct nn_var a, struct nn_var b)
{
	uint32_t n = nn_value(t, a)->rows, left = nn_value(t, a)->cols, right = nn_value(t, b)->cols, w = left + right;

	mq_assert(n == nn_value(t, b)->rows);
	a = move(t, a, n, w, n, left, places(t, n, 0, left, NULL, 0), places(t, n, 0, w, NULL, 0));
	b = move(t, b, n, w, n, right, places(t, n, 0, right, NULL, 0), places(t, n, left, w, NULL, 0));
	return nn_add(t, a, b);
}

struct nn_var nn_sum(struct nn_tape *t, struct nn_var a)
{
	uint32_t n = nn_size(nn_value(t, a));

	return move(t, a, 1, 1, n, 1, places(t, n, 0, 1, NULL, 0), places(t, n, 0, 0, NULL, 0));
}

struct nn_var nn_mean(struct nn_tape *t, struct nn_var a)
{
	return nn_scale(t, nn_sum(t, a), 1.0 / nn_size(nn_value(t, a)));
}

/* ---- groups ---------------------------------------------------------------------------------------------------- */

struct nn_var nn_group_mean(struct nn_tape *t, struct nn_var a, const uint32_t *group, uint32_t n)
{
	struct nn_mat share = nn_mat_new(t->arena, n, 1);
	uint32_t rows = nn_value(t, a)->rows;

	for (uint32_t i = 0; i < rows; i++)
		share.data[group[i]]++;
	for (uint32_t g = 0; g < n; g++)
		share.data[g] = share.data[g] > 0 ? 1 / share.data[g] : 0;
	struct nn_var sum = nn_group_sum(t, a, group, n);
	return nn_mul(t, sum, nn_constant(t, share));
}

/* y_i = exp(x_i) / sum over its group: dx_i = y_i (dy_i - sum_j y_j dy_j). */
static void back_group_softmax(struct nn_tape *t, struct nn_node *n)
{
	double *dx = nn_grad_of(t, n, 0), *dot = n->extra.data;

	if (!dx)
		return;
	memset(dot, 0, n->extra.rows * sizeof(double));
	for (uint32_t i = 0; i < n->value.rows; i++)
		dot[n->index[i]] += n->value.data[i] * n->grad.data[i];
	for (uint32_t i = 0; i < n->value.rows; i++)
		dx[i] += n->value.data[i] * (n->grad.data[i] - dot[n->index[i]]);
}

struct nn_var nn_group_softmax(struct nn_tape *t, struct nn_var a, const uint32_t *group, uint32_t n)
{
	uint32_t rows = nn_value(t, a)->rows;
	struct nn_mat most = nn_mat_new(t->arena, n, 1), sum = nn_mat_new(t->arena, n, 1);
	struct nn_var v = nn_op(t, rows, 1, a, NN_NONE_VAR, back_group_softmax);
	const double *x = nn_value(t, a)->data;
	double *y = t->node[v.id].value.data;

	mq_assert(nn_value(t, a)->cols == 1);
	for (uint32_t g = 0; g < n; g++)
		most.data[g] = -INFINITY;
	for (uint32_t i = 0; i < rows; i++)
		most.data[group[i]] = fmax(most.data[group[i]], x[i]);
	for (uint32_t i = 0; i < rows; i++)
		sum.data[group[i]] += y[i] = exp(x[i] - most.data[group[i]]);
	for (uint32_t i = 0; i < rows; i++)
		y[i] /= sum.data[group[i]];
	t->node[v.id].index = group;
	t->node[v.id].extra = sum; /* also scratch of the backward pass */
	return v;
}

/* Backward of y = (x - mean) / s over n values: dx = (dy - mean(dy) - y mean(y dy)) / s. */
static void back_standardise(double *dx, const double *dy, const double *y, double s, uint32_t n)
{
	double mean = 0, dot = 0;

	for (uint32_t i = 0; i < n; i++) {
		mean += dy[i] / n;
		dot += dy[i] * y[i] / n;
	}
	for (uint32_t i = 0; i < n; i++)
		dx[i] += (dy[i] - mean - y[i] * dot) / s;
}

/* y = (x - mean) / s; returns the standard deviation s. */
static double standardise(double *y, const double *x, uint32_t n)
{
	double mean = 0, variance = 0;

	for (uint32_t i = 0; i < n; i++)
		mean += x[i] / n;
	for (uint32_t i = 0; i < n; i++)
		variance += (x[i] - mean) * (x[i] - mean) / n;
	double s = sqrt(variance + 1e-5);
	for (uint32_t i = 0; i < n; i++)
		y[i] = (x[i] - mean) / s;
	return s;
}

static void back_normalise_rows(struct nn_tape *t, struct nn_node *n)
{
	double *dx = nn_grad_of(t, n, 0);
	uint32_t cols = n->value.cols;

	for (uint32_t i = 0; dx && i < n->value.rows; i++)
		back_standardise(dx + (size_t)i * cols, n->grad.data + (size_t)i * cols,
				 n->value.data + (size_t)i * cols, n->extra.data[i], cols);
}

struct nn_var nn_normalise_rows(struct nn_tape *t, struct nn_var a)
{
	uint32_t rows = nn_value(t, a)->rows, cols = nn_value(t, a)->cols;
	struct nn_var y = nn_op(t, rows, cols, a, NN_NONE_VAR, back_normalise_rows);
	struct nn_mat s = nn_mat_new(t->arena, rows, 1);

	for (uint32_t i = 0; i < rows; i++)
		s.data[i] = standardise(t->node[y.id].value.data + (size_t)i * cols,
					nn_value(t, a)->data + (size_t)i * cols, cols);
	t->node[y.id].extra = s;
	return y;
}

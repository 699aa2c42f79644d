/* graphs.c - gathering, scattering and attention along edges; normalisation. See nn.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "nn/tape.h"

static void back_rows(struct nn_tape *t, struct nn_node *n)
{
	double *dx = nn_grad_of(t, n, 0);
	uint32_t cols = n->value.cols;

	for (uint32_t i = 0; dx && i < n->value.rows; i++)
		for (uint32_t k = 0; k < cols; k++)
			dx[(size_t)n->index[i] * cols + k] += n->grad.data[(size_t)i * cols + k];
}

struct nn_var nn_rows(struct nn_tape *t, struct nn_var a, const uint32_t *index, uint32_t n)
{
	uint32_t rows = nn_value(t, a)->rows, cols = nn_value(t, a)->cols;
	struct nn_var y = nn_op(t, n, cols, a, NN_NONE_VAR, back_rows);

	t->node[y.id].index = index;
	for (uint32_t i = 0; i < n; i++) {
		mq_assert(index[i] < rows);
		memcpy(t->node[y.id].value.data + (size_t)i * cols, nn_value(t, a)->data + (size_t)index[i] * cols,
		       cols * sizeof(double));
	}
	return y;
}

static void back_group_sum(struct nn_tape *t, struct nn_node *n)
{
	const struct nn_mat *x = nn_input(t, n, 0);
	double *dx = nn_grad_of(t, n, 0);

	for (uint32_t i = 0; dx && i < x->rows; i++) {
		const double *from = n->grad.data + (size_t)n->index[i] * x->cols;

		for (uint32_t k = 0; k < x->cols; k++)
			dx[(size_t)i * x->cols + k] += from[k];
	}
}

struct nn_var nn_group_sum(struct nn_tape *t, struct nn_var a, const uint32_t *group, uint32_t n)
{
	uint32_t rows = nn_value(t, a)->rows, cols = nn_value(t, a)->cols;
	struct nn_var y = nn_op(t, n, cols, a, NN_NONE_VAR, back_group_sum);
	double *out = t->node[y.id].value.data;

	t->node[y.id].index = group;
	for (uint32_t i = 0; i < rows; i++) {
		const double *from = nn_value(t, a)->data + (size_t)i * cols;
		double *to = out + (size_t)group[i] * cols;

		mq_assert(group[i] < n);
		for (uint32_t k = 0; k < cols; k++)
			to[k] += from[k];
	}
	return y;
}

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

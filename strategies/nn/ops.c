/* ops.c - element-wise operations, GEMMs and distributions with their derivatives. See nn.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include <cblas.h>
#include <math.h>

#include "nn/tape.h"

/* ---- GEMMs ----------------------------------------------------------------------------------------- */

/* c += op(a) op(b), row-major. */
static void gemm(bool ta, bool tb, const struct nn_mat *a, const struct nn_mat *b, double *c, uint32_t rows,
		 uint32_t cols)
{
	uint32_t inner = ta ? a->rows : a->cols;

	if (!rows || !cols || !inner)
		return;
	cblas_dgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, (int)rows, (int)cols,
		    (int)inner, 1, a->data, (int)a->cols, b->data, (int)b->cols, 1, c, (int)cols);
}

/* y = a b: da = dy b', db = a' dy. */
static void back_matmul(struct nn_tape *t, struct nn_node *n)
{
	const struct nn_mat *a = nn_input(t, n, 0), *b = nn_input(t, n, 1);
	double *da = nn_grad_of(t, n, 0), *db = nn_grad_of(t, n, 1);

	if (da)
		gemm(false, true, &n->grad, b, da, a->rows, a->cols);
	if (db)
		gemm(true, false, a, &n->grad, db, b->rows, b->cols);
}

struct nn_var nn_matmul(struct nn_tape *t, struct nn_var a, struct nn_var b)
{
	uint32_t rows = nn_value(t, a)->rows, cols = nn_value(t, b)->cols;

	mq_assert(nn_value(t, a)->cols == nn_value(t, b)->rows);
	struct nn_var y = nn_op(t, rows, cols, a, b, back_matmul);
	gemm(false, false, nn_value(t, a), nn_value(t, b), t->node[y.id].value.data, rows, cols);
	return y;
}

/* ---- binary operations, b broadcast --------------------------------------------------------------------- */

/* The index in b of entry (i, k) of the result. */
static uint32_t at(const struct nn_mat *b, uint32_t i, uint32_t k)
{
	return (b->rows == 1 ? 0 : i) * b->cols + (b->cols == 1 ? 0 : k);
}

enum pair { ADD, SUB, MUL };

/* Inlined once per kind, so that the loops have no branch on it. */
static inline void back_kind(struct nn_tape *t, struct nn_node *n, enum pair kind)
{
	const struct nn_mat *a = nn_input(t, n, 0), *b = nn_input(t, n, 1);
	double *da = nn_grad_of(t, n, 0), *db = nn_grad_of(t, n, 1);

	for (uint32_t i = 0; i < n->value.rows; i++)
		for (uint32_t k = 0; k < n->value.cols; k++) {
			uint32_t p = i * n->value.cols + k, q = at(b, i, k);
			double dy = n->grad.data[p];

			if (da)
				da[p] += kind == MUL ? dy * b->data[q] : dy;
			if (db)
				db[q] += kind == MUL ? dy * a->data[p] : kind == SUB ? -dy : dy;
		}
}

static void back_pair(struct nn_tape *t, struct nn_node *n)
{
	if (n->number == ADD)
		back_kind(t, n, ADD);
	else if (n->number == SUB)
		back_kind(t, n, SUB);
	else
		back_kind(t, n, MUL);
}

static struct nn_var pair(struct nn_tape *t, struct nn_var va, struct nn_var vb, enum pair kind)
{
	uint32_t rows = nn_value(t, va)->rows, cols = nn_value(t, va)->cols;
	struct nn_var y = nn_op(t, rows, cols, va, vb, back_pair);
	const struct nn_mat *a = nn_value(t, va), *b = nn_value(t, vb);
	double *out = t->node[y.id].value.data;

	mq_assert((b->rows == rows || b->rows == 1) && (b->cols == cols || b->cols == 1));
	t->node[y.id].number = kind;
	for (uint32_t i = 0; i < rows; i++)
		for (uint32_t k = 0; k < cols; k++) {
			double u = a->data[i * cols + k], v = b->data[at(b, i, k)];

			out[i * cols + k] = kind == ADD ? u + v : kind == SUB ? u - v : u * v;
		}
	return y;
}
#define PAIR(name, kind)                                                             \
	struct nn_var nn_##name(struct nn_tape *t, struct nn_var a, struct nn_var b) \
	{                                                                            \
		return pair(t, a, b, kind);                                          \
	}
PAIR(add, ADD)
PAIR(sub, SUB)
PAIR(mul, MUL)

/* ---- unary operations: y = f(x), f' from x and y ------------------------------------------------------------ */

enum unary { SCALE, RELU, TANH, SIGMOID, EXP, CLAMP };
static double unary_value(enum unary f, double x, double p, double q)
{
	switch (f) {
	case SCALE:
		return p * x;
	case RELU:
		return x > 0 ? x : p * x;
	case TANH:
		return tanh(x);
	case SIGMOID:
		return 1 / (1 + exp(-x));
	case EXP:
		return exp(x);
	case CLAMP:
		return fmin(fmax(x, p), q);
	}
	return 0;
}

static double unary_slope(enum unary f, double x, double y, double p, double q)
{
	switch (f) {
	case SCALE:
		return p;
	case RELU:
		return x > 0 ? 1 : p;
	case TANH:
		return 1 - y * y;
	case SIGMOID:
		return y * (1 - y);
	case EXP:
		return y;
	case CLAMP:
		return x > p && x < q ? 1 : 0;
	}
	return 0;
}

static void back_unary(struct nn_tape *t, struct nn_node *n)
{
	double *dx = nn_grad_of(t, n, 0);
	enum unary f = (enum unary)(uintptr_t)n->mask;
	const double *g = n->grad.data, *in = nn_input(t, n, 0)->data, slope[2] = { n->number, 1 };
	uint32_t size = nn_size(&n->value);

	if (dx && f == RELU) /* the most used one: without a switch or an unpredictable branch */
		for (uint32_t i = 0; i < size; i++)
			dx[i] += slope[in[i] > 0] * g[i];
	else if (dx)
		for (uint32_t i = 0; i < size; i++)
			dx[i] += g[i] * unary_slope(f, in[i], n->value.data[i], n->number, n->number2);
}

static struct nn_var unary(struct nn_tape *t, struct nn_var a, enum unary f, double p, double q)
{
	struct nn_var y = nn_op(t, nn_value(t, a)->rows, nn_value(t, a)->cols, a, NN_NONE_VAR, back_unary);
	struct nn_node *n = &t->node[y.id];
	const double *in = nn_value(t, a)->data, slope[2] = { p, 1 };
	double *out = n->value.data;
	uint32_t size = nn_size(&n->value);

	n->mask = (const void *)(uintptr_t)f;
	n->number = p;
	n->number2 = q;
	if (f == RELU)
		for (uint32_t i = 0; i < size; i++)
			out[i] = slope[in[i] > 0] * in[i];
	else
		for (uint32_t i = 0; i < size; i++)
			out[i] = unary_value(f, in[i], p, q);
	return y;
}

#define UNARY(name, kind)                                           \
	struct nn_var nn_##name(struct nn_tape *t, struct nn_var a) \
	{                                                           \
		return unary(t, a, kind, 0, 0);                     \
	}
UNARY(relu, RELU)
UNARY(tanh, TANH)
UNARY(sigmoid, SIGMOID)
UNARY(exp, EXP)

struct nn_var nn_scale(struct nn_tape *t, struct nn_var a, double factor)
{
	return unary(t, a, SCALE, factor, 0);
}

struct nn_var nn_leaky_relu(struct nn_tape *t, struct nn_var a, double slope)
{
	return unary(t, a, RELU, slope, 0);
}

struct nn_var nn_clamp(struct nn_tape *t, struct nn_var a, double low, double high)
{
	return unary(t, a, CLAMP, low, high);
}

struct nn_var nn_activate(struct nn_tape *t, struct nn_var a, enum nn_act act)
{
	return act == NN_RELU ? nn_relu(t, a) : act == NN_TANH ? nn_tanh(t, a) : a;
}

/* Kept entries are scaled by 1 / (1 - share), which preserves the expectation. */
struct nn_var nn_dropout(struct nn_tape *t, struct nn_var a, double share)
{
	if (!t->training || !t->rng || share <= 0)
		return a;
	struct nn_mat keep = nn_mat_new(t->arena, nn_value(t, a)->rows, nn_value(t, a)->cols);

	for (uint32_t i = 0; i < nn_size(&keep); i++)
		keep.data[i] = mq_rng_unit(t->rng) < share ? 0 : 1 / (1 - share);
	return nn_mul(t, a, nn_constant(t, keep));
}

/* ---- distributions --------------------------------------------------------------------------------------------- */

/* y = x - log sum exp x: dx = dy - softmax(x) sum dy. Masked entries take no part. */
static void back_log_softmax(struct nn_tape *t, struct nn_node *n)
{
	double *dx = nn_grad_of(t, n, 0);
	const bool *mask = n->mask;
	uint32_t cols = n->value.cols;

	for (uint32_t i = 0; dx && i < n->value.rows; i++) {
		const double *y = n->value.data + (size_t)i * cols, *dy = n->grad.data + (size_t)i * cols;
		double sum = 0;

		for (uint32_t k = 0; k < cols; k++)
			sum += !mask || mask[i * cols + k] ? dy[k] : 0;
		for (uint32_t k = 0; k < cols; k++)
			if (!mask || mask[i * cols + k])
				dx[i * cols + k] += dy[k] - exp(y[k]) * sum;
	}
}

struct nn_var nn_log_softmax(struct nn_tape *t, struct nn_var a, const bool *mask)
{
	uint32_t rows = nn_value(t, a)->rows, cols = nn_value(t, a)->cols;
	struct nn_var v = nn_op(t, rows, cols, a, NN_NONE_VAR, back_log_softmax);

	t->node[v.id].mask = mask;
	for (uint32_t i = 0; i < rows; i++) {
		const double *x = nn_value(t, a)->data + (size_t)i * cols;
		double *y = t->node[v.id].value.data + (size_t)i * cols, most = -INFINITY, sum = 0;

		for (uint32_t k = 0; k < cols; k++)
			if (!mask || mask[i * cols + k])
				most = fmax(most, x[k]);
		mq_assert(isfinite(most)); /* each row needs an unmasked entry */
		for (uint32_t k = 0; k < cols; k++)
			sum += !mask || mask[i * cols + k] ? exp(x[k] - most) : 0;
		for (uint32_t k = 0; k < cols; k++)
			y[k] = !mask || mask[i * cols + k] ? x[k] - most - log(sum) : -1e30;
	}
	return v;
}

uint32_t nn_sample(const double *log_p, uint32_t n, struct mq_rng *rng)
{
	double u = mq_rng_unit(rng), sum = 0;
	uint32_t last = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (log_p[i] < -1e29)
			continue;
		last = i;
		sum += exp(log_p[i]);
		if (u < sum)
			return i;
	}
	return last;
}

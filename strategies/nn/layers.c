/* layers.c - parameters, layers, Adam, files. See nn.h. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "nn/tape.h"

/* ---- parameters -------------------------------------------------------------------------------------------- */

void nn_params_init(struct nn_params *params, struct mq_arena *arena)
{
	*params = (struct nn_params){ .arena = arena };
}

struct nn_param *nn_param_new(struct nn_params *params, const char *name, uint32_t rows, uint32_t cols,
			      struct mq_rng *rng)
{
	struct nn_param *p = mq_arena_alloc(params->arena, sizeof(*p));
	double bound = sqrt(6.0 / (rows + cols));

	p->name = mq_arena_printf(params->arena, "%s.%u", name, params->n);
	p->value = nn_mat_new(params->arena, rows, cols);
	p->grad = nn_mat_new(params->arena, rows, cols);
	p->m = nn_mat_new(params->arena, rows, cols);
	p->v = nn_mat_new(params->arena, rows, cols);
	for (uint32_t i = 0; rng && i < rows * cols; i++)
		p->value.data[i] = bound * (2 * mq_rng_unit(rng) - 1);
	MQ_PUSH(params->arena, params->param, params->n, params->room, p);
	return p;
}

void nn_clear_grads(struct nn_params *params)
{
	for (uint32_t i = 0; i < params->n; i++)
		memset(params->param[i]->grad.data, 0, nn_size(&params->param[i]->grad) * sizeof(double));
}

void nn_params_copy(struct nn_params *to, const struct nn_params *from)
{
	mq_assert(to->n == from->n);
	for (uint32_t i = 0; i < to->n; i++) {
		mq_assert(nn_size(&to->param[i]->value) == nn_size(&from->param[i]->value));
		memcpy(to->param[i]->value.data, from->param[i]->value.data,
		       nn_size(&to->param[i]->value) * sizeof(double));
	}
}

/* ---- layers -------------------------------------------------------------------------------------------------- */

void nn_dense_init(struct nn_dense *layer, struct nn_params *params, uint32_t in, uint32_t out, enum nn_act act,
		   struct mq_rng *rng)
{
	layer->w = nn_param_new(params, "w", in, out, rng);
	layer->b = nn_param_new(params, "b", 1, out, NULL);
	layer->act = act;
}

struct nn_var nn_dense(struct nn_tape *t, const struct nn_dense *layer, struct nn_var x)
{
	struct nn_var y = nn_matmul(t, x, nn_param_var(t, layer->w));

	return nn_activate(t, nn_add(t, y, nn_param_var(t, layer->b)), layer->act);
}

void nn_mlp_init(struct nn_mlp *mlp, struct nn_params *params, const uint32_t *sizes, uint32_t n, enum nn_act act,
		 struct mq_rng *rng)
{
	mq_assert(n <= NN_MAX_LAYERS);
	mlp->n = n;
	for (uint32_t i = 0; i < n; i++)
		nn_dense_init(&mlp->layer[i], params, sizes[i], sizes[i + 1], i + 1 < n ? act : NN_LINEAR, rng);
}

struct nn_var nn_mlp(struct nn_tape *t, const struct nn_mlp *mlp, struct nn_var x)
{
	for (uint32_t i = 0; i < mlp->n; i++)
		x = nn_dense(t, &mlp->layer[i], x);
	return x;
}

void nn_norm_init(struct nn_norm *norm, struct nn_params *params, uint32_t width)
{
	norm->gain = nn_param_new(params, "gain", 1, width, NULL);
	norm->shift = nn_param_new(params, "shift", 1, width, NULL);
	for (uint32_t i = 0; i < width; i++)
		norm->gain->value.data[i] = 1;
}

struct nn_var nn_layer_norm(struct nn_tape *t, const struct nn_norm *norm, struct nn_var x)
{
	x = nn_mul(t, nn_normalise_rows(t, x), nn_param_var(t, norm->gain));
	return nn_add(t, x, nn_param_var(t, norm->shift));
}

/* Messages in both directions of every edge and from each node to itself, each with 1 / sqrt(d_src d_dst). */
struct nn_var nn_gcn(struct nn_tape *t, const struct nn_dense *layer, const struct nn_graph *g, struct nn_var x)
{
	uint32_t m = 2 * g->n_edges + g->n_nodes;
	uint32_t *src = mq_arena_array(t->arena, m, uint32_t), *dst = mq_arena_array(t->arena, m, uint32_t);
	double *degree = mq_arena_array(t->arena, g->n_nodes, double);
	struct nn_mat weight = nn_mat_new(t->arena, m, 1);

	for (uint32_t e = 0; e < g->n_edges; e++) {
		src[2 * e] = dst[2 * e + 1] = g->src[e];
		dst[2 * e] = src[2 * e + 1] = g->dst[e];
	}
	for (uint32_t i = 0; i < g->n_nodes; i++)
		src[2 * g->n_edges + i] = dst[2 * g->n_edges + i] = i;
	for (uint32_t e = 0; e < m; e++)
		degree[dst[e]]++;
	for (uint32_t e = 0; e < m; e++)
		weight.data[e] = 1 / sqrt(degree[src[e]] * degree[dst[e]]);
	struct nn_var message = nn_rows(t, nn_matmul(t, x, nn_param_var(t, layer->w)), src, m);
	message = nn_mul(t, message, nn_constant(t, weight));
	struct nn_var y = nn_group_sum(t, message, dst, g->n_nodes);
	return nn_activate(t, nn_add(t, y, nn_param_var(t, layer->b)), layer->act);
}

void nn_gat_init(struct nn_gat *gat, struct nn_params *params, uint32_t in, uint32_t edge, uint32_t out, uint32_t heads,
		 struct mq_rng *rng)
{
	mq_assert(heads <= NN_MAX_HEADS && out % heads == 0);
	gat->heads = heads;
	for (uint32_t h = 0; h < heads; h++) {
		uint32_t width = out / heads;

		gat->w[h] = nn_param_new(params, "gat.w", in, width, rng);
		gat->edge[h] = nn_param_new(params, "gat.edge", edge, width, rng);
		gat->a_src[h] = nn_param_new(params, "gat.src", width, 1, rng);
		gat->a_dst[h] = nn_param_new(params, "gat.dst", width, 1, rng);
		gat->a_edge[h] = nn_param_new(params, "gat.a", width, 1, rng);
	}
}

/* One head: score_e = leaky(a_s Wx_src + a_d Wx_dst + a_e Ue), softmax over the edges into a node, sum of (Wx_src +
 * Ue). */
static struct nn_var gat_head(struct nn_tape *t, const struct nn_gat *gat, uint32_t h, const struct nn_graph *g,
			      const struct nn_var x[3])
{
	struct nn_var w = nn_param_var(t, gat->w[h]);
	struct nn_var src = nn_matmul(t, x[0], w), dst = nn_matmul(t, x[1], w);
	struct nn_var edge = nn_matmul(t, x[2], nn_param_var(t, gat->edge[h]));
	struct nn_var s = nn_rows(t, nn_matmul(t, src, nn_param_var(t, gat->a_src[h])), g->src, g->n_edges);
	struct nn_var d = nn_rows(t, nn_matmul(t, dst, nn_param_var(t, gat->a_dst[h])), g->dst, g->n_edges);
	struct nn_var score = nn_add(t, nn_add(t, s, d), nn_matmul(t, edge, nn_param_var(t, gat->a_edge[h])));
	struct nn_var attention = nn_group_softmax(t, nn_leaky_relu(t, score, 0.2), g->dst, g->n_nodes);
	struct nn_var message = nn_add(t, nn_rows(t, src, g->src, g->n_edges), edge);

	return nn_group_sum(t, nn_mul(t, message, attention), g->dst, g->n_nodes);
}

struct nn_var nn_gat(struct nn_tape *t, const struct nn_gat *gat, const struct nn_graph *g, struct nn_var x_src,
		     struct nn_var x_dst, struct nn_var edge)
{
	const struct nn_var x[3] = { x_src, x_dst, edge };
	struct nn_var y = gat_head(t, gat, 0, g, x);

	for (uint32_t h = 1; h < gat->heads; h++)
		y = nn_concat(t, y, gat_head(t, gat, h, g, x));
	return y;
}

/* ---- Adam ------------------------------------------------------------------------------------------------------ */

void nn_adam_init(struct nn_adam *adam, double rate, double clip)
{
	*adam = (struct nn_adam){ .rate = rate, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .clip = clip };
}

/* value -= rate m / c1 / (sqrt(v / c2) + epsilon); `rate` and `root` carry the corrections. */
static void adam_update(const struct nn_adam *a, struct nn_param *p, double scale, double rate, double root)
{
	double *restrict m = p->m.data, *restrict v = p->v.data, *restrict value = p->value.data;
	const double *restrict grad = p->grad.data;
	const double beta1 = a->beta1, beta2 = a->beta2, epsilon = a->epsilon;
	uint32_t n = nn_size(&p->grad);

	for (uint32_t k = 0; k < n; k++) {
		double g = grad[k] * scale;

		m[k] = beta1 * m[k] + (1 - beta1) * g;
		v[k] = beta2 * v[k] + (1 - beta2) * g * g;
		value[k] -= rate * m[k] / (sqrt(v[k]) * root + epsilon);
	}
}

double nn_adam_step(struct nn_adam *a, struct nn_params *params)
{
	double norm = 0, scale = 1;

	for (uint32_t i = 0; i < params->n; i++)
		for (uint32_t k = 0; k < nn_size(&params->param[i]->grad); k++)
			norm += params->param[i]->grad.data[k] * params->param[i]->grad.data[k];
	norm = sqrt(norm);
	if (a->clip > 0 && norm > a->clip)
		scale = a->clip / norm;
	a->step++;
	double c1 = 1 - pow(a->beta1, (double)a->step), c2 = 1 - pow(a->beta2, (double)a->step);
	for (uint32_t i = 0; i < params->n; i++)
		adam_update(a, params->param[i], scale, a->rate / c1, 1 / sqrt(c2));
	nn_clear_grads(params);
	return norm;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

uint32_t nn_params_size(const struct nn_params *params)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < params->n; i++)
		n += nn_size(&params->param[i]->value);
	return n;
}

void nn_params_round(struct nn_params *params, int digits)
{
	char text[40];

	for (uint32_t i = 0; i < params->n; i++)
		for (uint32_t k = 0; k < nn_size(&params->param[i]->value); k++) {
			snprintf(text, sizeof(text), "%.*g", digits, params->param[i]->value.data[k]);
			params->param[i]->value.data[k] = strtod(text, NULL);
		}
}

static void put_exact(FILE *f, double x)
{
	char text[40];

	for (int digits = 5; digits <= 17; digits += 4) {
		snprintf(text, sizeof(text), "%.*g", digits, x);
		if (strtod(text, NULL) == x)
			break;
	}
	fprintf(f, " %s", text);
}

enum mq_status nn_params_save(const struct nn_params *params, const char *path, struct mq_err *err)
{
	FILE *f = fopen(path, "w");

	if (!f)
		return mq_bad(err, "%s: cannot write: %s", path, strerror(errno));
	fprintf(f, "maquette-weights 1 %u\n", params->n);
	for (uint32_t i = 0; i < params->n; i++) {
		const struct nn_param *p = params->param[i];

		fprintf(f, "%s %u %u", p->name, p->value.rows, p->value.cols);
		for (uint32_t k = 0; k < nn_size(&p->value); k++)
			put_exact(f, p->value.data[k]);
		fputc('\n', f);
	}
	bool bad = ferror(f) != 0;
	if (fclose(f) || bad)
		return mq_bad(err, "%s: cannot write: %s", path, strerror(errno));
	return MQ_OK;
}

static enum mq_status load_param(struct nn_param *p, FILE *f, const char *path, struct mq_err *err)
{
	char name[128];
	uint32_t rows, cols;

	if (fscanf(f, "%127s %u %u", name, &rows, &cols) != 3)
		return mq_bad(err, "%s: is cut short before '%s'", path, p->name);
	if (strcmp(name, p->name) || rows != p->value.rows || cols != p->value.cols)
		return mq_bad(
			err,
			"%s: has '%s' %u x %u where this network has '%s' %u x %u: the weights belong to other options",
			path, name, rows, cols, p->name, p->value.rows, p->value.cols);
	for (uint32_t k = 0; k < nn_size(&p->value); k++)
		if (fscanf(f, "%lf", &p->value.data[k]) != 1 || !isfinite(p->value.data[k]))
			return mq_bad(err, "%s: '%s': value %u is not a number", path, name, k);
	return MQ_OK;
}

enum mq_status nn_params_load(struct nn_params *params, const char *path, struct mq_err *err)
{
	FILE *f = fopen(path, "r");
	uint32_t version, n;
	enum mq_status status = MQ_OK;

	if (!f)
		return mq_bad(err, "%s: cannot open the weights: %s", path, strerror(errno));
	if (fscanf(f, "maquette-weights %u %u", &version, &n) != 2 || version != 1)
		status = mq_bad(err, "%s: is not a weights file of this program", path);
	else if (n != params->n)
		status = mq_bad(err, "%s: has %u parameters, this network %u: the weights belong to other options",
				path, n, params->n);
	for (uint32_t i = 0; status == MQ_OK && i < n; i++)
		status = load_param(params->param[i], f, path, err);
	fclose(f);
	return status;
}

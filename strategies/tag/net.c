/* net.c - see net.h. Records and training: train.c. SPDX-License-Identifier: Apache-2.0 */
#include "tag/net.h"

#include <math.h>

enum { PREV, SUCC, LINK, PLACE, EDGE_KINDS, EDGE_WIDTH = 16, HEADS = 4 };

static void add_edge(struct mq_tag_view *v, uint32_t src, uint32_t dst, uint32_t kind, const double value[2])
{
	double *f = v->edge.data + (size_t)v->n_edges * MQ_TAG_EDGE_INPUTS;

	v->src[v->n_edges] = src;
	v->dst[v->n_edges++] = dst;
	f[kind] = 1;
	f[EDGE_KINDS] = value[0];
	f[EDGE_KINDS + 1] = value[1];
}

static void add_edges(const struct mq_tag_space *s, const uint32_t *action, struct mq_arena *arena,
		      struct mq_tag_view *v)
{
	uint32_t d_n = s->n_devices, most = 2 * s->n_edges + d_n * d_n + 2 * s->n * d_n;
	double fastest = 1e-300;

	v->src = mq_arena_array(arena, most, uint32_t);
	v->dst = mq_arena_array(arena, most, uint32_t);
	v->edge = nn_mat_new(arena, most, MQ_TAG_EDGE_INPUTS);
	for (uint32_t i = 0; i < d_n * d_n; i++)
		fastest = fmax(fastest, s->bw[i]);
	for (uint32_t e = 0; e < s->n_edges; e++) {
		add_edge(v, s->src[e], s->dst[e], PREV, (double[]){ s->edge[e], 0 });
		add_edge(v, s->dst[e], s->src[e], SUCC, (double[]){ s->edge[e], 0 });
	}
	for (uint32_t a = 0; a < d_n; a++)
		for (uint32_t b = 0; b < d_n; b++)
			add_edge(v, s->n + a, s->n + b, LINK, (double[]){ s->bw[a * d_n + b] / fastest, a == b });
	for (uint32_t g = 0; g < s->n; g++)
		for (uint32_t d = 0; d < d_n; d++) {
			double f[2] = { s->place[g * d_n + d], s->action[action[g]].mask >> d & 1 };

			add_edge(v, g, s->n + d, PLACE, f);
			add_edge(v, s->n + d, g, PLACE, f);
		}
}

void mq_tag_view_make(const struct mq_tag_space *s, const uint32_t *action, uint32_t depth, const double *feedback,
		      struct mq_arena *arena, struct mq_tag_view *v)
{
	*v = (struct mq_tag_view){ .n_ops = s->n, .n_devices = s->n_devices, .n_actions = s->n_actions };
	v->next = s->order[depth < s->n ? depth : s->n - 1];
	v->op = nn_mat_new(arena, s->n, MQ_TAG_OP_INPUTS);
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t g = s->order[i];
		double *f = v->op.data + (size_t)g * MQ_TAG_OP_INPUTS;

		memcpy(f, s->op_feature + g * MQ_TAG_OP_FEATURES, MQ_TAG_OP_FEATURES * sizeof(double));
		f += MQ_TAG_OP_FEATURES;
		f[s->action[action[g]].how] = 1;
		f[MQ_TAG_N_HOWS] = i < depth;
		f[MQ_TAG_N_HOWS + 1] = i == depth;
		memcpy(f + MQ_TAG_N_HOWS + 2, feedback, MQ_TAG_FEEDBACK * sizeof(double));
	}
	v->device = (struct nn_mat){ s->n_devices, MQ_TAG_DEVICE_FEATURES, s->device_feature };
	v->action = (struct nn_mat){ s->n_actions, MQ_TAG_ACTION_FEATURES, s->action_feature };
	v->mask = mq_arena_array(arena, s->n_actions, uint32_t);
	for (uint32_t a = 0; a < s->n_actions; a++)
		v->mask[a] = s->action[a].mask;
	add_edges(s, action, arena, v);
}

void mq_tag_net_init(struct mq_tag_net *net, uint32_t w, struct mq_arena *arena, struct mq_rng *rng)
{
	struct nn_params *p = &net->params;

	nn_params_init(p, arena);
	nn_dense_init(&net->op_in, p, MQ_TAG_OP_INPUTS, w, NN_TANH, rng);
	nn_dense_init(&net->device_in, p, MQ_TAG_DEVICE_FEATURES, w, NN_TANH, rng);
	nn_dense_init(&net->edge_in, p, MQ_TAG_EDGE_INPUTS, EDGE_WIDTH, NN_TANH, rng);
	for (int i = 0; i < MQ_TAG_LAYERS; i++)
		nn_gat_init(&net->gat[i], p, w, EDGE_WIDTH, w, HEADS, rng);
	nn_mlp_init(&net->device_out, p, (uint32_t[]){ w + 1, w, w }, 2, NN_TANH, rng);
	nn_mlp_init(&net->score, p, (uint32_t[]){ 2 * w + MQ_TAG_ACTION_FEATURES, w, 1 }, 2, NN_TANH, rng);
}

/* Stacks the rows of a above those of b. */
static struct nn_var stack(struct nn_tape *t, struct nn_var a, struct nn_var b)
{
	uint32_t n = nn_value(t, a)->rows, m = nn_value(t, b)->rows;
	uint32_t *first = mq_arena_count(t->arena, n), *last = mq_arena_array(t->arena, m, uint32_t);

	for (uint32_t i = 0; i < m; i++)
		last[i] = n + i;
	return nn_add(t, nn_group_sum(t, a, first, n + m), nn_group_sum(t, b, last, n + m));
}

struct nn_var mq_tag_net_run(const struct mq_tag_net *net, struct nn_tape *t, const struct mq_tag_view *v)
{
	struct nn_graph g = { v->n_ops + v->n_devices, v->n_edges, v->src, v->dst };
	struct nn_mat edges = { v->n_edges, MQ_TAG_EDGE_INPUTS, v->edge.data };
	struct nn_var h = stack(t, nn_dense(t, &net->op_in, nn_constant(t, v->op)),
				nn_dense(t, &net->device_in, nn_constant(t, v->device)));
	struct nn_var edge = nn_dense(t, &net->edge_in, nn_constant(t, edges));
	uint32_t rows = v->n_actions * v->n_devices, *which = mq_arena_array(t->arena, rows, uint32_t);
	uint32_t *candidate = mq_arena_array(t->arena, rows, uint32_t);
	uint32_t *next = mq_arena_array(t->arena, v->n_actions, uint32_t);
	struct nn_mat in = nn_mat_new(t->arena, rows, 1);

	for (int i = 0; i < MQ_TAG_LAYERS; i++)
		h = nn_add(t, h, nn_tanh(t, nn_gat(t, &net->gat[i], &g, h, h, edge)));
	for (uint32_t a = 0; a < v->n_actions; a++) {
		for (uint32_t d = 0; d < v->n_devices; d++) {
			which[a * v->n_devices + d] = v->n_ops + d;
			candidate[a * v->n_devices + d] = a;
			in.data[a * v->n_devices + d] = v->mask[a] >> d & 1;
		}
		next[a] = v->next;
	}
	struct nn_var each = nn_concat(t, nn_rows(t, h, which, rows), nn_constant(t, in));
	struct nn_var sets = nn_group_mean(t, nn_mlp(t, &net->device_out, each), candidate, v->n_actions);
	struct nn_var all = nn_concat(t, nn_concat(t, nn_tanh(t, sets), nn_rows(t, h, next, v->n_actions)),
				      nn_constant(t, v->action));
	return nn_log_softmax(t, nn_transpose(t, nn_mlp(t, &net->score, all)), NULL);
}

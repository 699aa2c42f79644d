/*
 * test_nn.c - gradients of every operation and layer against central differences, and a network that learns.
 *
 * link: openblas
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "nn/nn.h"

/* A case builds a scalar from parameters; `shape` says which parameters it wants. */
struct kase {
	const char *name;
	uint32_t n;
	uint32_t shape[4][2];
	struct nn_var (*build)(struct nn_tape *t, const struct nn_var *x);
};

static const uint32_t index3[] = { 2, 0, 2 }, group4[] = { 1, 0, 1, 2 }, pick4[] = { 0, 2, 1, 1 },
		      pickm[] = { 0, 1, 1, 2 };
static const uint32_t edge_src[] = { 0, 1, 2, 3, 1 }, edge_dst[] = { 1, 2, 3, 0, 3 };
static const bool mask43[] = { 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1 };

/* Weighs every entry differently, so that no derivative cancels. */
static struct nn_var weigh(struct nn_tape *t, struct nn_var y)
{
	const struct nn_mat *v = nn_value(t, y);
	struct nn_mat w = nn_mat_new(t->arena, v->rows, v->cols);

	for (uint32_t i = 0; i < w.rows * w.cols; i++)
		w.data[i] = 0.37 + 0.613 * i - 0.05 * i * i;
	return nn_sum(t, nn_mul(t, y, nn_constant(t, w)));
}

#define CASE(id, expression)                                                       \
	static struct nn_var build_##id(struct nn_tape *t, const struct nn_var *x) \
	{                                                                          \
		return weigh(t, expression);                                       \
	}

CASE(matmul, nn_matmul(t, x[0], x[1]))
CASE(transpose, nn_transpose(t, x[0]))
CASE(add, nn_add(t, x[0], x[1]))
CASE(add_row, nn_add(t, x[0], x[1]))
CASE(sub_column, nn_sub(t, x[0], x[1]))
CASE(mul, nn_mul(t, x[0], x[1]))
CASE(mul_column, nn_mul(t, x[0], x[1]))
CASE(scale, nn_scale(t, x[0], -2.385))
CASE(relu, nn_relu(t, x[0]))
CASE(leaky, nn_leaky_relu(t, x[0], 0.2))
CASE(tanh, nn_tanh(t, x[0]))
CASE(sigmoid, nn_sigmoid(t, x[0]))
CASE(exp, nn_exp(t, x[0]))
CASE(clamp, nn_clamp(t, x[0], -0.31, 0.43))
CASE(rows, nn_rows(t, x[0], index3, 3))
CASE(group_sum, nn_group_sum(t, x[0], group4, 3))
CASE(group_mean, nn_group_mean(t, x[0], group4, 3))
CASE(group_softmax, nn_group_softmax(t, x[0], group4, 3))
CASE(concat, nn_concat(t, x[0], x[1]))
CASE(sum, nn_sum(t, x[0]))
CASE(mean, nn_mean(t, x[0]))
CASE(log_softmax, nn_log_softmax(t, x[0], NULL))
CASE(masked, nn_pick(t, nn_log_softmax(t, x[0], mask43), pickm))
CASE(pick, nn_pick(t, x[0], pick4))
CASE(normalise_rows, nn_normalise_rows(t, x[0]))

/* The same entries are dropped in every call. */
static struct nn_var build_dropout(struct nn_tape *t, const struct nn_var *x)
{
	static struct mq_rng rng;

	mq_rng_seed(&rng, 4);
	t->training = true;
	t->rng = &rng;
	return weigh(t, nn_dropout(t, x[0], 0.4));
}

static const struct kase kases[] = {
	{ "matmul", 2, { { 3, 4 }, { 4, 2 } }, build_matmul },
	{ "transpose", 1, { { 3, 4 } }, build_transpose },
	{ "add", 2, { { 3, 4 }, { 3, 4 } }, build_add },
	{ "add a row", 2, { { 3, 4 }, { 1, 4 } }, build_add_row },
	{ "subtract a column", 2, { { 3, 4 }, { 3, 1 } }, build_sub_column },
	{ "multiply", 2, { { 3, 4 }, { 3, 4 } }, build_mul },
	{ "multiply by a column", 2, { { 3, 4 }, { 3, 1 } }, build_mul_column },
	{ "scale", 1, { { 3, 4 } }, build_scale },
	{ "relu", 1, { { 3, 4 } }, build_relu },
	{ "leaky relu", 1, { { 3, 4 } }, build_leaky },
	{ "tanh", 1, { { 3, 4 } }, build_tanh },
	{ "sigmoid", 1, { { 3, 4 } }, build_sigmoid },
	{ "exp", 1, { { 3, 4 } }, build_exp },
	{ "clamp", 1, { { 3, 4 } }, build_clamp },
	{ "rows", 1, { { 3, 4 } }, build_rows },
	{ "group sum", 1, { { 4, 3 } }, build_group_sum },
	{ "group mean", 1, { { 4, 3 } }, build_group_mean },
	{ "group softmax", 1, { { 4, 1 } }, build_group_softmax },
	{ "concat", 2, { { 3, 2 }, { 3, 4 } }, build_concat },
	{ "sum", 1, { { 3, 4 } }, build_sum },
	{ "mean", 1, { { 3, 4 } }, build_mean },
	{ "log softmax", 1, { { 4, 3 } }, build_log_softmax },
	{ "masked log softmax", 1, { { 4, 3 } }, build_masked },
	{ "pick", 1, { { 4, 3 } }, build_pick },
	{ "normalise rows", 1, { { 4, 3 } }, build_normalise_rows },
	{ "dropout", 1, { { 4, 3 } }, build_dropout },
};

static double forward(const struct kase *k, struct nn_params *params, struct nn_tape *t)
{
	struct nn_var x[4];

	for (uint32_t i = 0; i < k->n; i++)
		x[i] = nn_param_var(t, params->param[i]);
	struct nn_var y = k->build(t, x);
	nn_backward(t, y);
	return nn_value(t, y)->data[0];
}

static void compare(const char *name, struct nn_params *params, double (*value)(void *context), void *context)
{
	double **exact = mq_arena_array(params->arena, params->n, double *);

	nn_clear_grads(params);
	value(context);
	for (uint32_t i = 0; i < params->n; i++) {
		const struct nn_mat *g = &params->param[i]->grad;

		exact[i] = mq_arena_array(params->arena, g->rows * g->cols, double);
		memcpy(exact[i], g->data, g->rows * g->cols * sizeof(double));
	}
	for (uint32_t i = 0; i < params->n; i++) {
		struct nn_mat *v = &params->param[i]->value;

		for (uint32_t e = 0; e < v->rows * v->cols; e++) {
			double keep = v->data[e], h = 1e-6;

			v->data[e] = keep + h;
			double up = value(context);
			v->data[e] = keep - h;
			double down = value(context);
			v->data[e] = keep;
			double slope = (up - down) / (2 * h);
			if (!(fabs(slope - exact[i][e]) <= 2e-6 * (1 + fabs(slope))))
				fail_msg("%s: parameter %u, entry %u: %.9g, differences say %.9g", name, i, e,
					 exact[i][e], slope);
		}
	}
}

struct op_run {
	const struct kase *k;
	struct nn_params *params;
};

static double run_op(void *context)
{
	struct op_run *run = context;
	struct mq_arena arena = MQ_ARENA_INIT;
	struct nn_tape t;

	nn_tape_begin(&t, &arena);
	double y = forward(run->k, run->params, &t);
	mq_arena_fini(&arena);
	return y;
}

static void gradients_of_operations(void **state)
{
	struct mq_rng rng;

	(void)state;
	mq_rng_seed(&rng, 11);
	for (size_t i = 0; i < sizeof(kases) / sizeof(*kases); i++) {
		struct mq_arena arena = MQ_ARENA_INIT;
		struct nn_params params;

		nn_params_init(&params, &arena);
		for (uint32_t p = 0; p < kases[i].n; p++) {
			nn_param_new(&params, "x", kases[i].shape[p][0], kases[i].shape[p][1], &rng);
		}
		compare(kases[i].name, &params, run_op, &(struct op_run){ &kases[i], &params });
		mq_arena_fini(&arena);
	}
}

/* ---- layers: one scalar out of a network with everything in it ------------------------------------------ */

struct net {
	struct nn_params params;
	struct nn_mlp mlp;
	struct nn_dense gcn;
	struct nn_gat gat;
	struct nn_norm layer;
	struct nn_mat nodes, edges;
};

static double run_net(void *context)
{
	struct net *n = context;
	struct mq_arena arena = MQ_ARENA_INIT;
	struct nn_tape t;
	struct nn_graph g = { 4, 5, edge_src, edge_dst };

	nn_tape_begin(&t, &arena);
	t.training = true;
	struct nn_var x = nn_mlp(&t, &n->mlp, nn_constant(&t, n->nodes));
	x = nn_layer_norm(&t, &n->layer, nn_gcn(&t, &n->gcn, &g, x));
	x = nn_gat(&t, &n->gat, &g, x, x, nn_constant(&t, n->edges));
	struct nn_var y = weigh(&t, x);
	nn_backward(&t, y);
	double value = nn_value(&t, y)->data[0];
	mq_arena_fini(&arena);
	return value;
}

static void gradients_of_layers(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_rng rng;
	struct net n = { 0 };

	(void)state;
	mq_rng_seed(&rng, 5);
	nn_params_init(&n.params, &arena);
	nn_mlp_init(&n.mlp, &n.params, (uint32_t[]){ 3, 5, 4 }, 2, NN_TANH, &rng);
	nn_dense_init(&n.gcn, &n.params, 4, 4, NN_TANH, &rng);
	nn_gat_init(&n.gat, &n.params, 4, 2, 4, 2, &rng);
	nn_norm_init(&n.layer, &n.params, 4);
	n.nodes = nn_mat_new(&arena, 4, 3);
	n.edges = nn_mat_new(&arena, 5, 2);
	for (int i = 0; i < 12; i++)
		n.nodes.data[i] = mq_rng_normal(&rng);
	for (int i = 0; i < 10; i++)
		n.edges.data[i] = mq_rng_normal(&rng);
	compare("layers", &n.params, run_net, &n);
	mq_arena_fini(&arena);
}

/* Adam brings a two-layer network to sin(3 x) within a mean squared error of 1e-3. */
static void learns_a_function(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_rng rng;
	struct nn_params params;
	struct nn_mlp mlp;
	struct nn_adam adam;
	double loss = 1;

	(void)state;
	mq_rng_seed(&rng, 3);
	nn_params_init(&params, &arena);
	nn_mlp_init(&mlp, &params, (uint32_t[]){ 1, 32, 1 }, 2, NN_TANH, &rng);
	nn_adam_init(&adam, 0.01, 1);
	struct nn_mat x = nn_mat_new(&arena, 64, 1), y = nn_mat_new(&arena, 64, 1);
	for (uint32_t i = 0; i < 64; i++) {
		x.data[i] = -1 + 2 * i / 63.0;
		y.data[i] = sin(3 * x.data[i]);
	}
	for (int step = 0; step < 1500; step++) {
		struct mq_arena_mark mark = mq_arena_mark(&arena);
		struct nn_tape t;

		nn_tape_begin(&t, &arena);
		struct nn_var d = nn_sub(&t, nn_mlp(&t, &mlp, nn_constant(&t, x)), nn_constant(&t, y));
		struct nn_var l = nn_mean(&t, nn_mul(&t, d, d));
		nn_backward(&t, l);
		loss = nn_value(&t, l)->data[0];
		nn_adam_step(&adam, &params);
		mq_arena_rewind(&arena, mark);
	}
	assert_true(loss < 1e-3);
	mq_arena_fini(&arena);
}

static void weights_round_trip(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_rng rng;
	struct mq_err err = MQ_ERR_INIT;
	struct nn_params a, b, c;
	struct nn_mlp mlp;
	char path[] = "/tmp/mq-nn-XXXXXX";

	(void)state;
	close(mkstemp(path));
	mq_rng_seed(&rng, 9);
	nn_params_init(&a, &arena);
	nn_params_init(&b, &arena);
	nn_params_init(&c, &arena);
	nn_mlp_init(&mlp, &a, (uint32_t[]){ 3, 4, 2 }, 2, NN_RELU, &rng);
	nn_mlp_init(&mlp, &b, (uint32_t[]){ 3, 4, 2 }, 2, NN_RELU, &rng);
	nn_mlp_init(&mlp, &c, (uint32_t[]){ 3, 5, 2 }, 2, NN_RELU, &rng);
	assert_int_equal(nn_params_save(&a, path, &err), MQ_OK);
	assert_int_equal(nn_params_load(&b, path, &err), MQ_OK);
	for (uint32_t i = 0; i < a.n; i++)
		assert_memory_equal(a.param[i]->value.data, b.param[i]->value.data,
				    a.param[i]->value.rows * a.param[i]->value.cols * sizeof(double));
	assert_int_equal(nn_params_load(&c, path, &err), MQ_EINPUT);
	assert_int_equal(nn_params_save(&a, "/dev/full", &err), MQ_EINPUT);
	unlink(path);
	mq_arena_fini(&arena);
}

/* Every layer computes the same after a round trip; rounded files are
 * small and say what they hold. */
static void a_trained_network_round_trips(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_rng rng;
	struct mq_err err = MQ_ERR_INIT;
	struct nn_params params[2];
	struct nn_norm norm[2];
	struct nn_mlp mlp[2];
	struct nn_adam adam;
	double out[2];
	char path[] = "/tmp/mq-nn-XXXXXX";

	(void)state;
	close(mkstemp(path));
	mq_rng_seed(&rng, 21);
	struct nn_mat x = nn_mat_new(&arena, 6, 3);
	for (int i = 0; i < 18; i++)
		x.data[i] = 3 + 2 * mq_rng_normal(&rng);
	for (int k = 0; k < 2; k++) {
		nn_params_init(&params[k], &arena);
		nn_norm_init(&norm[k], &params[k], 3);
		nn_mlp_init(&mlp[k], &params[k], (uint32_t[]){ 3, 5, 1 }, 2, NN_TANH, &rng);
	}
	nn_adam_init(&adam, 0.01, 1);
	for (int step = 0; step < 20; step++) {
		struct nn_tape t;

		nn_tape_begin(&t, &arena);
		t.training = true;
		nn_backward(&t, nn_sum(&t, nn_mlp(&t, &mlp[0], nn_layer_norm(&t, &norm[0], nn_constant(&t, x)))));
		nn_adam_step(&adam, &params[0]);
	}
	nn_params_round(&params[0], 5);
	assert_int_equal(nn_params_save(&params[0], path, &err), MQ_OK);
	assert_int_equal(nn_params_load(&params[1], path, &err), MQ_OK);
	for (int k = 0; k < 2; k++) {
		struct nn_tape t;

		nn_tape_begin(&t, &arena);
		struct nn_var y = nn_mlp(&t, &mlp[k], nn_layer_norm(&t, &norm[k], nn_constant(&t, x)));
		out[k] = nn_value(&t, nn_sum(&t, y))->data[0];
	}
	assert_true(out[0] == out[1]);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	fseek(f, 0, SEEK_END);
	assert_true(ftell(f) < 16 * (long)nn_params_size(&params[0]));
	fclose(f);
	unlink(path);
	mq_arena_fini(&arena);
}

static void samples_follow_the_distribution(void **state)
{
	const double p[4] = { 0.1, 0, 0.6, 0.3 };
	double log_p[4];
	uint32_t count[4] = { 0 };
	struct mq_rng rng;

	(void)state;
	mq_rng_seed(&rng, 1);
	for (int i = 0; i < 4; i++)
		log_p[i] = p[i] > 0 ? log(p[i]) : -1e30;
	for (int i = 0; i < 20000; i++)
		count[nn_sample(log_p, 4, &rng)]++;
	assert_int_equal(count[1], 0);
	for (int i = 0; i < 4; i++) /* five standard deviations */
		assert_true(fabs(count[i] - 20000 * p[i]) <= 5 * sqrt(20000 * p[i] * (1 - p[i])));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gradients_of_operations),
		cmocka_unit_test(gradients_of_layers),
		cmocka_unit_test(learns_a_function),
		cmocka_unit_test(weights_round_trip),
		cmocka_unit_test(a_trained_network_round_trips),
		cmocka_unit_test(samples_follow_the_distribution),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

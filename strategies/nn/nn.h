/* nn.h - a small neural network library for the learning engines: reverse-mode automatic differentiation over a tape.
 *
 * A tape records operations on matrices of doubles as they are computed; nn_backward walks it in reverse. GEMMs run on
 * CBLAS. Seeded and single-threaded: same seed, same bits. Independent of plans.
 *
 *   struct nn_params p; ...                     parameters live as long as the engine
 *   struct nn_tape t; nn_tape_begin(&t, &arena) one forward pass; arena memory, freed by rewinding
 *   struct nn_var y = nn_dense(&t, &layer, x);
 *   nn_backward(&t, loss);                      adds to the gradients of the parameters
 *   nn_adam_step(&adam, &p);                    and clears them
 *
 * Matrices are row-major, rows x cols; a vector is one row or one column. Mismatched shapes are bugs of the caller
 * (mq_assert), never of the input.
 *
 * Not here: convolutions, recurrent cells, mixed precision, threads. SPDX-License-Identifier: Apache-2.0 */
#ifndef STRATEGIES_NN_NN_H
#define STRATEGIES_NN_NN_H

#include <stdbool.h>
#include <stdio.h>

#include "maquette/arena.h"
#include "maquette/rng.h"

struct nn_mat {
	uint32_t rows, cols;
	double *data; /* [rows * cols] */
};

/* A value on a tape, by index. */
struct nn_var {
	uint32_t id;
};

struct nn_node;
struct nn_tape {
	struct mq_arena *arena; /* borrowed: all memory of the pass */
	struct nn_node *node;
	uint32_t n, room;
	struct mq_rng *rng; /* for dropout; NULL = no dropout */
	bool training;      /* dropout is active */
};

/* A trainable matrix with its gradient and Adam's moments. */
struct nn_param {
	struct nn_mat value, grad, m, v;
	const char *name;
};

struct nn_params {
	struct mq_arena *arena; /* borrowed: lifetime of the engine */
	struct nn_param **param;
	uint32_t n, room;
};

/* ---- values --------------------------------------------------------------------------------------- */
struct nn_mat nn_mat_new(struct mq_arena *arena, uint32_t rows, uint32_t cols);
void nn_tape_begin(struct nn_tape *tape, struct mq_arena *arena);
/* Frees everything on the arena of passes, keeping its memory for the next. */
void nn_forget(struct mq_arena *pass);
/* A constant (no gradient); `data` is borrowed until the tape is done. */
struct nn_var nn_constant(struct nn_tape *tape, struct nn_mat data);
struct nn_var nn_param_var(struct nn_tape *tape, struct nn_param *param);
const struct nn_mat *nn_value(const struct nn_tape *tape, struct nn_var x);
/* Backward pass from a loss (1 x 1): adds to the gradients of the parameters. */
void nn_backward(struct nn_tape *tape, struct nn_var loss);

/* ---- operations ------------------------------------------------------------------------------------- */
struct nn_var nn_matmul(struct nn_tape *tape, struct nn_var a, struct nn_var b);
struct nn_var nn_transpose(struct nn_tape *tape, struct nn_var a);
/* b has the shape of a, or is broadcast: one row or one column. */
struct nn_var nn_add(struct nn_tape *tape, struct nn_var a, struct nn_var b);
struct nn_var nn_sub(struct nn_tape *tape, struct nn_var a, struct nn_var b);
struct nn_var nn_mul(struct nn_tape *tape, struct nn_var a, struct nn_var b);
struct nn_var nn_scale(struct nn_tape *tape, struct nn_var a, double factor);
struct nn_var nn_relu(struct nn_tape *tape, struct nn_var a);
struct nn_var nn_leaky_relu(struct nn_tape *tape, struct nn_var a, double slope);
struct nn_var nn_tanh(struct nn_tape *tape, struct nn_var a);
struct nn_var nn_sigmoid(struct nn_tape *tape, struct nn_var a);
struct nn_var nn_exp(struct nn_tape *tape, struct nn_var a);
struct nn_var nn_clamp(struct nn_tape *tape, struct nn_var a, double low, double high);
/* Rows of a by index (an embedding lookup); indices may repeat. */
struct nn_var nn_rows(struct nn_tape *tape, struct nn_var a, const uint32_t *index, uint32_t n);
/* Sum (or mean) of the rows of a that belong to each of n groups: out[group[i]] += a[i]. */
struct nn_var nn_group_sum(struct nn_tape *tape, struct nn_var a, const uint32_t *group, uint32_t n);
struct nn_var nn_group_mean(struct nn_tape *tape, struct nn_var a, const uint32_t *group, uint32_t n);
/* Softmax of a column over the members of each group (attention over incoming edges). */
struct nn_var nn_group_softmax(struct nn_tape *tape, struct nn_var a, const uint32_t *group, uint32_t n);
struct nn_var nn_concat(struct nn_tape *tape, struct nn_var a, struct nn_var b); /* columns */
struct nn_var nn_sum(struct nn_tape *tape, struct nn_var a);                     /* 1 x 1 */
struct nn_var nn_mean(struct nn_tape *tape, struct nn_var a);                    /* 1 x 1 */
/* log softmax of each row; masked entries (mask [rows x cols] false; may be NULL) become -1e30. */
struct nn_var nn_log_softmax(struct nn_tape *tape, struct nn_var a, const bool *mask);
/* One entry per row: out[i] = a[i][column[i]], a column. */
struct nn_var nn_pick(struct nn_tape *tape, struct nn_var a, const uint32_t *column);
/* Normalises each row to mean 0, variance 1 (layer norm without its gain). */
struct nn_var nn_normalise_rows(struct nn_tape *tape, struct nn_var a);
struct nn_var nn_dropout(struct nn_tape *tape, struct nn_var a, double share);

/* ---- layers ------------------------------------------------------------------------------------------- */
enum nn_act { NN_LINEAR, NN_RELU, NN_TANH };
struct nn_var nn_activate(struct nn_tape *tape, struct nn_var a, enum nn_act act);

void nn_params_init(struct nn_params *params, struct mq_arena *arena);
/* Uniform in +- sqrt(6 / (rows + cols)) (Glorot and Bengio 2010), or zero where rng is NULL. */
struct nn_param *nn_param_new(struct nn_params *params, const char *name, uint32_t rows, uint32_t cols,
			      struct mq_rng *rng);

struct nn_dense {
	struct nn_param *w, *b;
	enum nn_act act;
};
void nn_dense_init(struct nn_dense *layer, struct nn_params *params, uint32_t in, uint32_t out, enum nn_act act,
		   struct mq_rng *rng);
struct nn_var nn_dense(struct nn_tape *tape, const struct nn_dense *layer, struct nn_var x);

enum { NN_MAX_LAYERS = 8 };
struct nn_mlp {
	struct nn_dense layer[NN_MAX_LAYERS];
	uint32_t n;
};
/* sizes[0] inputs, sizes[n] outputs; hidden layers use `act`, the last one is linear. */
void nn_mlp_init(struct nn_mlp *mlp, struct nn_params *params, const uint32_t *sizes, uint32_t n, enum nn_act act,
		 struct mq_rng *rng);
struct nn_var nn_mlp(struct nn_tape *tape, const struct nn_mlp *mlp, struct nn_var x);

struct nn_norm {
	struct nn_param *gain, *shift;
};
void nn_norm_init(struct nn_norm *norm, struct nn_params *params, uint32_t width);
struct nn_var nn_layer_norm(struct nn_tape *tape, const struct nn_norm *norm, struct nn_var x);

/* A graph as a list of edges; src and dst are rows of the node features. */
struct nn_graph {
	uint32_t n_nodes, n_edges;
	const uint32_t *src, *dst;
};
/* Graph convolution (Kipf and Welling 2017): D^-1/2 (A + I) D^-1/2 X W + b, A made symmetric. */
struct nn_var nn_gcn(struct nn_tape *tape, const struct nn_dense *layer, const struct nn_graph *graph, struct nn_var x);

/* Graph attention (Velickovic et al. 2018) with edge features added to the source's: heads are concatenated. */
enum { NN_MAX_HEADS = 8 };
struct nn_gat {
	struct nn_param *w[NN_MAX_HEADS], *edge[NN_MAX_HEADS], *a_src[NN_MAX_HEADS], *a_dst[NN_MAX_HEADS],
		*a_edge[NN_MAX_HEADS];
	uint32_t heads;
};
void nn_gat_init(struct nn_gat *gat, struct nn_params *params, uint32_t in, uint32_t edge, uint32_t out, uint32_t heads,
		 struct mq_rng *rng);
struct nn_var nn_gat(struct nn_tape *tape, const struct nn_gat *gat, const struct nn_graph *graph, struct nn_var x_src,
		     struct nn_var x_dst, struct nn_var edge);

/* Samples an index with probability exp(log_p[i]) from a row of log probabilities. */
uint32_t nn_sample(const double *log_p, uint32_t n, struct mq_rng *rng);

/* ---- learning ------------------------------------------------------------------------------------------ */
struct nn_adam {
	double rate, beta1, beta2, epsilon;
	double clip; /* gradients are scaled down to this norm; 0 = no limit */
	uint64_t step;
};
void nn_adam_init(struct nn_adam *adam, double rate, double clip);
/* One step (Kingma and Ba 2015); gradients are cleared. Returns the norm before clipping. */
double nn_adam_step(struct nn_adam *adam, struct nn_params *params);
void nn_clear_grads(struct nn_params *params);
/* to = from, parameter by parameter (target networks); shapes are equal. */
void nn_params_copy(struct nn_params *to, const struct nn_params *from);

uint32_t nn_params_size(const struct nn_params *params); /* number of values in all */
/* Rounds every value to `digits` significant digits, for small files. */
void nn_params_round(struct nn_params *params, int digits);

/* Text file: one line per parameter with its name, shape and values (with as few digits as restore the same bits).
 * Loading checks names and shapes; MQ_EINPUT names the one that differs. Without the optimizer's state: a resumed
 * search replays its evaluations and reaches the same state. */
enum mq_status nn_params_save(const struct nn_params *params, const char *path, struct mq_err *err);
enum mq_status nn_params_load(struct nn_params *params, const char *path, struct mq_err *err);

#endif

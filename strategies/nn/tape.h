/* tape.h - internal: the nodes of a tape. SPDX-License-Identifier: Apache-2.0 */
#ifndef STRATEGIES_NN_TAPE_H
#define STRATEGIES_NN_TAPE_H

#include "nn/nn.h"

#define NN_NO_VAR UINT32_MAX

struct nn_node {
	struct nn_mat value, grad; /* grad: allocated by nn_backward */
	uint32_t a, b;             /* inputs, NN_NO_VAR = none */
	void (*back)(struct nn_tape *tape, struct nn_node *node);
	struct nn_param *param;
	const uint32_t *index, *to; /* borrowed: groups; from where and to where entries move (graphs.c) */
	uint32_t n_moves, width;
	const void *mask;
	double number, number2;
	struct nn_mat extra; /* other data for the backward pass */
	bool needs_grad;
};

struct nn_var nn_push(struct nn_tape *tape, const struct nn_node *node);
/* A node with a zeroed value of the given shape. A push invalidates pointers into tape->node. */
struct nn_var nn_op(struct nn_tape *tape, uint32_t rows, uint32_t cols, struct nn_var a, struct nn_var b,
		    void (*back)(struct nn_tape *, struct nn_node *));

/* Gradient memory of input a (0) or b (1); NULL: not needed. */
static inline double *nn_grad_of(struct nn_tape *tape, const struct nn_node *node, int which)
{
	uint32_t id = which ? node->b : node->a;

	return id != NN_NO_VAR && tape->node[id].needs_grad ? tape->node[id].grad.data : NULL;
}

static inline const struct nn_mat *nn_input(const struct nn_tape *tape, const struct nn_node *node, int which)
{
	return &tape->node[which ? node->b : node->a].value;
}

static inline uint32_t nn_size(const struct nn_mat *m)
{
	return m->rows * m->cols;
}

#define NN_NONE_VAR ((struct nn_var){ NN_NO_VAR })

#endif

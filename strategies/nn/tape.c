/* tape.c - matrices, the tape, and its backward pass. See nn.h.
 *
 * A node has its value, memory for its gradient, up to two inputs and a function that propagates the gradient.
 * Derivatives are next to the operations (ops.c). SPDX-License-Identifier: Apache-2.0 */
#include "nn/tape.h"

#include <cblas.h>

struct nn_mat nn_mat_new(struct mq_arena *arena, uint32_t rows, uint32_t cols)
{
	return (struct nn_mat){ rows, cols, mq_arena_array(arena, (size_t)rows * cols, double) };
}

void nn_forget(struct mq_arena *pass)
{
	mq_arena_rewind(pass, (struct mq_arena_mark){ NULL, 0 });
}

void nn_tape_begin(struct nn_tape *tape, struct mq_arena *arena)
{
	*tape = (struct nn_tape){ .arena = arena };
}

struct nn_var nn_push(struct nn_tape *tape, const struct nn_node *node)
{
	MQ_PUSH(tape->arena, tape->node, tape->n, tape->room, *node);
	return (struct nn_var){ tape->n - 1 };
}

struct nn_var nn_op(struct nn_tape *tape, uint32_t rows, uint32_t cols, struct nn_var a, struct nn_var b,
		    void (*back)(struct nn_tape *, struct nn_node *))
{
	struct nn_node node = { .value = nn_mat_new(tape->arena, rows, cols), .a = a.id, .b = b.id, .back = back };

	node.needs_grad = (a.id != NN_NO_VAR && tape->node[a.id].needs_grad) ||
			  (b.id != NN_NO_VAR && tape->node[b.id].needs_grad);
	return nn_push(tape, &node);
}

struct nn_var nn_constant(struct nn_tape *tape, struct nn_mat data)
{
	return nn_push(tape, &(struct nn_node){ .value = data, .a = NN_NO_VAR, .b = NN_NO_VAR });
}

static void back_param(struct nn_tape *tape, struct nn_node *node)
{
	struct nn_mat *grad = &node->param->grad;

	(void)tape;
	cblas_daxpy((int)(grad->rows * grad->cols), 1, node->grad.data, 1, grad->data, 1);
}

struct nn_var nn_param_var(struct nn_tape *tape, struct nn_param *param)
{
	return nn_push(tape, &(struct nn_node){ .value = param->value,
						.a = NN_NO_VAR,
						.b = NN_NO_VAR,
						.back = back_param,
						.param = param,
						.needs_grad = true });
}

const struct nn_mat *nn_value(const struct nn_tape *tape, struct nn_var x)
{
	mq_assert(x.id < tape->n);
	return &tape->node[x.id].value;
}

void nn_backward(struct nn_tape *tape, struct nn_var loss)
{
	struct nn_node *last = &tape->node[loss.id];

	mq_assert(last->value.rows == 1 && last->value.cols == 1);
	for (uint32_t i = 0; i <= loss.id; i++)
		if (tape->node[i].needs_grad && !tape->node[i].grad.data)
			tape->node[i].grad =
				nn_mat_new(tape->arena, tape->node[i].value.rows, tape->node[i].value.cols);
	if (!last->needs_grad)
		return;
	last->grad.data[0] = 1;
	for (uint32_t i = loss.id + 1; i-- > 0;)
		if (tape->node[i].needs_grad && tape->node[i].back)
			tape->node[i].back(tape, &tape->node[i]);
}

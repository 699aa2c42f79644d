/* image.h - amounts of the ops that image networks are made of, for builders and ONNX; a GEMM's for transformers too.
 *
 * Each function fills the numbers of one op (name, kind and edges are the caller's). FLOPs per output element:
 * convolution and GEMM 2 k (+1 with bias), batch norm 4, ReLU and additions 1, pooling the area of the window, softmax
 * 5, copies 0.
 *
 * What the backward pass needs is found at the end, over the graph: a tensor is kept, once and with the op that made
 * it, if a consumer needs its input (GEMM, convolution, norm, GEMMs) or its producer needs its output (ReLU,
 * softmax); views pass the need on. Masks of dropout and max-pooling come on top.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_BUILDERS_LIB_IMAGE_H
#define MQ_MODEL_BUILDERS_LIB_IMAGE_H

#include "model/format.h"

enum { MQ_NEEDS_INPUT = 1, MQ_NEEDS_OUTPUT = 2, MQ_IS_VIEW = 4 };

struct mq_plane {
	double c, h, w; /* channels, height, width (all further axes) */
};

struct mq_window {
	struct mq_plane in, out;
	double kh, kw, stride; /* stride along the height */
	double groups;
	bool bias;
	bool input_grad; /* the input needs a gradient: not so for the first layer */
};

void mq_amounts_conv(struct mq_op *op, const struct mq_window *w);
/* The backward pass of a convolution: every input pixel is spread over a window of the output. */
void mq_amounts_conv_transposed(struct mq_op *op, const struct mq_window *w);
void mq_amounts_pool(struct mq_op *op, const struct mq_window *w, bool max);
/* [m x k] times weights [k x n]. */
void mq_amounts_gemm(struct mq_op *op, const double mnk[3], bool bias, bool input_grad);
/* Normalisation; `train`: the statistics are computed too (one more pass over the data). */
void mq_amounts_norm(struct mq_op *op, const struct mq_plane *in, double flop_per_elem, bool train);
/* n_inputs tensors of `elems` in, one out. */
void mq_amounts_elementwise(struct mq_op *op, double elems, double n_inputs, double flop_per_elem);
/* A copy: concat, transpose, pad, ... */
void mq_amounts_copy(struct mq_op *op, double in_elems, double out_elems);
void mq_amounts_dropout(struct mq_op *op, double elems, bool train);
void mq_amounts_softmax(struct mq_op *op, double elems);

/* Adds what each op of the graph keeps; `traits` holds one mask per op. Ops must be in order. */
void mq_replica_flow_keep(struct mq_model *model, const uint8_t *traits, struct mq_arena *arena);

#endif

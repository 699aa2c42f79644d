/* image.h - FLOPs, bytes and parameters of the ops of image networks, for builders and ONNX; GEMMs of transformers too.
 *
 * Each function fills the numbers of one op (the caller sets name, kind and edges). FLOPs per output element:
 * convolution and GEMM 2 k (+1 with bias), batch norm 4, ReLU and additions 1, pooling the area of the window, softmax
 * 5, copies 0.
 *
 * A last pass over the graph finds the saved activations: a tensor is saved once, counted at the op that made it, if a
 * consumer needs its input (GEMM, convolution, norm) or its producer needs its output (ReLU, softmax); views pass the
 * need on. Masks of dropout and max-pooling are added.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_BUILDERS_LIB_IMAGE_H
#define MQ_MODEL_BUILDERS_LIB_IMAGE_H

#include "model/format.h"

enum { MQ_NEEDS_INPUT = 1, MQ_NEEDS_OUTPUT = 2, MQ_IS_VIEW = 4 };

struct mq_plane {
	double c, h, w; /* channels, height, width (product of all further axes) */
};

struct mq_window {
	struct mq_plane in, out;
	double kh, kw, stride; /* stride along the height */
	double groups;
	bool bias;
	bool input_grad; /* the input needs a gradient; the first layer's does not */
};

void mq_amounts_conv(struct mq_op *op, const struct mq_window *w);
/* A transposed convolution: every input pixel adds to a window of the output. */
void mq_amounts_conv_transposed(struct mq_op *op, const struct mq_window *w);
void mq_amounts_pool(struct mq_op *op, const struct mq_window *w, bool max);
/* [m x k] times weights [k x n]. */
void mq_amounts_gemm(struct mq_op *op, const double mnk[3], bool bias, bool input_grad);
/* Normalisation; train: also computes the statistics (one more pass over the data). */
void mq_amounts_norm(struct mq_op *op, const struct mq_plane *in, double flop_per_elem, bool train);
/* Reads n_inputs tensors of `elems` elements, writes one. */
void mq_amounts_elementwise(struct mq_op *op, double elems, double n_inputs, double flop_per_elem);
/* A copy: concat, transpose, pad, ... */
void mq_amounts_copy(struct mq_op *op, double in_elems, double out_elems);
void mq_amounts_dropout(struct mq_op *op, double elems, bool train);
void mq_amounts_softmax(struct mq_op *op, double elems);

/* Adds the saved activations of each op; traits: one mask per op. Ops must be in topological order. */
void mq_amounts_saved(struct mq_model *model, const uint8_t *traits, struct mq_arena *arena);

#endif

/* model_work.h - state and helpers shared by the functions that build an op's list of kernels.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_KERNELS_MODEL_WORK_H
#define MQ_KERNELS_MODEL_WORK_H

#include "kernels/kernel_table.h"
#include "maquette/question.h"

/* One device's share of each amount, as factors on the per-sample numbers of the op. */
struct mq_op_scale {
	double rows;  /* m: samples, sequence and space */
	double cols;  /* n */
	double depth; /* k */
	double count; /* matrices; for attention and batched GEMMs times the samples */
	double flop, read, write;
	double kv;   /* attention: keys and values, which a sequence split does not divide */
	double keys; /* attention: share of the keys in this call */
};

struct mq_op_scale mq_op_scale_of(const struct mq_op *op, const struct mq_share *share);

/* State shared by all kernels of one op. */
struct mq_op_work {
	const struct mq_op *op;
	struct mq_op_scale scale;
	double size_B;        /* of one element */
	double weights;       /* parameter elements that the op multiplies with, tied ones too */
	double cast_B;        /* bytes moved to cast an element to fp8 or fp4; 0 = no cast */
	double dequantized_B; /* bytes moved to dequantize a weight; 0 = not quantized */
	bool ready;           /* the weights are stored in the type of the GEMM */
	enum mq_dtype dtype;  /* of everything but GEMMs in fp8 or fp4 */
	enum mq_dtype stream; /* see mq_software_stream */
	const struct mq_software *software;
	const struct mq_libraries *libraries;
	const struct mq_model *model;
	double traffic;   /* bytes of element-wise kernels / the minimum */
	bool fp8, mx;     /* the layers' GEMMs run in fp8 or fp4; in MXFP8 */
	double strips;    /* number of strips that an image is split into */
	double load;      /* token copies for this rank's experts / the mean */
	double documents; /* attention work with packed documents / that over whole sequences */
	bool gathered;    /* a loss that gathers the logits of all ranks */
	bool in_parts[2]; /* split_allgather_gemm: the GEMM forward; of the input gradient */
	bool exchanged;   /* as in mq_share */
	double ring;      /* ranks of the ring, if its later steps are asked for; else 0 */
	struct mq_kernel blank;
	struct mq_kernel *kernel;
	uint32_t n;
};

/* Appends a kernel with only its kind set. */
struct mq_kernel *mq_work_add(struct mq_op_work *w, enum mq_kernel_kind kind);
/* Appends a memory-bound kernel in the training data type. */
void mq_work_pass(struct mq_op_work *w, enum mq_kernel_kind kind, double bytes, double launches);
/* Calls per kernel, for ops that count experts: where experts run one by one, each has its own GEMM, on its own stream,
 * and its own element-wise kernels; else 1. */
uint32_t mq_work_calls(const struct mq_op_work *w);
/* A GEMM of [m x k][k x n], `elems` read and written. */
void mq_work_gemm(struct mq_op_work *w, const double mnk[3], double flop, double elems);
/* Appends the casts of a pass to fp8 or fp4. Call it after the GEMMs: their positions are fixed (left_out in
 * lowering/template.c relies on them). */
void mq_work_cast(struct mq_op_work *w, double elems, uint32_t launches);
/* Appends what this implementation of a part moves beyond the one fused kernel that the op counts, per output element;
 * nothing if the table lacks the implementation. */
void mq_work_made(struct mq_op_work *w, enum mq_part part, enum mq_make make, double elems, bool backward);
/* Appends the kernels between the residual stream and the `modules` GEMMs that read it: casts if the stream is fp32;
 * backward the sum of their gradients. */
void mq_work_inputs(struct mq_op_work *w, double elems, uint32_t modules, bool backward);
/* Appends a part as implemented by the software (`fusion`); FUSED is what the op counts. */
void mq_work_as(struct mq_op_work *w, enum mq_part part, uint32_t fusion, double elems, bool backward);

/* model_attention.c: the kernels of attention, fused or with stored scores. */
void mq_work_attention(struct mq_op_work *w, bool backward);

#endif

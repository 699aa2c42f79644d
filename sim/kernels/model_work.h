/*
 * model_work.h - inside the kernels of ops: what those of one op share while they are made, and what most of them need.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_KERNELS_MODEL_WORK_H
#define MQ_KERNELS_MODEL_WORK_H

#include "kernels/kernel_table.h"
#include "maquette/question.h"

/* What is left to one device of each amount, as factors on the per-sample numbers of the op. */
struct mq_op_scale {
	double rows;  /* m: samples, sequence and space */
	double cols;  /* n */
	double depth; /* k */
	double count; /* matrices; for attention and batched GEMMs times the samples */
	double flop, read, write;
	double kv;   /* attention: keys and values, which a sequence split leaves whole */
	double keys; /* attention: their share that this call sees */
};

struct mq_op_scale mq_op_scale_of(const struct mq_op *op, const struct mq_share *share);

/* Everything that the kernels of one op share. */
struct mq_op_work {
	const struct mq_op *op;
	struct mq_op_scale scale;
	double size_B;        /* of one element */
	double weights;       /* parameter elements that the op multiplies with, tied ones too */
	double cast_B;        /* to make an element of an fp8 operand; 0 = no fp8 here */
	double dequantized_B; /* moved per weight to make it whole; 0 = it is */
	bool ready;           /* its weights lie there in the type of the GEMM */
	enum mq_dtype dtype;  /* of what is not a GEMM in fp8 */
	enum mq_dtype stream; /* see mq_software_stream */
	const struct mq_software *software;
	const struct mq_libraries *libraries;
	const struct mq_model *model;
	double traffic;   /* of element-wise kernels / their least */
	bool fp8, mx;     /* the layers' GEMMs are in fp8, in MXFP8 */
	double strips;    /* an image is cut into */
	double load;      /* copies of tokens of this rank's experts / the mean */
	double documents; /* work of attention / that over whole sequences */
	bool gathered;    /* a loss of whole logits that ranks have parts of */
	bool in_parts[2]; /* its GEMM forward, and back to its input, is three (split_allgather_gemm) */
	bool exchanged;   /* mq_share's */
	double ring;      /* ranks of the ring whose later steps are asked for; 0 = not these */
	struct mq_kernel blank;
	struct mq_kernel *kernel;
	uint32_t n;
};

/* One more kernel, blank but for its kind. */
struct mq_kernel *mq_work_add(struct mq_op_work *w, enum mq_kernel_kind kind);
/* One that passes over memory, in the type of training. */
void mq_work_pass(struct mq_op_work *w, enum mq_kernel_kind kind, double bytes, double launches);
/* Experts are called one by one: a GEMM each, on streams of their own, and what is done to the output of
 * each (ops that count them). */
uint32_t mq_work_calls(const struct mq_op_work *w);
/* A GEMM of [m x k][k x n], `elems` read and written. */
void mq_work_gemm(struct mq_op_work *w, const double mnk[3], double flop, double elems);
/* The operands of a pass in fp8: comes after the GEMMs, whose places are known (see left_out in
 * lowering/template.c). */
void mq_work_cast(struct mq_op_work *w, double elems, uint32_t launches);
/* What software that makes a part so moves beyond the one fused kernel that the op is counted as (nothing, where the
 * table has none), per element that comes out. */
void mq_work_made(struct mq_op_work *w, enum mq_part part, enum mq_make make, double elems, bool backward);
/* What stands between the residual stream and the GEMMs that read it, `modules` of them: casts where the stream is
 * fp32, and back the sum of their gradients. */
void mq_work_inputs(struct mq_op_work *w, double elems, uint32_t modules, bool backward);
/* A part as a word of the software says it is made; FUSED is what the op counts. */
void mq_work_as(struct mq_op_work *w, enum mq_part part, uint32_t fusion, double elems, bool backward);

/* model_attention.c: a core of attention, fused or with scores that are stored. */
void mq_work_attention(struct mq_op_work *w, bool backward);

#endif

/* kernel.h - kernels, and the work of a compute task as a list of kernels: lowering writes it, cost models time it,
 * executors run it. Amounts are per device; units are in the names (elements if none).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_KERNEL_H
#define MAQUETTE_KERNEL_H

#include "maquette/types.h"

/* A 2D convolution with symmetric padding. Zeroes: unknown, or another kind. */
struct mq_conv_image {
	uint16_t h, w, out_h, out_w; /* pixels of input and output */
	uint8_t kh, kw, stride_h, stride_w;
};

enum mq_kernel_kind {
	MQ_KERNEL_GEMM,        /* count x [m x k][k x n] */
	MQ_KERNEL_CONV,        /* a convolution with the numbers of its implicit GEMM */
	MQ_KERNEL_ATTENTION,   /* fused attention */
	MQ_KERNEL_MEMORY,      /* bound by memory traffic: element-wise, norm, softmax, loss, pool */
	MQ_KERNEL_EMBEDDING,   /* gather or scatter of rows */
	MQ_KERNEL_OPTIMIZER,   /* parameter update, bytes of all its states */
	MQ_KERNEL_RECURRENT,   /* m serial GEMM steps */
	MQ_KERNEL_COPY,        /* device-local copy or pack */
	MQ_KERNEL_TIMED,       /* profiled: lasts `time_s` on its device */
	MQ_KERNEL_HOST_UPDATE, /* parameter update on the host CPU that serves the device */
	MQ_KERNEL_SCAN,        /* state-space scan in chunks */
	MQ_KERNEL_CALL, /* no kernel: host time `time_s` between launches; < 0: time by which the host is ahead of the
			 * device from earlier tasks */
	MQ_KERNEL_WAIT, /* no kernel: the device idles for `time_s` while its host waits */
	MQ_N_KERNEL_KINDS
};
MQ_API const char *mq_kernel_kind_name(enum mq_kernel_kind kind);

/* Implementations of attention. Those up to FUSED_SOFTMAX store the scores of every head and differ in their kernels
 * for scaling, masking, softmax in fp32 and its casts: from one for each to one for all. */
enum mq_attention_kernel {
	MQ_ATTENTION_STORED,
	MQ_ATTENTION_EAGER,
	MQ_ATTENTION_MASKED,
	MQ_ATTENTION_XLA,
	MQ_ATTENTION_TENSORFLOW,
	MQ_ATTENTION_FUSED_SOFTMAX,
	MQ_ATTENTION_FLASH1,
	MQ_ATTENTION_TRITON1,
	MQ_ATTENTION_FLASH2,
	MQ_ATTENTION_FLASH3,
	MQ_ATTENTION_TE,
	MQ_N_ATTENTIONS
};
MQ_API const char *mq_attention_name(enum mq_attention_kernel attention);

/* Scaling of the operands of fp8 and fp4 GEMMs; each needs its own kernels. */
enum mq_scaling {
	MQ_SCALING_TENSOR, /* one scale per tensor */
	MQ_SCALING_TOKEN,  /* one per row of activations and per column of weights */
	MQ_SCALING_BLOCK,  /* one per 128 values of a row and per 128 x 128 weights, applied by the kernel */
	MQ_SCALING_MX,     /* one per 32 values of a row, a power of two, applied by tensor cores */
	MQ_SCALING_NV,     /* fp4: one in fp8 per 16 values of a row, and one per tensor */
	MQ_N_SCALINGS
};
MQ_API const char *mq_scaling_name(enum mq_scaling scaling);

struct mq_kernel {
	uint32_t op; /* id in the model; MQ_NONE = no op */
	uint8_t kind, phase, dtype;
	uint8_t attention;          /* MQ_KERNEL_ATTENTION: enum mq_attention_kernel */
	uint8_t scaling;            /* MQ_KERNEL_GEMM in fp8 or fp4: enum mq_scaling */
	struct mq_conv_image image; /* MQ_KERNEL_CONV: of the forward pass, in every phase */
	double time_s;              /* MQ_KERNEL_TIMED, CALL and WAIT only */
#define MQ_AMOUNT(field, ...) double field;
#define MQ_FLAG(field)        bool field;
#include "maquette/kernel.def"
};

/* The work of a compute task, shared by all tasks that repeat it (micro-batches, equal ranks). */
struct mq_work {
	uint32_t n_kernels;
	struct mq_kernel *kernel;
	double flop, bytes; /* sums */
	double model_flop;  /* without recomputed work, for MFU */
	double host;        /* host time per kernel launch / the machine's; 0 = 1 */
	bool waits;         /* the host waits for each kernel of a GPU */
};

#endif

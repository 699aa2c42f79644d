/* kernel.h - kernels, and the work of a compute task as a list of them: what lowering writes, cost models time and
 * executors run. An amount is what one device does; units are in the names (elements where none is).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_KERNEL_H
#define MAQUETTE_KERNEL_H

#include "maquette/types.h"

/* A convolution of two axes, symmetric about its input's edges. Zeroes: not known, or another. */
struct mq_conv_image {
	uint16_t h, w, out_h, out_w; /* pixels of input and output */
	uint8_t kh, kw, stride_h, stride_w;
};

enum mq_kernel_kind {
	MQ_KERNEL_GEMM,        /* count x [m x k][k x n] */
	MQ_KERNEL_CONV,        /* the same numbers, run as a convolution */
	MQ_KERNEL_ATTENTION,   /* fused attention */
	MQ_KERNEL_MEMORY,      /* bound by memory traffic: element-wise, norm, softmax, loss, pool */
	MQ_KERNEL_EMBEDDING,   /* gather or scatter of rows */
	MQ_KERNEL_OPTIMIZER,   /* parameter update, bytes of all its states */
	MQ_KERNEL_RECURRENT,   /* m serial GEMM steps */
	MQ_KERNEL_COPY,        /* device-local copy or pack */
	MQ_KERNEL_TIMED,       /* profiled: lasts `time_s` on its device */
	MQ_KERNEL_HOST_UPDATE, /* parameter update on the host CPU that serves the device */
	MQ_KERNEL_SCAN,        /* state-space product: chunks that meet in states */
	MQ_KERNEL_CALL,        /* none: `time_s` that the host needs for something else between its launches; < 0:
				* that it is ahead of its device by, from tasks before */
	MQ_KERNEL_WAIT,        /* none: `time_s` in which the device has nothing to do, as its host waits */
	MQ_N_KERNEL_KINDS
};
MQ_API const char *mq_kernel_kind_name(enum mq_kernel_kind kind);

/* Implementations of attention; those up to the fused softmax store the scores of every head: a kernel for each of
 * scaling, masking, softmax in fp32 and the casts about it, fewer, or one for all. */
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

/* One library call of a compute task: everything that executors and cost models need to know. */
/* How the operands of a GEMM in fp8 or fp4 are scaled, each way with kernels of its own. */
enum mq_scaling {
	MQ_SCALING_TENSOR, /* one scale a tensor */
	MQ_SCALING_TOKEN,  /* one a row of activations and a column of weights */
	MQ_SCALING_BLOCK,  /* one for 128 values of a row, for 128 x 128 weights, applied by the kernel */
	MQ_SCALING_MX,     /* one for 32 values of a row, a power of two, which tensor cores apply */
	MQ_SCALING_NV,     /* fp4: one in fp8 for 16 values of a row, and one a tensor */
	MQ_N_SCALINGS
};
MQ_API const char *mq_scaling_name(enum mq_scaling scaling);

struct mq_kernel {
	uint32_t op; /* id in the model, MQ_NONE if it belongs to none */
	uint8_t kind, phase, dtype;
	bool causal;
	uint8_t attention;      /* MQ_KERNEL_ATTENTION: enum mq_attention_kernel */
	bool mx;                /* MQ_KERNEL_ATTENTION in fp8: MXFP8 */
	uint8_t scaling;        /* MQ_KERNEL_GEMM in fp8 or fp4: enum mq_scaling */
	double steps;           /* MQ_KERNEL_ATTENTION: calls, one after the other, over as many blocks of other
				  * ranks' keys; 0 = one call over its own */
	double layout;          /* MQ_KERNEL_CONV: passes over its tensors to and from the layout that tensor
				  * cores want; 0 = channels lie last */
	double m, n, k, count;  /* MEMORY, EMBEDDING: n = elements of a row (of a norm, a softmax, a table); 0 = none */
	double flop, bytes;     /* of all `count` */
	double work;            /* MQ_KERNEL_MEMORY: integer instructions, where these may take longer */
	double blocks;          /* MQ_KERNEL_MEMORY: thread blocks that share them; 0 = enough for the device */
	double launches;        /* kernels that the host launches for it (eager) */
	double looped;          /* of these, those in a loop of the library: its host time is the machine's own */
	bool graphed;           /* by a graph (CUDA graphs), which costs it nothing for each */
	bool awaited;           /* MQ_KERNEL_OPTIMIZER: the host waits for the device between tensors, weights and
				  * biases in turn */
	double winograd;        /* MQ_KERNEL_CONV, see struct mq_op */
	bool volume, depthwise; /* MQ_KERNEL_CONV: three axes; one filter per channel */
	bool of_weights; /* GEMM, CONV: the weights' gradient: the first operand lies transposed, a window is in the rows */
	bool grouped;  /* MQ_KERNEL_GEMM: one of each expert, of its own rows; m (of_weights: k) is the mean */
	bool of_input; /* MQ_KERNEL_CONV: the input's gradient */
	bool untimed;  /* MQ_KERNEL_CONV: its algorithm is chosen by rules, without timing those that there are */
	struct mq_conv_image image; /* MQ_KERNEL_CONV: of the forward pass, whichever this is */
	double time_s;              /* MQ_KERNEL_TIMED, CALL and WAIT only */
};

/* What a compute task does; shared by all tasks that repeat it (micro-batches, equal ranks). */
struct mq_work {
	uint32_t n_kernels;
	struct mq_kernel *kernel;
	double flop, bytes; /* sums */
	double model_flop;  /* without recomputed work, for MFU */
	double host;        /* host time per launch of a GPU's kernel / the machine's; 0 = 1 */
	bool waits;         /* the host waits for each of a GPU's kernels */
};

#endif

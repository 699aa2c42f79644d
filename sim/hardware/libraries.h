/* libraries.h - tables of library kernels for all GPUs: parts of layers, attention, experts, NCCL's tuning.
 *
 * Files: platforms/kernels/generations.csv, attention.csv and parts.csv (their README.md explains the columns), and
 * platforms/calib/nccl.json. A calibration reads and checks them once, turns names into indices and owns them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_LIBRARIES_H
#define MQ_HARDWARE_LIBRARIES_H

#include <stdbool.h>

#include "maquette/arena.h"
#include "maquette/err.h"
#include "maquette/types.h"

/* ---- attention --------------------------------------------------------------------------------------- */

enum mq_attention_library {
	MQ_LIBRARY_FLASH1,
	MQ_LIBRARY_CUTLASS, /* xFormers' memory-efficient attention */
	MQ_LIBRARY_TRITON1, /* FlashAttention of 2022 in Triton, before its support of Hopper */
	MQ_LIBRARY_FLASH2,
	MQ_LIBRARY_FLASH3,
	MQ_LIBRARY_CUDNN,
	MQ_LIBRARY_TRITON,
	/* For inference: paged keys and values, forward only. */
	MQ_LIBRARY_FLASH2_PAGED,
	MQ_LIBRARY_FLASH3_PAGED,
	MQ_LIBRARY_TRITON_PAGED,
	MQ_LIBRARY_FLASHINFER,
	MQ_LIBRARY_TRTLLM_FMHA,
	MQ_LIBRARY_TRTLLM_GEN,
	MQ_LIBRARY_FLASHINFER_TRTLLM, /* TensorRT-LLM's kernels, called by FlashInfer */
	MQ_N_LIBRARIES
};
MQ_API const char *mq_attention_library_name(enum mq_attention_library library);

enum mq_attention_type { MQ_ATTENTION_16_BIT, MQ_ATTENTION_FP8, MQ_ATTENTION_MXFP8, MQ_N_ATTENTION_TYPES };
enum { MQ_ATTENTION_WIDTHS = 3, MQ_MAX_GENERATIONS = 12 };

struct mq_attention_rates {
	double forward[MQ_ATTENTION_WIDTHS], backward[MQ_ATTENTION_WIDTHS]; /* share of peak at 64, 128, 256 wide */
	double start[2]; /* start-up cost of a tile in keys: forward, backward; 0 = no such kernels */
	double tail;
};

struct mq_generation {
	const char *name;
	double capability[2]; /* lowest compute capabilities of it; 0 in the second = none */
	double older_kernels; /* share of the peak that kernels of an older generation can reach */
};

/* ---- experts ----------------------------------------------------------------------------------------- */

enum mq_experts_type {
	MQ_EXPERTS_16_BIT,
	MQ_EXPERTS_FP8,
	MQ_EXPERTS_FP8_BLOCK, /* a scale for 128 x 128 weights and 128 activations */
	MQ_EXPERTS_MXFP4,     /* weights; activations in fp8 */
	MQ_EXPERTS_NVFP4,
	MQ_N_EXPERTS_TYPES
};
const char *mq_experts_type_name(enum mq_experts_type type);

/* A row of experts.csv, exchange.csv or products.csv; the README.md beside them explains the numbers. */
struct mq_experts_kernels {
	double share, tile, bw_share, fixed_s, passes, remote;
};
struct mq_exchange_kernels {
	double each, fixed_s, fixed_nodes, token_s, multiprocessor_Bps, link_share, net_share, net_multiprocessor_Bps;
};
struct mq_product_kernels {
	double share, column, cast_B, cast_work, row_s, casts;
};

enum mq_library_rows { MQ_ROWS_EXPERTS, MQ_ROWS_EXCHANGE, MQ_ROWS_PRODUCTS, MQ_N_ROWS };

struct mq_library_row {
	const char *library;
	int kind; /* enum mq_experts_type; 1 = combine; enum mq_scaling */
	uint32_t generation;
	union {
		struct mq_experts_kernels experts;
		struct mq_exchange_kernels exchange;
		struct mq_product_kernels product;
	};
};

/* ---- parts of layers --------------------------------------------------------------------------------- */

enum mq_part {
	MQ_PART_RMS,      /* per element of the hidden state */
	MQ_PART_RMS_WIDE, /* with fp32 weights in 16-bit training: its output is fp32 */
	MQ_PART_ADD_RMS,  /* residual addition and RMS norm, both results used */
	MQ_PART_LAYER_NORM,
	MQ_PART_ROPE,         /* per element of queries and keys */
	MQ_PART_ROPE_COMPLEX, /* as products of complex numbers (Llama 4) */
	MQ_PART_GATE,         /* activation(gate) times up: per element of the output */
	MQ_PART_GATE_JOINED,  /* the same, with gate and up as halves of one tensor */
	MQ_PART_GELU,
	MQ_PART_RELU_SQUARED,
	MQ_PART_SOFTMAX,     /* per element; a row has `width` */
	MQ_PART_LOSS,        /* per logit */
	MQ_PART_EMBEDDING,   /* per element of the output; weights: the table */
	MQ_PART_ADD,         /* residual */
	MQ_PART_BIAS,        /* of a GEMM: per element of its output */
	MQ_PART_DROPOUT,     /* of scores */
	MQ_PART_DROPOUT_ADD, /* dropout and residual addition */
	MQ_PART_COPY,
	MQ_PART_SCORES, /* softmax of stored attention scores with scale, casts, and mask unless MASK is separate */
	MQ_PART_MASK,   /* of those scores */
	MQ_PART_CAST,   /* per element of a GEMM operand */
	MQ_PART_BATCH_NORM,
	MQ_PART_POOL,          /* per element of the input */
	MQ_PART_POOL_TAP,      /* per element of each window */
	MQ_PART_DEPTHWISE,     /* convolution, gradients of its input and of its weights: per element of each window */
	MQ_PART_CHANNEL_SCALE, /* product with a number for each channel (squeeze and excitation) */
	MQ_N_PARTS
};
MQ_API const char *mq_part_name(enum mq_part part);

enum mq_make {
	MQ_MAKE_EAGER,
	MQ_MAKE_NATIVE,
	MQ_MAKE_COMPILED,
	MQ_MAKE_FUSED,
	MQ_MAKE_FUSED_OLD,
	MQ_MAKE_MEGATRON,
	MQ_MAKE_APART,
	MQ_MAKE_XLA,
	MQ_MAKE_TENSORFLOW,
	MQ_MAKE_AUTOCAST,
	MQ_MAKE_COMPOSITE,
	MQ_N_MAKES
};
MQ_API const char *mq_make_name(enum mq_make make);
/* The unit that a kernel's amounts are counted per. */
enum mq_per {
	MQ_PER_ELEMENT,
	MQ_PER_WEIGHT,
	MQ_PER_ROW,
	MQ_PER_LOOKED, /* per element of the distinct rows looked up */
};

struct mq_part_pass {
	double moved, moved_B; /* read and written: elements of the training type, bytes */
	double made, made_B;   /* allocated */
	double freed, freed_B; /* afterwards */
	double looked;         /* elements of looked-up rows: each distinct row is read from memory once */
	double again;          /* elements that the kernel reads once more: from the caches while the rows
				* in flight fit there */
	double work;           /* integer instructions per element of kernels that memory does not limit */
	double serial_s;       /* seconds per row that other rows do not hide */
	uint8_t per;           /* enum mq_per */
	uint8_t cast;          /* runs in 16-bit training only; MQ_CAST_BF16: in bf16 only */
	uint8_t calls;         /* launches; 0 = 1 */
	uint8_t held;          /* host time of its Python code, in launches */
	uint8_t alone;         /* one row in flight per SM, not two */
	uint8_t blocked;       /* one thread block per channel loops over all of it: `work` is that of a device with
				* enough of them for each SM to have four */
	uint8_t done;          /* the last kernel that reads the incoming gradient */
};

enum { MQ_PASSES = 18, MQ_CAST_BF16 = 2 };

struct mq_part_kernels {
	enum mq_part part;
	enum mq_make make;
	const char *source;
	struct mq_part_pass forward[MQ_PASSES], backward[MQ_PASSES]; /* ended by an empty one */
};

/* ---- NCCL -------------------------------------------------------------------------------------------- */

enum mq_arch { MQ_ARCH_VOLTA, MQ_ARCH_AMPERE, MQ_ARCH_HOPPER, MQ_ARCH_BLACKWELL, MQ_N_ARCHS };
enum mq_nccl_link { MQ_NCCL_NVLINK, MQ_NCCL_PCIE, MQ_NCCL_NET, MQ_N_NCCL_LINKS };
enum { MQ_NCCL_VERSIONS = 12, MQ_NCCL_SPEEDS = 24, MQ_NCCL_NVLINKS = 8, MQ_NCCL_SIZES = 23 };

/* Constants that depend on the version. Times in us, bandwidths in GB/s. */
struct mq_nccl_release {
	double base[MQ_N_ALGOS][MQ_N_PROTOS];
	double step[MQ_N_NCCL_LINKS][MQ_N_ALGOS][MQ_N_PROTOS];
	double work;                          /* for a kernel to read its work from host memory, per peer */
	double ring_ll128_max[MQ_N_ARCHS][3]; /* per channel, on 1, 2 or more nodes */
};

/* Bandwidths in GB/s, by generation and 1, 2 or more nodes. */
struct mq_nccl {
	uint32_t newest; /* 22809 = 2.28.9 */
	uint32_t n_versions;
	uint32_t before[MQ_NCCL_VERSIONS]; /* release[i] is for versions before this; release[0] for the newest */
	struct mq_nccl_release release[MQ_NCCL_VERSIONS];
	double ll_max[MQ_N_ARCHS], ll_max_net[2]; /* ll_max_net: for 2 and more nodes */
	double tree_ll128_max[MQ_N_ARCHS][3], tree_max[MQ_N_ARCHS][3], nvls_tree_max[MQ_N_ARCHS][3];
	double tree_factor[MQ_N_PROTOS][MQ_NCCL_SIZES]; /* at 64 B, 128 B ... 256 MB */
	/* Descending, then 0. */
	double intra_speeds[MQ_N_ARCHS][MQ_NCCL_SPEEDS], inter_speeds[MQ_N_ARCHS][MQ_NCCL_SPEEDS];
	/* One NVLink: lowest compute capability, B/s as NCCL counts, nominal B/s. */
	double nvlink[MQ_NCCL_NVLINKS][3];
};

/* ---- all of them ------------------------------------------------------------------------------------- */

struct mq_libraries {
	uint32_t n_generations;                              /* 0 = nothing has been read */
	struct mq_generation generation[MQ_MAX_GENERATIONS]; /* oldest first */
	struct mq_attention_rates attention[MQ_N_ATTENTION_TYPES][MQ_N_LIBRARIES][MQ_MAX_GENERATIONS];
	const struct mq_part_kernels *part[MQ_N_PARTS][MQ_N_MAKES]; /* NULL: not in the table */
	const struct mq_library_row *row[MQ_N_ROWS];
	uint32_t n_rows[MQ_N_ROWS];
	struct mq_nccl nccl;
};

/* Reads CALIB/nccl.json and CALIB/../kernels. MQ_EINPUT: a file is missing or invalid; names file, line and value. */
MQ_API enum mq_status mq_libraries_load(struct mq_libraries *libraries, const char *calib_dir, struct mq_arena *arena,
					struct mq_err *err);
/* The index of a GPU's generation, by compute capability. */
uint32_t mq_generation_of(const struct mq_libraries *libraries, double compute_capability);
/* The row of a library's kernels of that kind for a GPU: of its generation, else of the next older one, else of the
 * next newer. NULL: not in the table. */
const struct mq_library_row *mq_library_row(const struct mq_libraries *libraries, enum mq_library_rows rows,
					    const char *library, int kind, double compute_capability);
/* The part from nccl.json. */
enum mq_status mq_libraries_load_nccl(struct mq_nccl *nccl, const char *path, struct mq_err *err);

#endif

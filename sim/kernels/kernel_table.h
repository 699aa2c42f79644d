/*
 * kernel_table.h - the memory-bound parts of a layer, implementation by implementation, kernel by kernel.
 *
 * A part (a norm, rotary positions, a gate, a loss ...) has implementations: eager (a kernel for each
 * operation of the source), apart (the same where eager is less than that), composite (a formula that a model has
 * in place of the library's), native (a kernel of the framework's library), fused (one written for it, as in Triton), compiled, megatron, xla, tensorflow (op by op). Each is the list of its kernels in both passes with what a kernel reads and
 * writes, which tensors it makes and frees, counted in the source that is named beside it. Time, launches,
 * what is kept for the backward pass and the peak of temporaries all follow from that one list.
 *
 * Amounts are per element of the part (see enum mq_part) in two units: elements of the training type, and
 * bytes, for what has its own type whatever is trained (fp32 copies, masks). These and the launches are
 * counted. A few kernels are not limited by memory; what they are limited by no source tells: `work`, `held`
 * and `serial_s` are read off published timings of these very kernels on A100, H100 and A40 (Liger-Kernel,
 * vidur) and off our own on H100 and H200, so errors on those tables are in part of rows that they were taken from.
 */
#ifndef MQ_KERNELS_KERNEL_TABLE_H
#define MQ_KERNELS_KERNEL_TABLE_H

#include <stdbool.h>

#include "maquette/calib.h"
#include "maquette/types.h"

enum mq_part {
	MQ_PART_RMS,      /* element of the hidden state */
	MQ_PART_RMS_WIDE, /* the same with fp32 weights in 16-bit training: its output is fp32 */
	MQ_PART_ADD_RMS,  /* residual addition and RMS norm; both results are used */
	MQ_PART_LAYER_NORM,
	MQ_PART_ROPE,         /* element of queries and keys */
	MQ_PART_ROPE_COMPLEX, /* as products of complex numbers (Llama 4) */
	MQ_PART_GATE,         /* activation times up: element of the output */
	MQ_PART_GATE_JOINED,  /* the same, gate and up being halves of one tensor */
	MQ_PART_GELU,
	MQ_PART_RELU_SQUARED,
	MQ_PART_SOFTMAX,     /* element; a row is `width` long */
	MQ_PART_LOSS,        /* logit */
	MQ_PART_EMBEDDING,   /* element of the output; its weights are the table */
	MQ_PART_ADD,         /* residual */
	MQ_PART_BIAS,        /* of a product: element of its output */
	MQ_PART_DROPOUT,     /* of scores */
	MQ_PART_DROPOUT_ADD, /* dropout and residual addition */
	MQ_PART_COPY,
	MQ_PART_SCORES, /* softmax of stored attention scores with scale, casts, and mask where MASK is not apart */
	MQ_PART_MASK,   /* of those scores */
	MQ_PART_CAST,   /* element of a product's operand */
	MQ_PART_BATCH_NORM,
	MQ_PART_POOL,     /* element of its input */
	MQ_PART_POOL_TAP, /* element of each window */
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

/* What the amounts of a kernel are counted per. */
enum mq_per { MQ_PER_ELEMENT, MQ_PER_WEIGHT, MQ_PER_ROW, MQ_PER_LOOKED }; /* LOOKED: of different rows looked up */

struct mq_pass {
	double moved, moved_B; /* read and written: elements of the training type, bytes */
	double made, made_B;   /* allocated */
	double freed, freed_B; /* afterwards */
	double looked;         /* elements of rows looked up: each row of the table comes from memory once */
	double again;          /* elements that the kernel reads once more: from the caches while the rows
				* in flight fit there */
	double work;           /* integer instructions per element, of kernels that are not limited by memory */
	double serial_s;       /* seconds that no other element hides (per row) */
	uint8_t per;           /* enum mq_per */
	uint8_t cast;          /* only where training is in 16 bit; MQ_CAST_BF16: in bf16 alone */
	uint8_t calls;         /* launches; 0 = 1 */
	uint8_t held;          /* launches that the host could do in the time of its Python code */
	uint8_t alone;         /* one row in flight per SM, not two */
	uint8_t blocked; /* a thread block for each channel goes through all of it: `work` is that of a device with
				* enough of them for each SM to have four */
	uint8_t done;    /* the gradient that came in is not read after this */
};

enum { MQ_PASSES = 18, MQ_CAST_BF16 = 2 };

struct mq_part_kernels {
	enum mq_part part;
	enum mq_make make;
	const char *source;
	struct mq_pass forward[MQ_PASSES], backward[MQ_PASSES]; /* ended by one that does nothing */
};

/* NULL: nobody has counted that implementation. O(entries). */
MQ_API const struct mq_part_kernels *mq_part_kernels(enum mq_part part, enum mq_make make);

/* A part as it is called. */
struct mq_part_call {
	double elements, width, weights; /* width of a row; weights: elements of the table it looks up */
	enum mq_dtype dtype;
	bool owns_gradient; /* backward: the gradient that comes in is freed once it is done with */
};
/* Sum over the passes of a list. */
struct mq_part_cost {
	double bytes;          /* read and written */
	double launches, held; /* kernels; what the host's Python takes beside, in launches */
	double time_s;         /* device */
	double peak_B, left_B; /* most allocated at once, and at the end, beside what was there before */
};
MQ_API struct mq_part_cost mq_part_cost(const struct mq_device_calib *device, const struct mq_pass *passes,
					const struct mq_part_call *call);
/* Per element, whatever the device: of kernels that memory limits, that instructions may limit, and of these what a
 * block for each channel does. */
struct mq_part_bytes {
	double bytes, work, launches;
};
struct mq_part_sum {
	struct mq_part_bytes streamed, worked, blocked;
};
MQ_API struct mq_part_sum mq_part_sum(const struct mq_pass *passes, enum mq_dtype dtype);
/* Instructions per element, of a part that is in the table. */
MQ_API double mq_part_work(enum mq_part part, enum mq_make make, bool backward);
/* Integer instructions per second: half the fp32 lanes where the SM has 128 of those; infinite where
 * the device has no fp32 peak. */
MQ_API double mq_device_int_rate(const struct mq_device_calib *device);

#endif

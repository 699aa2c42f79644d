/* attention.h - how long attention kernels take: tiles of queries that go through the keys they see.
 *
 * Operators of training and rows of `score --kernels` use the same functions. The shares of the peak and the start-up
 * cost of a tile come from published timings of single kernels, among them those that `score --kernels` compares
 * with; one share alone comes from training runs (attention.c).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_KERNELS_ATTENTION_H
#define MQ_KERNELS_ATTENTION_H

#include "maquette/calib.h"
#include "maquette/model.h"
#include "maquette/types.h"
#include "hardware/libraries.h"

/* The library that runs the attention kernel which a software asks for. */
MQ_API enum mq_attention_library mq_attention_library(enum mq_attention_kernel asked);

struct mq_attention_call {
	double batch, heads, kv_heads;
	double queries, keys, width; /* of a head */
	bool causal;                 /* the last query sees all keys */
	bool backward;
	enum mq_dtype dtype;
	bool mx;     /* fp8 with a scale for each block of 32 elements */
	double seen; /* share of the unmasked pairs that lie inside a window or document; 0 = all */
};

/* Seconds of one call, launches included. A GPU generation without kernels of the library runs those of the nearest
 * older one; GPUs before Ampere run xFormers' or FlashAttention 1's, since no other library supports them. NaN: the
 * backward pass of an inference library. O(1). */
MQ_API double mq_attention_time(const struct mq_device_calib *device, enum mq_attention_library library,
				const struct mq_attention_call *call);
/* Kernels that one call launches. */
MQ_API double mq_attention_launches(bool backward);
/* Seconds of attention that stores its scores: batched GEMMs, mask, softmax. */
MQ_API double mq_attention_unfused(const struct mq_device_calib *device, const struct mq_attention_call *call);

#endif

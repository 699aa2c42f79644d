/* attention.h - how long attention kernels take: tiles of queries that go through the keys they see.
 *
 * The one model of it: operators of training and rows of `score --kernels` ask the same functions. The shares of the
 * peak, and what starts and ends a kernel, are read off published timings of single kernels, those that `score
 * --kernels` holds it against among them; of runs of training one share alone (attention.c).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_KERNELS_ATTENTION_H
#define MQ_KERNELS_ATTENTION_H

#include "maquette/calib.h"
#include "maquette/model.h"
#include "maquette/types.h"
#include "hardware/libraries.h"

/* What runs where software asks for a fused kernel. */
MQ_API enum mq_attention_library mq_attention_library(enum mq_attention_kernel asked);

struct mq_attention_call {
	double batch, heads, kv_heads;
	double queries, keys, width; /* of a head */
	bool causal;                 /* the last query sees all keys */
	bool backward;
	enum mq_dtype dtype;
	bool mx;     /* fp8 with a scale for each block of 32 elements */
	double seen; /* of the pairs that the mask leaves, the part in windows or documents; 0 = all */
};

/* Seconds of one call, its launches with it. A generation that a library has no kernels for runs the nearest
 * older ones; GPUs before Ampere, which no library but xFormers' and FlashAttention 1 has any for, these. NaN: backward by
 * a library of inference. O(1). */
MQ_API double mq_attention_time(const struct mq_device_calib *device, enum mq_attention_library library,
				const struct mq_attention_call *call);
/* Kernels that one call launches. */
MQ_API double mq_attention_launches(bool backward);
/* The same with scores that are written out: batched GEMMs, mask, softmax. */
MQ_API double mq_attention_unfused(const struct mq_device_calib *device, const struct mq_attention_call *call);

#endif

/*
 * attention.h - how long attention kernels take: tiles of queries that go through the keys they see.
 *
 * The shares of the peak, and what starts and ends a kernel, are read off published timings, those that
 * `score --kernels` holds it against among them. Simulated training is not timed by it: its attention has one
 * `attention_eff` per device (cost.h), which the runs were fitted with; the two are to become one.
 */
#ifndef MQ_CORE_ATTENTION_H
#define MQ_CORE_ATTENTION_H

#include "core/calib.h"
#include "core/types.h"

/* Kernels that have numbers of their own; enum mq_attention_kernel names what software asks for. */
enum mq_attention_library {
	MQ_LIBRARY_FLASH1, MQ_LIBRARY_CUTLASS, /* xFormers' memory-efficient attention */
	MQ_LIBRARY_FLASH2, MQ_LIBRARY_FLASH3, MQ_LIBRARY_CUDNN, MQ_LIBRARY_TRITON, MQ_N_LIBRARIES
};
MQ_API const char *mq_attention_library_name(enum mq_attention_library library);

struct mq_attention_call {
	double batch, heads, kv_heads;
	double queries, keys, width;   /* of a head */
	bool causal;                   /* the last query sees all keys */
	bool backward;
	enum mq_dtype dtype;
};

/* Seconds of one call, its launches with it. A generation that a library has no kernels for runs the nearest
 * older ones. O(1). */
MQ_API double mq_attention_time(const struct mq_device_calib *device, enum mq_attention_library library,
				const struct mq_attention_call *call);
/* The same with scores that are written out: batched products, mask, softmax. */
MQ_API double mq_attention_unfused(const struct mq_device_calib *device, const struct mq_attention_call *call);

#endif

/* allocation_log.h - events of PyTorch's allocator on one device, with the tensors' names: for memory snapshots and
 * memory timelines. The allocator replay fills it (lowering/allocator_replay.h). SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCHEDULE_ALLOCATION_LOG_H
#define MQ_SCHEDULE_ALLOCATION_LOG_H

#include "maquette/arena.h"
#include "schedule/allocator.h"

/* What a tensor is for: the purposes of struct mq_memory that are tensors. */
enum mq_purpose {
	MQ_FOR_PARAMETERS,
	MQ_FOR_GRADIENTS,
	MQ_FOR_OPTIMIZER,
	MQ_FOR_ACTIVATIONS,
	MQ_FOR_BUFFERS,
	MQ_N_PURPOSES
};
const char *mq_purpose_name(enum mq_purpose purpose); /* parameters gradients optimizer activations buffers */

struct mq_allocation_event {
	uint64_t address, size;
	uint32_t taken;   /* event that took the block; of a taking, and of segments: itself */
	uint32_t op;      /* op of the model that made the tensor; MQ_NONE = none */
	uint32_t by;      /* op that runs now */
	const char *what; /* "output", "kept for backward", ...; not owned */
	uint8_t event;    /* enum mq_allocator_event */
	uint8_t purpose;  /* enum mq_purpose, of blocks */
	uint8_t stream;   /* enum mq_pool_stream */
	uint8_t step;     /* 0 or 1, of the two steps that are replayed */
};

struct mq_index;
struct mq_allocation_log {
	struct mq_arena *arena; /* set by the caller, as is `device` */
	uint32_t device;        /* cluster rank; MQ_NONE: lowering sets the device nearest its limit */
	struct mq_allocation_event *event;
	uint32_t n, room;
	double reserve_B; /* device memory outside the allocator */
	bool played;      /* false: not replayed (inference, CPUs, other enum mq_allocator_kind) */
	/* private */
	struct mq_index *block;          /* address -> index of the event that took it last */
	struct mq_allocation_event next; /* op and purpose of the next block */
};

/* Live bytes by purpose, and reserved bytes, after an event. */
struct mq_memory_now {
	double of[MQ_N_PURPOSES], reserved;
};
/* Calls `each` after every event (NULL: none); returns the index of the event after which most bytes are live. */
uint32_t mq_allocation_log_walk(const struct mq_allocation_log *log,
				void (*each)(void *context, uint32_t event, const struct mq_memory_now *now),
				void *context);
mq_allocator_watch mq_allocation_log_add; /* context: a log */

#endif

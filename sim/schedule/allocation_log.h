/* allocation_log.h - what PyTorch's allocator does for one device in a step, event by event, with the names of the
 * tensors: for memory snapshots and timelines of memory. The allocator replay fills it (allocator_replay.h).
 * SPDX-License-Identifier: Apache-2.0 */
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
	uint32_t taken;   /* of a free block: the event that took it; else the event itself */
	uint32_t op;      /* of the model, that made it; MQ_NONE = none */
	uint32_t by;      /* that runs now */
	const char *what; /* "output", "kept for backward", ...; not owned */
	uint8_t event;    /* enum mq_allocator_event */
	uint8_t purpose;  /* enum mq_purpose, of blocks */
	uint8_t stream;   /* enum mq_pool_stream */
	uint8_t step;     /* of the two that are played */
};

struct mq_index;
struct mq_allocation_log {
	struct mq_arena *arena; /* set by the caller, as is `device` */
	uint32_t device;        /* cluster rank; MQ_NONE = the one nearest its limit, which lowering puts here */
	struct mq_allocation_event *event;
	uint32_t n, room;
	double reserve_B; /* what the device holds beside the allocator */
	bool played;      /* false: the device's memory is not played (see MQ_ALLOCATOR_... and inference) */
	/* own */
	struct mq_index *block; /* by address */
	uint32_t *last, n_last, last_room;
	struct mq_allocation_event next; /* what the next block is for */
};

/* Bytes by purpose after each event, and where their sum is largest. */
struct mq_memory_now {
	double of[MQ_N_PURPOSES], reserved;
};
/* Calls `each` for all events; returns the index of the event behind which most is live. */
uint32_t mq_allocation_log_walk(const struct mq_allocation_log *log,
				void (*each)(void *context, uint32_t event, const struct mq_memory_now *now),
				void *context);
mq_allocator_watch mq_allocation_log_add; /* context: a log */

#endif

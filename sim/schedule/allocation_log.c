/* allocation_log.c - see allocation_log.h. SPDX-License-Identifier: Apache-2.0 */
#include "schedule/allocation_log.h"

#include "base/index.h"

MQ_NAMES(mq_purpose_name, enum mq_purpose, MQ_N_PURPOSES, "parameters", "gradients", "optimizer", "activations",
	 "buffers")

void mq_allocation_log_add(void *context, enum mq_allocator_event event, enum mq_pool_stream stream, uint64_t address,
			   uint64_t size)
{
	struct mq_allocation_log *log = context;
	struct mq_allocation_event now = log->next;
	bool found, block = event <= MQ_BLOCK_FREE;

	if (!log->block)
		log->block = mq_index_new(log->arena);
	now.address = address;
	now.size = size;
	now.event = (uint8_t)event;
	now.stream = (uint8_t)stream;
	now.taken = log->n;
	uint32_t *last = block ? mq_index_value(log->block, &address, sizeof(address), sizeof(*last), &found) : NULL;
	if (event == MQ_BLOCK_TAKEN) {
		*last = log->n;
	} else if (block) {
		const struct mq_allocation_event *taken = &log->event[*last];

		now.op = taken->op;
		now.by = log->next.by;
		now.what = taken->what;
		now.purpose = taken->purpose;
		now.taken = *last;
	}
	MQ_PUSH(log->arena, log->event, log->n, log->room, now);
}

uint32_t mq_allocation_log_walk(const struct mq_allocation_log *log,
				void (*each)(void *context, uint32_t event, const struct mq_memory_now *now),
				void *context)
{
	struct mq_memory_now now = { { 0 }, 0 };
	double live = 0, most = -1;
	uint32_t peak = 0;

	for (uint32_t i = 0; i < log->n; i++) {
		const struct mq_allocation_event *e = &log->event[i];
		double sign = e->event == MQ_BLOCK_TAKEN || e->event == MQ_SEGMENT_TAKEN ? 1 : -1;

		if (e->event == MQ_SEGMENT_TAKEN || e->event == MQ_SEGMENT_GIVEN) {
			now.reserved += sign * (double)e->size;
		} else if (e->event != MQ_BLOCK_GIVEN) {
			now.of[e->purpose] += sign * (double)e->size;
			live += sign * (double)e->size;
		}
		if (live > most) {
			most = live;
			peak = i;
		}
		if (each)
			each(context, i, &now);
	}
	return peak;
}

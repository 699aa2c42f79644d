/* rank.h - shared by executors: the tasks of a rank's streams, and operands from a pool.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_REPLAY_RANK_H
#define MQ_REPLAY_RANK_H

#include "maquette/executor.h"

struct mq_lane {
	uint32_t n, next;
	uint32_t *task; /* [n] ids in stream order */
};

/* Lists the tasks of a device by stream; returns the number of streams that have any. */
static inline uint32_t mq_lanes_of(const struct mq_schedule *s, uint32_t device, struct mq_arena *arena,
				   struct mq_lane lane[MQ_N_STREAMS])
{
	uint32_t n = 0;

	for (int l = 0; l < MQ_N_STREAMS; l++) {
		uint32_t room = 0;

		lane[l] = (struct mq_lane){ 0 };
		for (uint32_t i = 0; i < s->n_tasks; i++)
			if (s->task[i].device == device && s->task[i].stream == l)
				MQ_PUSH(arena, lane[l].task, lane[l].n, room, i);
		n += lane[l].n;
	}
	return n;
}

/* The next `bytes` of a block of `size`, from its start if they do not fit; *at advances by whole lines. */
static inline void *mq_pool_take(char *base, size_t *at, size_t size, size_t bytes, size_t skew, size_t line)
{
	if (bytes > size - *at)
		*at = 0;
	void *p = base + *at;
	*at += (bytes + skew + line - 1) / line * line;
	if (*at > size)
		*at = size;
	return p;
}

#endif

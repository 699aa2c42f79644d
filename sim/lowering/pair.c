/* pair.c - alternates segments of a forward and a backward pass of different micro-batches.
 *
 * The all-to-alls of experts divide a template into segments. During the all-to-all of one pass, the other pass
 * computes, as in Megatron core's overlap of expert parallelism within 1F1B and DeepSeek-V3's DualPipe (DeepSeek-AI
 * 2024, section 3.2.1). The all-to-alls have a separate stream (transfer.c), so that other collectives of a segment do
 * not queue behind them.
 *
 * Segments alternate by count, those of the pass with more of them more often; the forward pass begins, so equal counts
 * give F0 B0 F1 B1 ... Every rank receives activations before gradients, and sends them before gradients: else two
 * ranks could wait for each other's other message. Not modelled: alternation by duration, weight gradients deferred
 * into gaps. SPDX-License-Identifier: Apache-2.0 */
#include "lowering/program.h"

struct segments {
	uint32_t n;
	uint32_t *of; /* [tasks], not decreasing along the tasks of a device */
};

/* Does the task depend on an all-to-all of experts? */
static uint32_t first_segment(const struct mq_template *t, const struct mq_task *task, const uint32_t *of)
{
	uint32_t segment = 0;

	for (uint32_t k = 0; k < task->n_deps; k++) {
		uint32_t d = t->dep[task->dep_first + k];

		if (d >= MQ_DEP_STREAM(0))
			continue;
		bool travelled = t->task[d].task.stream == MQ_STREAM_EXPERT && task->stream != MQ_STREAM_EXPERT;
		if (of[d] + travelled > segment)
			segment = of[d] + travelled;
	}
	return segment;
}

static struct segments cut(const struct mq_template *t, uint32_t n_devices, struct mq_arena *arena)
{
	struct segments s = { 1, mq_arena_array(arena, t->n_tasks, uint32_t) };
	uint32_t *at = mq_arena_array(arena, n_devices, uint32_t);

	for (uint32_t i = 0; i < t->n_tasks; i++) {
		const struct mq_task *task = &t->task[i].task;
		uint32_t segment = first_segment(t, task, s.of);

		if (segment > at[task->device])
			at[task->device] = segment;
		s.of[i] = at[task->device];
		if (s.of[i] >= s.n)
			s.n = s.of[i] + 1;
	}
	return s;
}

uint32_t *mq_pair_order(const struct mq_template *forward, const struct mq_template *backward, uint32_t n_devices,
			struct mq_arena *arena)
{
	const struct mq_template *t[2] = { forward, backward };
	uint32_t *order = mq_arena_array(arena, forward->n_tasks + backward->n_tasks, uint32_t);
	uint32_t *first[2], *task[2], at[2] = { 0, 0 }, n = 0, n_late = 0;
	uint32_t *late = mq_arena_array(arena, backward->n_tasks, uint32_t);
	struct segments s[2];

	for (int i = 0; i < 2; i++) {
		s[i] = cut(t[i], n_devices, arena);
		mq_csr_make(arena, s[i].n, t[i]->n_tasks, s[i].of, NULL, sizeof(*s[i].of), &first[i], &task[i]);
	}
	while (at[0] < s[0].n || at[1] < s[1].n) {
		/* the pass with the smaller share of its segments done */
		int i = at[1] >= s[1].n || (at[0] < s[0].n && (double)at[0] * s[1].n <= (double)at[1] * s[0].n) ? 0 : 1;

		for (uint32_t k = first[i][at[i]]; k < first[i][at[i] + 1]; k++) {
			uint32_t id = task[i][k] + (i ? forward->n_tasks : 0);

			if (i && t[i]->task[task[i][k]].task.kind == MQ_TASK_SEND)
				late[n_late++] = id;
			else
				order[n++] = id;
		}
		at[i]++;
	}
	for (uint32_t k = 0; k < n_late; k++)
		order[n++] = late[k];
	return order;
}

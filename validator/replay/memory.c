/* memory.c - allocates the memory that a plan's devices hold, and measures the memory in use, as the device or the
 * kernel counts it, before and at the peak.
 *
 * After the repetitions, untimed, each rank walks the computations of its device in the schedule's order: parameters,
 * gradients, optimizer state and buffers are allocated and touched first; a micro-batch's activations from its forward
 * pass to the end of its backward pass, further memory of a pass during it. So the schedule, not the memory model,
 * decides how many micro-batches are in flight. Sizes are the model's: measured are their sum over time, the
 * allocator's overhead, and further memory of the process (context, libraries, communicators).
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "replay/replay.h"

const char *const replay_held_name[REPLAY_HELD_VALUES] = { "process",     "buffers",   "parameters",
							   "gradients",   "optimizer", "plan_buffers",
							   "activations", "peak",      "full" };

struct block {
	void *at;
	size_t bytes;
};

struct hold {
	const struct mq_replay_executor *executor;
	void *state;
	const struct mq_schedule *s;
	uint32_t device;
	double base_B, now_B, *value; /* [REPLAY_HELD_VALUES] */
	struct block *kept;           /* [n_tasks] activations, at the index of the first forward task */
	struct mq_err err;            /* of the first failed allocation */
	bool full;
};
static struct block take(struct hold *h, double bytes)
{
	struct block b = { .bytes = (size_t)fmax(0, ceil(bytes)) };
	double buffers_B;

	if (!b.bytes || h->full)
		return (struct block){ 0 };
	h->full = h->executor->allocate(h->state, b.bytes, &b.at, &h->err) != MQ_OK;
	if (h->full)
		return (struct block){ 0 };
	h->now_B = h->executor->in_use(h->state, &buffers_B);
	h->value[REPLAY_HELD_PEAK] = fmax(h->value[REPLAY_HELD_PEAK], h->now_B - h->base_B);
	return b;
}

static void give(struct hold *h, struct block *b)
{
	if (b->at)
		h->executor->release(h->state, b->at, b->bytes);
	*b = (struct block){ 0 };
}

static bool computes(const struct hold *h, uint32_t id)
{
	return h->s->task[id].device == h->device && h->s->task[id].kind == MQ_TASK_COMPUTE;
}

/* The micro-batch's first forward task, the index of its activations in kept[]. */
static uint32_t keeper(const struct hold *h, uint32_t id)
{
	const struct mq_task *t = &h->s->task[id];

	for (uint32_t i = 0; i < h->s->n_tasks; i++)
		if (computes(h, i) && h->s->task[i].stage == t->stage && h->s->task[i].micro_batch == t->micro_batch)
			return i;
	return id;
}

/* Does a later task need the micro-batch's kept activations? */
static bool needed_after(const struct hold *h, uint32_t id)
{
	const struct mq_task *t = &h->s->task[id];

	for (uint32_t i = id + 1; i < h->s->n_tasks; i++)
		if (computes(h, i) && h->s->task[i].phase == MQ_BACKWARD && h->s->task[i].stage == t->stage &&
		    h->s->task[i].micro_batch == t->micro_batch)
			return true;
	return false;
}

/* Allocates and frees the memory of a pass, tasks `first` .. `last`. */
static void pass(struct hold *h, uint32_t first, uint32_t last)
{
	const struct mq_task *t = &h->s->task[first];
	const struct mq_held *held = NULL;
	struct block extra = { 0 };

	for (uint32_t i = 0; i < h->s->n_held && !held; i++)
		if (h->s->held[i].device == h->device && h->s->held[i].stage == t->stage)
			held = &h->s->held[i];
	if (!held)
		return;
	struct block *kept = &h->kept[keeper(h, first)];
	bool needed = t->phase != MQ_UPDATE && needed_after(h, last);

	if (t->phase == MQ_UPDATE)
		extra = take(h, held->step_B);
	else if (t->phase == MQ_FORWARD)
		extra = take(h, held->forward_B);
	else
		extra = take(h, held->backward_B - (kept->at ? held->kept_B : 0));
	give(h, &extra);
	if (t->phase == MQ_FORWARD && needed)
		*kept = take(h, held->kept_B);
	else if (t->phase == MQ_BACKWARD && !needed)
		give(h, kept);
}

static void walk_passes(struct hold *h)
{
	const struct mq_task *task = h->s->task;
	uint32_t first = MQ_NONE, last = MQ_NONE;

	for (uint32_t i = 0; i < h->s->n_tasks; i++) {
		if (!computes(h, i))
			continue;
		bool same = first != MQ_NONE && task[first].stage == task[i].stage &&
			    task[first].micro_batch == task[i].micro_batch && task[first].phase == task[i].phase;

		if (!same && first != MQ_NONE)
			pass(h, first, last);
		if (!same)
			first = i;
		last = i;
	}
	if (first != MQ_NONE)
		pass(h, first, last);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void take_static(struct hold *h, struct block *block)
{
	double asked[REPLAY_HELD_STATIC] = { 0 };

	for (uint32_t i = 0; i < h->s->n_held; i++) {
		const struct mq_held *held = &h->s->held[i];

		if (held->device != h->device)
			continue;
		asked[0] += held->parameter_B;
		asked[1] += held->gradient_B;
		asked[2] += held->optimizer_B;
		asked[3] += held->buffer_B;
	}
	h->now_B = h->base_B;
	for (int i = 0; i < REPLAY_HELD_STATIC; i++) {
		double before_B = h->now_B;

		block[i] = take(h, asked[i]);
		h->value[REPLAY_HELD_PARAMETERS + i] = h->now_B - before_B;
	}
}

void replay_hold(const struct mq_replay_executor *executor, void *state, const struct mq_schedule *schedule,
		 uint32_t device, struct mq_arena *scratch, double value[REPLAY_HELD_VALUES])
{
	struct hold h = { .executor = executor,
			  .state = state,
			  .s = schedule,
			  .device = device,
			  .value = value,
			  .err = MQ_ERR_INIT };
	struct block fixed[REPLAY_HELD_STATIC];

	memset(value, 0, REPLAY_HELD_VALUES * sizeof(*value));
	if (!schedule->n_held || device >= schedule->n_devices)
		return;
	h.kept = mq_arena_array(scratch, schedule->n_tasks, struct block);
	h.base_B = executor->in_use(state, &value[REPLAY_HELD_BUFFERS]);
	value[REPLAY_HELD_PROCESS] = h.base_B - value[REPLAY_HELD_BUFFERS];
	take_static(&h, fixed);
	double static_B = h.now_B - h.base_B;
	walk_passes(&h);
	value[REPLAY_HELD_DYNAMIC] = fmax(0, value[REPLAY_HELD_PEAK] - static_B);
	value[REPLAY_HELD_FULL] = h.full;
	for (uint32_t i = 0; i < schedule->n_tasks; i++)
		give(&h, &h.kept[i]);
	for (int i = 0; i < REPLAY_HELD_STATIC; i++)
		give(&h, &fixed[i]);
}

/* test_tape.c - what PyTorch's allocator reserves for the steps of a GPT beside what is live.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lowered.h"

static const double MiB = 1 << 20;

/* Layers of 12.6 M parameters, tensors of 2 MiB (tokens by width), 196 MiB of logits in 16 bits. */
static int make_world(void **state)
{
	static struct lowered w;

	lowered_open(&w, "gpt:layers=4,hidden=1024,heads=16,seq=1024,vocab=51200", 4, 48);
	*state = &w;
	return 0;
}

static const struct mq_memory *memory_of(struct lowered *w, struct mq_shape shape)
{
	const struct mq_question q = lowered_question(w);
	struct mq_lower_request rq = { .q = &q, .plan = &w->plan, .memory_only = true };

	shape.pipeline = MQ_PIPE_1F1B;
	if (mq_plan_from_shape(&shape, w->model, w->cluster, &w->arena, &w->plan, &w->err) != MQ_OK ||
	    mq_lower(&rq, &w->arena, &w->low, &w->err) != MQ_OK)
		fail_msg("%s", w->err.text);
	return w->low.memory;
}

static void set_limit(struct lowered *w, double limit_B)
{
	for (uint32_t d = 0; d < w->cluster->n_devices; d++)
		w->cluster->device[d].memory_B = limit_B;
}

/* Beside the same live bytes there are whole segments; nothing of it is lost where these grow by pages. */
static void segments_are_whole(void **state)
{
	struct lowered *w = *state;
	const struct mq_shape shape = { .micro_batches = 48, .recompute = MQ_RECOMPUTE_FULL };

	w->software.allocator = MQ_ALLOCATOR_EXPANDABLE;
	const struct mq_memory live = *memory_of(w, shape);
	w->software.allocator = MQ_ALLOCATOR_PYTORCH;
	const struct mq_memory all = *memory_of(w, shape);
	assert_true(live.fragmentation_B == 0);
	assert_true(all.fragmentation_B > 0);
	assert_within(all.peak_B - all.fragmentation_B, live.peak_B, 1);
	assert_true(fmod(all.peak_B, 2 * MiB) == 0);
}

/* Everything that a micro-batch takes it gives back: a step of many reserves what one of three does. */
static void many_micro_batches_reserve_no_more(void **state)
{
	struct lowered *w = *state;

	w->software.allocator = MQ_ALLOCATOR_PYTORCH;
	for (uint8_t recompute = 0; recompute < MQ_N_RECOMPUTES; recompute++) {
		struct mq_shape shape = { .pp = 4, .micro_batches = 12, .recompute = recompute };
		double few[4];

		w->train.batch = 12;
		for (int i = 0; i < 4; i++)
			few[i] = memory_of(w, shape)[i].peak_B;
		w->train.batch = shape.micro_batches = 48;
		for (int i = 0; i < 4; i++)
			assert_within(memory_of(w, shape)[i].peak_B, few[i], 0);
	}
}

/* Gradients that the first backward pass makes lie among the blocks of the loss. Where they do not, the next loss
 * finds these blocks again. */
static void lazy_gradients_lie_among_activations(void **state)
{
	struct lowered *w = *state;
	const struct mq_shape shape = { .micro_batches = 48, .recompute = MQ_RECOMPUTE_FULL };

	w->software.allocator = MQ_ALLOCATOR_PYTORCH;
	w->software.zero_grad_set_to_none = false;
	double first = memory_of(w, shape)->fragmentation_B;
	w->software.zero_grad_set_to_none = true;
	assert_true(memory_of(w, shape)->fragmentation_B > first + 16 * MiB);
	w->software.zero_grad_set_to_none = false;
}

/* What is split does not come back: a device with room for all that is live may still be too small. Above that come
 * sizes on which the step runs once whole segments are given back, and then those that have room for all. */
static void what_is_split_is_lost(void **state)
{
	struct lowered *w = *state;
	const struct mq_shape shape = { .micro_batches = 48, .recompute = MQ_RECOMPUTE_FULL };

	w->software.allocator = MQ_ALLOCATOR_PYTORCH;
	w->software.zero_grad_set_to_none = true;
	const struct mq_memory all = *memory_of(w, shape);
	double live_B = all.peak_B - all.fragmentation_B;
	set_limit(w, live_B + MiB);
	memory_of(w, shape);
	assert_int_equal(w->low.verdict, MQ_VERDICT_OOM);
	assert_within(w->low.memory->peak_B, all.peak_B, 0);
	assert_true(w->low.memory->spare_B == 0);
	set_limit(w, all.peak_B);
	memory_of(w, shape);
	assert_int_equal(w->low.verdict, MQ_VERDICT_OK);
	assert_within(w->low.memory->peak_B, all.peak_B, 0);
	w->software.allocator = MQ_ALLOCATOR_OTHER; /* loses a share of what is dynamic: none here */
	set_limit(w, live_B + MiB);
	memory_of(w, shape);
	assert_int_equal(w->low.verdict, MQ_VERDICT_OK);
	set_limit(w, 1e12);
	w->software.zero_grad_set_to_none = false;
}

/* Outputs of row-parallel products that a collective reads cannot be used at once. */
static void collectives_free_late(void **state)
{
	struct lowered *w = *state;
	const struct mq_shape shape = { .tp = 4, .micro_batches = 48, .vocab_parallel = true };

	w->software.allocator = MQ_ALLOCATOR_PYTORCH;
	double at_once = memory_of(w, shape)->peak_B;
	w->software.record_stream = true;
	assert_true(memory_of(w, shape)->peak_B >= at_once + 8 * MiB);
	w->software.record_stream = false;
}

/* The logits of a micro-batch before lie beside those of this one. */
static void logits_stay_in_buffers(void **state)
{
	struct lowered *w = *state;
	const struct mq_shape shape = { .micro_batches = 48 };

	w->software.allocator = MQ_ALLOCATOR_EXPANDABLE;
	double none = memory_of(w, shape)->buffer_B;
	w->software.logits_buffers = 2;
	assert_within(memory_of(w, shape)->buffer_B - none, 2 * 2 * 1024.0 * 51200, 0);
	w->software.allocator = MQ_ALLOCATOR_PYTORCH;
	double two = memory_of(w, shape)->peak_B;
	w->software.logits_buffers = 0;
	assert_true(two > memory_of(w, shape)->peak_B + 150 * MiB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(segments_are_whole),
		cmocka_unit_test(many_micro_batches_reserve_no_more),
		cmocka_unit_test(lazy_gradients_lie_among_activations),
		cmocka_unit_test(what_is_split_is_lost),
		cmocka_unit_test(collectives_free_late),
		cmocka_unit_test(logits_stay_in_buffers),
	};

	return cmocka_run_group_tests(tests, make_world, lowered_free);
}

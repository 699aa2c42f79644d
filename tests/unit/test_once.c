/* test_once.c - ZeRO under pipeline stages: in every micro-batch, or once a step; and gradients that are added up.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lowered.h"
#include "models.h"

static const char GPT[] = "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=128";
enum { MICRO_BATCHES = 4 };

static struct mq_schedule *ask(struct lowered *w, enum mq_sync sync, bool once, uint32_t pp)
{
	const struct mq_shape shape = {
		.dp = 2, .pp = pp, .micro_batches = MICRO_BATCHES, .pipeline = MQ_PIPE_1F1B, .sync = (uint8_t)sync
	};

	w->software.zero_once_per_step = once;
	struct mq_schedule *s = lowered_shape(w, &shape);
	assert_non_null(s);
	return s;
}

static double bytes(const struct mq_schedule *s, enum mq_coll_kind kind)
{
	return lowered_count(s, MQ_TASK_COLLECTIVE, kind, -1).bytes;
}

/* A replica's parameters pass the wire in every micro-batch, forward and backward, or once. The tied embedding's
 * all-reduce between the stages is another's. */
static void gathers_and_reductions_are_counted(void **state)
{
	struct lowered w;

	lowered_open(&w, GPT, 4, 16);
	double each = bytes(ask(&w, MQ_SYNC_ZERO3, false, 2), MQ_COLL_REDUCE_SCATTER);
	double gathered = bytes(w.low.schedule, MQ_COLL_ALL_GATHER);
	double once = bytes(ask(&w, MQ_SYNC_ZERO3, true, 2), MQ_COLL_REDUCE_SCATTER);
	assert_near(each, MICRO_BATCHES * once);
	assert_near(gathered, 2 * MICRO_BATCHES * bytes(w.low.schedule, MQ_COLL_ALL_GATHER));
	assert_near(bytes(ask(&w, MQ_SYNC_ZERO2, false, 2), MQ_COLL_REDUCE_SCATTER), each);
	assert_near(bytes(ask(&w, MQ_SYNC_ZERO2, true, 2), MQ_COLL_REDUCE_SCATTER), once);
	/* without stages nothing changes */
	double plain = bytes(ask(&w, MQ_SYNC_ZERO3, false, 1), MQ_COLL_ALL_GATHER);
	assert_near(bytes(ask(&w, MQ_SYNC_ZERO3, true, 1), MQ_COLL_ALL_GATHER), plain);
	lowered_close(&w);
}

/* Parameters and gradients lie whole; the optimizer's state stays in shards. */
static void memory_is_that_of_whole_gradients(void **state)
{
	struct lowered w;

	lowered_open(&w, GPT, 4, 16);
	ask(&w, MQ_SYNC_ALLREDUCE, false, 2);
	struct mq_memory whole = w.low.memory[0];
	ask(&w, MQ_SYNC_ZERO3, true, 2);
	assert_near(w.low.memory[0].parameter_B, whole.parameter_B);
	assert_near(w.low.memory[0].gradient_B, whole.gradient_B);
	assert_near(w.low.memory[0].optimizer_B, whole.optimizer_B / 2);
	ask(&w, MQ_SYNC_ZERO3, false, 2);
	assert_near(w.low.memory[0].parameter_B, whole.parameter_B / 2);
	assert_near(w.low.memory[0].gradient_B, whole.gradient_B / 2);
	lowered_close(&w);
}

/* accum_B bytes a parameter more in every backward pass where gradients stay whole; none where they are reduced
 * in each. */
static double copied(const struct lowered *w)
{
	const struct mq_schedule *s = w->low.schedule;
	double sum = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		for (uint32_t k = 0; s->task[i].kind == MQ_TASK_COMPUTE && k < s->work[s->task[i].work].n_kernels;
		     k++) {
			const struct mq_kernel *kernel = &s->work[s->task[i].work].kernel[k];

			if (kernel->kind == MQ_KERNEL_COPY && kernel->phase == MQ_BACKWARD)
				sum += kernel->bytes;
		}
	return sum;
}

static void whole_gradients_are_added_up(void **state)
{
	struct lowered w;

	lowered_open(&w, GPT, 4, 16);
	w.software.accum_B = 6;
	double parameters = mq_model_totals(w.model).parameters;
	ask(&w, MQ_SYNC_ALLREDUCE, false, 1);
	assert_near(copied(&w), 2 * MICRO_BATCHES * 6 * parameters);
	ask(&w, MQ_SYNC_ZERO1, false, 1);
	assert_near(copied(&w), 2 * MICRO_BATCHES * 6 * parameters);
	ask(&w, MQ_SYNC_ZERO2, false, 1);
	assert_near(copied(&w), 0);
	ask(&w, MQ_SYNC_ZERO3, true, 2);
	assert_near(copied(&w), 2 * MICRO_BATCHES * 6 * parameters);
	lowered_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gathers_and_reductions_are_counted),
		cmocka_unit_test(memory_is_that_of_whole_gradients),
		cmocka_unit_test(whole_gradients_are_added_up),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}

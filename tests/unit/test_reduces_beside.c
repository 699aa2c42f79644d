/* test_reduces_beside.c - tensor parallelism: what travels beside a product that makes gradients of weights.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lowered.h"

enum { LAYERS = 4 };

static bool waits_for(const struct mq_schedule *s, uint32_t task, uint32_t other)
{
	for (uint32_t k = 0; k < s->task[task].n_deps; k++)
		if (s->dep[s->task[task].dep_first + k] == other)
			return true;
	return false;
}

/* Backward all-reduces of the first device that its next task does not wait for. */
static uint32_t travelling_beside(const struct mq_schedule *s)
{
	uint32_t n = 0, reduce = MQ_NONE;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		if (s->task[i].device != 0)
			continue;
		if (s->task[i].kind == MQ_TASK_COLLECTIVE && s->task[i].phase == MQ_BACKWARD) {
			reduce = i;
		} else if (s->task[i].kind == MQ_TASK_COMPUTE && reduce != MQ_NONE) {
			n += !waits_for(s, i, reduce);
			reduce = MQ_NONE;
		}
	}
	return n;
}

/* Megatron since 2021: the gradient of what QKV, the first product of an MLP and the head take is summed beside the
 * product that makes their weights' gradient. As many bytes, as much work. */
static void gradients_are_reduced_beside_weights(void **state)
{
	static struct lowered w;

	(void)state;
	lowered_open(&w, "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=128", 2, 16);
	const struct mq_shape shape = { .tp = 2, .micro_batches = 1, .vocab_parallel = true };
	struct mq_schedule *s = lowered_shape(&w, &shape);
	struct lowered_sum sums = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_REDUCE, -1), beside;
	double flop = lowered_model_flop(s);

	assert_int_equal(travelling_beside(s), 0);
	w.software.async_allreduce = true;
	s = lowered_shape(&w, &shape);
	beside = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_REDUCE, -1);
	assert_int_equal(travelling_beside(s), 2 * LAYERS + 1);
	assert_int_equal(beside.tasks, sums.tasks);
	assert_within(beside.bytes, sums.bytes, 0);
	assert_within(lowered_model_flop(s), flop, 1e-9 * flop);
	lowered_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(gradients_are_reduced_beside_weights) };

	return cmocka_run_group_tests_name("async_allreduce", tests, NULL, NULL);
}

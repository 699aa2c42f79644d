/* test_halos.c - what ranks exchange that have strips of images. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lowered.h"

/* VGG-11 in two strips: each of 8 convolutions of 3 x 3 reaches a row into the other's, and back all but the first, to
 * whose images no gradient goes. Four strips have two neighbours for most. */
static void strips_exchange_halos(void **state)
{
	struct lowered w;
	double halos = 0, first = 0;

	lowered_open(&w, "vgg11", 4, 8);
	for (uint32_t op = 0; op < w.model->n_ops; op++) {
		halos += w.model->op[op].halo;
		first = first > 0 ? first : w.model->op[op].halo;
	}
	assert_within(first, 3 * 224, 0);
	for (uint32_t n = 2; n <= 4; n += 2) {
		mq_plan_init(&w.plan, &w.arena, w.model->n_ops);
		uint32_t strips = mq_plan_add_config(&w.plan, &w.arena, n);
		uint32_t samples = mq_plan_add_config(&w.plan, &w.arena, n);
		w.plan.config[strips].split[MQ_DIM_SPATIAL] = w.plan.config[samples].split[MQ_DIM_BATCH] = n;
		for (uint32_t i = 0; i < n; i++)
			w.plan.config[strips].device[i] = w.plan.config[samples].device[i] = i;
		for (uint32_t op = 0; op < w.model->n_ops; op++)
			w.plan.config_of[op] = w.model->op[op].halo > 0 ? strips : samples;
		w.plan.micro_batches = 1;
		struct mq_schedule *s = lowered_plan(&w);
		if (!s)
			fail_msg("%s", w.low.message);
		struct lowered_sum f = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, MQ_FORWARD);
		struct lowered_sum b = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, MQ_BACKWARD);
		double moved = 8 * 2. * n * (n == 2 ? 2 : 8 / 3.); /* samples, bytes, ranks, what a gather counts */
		assert_int_equal(f.tasks, 8 * n);
		assert_int_equal(b.tasks, 7 * n);
		assert_within(f.bytes, halos * moved, 1e-6 * f.bytes);
		assert_within(b.bytes, (halos - first) * moved, 1e-6 * f.bytes);
	}
	lowered_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strips_exchange_halos),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

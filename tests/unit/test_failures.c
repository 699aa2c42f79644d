/* test_failures.c - goodput and the interval of checkpoints, against Daly's formulas worked out by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schedule/failures.h"
#include "models.h"

/* 1,000 devices that fail once in 10,000 hours: one failure in 10 hours. 1.2 TB at 10 GB/s: two minutes. */
static const struct mq_failures failures = { .mtbf_h = 10000, .restart_s = 300, .checkpoint_GBps = 10, .blocking = 1 };

static void the_formula_holds(void **state)
{
	struct mq_failures f = failures;
	f.interval_s = 3000;
	struct mq_goodput g = mq_goodput(&f, 1000, 10, 1.2e12);

	assert_near(g.mtbf_s, 36000);
	assert_near(g.checkpoint_s, 120);
	assert_near(g.interval_s, 3000);
	/* R = 300 + 120 */
	assert_near(g.goodput, 3000 / (36000 * exp(420 / 36000.0) * (exp(3120 / 36000.0) - 1)));
}

static void the_best_interval_is_daly_s_in_steps(void **state)
{
	struct mq_goodput g = mq_goodput(&failures, 1000, 10, 1.2e12);
	double x = 120 / 72000.0, daly = sqrt(2 * 120 * 36000.0) * (1 + sqrt(x) / 3 + x / 9) - 120;
	struct mq_failures f = failures;

	assert_true(fabs(g.interval_s - daly) <= 10 && fmod(g.interval_s, 10) == 0);
	for (int other = -1; other <= 1; other += 2) { /* no neighbour is better */
		f.interval_s = g.interval_s + 10 * other;
		assert_true(mq_goodput(&f, 1000, 10, 1.2e12).goodput <= g.goodput);
	}
	/* steps that take longer than the interval: a save behind each */
	assert_near(mq_goodput(&failures, 1000, 1e4, 1.2e12).interval_s, 1e4);
	/* saves take longer than the time between failures: 2 delta M >= (2 M)^2 */
	f = failures;
	f.mtbf_h = 10;
	assert_near(mq_goodput(&f, 1000, 1, 1.2e12).interval_s, 36);
}

/* Saves beside training hold it up for nothing, but a failure loses what is still on its way. */
static void saves_beside_training(void **state)
{
	struct mq_failures f = failures;
	f.blocking = 0;
	struct mq_goodput g = mq_goodput(&f, 1000, 50, 1.2e12);

	assert_near(g.interval_s, 150); /* the first whole number of steps that is no shorter than a save */
	assert_near(g.goodput, 150 / (36000 * exp(540 / 36000.0) * expm1(150 / 36000.0)));
	assert_true(g.goodput > mq_goodput(&failures, 1000, 50, 1.2e12).goodput);
}

/* No failures to speak of: the save's own time alone. */
static void rare_failures_cost_the_saves(void **state)
{
	struct mq_failures f = failures;
	f.mtbf_h = 1e12;
	f.interval_s = 3000;

	if (fabs(mq_goodput(&f, 1, 10, 1.2e12).goodput - 3000 / 3120.0) > 1e-9)
		fail_msg("%.12g", mq_goodput(&f, 1, 10, 1.2e12).goodput);
}

/* Weights in 16 bits, their master and two moments in fp32: 14 bytes a parameter. */
static void checkpoints_hold_weights_and_state(void **state)
{
	const struct mq_train half = { .batch = 1, .dtype = MQ_BF16 }, full = { .batch = 1, .dtype = MQ_FP32 };
	const struct mq_model *m = load("gpt:layers=2,hidden=64,heads=2,vocab=512", 0, &half);
	double parameters = mq_model_totals(m).parameters;

	assert_near(mq_checkpoint_B(m, &half, 4, 4), 14 * parameters);
	assert_near(mq_checkpoint_B(m, &half, 4, 2), 10 * parameters);
	assert_near(mq_checkpoint_B(m, &full, 4, 4), 12 * parameters);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_formula_holds),
		cmocka_unit_test(the_best_interval_is_daly_s_in_steps),
		cmocka_unit_test(saves_beside_training),
		cmocka_unit_test(rare_failures_cost_the_saves),
		cmocka_unit_test(checkpoints_hold_weights_and_state),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}

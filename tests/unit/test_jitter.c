/* test_jitter.c - devices and kernels that vary: factors, and steps that wait for the slowest.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "executors/execute.h"
#include "judge/judge.h"
#include "lowered.h"
#include "models.h"

static void factors_have_mean_1_and_their_deviation(void **state)
{
	enum { N = 20000 };
	struct mq_jitter j = { .device = .1, .slowdown = 2, .seed = 7 };
	double sum = 0, squares = 0;

	for (j.draw = 0; j.draw < N; j.draw++) {
		double f = mq_jitter_device(&j, 3);

		sum += f;
		squares += log(f) * log(f);
	}
	/* four standard errors: .1 / sqrt(N), .1 / sqrt(2 N) */
	assert_true(fabs(sum / N - 1) < .0028);
	assert_true(fabs(sqrt(squares / N) - .1) < .002 + .0025);
}

static void the_same_draw_is_the_same(void **state)
{
	const struct mq_jitter a = { .device = .1, .kernel = .2, .slowdown = 1, .seed = 7, .draw = 5 };
	struct mq_jitter b = a;

	assert_true(mq_jitter_device(&a, 3) == mq_jitter_device(&b, 3));
	assert_true(mq_jitter_device(&a, 3) != mq_jitter_device(&a, 4));
	assert_true(mq_jitter_task(&a, 3, 0, 1) != mq_jitter_task(&a, 3, 1, 1));
	b.draw = 6;
	assert_true(mq_jitter_device(&a, 3) != mq_jitter_device(&b, 3));
	assert_true(mq_jitter_task(&a, 3, 9, 1) != mq_jitter_task(&b, 3, 9, 1));
	/* the logarithm of a task's factor goes with the spread of its kernels: mean 1 needs half its square */
	double z = (log(mq_jitter_task(&a, 3, 9, 1)) + .02) / .2;
	assert_near(log(mq_jitter_task(&a, 3, 9, .5)), .1 * z - .005);
}

static void stragglers_are_so_many_and_so_slow(void **state)
{
	enum { N = 20000 };
	struct mq_jitter j = { .stragglers = .25, .slowdown = 1.5, .seed = 1 };
	uint32_t slow = 0;

	for (j.draw = 0; j.draw < N; j.draw++) {
		double f = mq_jitter_device(&j, 0);

		assert_true(f == 1 || f == 1.5);
		slow += f == 1.5;
	}
	assert_true(fabs(slow / (double)N - .25) < .0123); /* four standard errors */
}

static void quantiles_are_values(void **state)
{
	const double v[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };

	assert_near(mq_jitter_quantile(v, 10, .5), 5);
	assert_near(mq_jitter_quantile(v, 10, .9), 9);
	assert_near(mq_jitter_quantile(v, 10, .99), 10);
	assert_near(mq_jitter_quantile(v, 1, .5), 1);
}

static struct mq_result judge(struct lowered *w, const struct mq_jitter *jitter)
{
	const struct mq_question q = lowered_question(w);
	struct mq_judge j = { .q = &q, .execute = mq_execute_analytic, .fold = true, .timeout_s = INFINITY };
	struct mq_result r;

	if (jitter)
		j.jitter = *jitter;
	assert_int_equal(mq_judge_plan(&j, &w->plan, &w->arena, &r, &w->err), MQ_OK);
	assert_int_equal(r.verdict, MQ_VERDICT_OK);
	return r;
}

/* Both replicas compute, meet in one all-reduce, and update: the step is the slower one's compute, and the
 * all-reduce as ever. */
static void a_step_waits_for_the_slower(void **state)
{
	const struct mq_jitter j = { .device = .2, .slowdown = 1, .seed = 11, .draws = 1 };
	double f0 = mq_jitter_device(&j, 0), f1 = mq_jitter_device(&j, 1);
	struct lowered w;

	lowered_open(&w, "gpt:layers=2,hidden=64,heads=4,seq=32,vocab=128", 2, 8);
	w.software.overlap_grads = false;
	assert_non_null(lowered_shape(&w, &(struct mq_shape){ .dp = 2, .micro_batches = 2 }));
	struct mq_result even = judge(&w, NULL), varied = judge(&w, &j);
	double reduce_s = even.exposed_comm_s;
	assert_true(even.n_simulated == 1 && varied.n_simulated == 2);
	if (fabs(varied.step_time_s - ((even.step_time_s - reduce_s) * fmax(f0, f1) + reduce_s)) >
	    1e-8 * even.step_time_s)
		fail_msg("%.12g, not (%.12g - %.12g) x %.12g + the latter", varied.step_time_s, even.step_time_s,
			 reduce_s, fmax(f0, f1));
	lowered_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(factors_have_mean_1_and_their_deviation),
		cmocka_unit_test(the_same_draw_is_the_same),
		cmocka_unit_test(stragglers_are_so_many_and_so_slow),
		cmocka_unit_test(quantiles_are_values),
		cmocka_unit_test(a_step_waits_for_the_slower),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}

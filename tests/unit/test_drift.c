/* The machine's drift from replays in turns, and intervals that have it in them: planted drifts come back, and intervals
 * hold as often as they say on machines that drift little and much. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fit/fit.h"

enum { PLANS = 24, LAUNCHES = 3, REPS = 4, SAMPLES = LAUNCHES * REPS, DRAWS = 100 };

struct machine {
	double common, own, noise; /* deviations: of a launch, of a plan in a launch, of a sample */
};
struct replay {
	struct mq_measured measured[PLANS];
	const struct mq_measured *list[PLANS];
	double step_s[PLANS][SAMPLES], median[PLANS];
	uint32_t launch[SAMPLES];
	bool disturbed[SAMPLES];
};

/* Plan i takes 1 ms times 1 + i on the machine as it was calibrated. */
static void run(struct replay *r, const struct machine *m, struct mq_rng *rng)
{
	double common[LAUNCHES], own[PLANS][LAUNCHES], jitter[SAMPLES];

	memset(r, 0, sizeof(*r));
	for (int l = 0; l < LAUNCHES; l++)
		common[l] = m->common * mq_rng_normal(rng);
	for (int i = 0; i < PLANS; i++)
		for (int l = 0; l < LAUNCHES; l++)
			own[i][l] = m->own * mq_rng_normal(rng);
	for (int s = 0; s < SAMPLES; s++)
		jitter[s] = m->noise * mq_rng_normal(rng);
	for (int i = 0; i < PLANS; i++) {
		double sorted[SAMPLES];

		for (int s = 0; s < SAMPLES; s++) {
			r->launch[s] = (uint32_t)(s / REPS);
			r->step_s[i][s] =
				1e-3 * (1 + i) *
				exp(common[s / REPS] + own[i][s / REPS] + jitter[s] + m->noise * mq_rng_normal(rng));
			sorted[s] = r->step_s[i][s];
		}
		r->median[i] = mq_quantile(sorted, SAMPLES, .5);
		r->measured[i] = (struct mq_measured){ .n_samples = SAMPLES,
						       .step_s = r->step_s[i],
						       .launch = r->launch,
						       .n_launches = LAUNCHES,
						       .disturbed = r->disturbed };
		r->list[i] = &r->measured[i];
	}
}

static void planted_drifts_come_back(void **state)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_rng rng;
	static struct replay r;

	(void)state;
	mq_rng_seed(&rng, 3);
	run(&r, &(struct machine){ 0, 0, 0 }, &rng);
	struct mq_drift still = mq_drift_of(r.list, r.median, PLANS, &arena);
	assert_true(still.common < 1e-12 && still.own < 1e-12 && still.launches == LAUNCHES);
	run(&r, &(struct machine){ 0, .05, 0 }, &rng);
	struct mq_drift own = mq_drift_of(r.list, r.median, PLANS, &arena);
	assert_true(own.own > .03 && own.own < .09 && own.common < .03);
	run(&r, &(struct machine){ .1, 0, .002 }, &rng);
	struct mq_drift all = mq_drift_of(r.list, r.median, PLANS, &arena);
	assert_true(all.common > .03 && all.own < .02);
	/* One plan alone, or one launch, shows nothing of what it could not. */
	assert_true(mq_drift_of(r.list, r.median, 1, &arena).common == 0);
}

/* The share of measured steps inside 95 % intervals, over many machines of a kind. */
static double coverage(const struct machine *m, uint64_t seed)
{
	uint32_t inside = 0, all = 0;
	static struct replay r;
	struct mq_rng rng;

	mq_rng_seed(&rng, seed);
	for (int turn = 0; turn < 300; turn++) {
		MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
		double then = m->common * mq_rng_normal(&rng); /* the minutes of the calibration */

		run(&r, m, &rng);
		struct mq_drift drift = mq_drift_of(r.list, r.median, PLANS, &arena);
		for (uint32_t i = 0; i < PLANS; i++) {
			double factor[DRAWS], model = .02 * mq_rng_normal(&rng);
			double luck = m->own / sqrt(LAUNCHES) * mq_rng_normal(&rng); /* of the calibration */
			struct mq_interval interval = { .factor = factor };

			for (int d = 0; d < DRAWS; d++)
				factor[d] = exp(.02 * mq_rng_normal(&rng));
			mq_interval_widen(&interval, DRAWS, &drift, 7, i, &arena);
			double said = 1e-3 * (1 + i) * exp(then + model + luck), ratio = r.median[i] / said;
			inside += ratio >= interval.low && ratio <= interval.high;
			all++;
		}
	}
	return (double)inside / all;
}

static void intervals_hold(void **state)
{
	static const struct machine machines[] = {
		{ 0, .005, .002 }, { .02, .01, .01 }, { .05, .02, .02 }, { .1, .05, .05 }, { .02, .06, .03 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++) {
		double held = coverage(&machines[i], 11 + i);

		print_message("common %.3f own %.3f noise %.3f: %.1f %%\n", machines[i].common, machines[i].own,
			      machines[i].noise, 100 * held);
		assert_true(held >= .90 && held <= .98);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(planted_drifts_come_back),
		cmocka_unit_test(intervals_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

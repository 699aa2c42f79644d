/* drift.c - how the speed of a machine changes while schedules are replayed on it, for intervals that hold on a busy one.
 *
 * Every schedule of a replay is an anchor for the others: they take turns, so sample i of all falls into the same
 * seconds. What all of them have in common at sample i, against their own medians, is the machine's drift; what a
 * schedule has beyond that from launch to launch is its own luck with memory, cores and neighbours. A prediction meets
 * both: it was calibrated in other minutes and in other launches.
 * With few samples both are known badly, so they are widened as Student's t asks.
 *
 * Not covered: changes slower than the replay. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include <gsl/gsl_cdf.h>

#include "fit/fit.h"

/* log(step / median of the schedule), of undisturbed samples; NaN of others. */
static double deviation(const struct mq_measured *m, uint32_t sample, double median)
{
	return sample < m->n_samples && !m->disturbed[sample] && m->step_s[sample] > 0 ?
		       log(m->step_s[sample] / median) :
		       (double)NAN;
}

static double median_of(double *value, uint32_t n)
{
	return n ? mq_quantile(value, n, .5) : (double)NAN;
}

/* Median deviation of a launch's samples from what all schedules had in common. */
static double of_launch(const struct mq_measured *m, uint32_t launch, double median, const double *common,
			double *scratch)
{
	uint32_t n = 0;

	for (uint32_t s = 0; s < m->n_samples; s++) {
		double x = deviation(m, s, median) - common[s];

		if (m->launch[s] == launch && isfinite(x))
			scratch[n++] = x;
	}
	return median_of(scratch, n);
}

/* How much wider an interval of n values is than one of very many. */
static double student(uint32_t n)
{
	return n > 1 ? gsl_cdf_tdist_Pinv(.975, fmin(n - 1, 1000)) / gsl_cdf_ugaussian_Pinv(.975) : 1;
}

struct mq_drift mq_drift_of(const struct mq_measured *const *measured, const double *median, uint32_t n,
			    struct mq_arena *scratch)
{
	struct mq_drift drift = { 0, 0, 0 };
	uint32_t samples = 0, launches = 0, slices = 0, pairs = 0;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t s = 0; s < measured[i]->n_samples; s++) {
			samples = s + 1 > samples ? s + 1 : samples;
			launches = measured[i]->launch[s] + 1 > launches ? measured[i]->launch[s] + 1 : launches;
		}
	double *common = mq_arena_array(scratch, samples + 1, double);
	double *value = mq_arena_array(scratch, (size_t)n * (launches + 1) + samples + 1, double);
	for (uint32_t s = 0; s < samples; s++) {
		uint32_t k = 0;

		for (uint32_t i = 0; i < n; i++) {
			double x = deviation(measured[i], s, median[i]);

			if (isfinite(x))
				value[k++] = x;
		}
		common[s] = k > 1 ? median_of(value, k) : 0; /* one schedule alone shows nothing that is common */
		drift.common += common[s] * common[s];
		slices += k > 1;
	}
	drift.common = slices > 1 ? sqrt(drift.common / (slices - 1)) * student(launches + 2) :
				    0; /* samples of a launch go together */
	double *own = value + samples + 1, *launch = mq_arena_array(scratch, launches + 1, double);
	for (uint32_t i = 0; i < n && launches > 1; i++) {
		uint32_t k = 0;

		for (uint32_t l = 0; l < launches; l++) {
			double x = of_launch(measured[i], l, median[i], common, value);

			if (isfinite(x))
				launch[k++] = x;
		}
		double mean = 0, square = 0;
		for (uint32_t l = 0; l < k; l++)
			mean += launch[l] / k;
		for (uint32_t l = 0; l < k; l++)
			square += (launch[l] - mean) * (launch[l] - mean);
		if (k > 1)
			own[pairs++] = sqrt(square / gsl_cdf_chisq_Pinv(.5, k - 1)); /* so that its median is right */
	}
	drift.own = pairs ? median_of(own, pairs) * student(pairs + 1) : 0;
	drift.launches = launches;
	return drift;
}

void mq_interval_widen(struct mq_interval *interval, uint32_t n_draws, const struct mq_drift *drift, uint64_t seed,
		       uint32_t plan, struct mq_arena *scratch)
{
	double *sorted = mq_arena_array(scratch, n_draws, double);
	uint32_t kept = 0;
	/* Of the calibration, which was made in one stretch, and of the replay's launches; the luck of as many launches on
	 * both sides. */
	double launches = fmax(drift->launches, 1), common_s = sqrt(1 + 1 / launches) * drift->common,
	       own_s = sqrt(2 / launches) * drift->own;

	for (uint32_t d = 0; d < n_draws; d++) {
		const uint64_t both[2] = { seed, d };
		struct mq_rng rng;

		mq_rng_seed(&rng, mq_hash(MQ_HASH_INIT, both, sizeof(both)));
		double common = common_s * mq_rng_normal(&rng);
		mq_rng_seed(&rng, mq_hash(mq_hash(MQ_HASH_INIT, both, sizeof(both)), &plan, sizeof(plan)));
		interval->factor[d] *= exp(common + own_s * mq_rng_normal(&rng));
		if (isfinite(interval->factor[d]))
			sorted[kept++] = interval->factor[d];
	}
	interval->low = mq_quantile(sorted, kept, .025);
	interval->high = mq_quantile(sorted, kept, .975);
}

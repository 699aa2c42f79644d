/* stats.h - medians with intervals, quantiles, errors of predictions, rank correlations, regret: shared by all tables
 * of predictions and measurements. (Quantiles of jitter samples: mq_jitter_quantile.)
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_FIT_STATS_H
#define MQ_FIT_STATS_H

#include <stdint.h>

#include "maquette/arena.h"
#include "maquette/rng.h"

/* Median with a non-parametric 95 % interval from order statistics (Hoefler and Belli, SC'15). */
struct mq_median {
	double median, low, high;
	uint32_t n;
	double mean; /* of the same values, for times that add up; 0 = unknown */
};
/* Sorts `value`. n = 0 gives NaN. */
struct mq_median mq_median_of(double *value, uint32_t n);
/* Sorts `value`; linear interpolation (Hyndman and Fan, type 7). n = 0 gives NaN. */
double mq_quantile(double *value, uint32_t n, double q);

/* Relative errors, predicted / measured - 1; errors that are not finite are left out. None left: NaN. */
struct mq_errors {
	uint32_t n;
	double mean, median, p90; /* of |error| */
	double bias;              /* mean of the signed error */
};
struct mq_errors mq_errors_of(const double *error, uint32_t n, struct mq_arena *scratch);
struct mq_errors mq_errors_against(const double *predicted, const double *measured, uint32_t n,
				   struct mq_arena *scratch);

/* Kendall's tau-b of two score lists (ties taken into account); NaN for fewer than two pairs. */
double mq_kendall(const double *a, const double *b, uint32_t n);
/* Spearman's rank correlation with mean ranks for ties; NaN for n < 3 or a constant side. */
double mq_spearman(const double *a, const double *b, uint32_t n, struct mq_arena *scratch);
/* Measured time of the item with the best prediction / the best measured time; NaN for none. */
double mq_regret(const double *predicted, const double *measured, uint32_t n);

/* Probability that item `which` of `n` has the least median: the share of `draws` bootstrap resamples in which it has,
 * ties included. value[i]: [count[i] > 0], borrowed. */
double mq_probability_least(const double *const *value, const uint32_t *count, uint32_t n, uint32_t which,
			    uint32_t draws, struct mq_rng *rng, struct mq_arena *scratch);

#endif

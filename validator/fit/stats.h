/* stats.h - medians with intervals, quantiles, errors of predictions, rank correlations, regret: one meaning of each
 * for all tables of predictions and measurements. (Quantiles of jitter samples are one of them: mq_jitter_quantile.)
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
	double mean; /* of the same values: what counts where times add up; 0 = not known */
};
/* Sorts `value`. n = 0 gives NaN. */
struct mq_median mq_median_of(double *value, uint32_t n);
/* Sorts `value`; between two of them in proportion (Hyndman and Fan's seventh). n = 0 gives NaN. */
double mq_quantile(double *value, uint32_t n, double q);

/* Relative errors, predicted / measured - 1; those that are not finite count nowhere. None: NaN. */
struct mq_errors {
	uint32_t n;
	double mean, median, p90, worst; /* of |error| */
	double bias;                     /* mean of the signed error */
};
struct mq_errors mq_errors_of(const double *error, uint32_t n, struct mq_arena *scratch);
struct mq_errors mq_errors_against(const double *predicted, const double *measured, uint32_t n,
				   struct mq_arena *scratch);

/* Kendall's tau-b of two score lists (ties taken into account); NaN for fewer than two pairs. */
double mq_kendall(const double *a, const double *b, uint32_t n);
/* Spearman's rank correlation with mean ranks for ties; NaN for n < 3 or a constant side. */
double mq_spearman(const double *a, const double *b, uint32_t n, struct mq_arena *scratch);
/* Measured time of what has the best prediction over the best measured time; NaN of none. */
double mq_regret(const double *predicted, const double *measured, uint32_t n);

/* How probable it is that thing `which` of `n` has the least median: the share of `draws` resamples (bootstrap) of
 * all their values in which it has; ties count as having it. value[i]: [count[i] > 0], borrowed. */
double mq_probability_least(const double *const *value, const uint32_t *count, uint32_t n, uint32_t which,
			    uint32_t draws, struct mq_rng *rng, struct mq_arena *scratch);

#endif

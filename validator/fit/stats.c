/* stats.c - see stats.h. SPDX-License-Identifier: Apache-2.0 */
#include "fit/stats.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdbool.h>

double mq_quantile(double *value, uint32_t n, double q)
{
	if (!n)
		return NAN;
	gsl_sort(value, 1, n);
	return gsl_stats_quantile_from_sorted_data(value, 1, n, q);
}

struct mq_median mq_median_of(double *value, uint32_t n)
{
	struct mq_median m = { NAN, NAN, NAN, n, NAN };

	if (!n)
		return m;
	m.median = mq_quantile(value, n, .5);
	m.mean = gsl_stats_mean(value, 1, n);
	/* Ranks of the order statistics that hold the median with 95 % (normal approximation). */
	double half = 1.959964 * sqrt((double)n) / 2;
	double below = floor(n / 2.0 - half), above = ceil(n / 2.0 + half);
	m.low = value[below < 0 ? 0 : (uint32_t)below];
	m.high = value[above > n - 1 ? n - 1 : (uint32_t)above];
	return m;
}

double mq_kendall(const double *a, const double *b, uint32_t n)
{
	double score = 0, pairs_a = 0, pairs_b = 0;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = i + 1; j < n; j++) {
			int sa = (a[i] > a[j]) - (a[i] < a[j]), sb = (b[i] > b[j]) - (b[i] < b[j]);

			score += sa * sb;
			pairs_a += sa != 0;
			pairs_b += sb != 0;
		}
	return score / sqrt(pairs_a * pairs_b);
}

double mq_regret(const double *predicted, const double *measured, uint32_t n)
{
	uint32_t chosen = 0, best = 0;

	for (uint32_t i = 1; i < n; i++) {
		if (predicted[i] < predicted[chosen])
			chosen = i;
		if (measured[i] < measured[best])
			best = i;
	}
	return n ? measured[chosen] / measured[best] : (double)NAN;
}

struct mq_errors mq_errors_of(const double *error, uint32_t n, struct mq_arena *scratch)
{
	struct mq_errors s = { 0, NAN, NAN, NAN, NAN };
	double *size = mq_arena_array(scratch, n, double), sum = 0;

	for (uint32_t i = 0; i < n; i++)
		if (isfinite(error[i])) {
			size[s.n++] = fabs(error[i]);
			sum += error[i];
		}
	if (!s.n)
		return s;
	s.mean = gsl_stats_mean(size, 1, s.n);
	s.bias = sum / s.n;
	s.median = mq_quantile(size, s.n, .5);
	s.p90 = mq_quantile(size, s.n, .9);
	return s;
}

struct mq_errors mq_errors_against(const double *predicted, const double *measured, uint32_t n,
				   struct mq_arena *scratch)
{
	double *error = mq_arena_array(scratch, n, double);

	for (uint32_t i = 0; i < n; i++)
		error[i] = predicted[i] / measured[i] - 1;
	return mq_errors_of(error, n, scratch);
}

double mq_spearman(const double *a, const double *b, uint32_t n, struct mq_arena *scratch)
{
	/* constant ranks have no variance: 0/0 gives the documented NaN */
	return n < 3 ? (double)NAN : gsl_stats_spearman(a, 1, b, 1, n, mq_arena_array(scratch, 2 * (size_t)n, double));
}

double mq_probability_least(const double *const *value, const uint32_t *count, uint32_t n, uint32_t which,
			    uint32_t draws, struct mq_rng *rng, struct mq_arena *scratch)
{
	uint32_t most = 0, won = 0;

	for (uint32_t i = 0; i < n; i++)
		most = count[i] > most ? count[i] : most;
	double *drawn = mq_arena_array(scratch, most, double), *median = mq_arena_array(scratch, n, double);
	for (uint32_t d = 0; d < draws; d++) {
		bool least = true;

		for (uint32_t i = 0; i < n; i++) {
			for (uint32_t k = 0; k < count[i]; k++)
				drawn[k] = value[i][mq_rng_below(rng, count[i])];
			median[i] = mq_quantile(drawn, count[i], .5);
		}
		for (uint32_t i = 0; i < n; i++)
			least &= median[which] <= median[i];
		won += least;
	}
	return (double)won / draws;
}

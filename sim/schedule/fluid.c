/* fluid.c - see fluid.h. SPDX-License-Identifier: Apache-2.0 */
#include "schedule/fluid.h"

#include <math.h>

#define SAME 1e-12 /* rates of less relative difference are equal */

void mq_fluid_begin(struct mq_fluid *f, struct mq_arena *arena)
{
	f->free_Bps = mq_arena_array(arena, f->n_links, double);
	f->share_Bps = mq_arena_array(arena, f->n_links, double);
	f->growing = mq_arena_array(arena, f->n_links, double);
	f->touched = mq_arena_array(arena, f->n_links, uint32_t);
	f->fixed = mq_arena_array(arena, f->n_flows, bool);
}

static double weight_at(const struct mq_fluid *f, uint32_t k)
{
	return f->weight ? f->weight[k] : 1;
}

static void fix_rate(struct mq_fluid *f, uint32_t i, double rate)
{
	f->rate_Bps[i] = rate;
	f->fixed[i] = true;
	for (uint32_t k = f->first[i]; k < f->first[i + 1]; k++) {
		uint32_t l = f->link[k];

		f->growing[l] -= weight_at(f, k);
		f->free_Bps[l] = fmax(0, f->free_Bps[l] - rate * weight_at(f, k));
	}
}

static bool crosses_full_link(const struct mq_fluid *f, uint32_t i, double level)
{
	for (uint32_t k = f->first[i]; k < f->first[i + 1]; k++)
		if (f->share_Bps[f->link[k]] <= level)
			return true;
	return false;
}

/* Resets the links of the running flows and lists them in touched[]; returns their number. */
static uint32_t reset_links(struct mq_fluid *f, const uint32_t *running, uint32_t n)
{
	uint32_t n_touched = 0;

	for (uint32_t r = 0; r < n; r++)
		for (uint32_t k = f->first[running[r]]; k < f->first[running[r] + 1]; k++)
			f->growing[f->link[k]] = 0;
	for (uint32_t r = 0; r < n; r++) {
		f->fixed[running[r]] = false;
		for (uint32_t k = f->first[running[r]]; k < f->first[running[r] + 1]; k++) {
			uint32_t l = f->link[k];

			if (!(f->growing[l] > 0)) {
				f->free_Bps[l] = f->bw_Bps[l];
				f->touched[n_touched++] = l;
			}
			f->growing[l] += weight_at(f, k);
		}
	}
	return n_touched;
}

void mq_fluid_rates(struct mq_fluid *f, const uint32_t *running, uint32_t n)
{
	uint32_t n_touched = reset_links(f, running, n), growing = n;

	while (growing) {
		double level = INFINITY; /* the lowest rate at which a link fills up or a cap is met */

		for (uint32_t t = 0; t < n_touched; t++) {
			uint32_t l = f->touched[t];

			f->share_Bps[l] = f->growing[l] > 0 ? f->free_Bps[l] / f->growing[l] : (double)INFINITY;
			level = fmin(level, f->share_Bps[l]);
		}
		for (uint32_t r = 0; r < n; r++)
			if (!f->fixed[running[r]])
				level = fmin(level, f->cap_Bps[running[r]]);
		double reach = level * (1 + SAME);
		for (uint32_t r = 0; r < n; r++) {
			uint32_t i = running[r];

			if (!f->fixed[i] && (f->cap_Bps[i] <= reach || crosses_full_link(f, i, reach))) {
				fix_rate(f, i, fmin(level, f->cap_Bps[i]));
				growing--;
			}
		}
	}
}

double mq_fluid_run(struct mq_fluid *f, double *left_B, struct mq_arena *scratch, double *done_s)
{
	uint32_t *running = mq_arena_count(scratch, f->n_flows), n = f->n_flows;
	double now_s = 0;

	while (n) {
		double step = INFINITY;
		uint32_t still = 0;

		mq_fluid_rates(f, running, n);
		for (uint32_t r = 0; r < n; r++)
			step = fmin(step, left_B[running[r]] / f->rate_Bps[running[r]]);
		now_s += step;
		for (uint32_t r = 0; r < n; r++) {
			uint32_t i = running[r];

			done_s[i] = now_s;
			if (left_B[i] <= step * f->rate_Bps[i] * (1 + SAME))
				continue;
			left_B[i] -= step * f->rate_Bps[i];
			running[still++] = i;
		}
		n = still;
	}
	return now_s;
}

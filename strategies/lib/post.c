/* post.c - see post.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/post.h"

#include <math.h>
#include <stdlib.h>

#include "lib/plans.h"

const struct mq_opt mq_post_opts[] = {
	MQ_U32(struct mq_post, groups, 40, 0, 100000, "groups of ops, as in TAG (0: a group per op or colour)"),
	MQ_U32(struct mq_post, samples, 40, 4, 100000, "evaluations between cross-entropy steps (N)"),
	MQ_U32(struct mq_post, every, 8, 1, 100000, "evaluations between policy gradient steps (K)"),
	MQ_U32(struct mq_post, steps, 10, 1, 1000, "gradient steps each time"),
	MQ_F64(struct mq_post, rho, 0.1, 0.001, 1, "share of the samples that count as elite"),
	MQ_F64(struct mq_post, eps, 0.1, 0, 1, "share of the uniform distribution mixed in, but at most 2 / groups"),
	MQ_F64(struct mq_post, beta, 1, 0, 1e6, "weight of the Kullback-Leibler penalty"),
	MQ_F64(struct mq_post, rate, 0.5, 1e-6, 1e6, "step size of the gradient ascent"),
	MQ_F64(struct mq_post, kl, 0.3, 1e-6, 1e6, "most that one step changes the placement distribution, nats"),
	MQ_END
};

static void softmax(struct mq_post *p)
{
	uint32_t d_n = p->coarse.n_devices;

	for (uint32_t g = 0; g < p->coarse.n; g++) {
		const bool *may = p->coarse.possible + (size_t)g * d_n;
		double *u = p->u + (size_t)g * d_n, *f = p->f + (size_t)g * d_n, most = -INFINITY, sum = 0;

		for (uint32_t d = 0; d < d_n; d++)
			most = may[d] ? fmax(most, u[d]) : most;
		for (uint32_t d = 0; d < d_n; d++)
			sum += f[d] = may[d] ? exp(u[d] - most) : 0;
		for (uint32_t d = 0; d < d_n; d++)
			f[d] /= sum;
	}
}

enum mq_status mq_post_start(struct mq_post *p, const char *engine, const struct mq_problem *problem,
			     struct mq_err *err)
{
	if (p->samples % p->every)
		return mq_bad(err, "engine '%s': every=%u does not divide samples=%u", engine, p->every, p->samples);
	MQ_TRY(mq_coarse_make(problem, engine, p->groups, &p->coarse, err));
	mq_fit_say(problem, engine, MQ_COARSE_EVEN, &p->coarse.fit);
	size_t size = (size_t)p->coarse.n * p->coarse.n_devices;

	p->u = mq_arena_array(problem->arena, size, double);
	p->f = mq_arena_array(problem->arena, size, double);
	p->f_old = mq_arena_array(problem->arena, size, double);
	p->u_old = mq_arena_array(problem->arena, size, double);
	p->time_s = mq_arena_array(problem->arena, p->samples, double);
	p->sorted = mq_arena_array(problem->arena, p->samples, double);
	p->excess = mq_arena_array(problem->arena, p->samples, double);
	p->choice = mq_arena_array(problem->arena, (size_t)p->samples * p->coarse.n, uint32_t);
	p->drawn = mq_arena_array(problem->arena, (size_t)MQ_POST_BATCH * p->coarse.n, uint32_t);
	softmax(p);
	memcpy(p->f_old, p->f, size * sizeof(double));
	return MQ_OK;
}

static uint32_t draw(const double *f, uint32_t n, struct mq_rng *rng)
{
	double u = mq_rng_unit(rng), sum = 0;
	uint32_t last = 0;

	for (uint32_t d = 0; d < n; d++) {
		if (f[d] <= 0)
			continue;
		last = d;
		sum += f[d];
		if (u < sum)
			return d;
	}
	return last;
}

enum mq_status mq_post_propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			       struct mq_plan *plan, struct mq_err *err)
{
	struct mq_post *p = state;
	uint32_t n = p->coarse.n, *choice = p->drawn + p->next++ % MQ_POST_BATCH * n;

	if (mq_coarse_baseline(&p->coarse, &p->baseline, choice))
		p->n_baselines++;
	else
		for (uint32_t g = 0; g < n; g++)
			choice[g] = draw(p->f + (size_t)g * p->coarse.n_devices, p->coarse.n_devices, problem->rng);
	mq_coarse_plan(&p->coarse, choice, problem, arena, plan);
	return MQ_OK;
}

/* The cost of a sample: its time; if infeasible, more than the worst feasible time, growing with the excess. */
static double cost_s(const struct mq_post *p, uint32_t k)
{
	return p->excess[k] > 0 ? (p->worst_s > 0 ? p->worst_s : 1) * (1 + p->excess[k]) : p->time_s[k];
}

static double ratio(const struct mq_post *p, uint32_t k)
{
	double log_ratio = 0;

	for (uint32_t g = 0; g < p->coarse.n; g++) {
		size_t at = (size_t)g * p->coarse.n_devices + p->choice[(size_t)k * p->coarse.n + g];

		log_ratio += log(fmax(p->f[at], 1e-300)) - log(fmax(p->f_old[at], 1e-300));
	}
	return exp(fmin(log_ratio, log(10)));
}

/* KL(f_old || f) of whole placements: the sum over groups. */
static double divergence(const struct mq_post *p)
{
	double sum = 0;

	for (size_t at = 0; at < (size_t)p->coarse.n * p->coarse.n_devices; at++)
		if (p->f_old[at] > 0)
			sum += p->f_old[at] * log(p->f_old[at] / fmax(p->f[at], 1e-300));
	return sum;
}

/* Gradient of both objectives: w_k (1[d = d_k] - f), minus beta (f - f_old) for the proximal one. */
static void add_gradient(struct mq_post *p, uint32_t from, uint32_t to)
{
	uint32_t d_n = p->coarse.n_devices;
	double mean_s = (p->sum_s + (p->worst_s > 0 ? p->worst_s : 1) * p->sum_excess) / (double)p->n_mean;

	for (uint32_t k = from; k < to; k++) {
		/* advantage: how much faster than the mean, relative to it */
		double w = (mean_s - cost_s(p, k)) / mean_s * (p->has.reinforce ? 1 : ratio(p, k)) / (to - from);

		for (uint32_t g = 0; g < p->coarse.n; g++)
			for (uint32_t d = 0; d < d_n; d++) {
				bool chosen = p->choice[(size_t)k * p->coarse.n + g] == d;
				size_t at = (size_t)g * d_n + d;

				p->u[at] += p->rate * w * (chosen - p->f[at]);
			}
	}
	for (size_t at = 0; !p->has.reinforce && at < (size_t)p->coarse.n * d_n; at++)
		p->u[at] -= p->rate * p->beta * (p->f[at] - p->f_old[at]);
}

/* REINFORCE takes one step. Proximal steps end when the distribution of placements has moved by `kl`: a placement's
 * probability ratio is a product over all groups, so a step that suits ten groups would move hundreds far from the
 * samples. */
static void ascend(struct mq_post *p, uint32_t from, uint32_t to)
{
	size_t size = (size_t)p->coarse.n * p->coarse.n_devices;
	bool inside = true;

	for (uint32_t step = 0; step < (p->has.reinforce ? 1 : p->steps) && inside; step++) {
		memcpy(p->u_old, p->u, size * sizeof(double));
		add_gradient(p, from, to);
		softmax(p);
		for (int half = 0; half < 20 && !p->has.reinforce && divergence(p) > p->kl; half++) {
			for (size_t at = 0; at < size; at++)
				p->u[at] = (p->u[at] + p->u_old[at]) / 2;
			softmax(p);
			inside = false;
		}
	}
}

MQ_COMPARE(by_value, double, MQ_ORDER(*a, *b))

/* Sets f to the maximum-likelihood fit of the elite, mixed with the uniform distribution. */
static void fit_elite(struct mq_post *p)
{
	uint32_t d_n = p->coarse.n_devices, elite = 0;
	double *sorted = p->sorted, eps = fmin(p->eps, 2.0 / p->coarse.n);

	for (uint32_t k = 0; k < p->n; k++)
		sorted[k] = cost_s(p, k);
	qsort(sorted, p->n, sizeof(double), by_value);
	double gamma = sorted[(uint32_t)fmax(ceil(p->rho * p->n), 1) - 1];
	memset(p->f, 0, (size_t)p->coarse.n * d_n * sizeof(double));
	for (uint32_t k = 0; k < p->n; k++) {
		if (cost_s(p, k) > gamma)
			continue;
		elite++;
		for (uint32_t g = 0; g < p->coarse.n; g++)
			p->f[(size_t)g * d_n + p->choice[(size_t)k * p->coarse.n + g]]++;
	}
	for (uint32_t g = 0; g < p->coarse.n; g++) {
		const bool *may = p->coarse.possible + (size_t)g * d_n;
		uint32_t n_may = 0;

		for (uint32_t d = 0; d < d_n; d++)
			n_may += may[d];
		for (uint32_t d = 0; d < d_n; d++) {
			double *f = &p->f[(size_t)g * d_n + d];

			*f = may[d] ? (1 - eps) * *f / elite + eps / n_may : 0;
			p->u[(size_t)g * d_n + d] = log(fmax(*f, 1e-12));
		}
	}
	softmax(p);
}

static void record(struct mq_post *p, const struct mq_result *r)
{
	uint32_t k = p->n++;

	p->excess[k] = mq_fit_excess(r);
	p->time_s[k] = p->excess[k] > 0 ? 0 : r->step_time_s;
	p->worst_s = fmax(p->worst_s, p->time_s[k]);
	p->sum_s += p->time_s[k];
	p->sum_excess += p->excess[k] > 0 ? 1 + p->excess[k] : 0;
	p->n_mean++;
}

/* Adds to the learning curve: mean cost of a round, and entropy per group (1 = uniform). */
static void note_round(const struct mq_post *p, const struct mq_problem *problem)
{
	double cost = 0, entropy = 0;

	for (uint32_t k = 0; k < p->n; k++)
		cost += cost_s(p, k) / p->n;
	for (size_t at = 0; at < (size_t)p->coarse.n * p->coarse.n_devices; at++)
		entropy -= p->f[at] > 0 ? p->f[at] * log(p->f[at]) : 0;
	mq_note(problem, "mean_cost_s", cost);
	mq_note(problem, "entropy", entropy / p->coarse.n / fmax(log(p->coarse.n_devices), 1e-9));
}

void mq_post_observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		     const struct mq_result *r)
{
	struct mq_post *p = state;
	uint32_t n = p->coarse.n;
	size_t size = (size_t)n * p->coarse.n_devices * sizeof(double);

	if (p->n_baselines) { /* baselines are no samples of f */
		p->n_baselines--;
		p->first++;
		return;
	}
	memcpy(p->choice + (size_t)p->n * n, p->drawn + p->first++ % MQ_POST_BATCH * n, n * sizeof(uint32_t));
	record(p, r);
	bool full = p->n == p->samples;

	if (full)
		note_round(p, problem);
	if ((p->has.proximal || p->has.reinforce) && p->n % p->every == 0 && !(full && p->has.cross_entropy)) {
		memcpy(p->f_old, p->f, size);
		ascend(p, p->n - p->every, p->n);
	}
	if (full && p->has.cross_entropy)
		fit_elite(p);
	if (full)
		p->n = 0;
}

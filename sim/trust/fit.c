/* fit.c - see trust.h: the weights of the distance, from the errors themselves.
 *
 * Likelihood of a Laplace distribution of the errors about the neighbours' middle, with their spread; each row judged
 * without its table and its publisher, of whom MOST rows are taken, so that none decides alone. Coordinate search over
 * round values: weights are to be few and stated, not fine. SPDX-License-Identifier: Apache-2.0 */
#include "trust/trust.h"

#include <math.h>
#include <string.h>

enum { MOST = 100, ROUNDS = 3 };
static const double LEAST_GAIN = 2e-4;
static const double RARE = -.5; /* a row counts as much as its publisher's rows to this power */

struct fit {
	struct mq_trust *t;
	uint32_t *row, n; /* rows of the sample */
	double *count;    /* [n] what a row counts; they add up to 1 */
	double *error;    /* [n] */
	float *distance;  /* [n * n] infinite where a row is not to be asked */
	float *term;      /* [n * n] one of its terms */
	double *kernel;   /* [n] scratch */
};

static bool strangers(const struct mq_trust_row *a, const struct mq_trust_row *b)
{
	return a->source != b->source && strcmp(a->table, b->table) != 0;
}

/* Of each publisher every k-th row, in the index's order. */
static void choose(struct fit *f, struct mq_arena *arena)
{
	const struct mq_trust *t = f->t;
	uint32_t *all = mq_arena_array(arena, t->n_words, uint32_t), *at = mq_arena_array(arena, t->n_words, uint32_t);
	double sum = 0;

	f->row = mq_arena_array(arena, t->n, uint32_t);
	f->count = mq_arena_array(arena, t->n, double);
	f->error = mq_arena_array(arena, t->n, double);
	for (uint32_t i = 0; i < t->n; i++)
		all[t->row[i].source]++;
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t source = t->row[i].source, before = at[source]++;
		uint64_t kept = all[source] < MOST ? all[source] : MOST;

		if (before * kept / all[source] == (before + 1) * kept / all[source])
			continue;
		f->count[f->n] = pow((double)kept, RARE);
		f->error[f->n] = t->row[i].error;
		sum += f->count[f->n];
		f->row[f->n++] = i;
	}
	for (uint32_t i = 0; i < f->n; i++)
		f->count[i] /= sum;
}

static void fill_term(struct fit *f, int term)
{
	const struct mq_trust_row *row = f->t->row;
	float terms[MQ_N_TRUST_TERMS];

	for (uint32_t i = 0; i < f->n; i++)
		for (uint32_t k = 0; k < i; k++) {
			mq_trust_terms(&row[f->row[i]].place, &row[f->row[k]].place, terms);
			f->term[(size_t)i * f->n + k] = f->term[(size_t)k * f->n + i] = terms[term];
		}
}

static void add_term(struct fit *f, double by)
{
	for (size_t i = 0; i < (size_t)f->n * f->n; i++)
		f->distance[i] += (float)by * f->term[i];
}

/* The negative logarithm of the likelihood, with `by` times the term added to the distances. */
static double loss(const struct fit *f, float by, double widening, double bias)
{
	double scale = 0, logs = 0;

	for (uint32_t i = 0; i < f->n; i++) {
		const float *d = f->distance + (size_t)i * f->n, *x = f->term + (size_t)i * f->n;
		double weight = 0, error = 0, far = 0, deviation = 0;

		for (uint32_t k = 0; k < f->n; k++) {
			float at = d[k] + by * x[k];

			f->kernel[k] = f->count[k] * (double)expf(-at);
			if (f->kernel[k] > 0)
				far += f->kernel[k] * (double)at;
			weight += f->kernel[k];
			error += f->kernel[k] * f->error[k];
		}
		double middle = bias * error / weight;
		for (uint32_t k = 0; k < f->n; k++)
			deviation += f->kernel[k] *
				     (double)logf((float)(MQ_TRUST_LEAST_SPREAD + fabs(f->error[k] - middle)));
		double spread = exp((widening * far + deviation) / weight);

		logs += f->count[i] * log(spread);
		scale += f->count[i] * fabs(f->error[i] - middle) / spread;
	}
	return logs + log(scale);
}

enum { WIDENING = MQ_N_TRUST_TERMS, BIAS }; /* behind the weights of the terms */

/* The best value of a weight, of the widening or of the bias; true: it has changed. */
static bool improve(struct fit *f, int what, const double *value, uint32_t n, double *best)
{
	struct mq_trust *t = f->t;
	bool term = what < MQ_N_TRUST_TERMS;
	double was = term ? (double)t->weight[what] : what == BIAS ? t->bias : t->widening, kept = was;

	if (term)
		fill_term(f, what);
	for (uint32_t v = 0; v < n; v++) {
		double now = loss(f, term ? (float)(value[v] - was) : 0, what == WIDENING ? value[v] : t->widening,
				  what == BIAS ? value[v] : t->bias);

		if (now < *best - LEAST_GAIN) {
			*best = now;
			kept = value[v];
		}
	}
	if (term) {
		t->weight[what] = (float)kept;
		add_term(f, kept - was);
	} else {
		*(what == BIAS ? &t->bias : &t->widening) = kept;
	}
	return kept < was || kept > was;
}

/* Each row's error in units of its spread, its publisher left out. */
static void score_rows(struct mq_trust *t)
{
	mq_trust_sort(t);
	for (uint32_t i = 0; i < t->n; i++) {
		struct mq_trust_row *r = &t->row[i];
		struct mq_trust_spread s;

		mq_trust_spread_of(t, &r->place, &(struct mq_trust_without){ r->table, r->publisher }, &s);
		r->score = isfinite(s.spread) ? fabs(r->error - s.middle) / s.spread : 0;
	}
	mq_trust_sort(t);
}

void mq_trust_fit(struct mq_trust *t)
{
	static const double weights[] = { 0, .125, .25, .5, .75, 1, 1.5, 2, 3, 4 },
			    widenings[] = { 0, .05, .1, .15, .2, .3, .4 }, biases[] = { 0, .25, .5, .75, 1 };
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct fit f = { .t = t };

	t->widening = .1;
	t->bias = .25;
	choose(&f, &scratch);
	f.distance = mq_arena_array(&scratch, (size_t)f.n * f.n, float);
	f.term = mq_arena_array(&scratch, (size_t)f.n * f.n, float);
	f.kernel = mq_arena_array(&scratch, f.n, double);
	for (uint32_t i = 0; i < f.n; i++)
		for (uint32_t k = 0; k < f.n; k++)
			f.distance[(size_t)i * f.n + k] =
				strangers(&t->row[f.row[i]], &t->row[f.row[k]]) ? 0 : INFINITY;
	for (int i = 0; i < MQ_N_TRUST_TERMS; i++) {
		t->weight[i] = 1;
		fill_term(&f, i);
		add_term(&f, 1);
	}
	double best = loss(&f, 0, t->widening, t->bias);
	for (int round = 0; round < ROUNDS; round++) {
		bool better = false;

		for (int i = 0; i < MQ_N_TRUST_TERMS; i++)
			better |= improve(&f, i, weights, sizeof(weights) / sizeof(*weights), &best);
		better |= improve(&f, WIDENING, widenings, sizeof(widenings) / sizeof(*widenings), &best);
		better |= improve(&f, BIAS, biases, sizeof(biases) / sizeof(*biases), &best);
		if (!better)
			break;
	}
	score_rows(t);
}

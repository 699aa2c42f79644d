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
static const double RARE = -.25; /* a row counts as much as its publisher's rows to this power */

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

static void start(struct fit *f)
{
	const struct mq_trust_row *row = f->t->row;
	float terms[MQ_N_TRUST_TERMS];

	for (uint32_t i = 0; i < f->n; i++)
		for (uint32_t k = 0; k < f->n; k++) {
			float sum = 0;

			mq_trust_terms(&row[f->row[i]].place, &row[f->row[k]].place, terms);
			for (int j = 0; j < MQ_N_TRUST_TERMS; j++)
				sum += f->t->weight[j] * terms[j];
			f->distance[(size_t)i * f->n + k] =
				strangers(&row[f->row[i]], &row[f->row[k]]) ? sum : INFINITY;
		}
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

			f->kernel[k] = (double)expf(-at);
			if (f->kernel[k] > 0)
				far += f->kernel[k] * (double)at;
			weight += f->kernel[k];
			error += f->kernel[k] * f->error[k];
		}
		double middle = bias * error / weight;
		for (uint32_t k = 0; k < f->n; k++)
			deviation += f->kernel[k] * fabs(f->error[k] - middle);
		double spread = MQ_TRUST_LEAST_SPREAD + exp(widening * far / weight) * deviation / weight;

		logs += f->count[i] * log(spread);
		scale += f->count[i] * fabs(f->error[i] - middle) / spread;
	}
	return logs + log(scale);
}

/* The best value of a weight; true: it has changed. */
static bool improve_term(struct fit *f, int term, double *best)
{
	static const float values[] = { 0, .125f, .25f, .5f, .75f, 1, 1.5f, 2, 3, 4 };
	struct mq_trust *t = f->t;
	float was = t->weight[term], kept = was;

	fill_term(f, term);
	for (size_t v = 0; v < sizeof(values) / sizeof(*values); v++) {
		double now = loss(f, values[v] - was, t->widening, t->bias);

		if (now < *best - LEAST_GAIN) {
			*best = now;
			kept = values[v];
		}
	}
	t->weight[term] = kept;
	for (size_t i = 0; i < (size_t)f->n * f->n; i++)
		f->distance[i] += (kept - was) * f->term[i];
	return kept < was || kept > was;
}

static bool improve_number(struct fit *f, double *number, const double *value, uint32_t n, double *best)
{
	double was = *number, kept = was;

	for (uint32_t v = 0; v < n; v++) {
		*number = value[v];
		double now = loss(f, 0, f->t->widening, f->t->bias);

		if (now < *best - LEAST_GAIN) {
			*best = now;
			kept = value[v];
		}
	}
	*number = kept;
	return kept < was || kept > was;
}

/* Each row's error in units of its spread, its publisher left out. */
static void score_rows(struct mq_trust *t)
{
	for (uint32_t i = 0; i < t->n; i++) {
		struct mq_trust_row *r = &t->row[i];
		struct mq_trust_spread s;

		mq_trust_spread_of(t, &r->place, &(struct mq_trust_without){ r->table, r->publisher }, &s);
		r->score = isfinite(s.spread) ? (r->error - s.middle) / s.spread : 0;
	}
	mq_trust_sort(t);
}

void mq_trust_fit(struct mq_trust *t)
{
	static const double widenings[] = { 0, .05, .1, .15, .2, .3, .4 }, biases[] = { 0, .25, .5, .75, 1 };
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct fit f = { .t = t };

	for (int i = 0; i < MQ_N_TRUST_TERMS; i++)
		t->weight[i] = .5f;
	t->widening = .1;
	t->bias = .25;
	choose(&f, &scratch);
	f.distance = mq_arena_array(&scratch, (size_t)f.n * f.n, float);
	f.term = mq_arena_array(&scratch, (size_t)f.n * f.n, float);
	f.kernel = mq_arena_array(&scratch, f.n, double);
	start(&f);
	double best = loss(&f, 0, t->widening, t->bias);
	for (int round = 0; round < ROUNDS; round++) {
		bool better = false;

		for (int i = 0; i < MQ_N_TRUST_TERMS; i++)
			better |= improve_term(&f, i, &best);
		better |= improve_number(&f, &t->widening, widenings, sizeof(widenings) / sizeof(*widenings), &best);
		better |= improve_number(&f, &t->bias, biases, sizeof(biases) / sizeof(*biases), &best);
		if (!better)
			break;
	}
	score_rows(t);
}

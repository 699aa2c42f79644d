/* pairs.c - see trust.h: how likely one plan is faster, from pairs of published runs that differ in plan alone.
 *
 * Errors that two plans of one question have in common cancel when these are compared. P is the weighted share of
 * measured pairs (of one table, model, machine, batch and software) whose order was predicted right, with a prior of
 * one half. A pair weighs more the closer its predicted ratio, its plans' distance and its question are to those asked
 * about; a publisher of n pairs weighs as sqrt(n). SPDX-License-Identifier: Apache-2.0 */
#include "trust/trust.h"

#include <math.h>

static const double SAME_STEP = 1e-4; /* predictions with a smaller |log ratio| count as one plan */
static const double BY_RATIO = 1, BY_PLAN = .25, BY_DISTANCE = .1, PRIOR = .2;

/* Distance of two plans: half the octaves between degrees, the steps of recomputation, half the steps of sharding. */
static double plan_distance(const struct mq_trust_point *a, const struct mq_trust_point *b)
{
	static const int degrees[] = { MQ_TRUST_tp, MQ_TRUST_pp, MQ_TRUST_cp, MQ_TRUST_ep, MQ_TRUST_dp };
	double sum = fabs(a->number[MQ_TRUST_recompute] - b->number[MQ_TRUST_recompute]) +
		     fabs(a->number[MQ_TRUST_sync] - b->number[MQ_TRUST_sync]) / 2;

	for (size_t i = 0; i < sizeof(degrees) / sizeof(*degrees); i++)
		sum += fabs(log2(a->number[degrees[i]] / b->number[degrees[i]])) / 2;
	return sum;
}

static double log_ratio(const struct mq_trust_point *a, const struct mq_trust_point *b)
{
	return fabs(log(a->number[MQ_TRUST_step_s] / b->number[MQ_TRUST_step_s]));
}

static void find_pairs(struct mq_trust *t)
{
	double *group = mq_arena_array(t->arena, t->n, double);
	uint32_t room = 0;

	for (uint32_t i = 0; i < t->n; i++)
		group[i] = t->row[i].group;
	const uint32_t *row = mq_arena_order(t->arena, group, t->n);
	t->pairs_of = mq_arena_array(t->arena, t->n_words, uint32_t);
	for (uint32_t a = 0; a < t->n; a++)
		for (uint32_t b = a + 1; b < t->n && t->row[row[b]].group == t->row[row[a]].group; b++) {
			const struct mq_trust_row *i = &t->row[row[a]], *k = &t->row[row[b]];
			struct mq_trust_pair pair = { .a = row[a],
						      .b = row[b],
						      .ratio = log_ratio(&i->point, &k->point),
						      .plan = plan_distance(&i->point, &k->point) };

			if (pair.ratio < SAME_STEP)
				continue;
			pair.right = (i->measured_s < k->measured_s) ==
				     (i->point.number[MQ_TRUST_step_s] < k->point.number[MQ_TRUST_step_s]);
			MQ_PUSH(t->arena, t->pair, t->n_pairs, room, pair);
			t->pairs_of[i->source]++;
		}
	t->paired = true;
}

const struct mq_trust_pair *mq_trust_pairs(struct mq_trust *t, uint32_t *n)
{
	if (!t->paired)
		find_pairs(t);
	*n = t->n_pairs;
	return t->pair;
}

double mq_trust_faster(struct mq_trust *t, const struct mq_trust_point *a, const struct mq_trust_point *b,
		       const struct mq_trust_without *without)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	double ratio = fmax(log_ratio(a, b), SAME_STEP), plan = plan_distance(a, b), all = PRIOR, right = PRIOR / 2;
	struct mq_trust_place place;
	uint32_t n;
	const struct mq_trust_pair *pair = mq_trust_pairs(t, &n);
	double *near = mq_arena_array(&scratch, t->n, double);
	double a_s = a->number[MQ_TRUST_step_s], b_s = b->number[MQ_TRUST_step_s];

	mq_trust_place_of(t, a_s < b_s ? a : b, &place); /* at the faster plan, so that P(a, b) = 1 - P(b, a) */
	for (uint32_t i = 0; i < t->n; i++)
		if (mq_trust_asked(&t->row[i], without))
			near[i] = exp(-BY_DISTANCE * mq_trust_distance(&place, &t->row[i].place)) /
				  sqrt(fmax(t->pairs_of[t->row[i].source], 1));
	for (uint32_t i = 0; i < n; i++)
		if (near[pair[i].a] > 0) {
			double weight = near[pair[i].a] * exp(-BY_RATIO * fabs(log(ratio / pair[i].ratio)) -
							      BY_PLAN * fabs(plan - pair[i].plan));

			all += weight;
			right += pair[i].right ? weight : 0;
		}
	double p = fmax(right / all, .5); /* a predicted order is at least as good as a guess */

	return log_ratio(a, b) < SAME_STEP ? .5 : a_s < b_s ? p : 1 - p;
}

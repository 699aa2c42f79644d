/* list.c - the hybrid planner's list of candidates: see hybrid.h. SPDX-License-Identifier: Apache-2.0 */
#include "hybrid/hybrid.h"
#include "lib/plans.h"

#include <math.h>
#include <stdlib.h>

/* A family: candidates with the same degrees, except how replicas divide samples and sequences, which the estimate
 * hardly tells apart. */
static uint64_t family_of(const struct mq_hybrid *s, const struct mq_hybrid_item *item)
{
	const struct shape_point *p = &item->point;
	/* without layers the estimate is weak on stages, so each number of micro-batches is a family; a V has both ends
	 * on the same devices */
	uint32_t shape[] = { p->set,
			     p->tp,
			     p->pp,
			     p->ep,
			     p->etp,
			     p->balanced && s->space.set[p->set].mixed,
			     item->kind,
			     item->n_parts,
			     s->cost.n_layers ? 0 : p->micro_batches,
			     mq_pipeline_is_v((enum mq_pipeline)p->pipeline) };

	if (item->kind == MQ_HYBRID_READY)
		return mq_map_mix(s->seen, item->kind);
	if (item->kind == MQ_HYBRID_TYPED)
		return mq_hash(MQ_HASH_INIT, item->part, item->n_parts * sizeof(*item->part));
	return mq_hash(MQ_HASH_INIT, shape, sizeof(shape));
}

double mq_hybrid_worst(struct mq_hybrid *s, struct mq_hybrid_item *item)
{
	uint32_t before = s->families.n;

	item->family = mq_map_add(&s->families, family_of(s, item));
	if (s->families.n > before)
		MQ_PUSH(s->space.problem->arena, s->of_family, before, s->family_room, (struct mq_hybrid_family){ 0 });
	struct mq_hybrid_family *f = &s->of_family[item->family];

	if (s->n < s->keep || (f->kept < MQ_HYBRID_OF_FAMILY && f->asked++ < MQ_HYBRID_ASKED))
		return INFINITY;
	return s->worst_s;
}

/* The last item that may be evicted. */
static uint32_t evictable(const struct mq_hybrid *s)
{
	for (uint32_t i = s->n; i-- > 0;)
		if (s->of_family[s->list[i].family].kept > MQ_HYBRID_OF_FAMILY)
			return i;
	return s->n - 1;
}

void mq_hybrid_keep(struct mq_hybrid *s, const struct mq_hybrid_item *item)
{
	uint32_t at = s->n;

	if (s->n == s->keep) {
		uint32_t gone = evictable(s);

		s->of_family[s->list[gone].family].kept--;
		memmove(&s->list[gone], &s->list[gone + 1], (s->n - gone - 1) * sizeof(*s->list));
		at--;
	} else {
		s->n++;
	}
	for (; at > 0 && item->rank_s < s->list[at - 1].rank_s; at--)
		s->list[at] = s->list[at - 1];
	s->list[at] = *item;
	s->list[at].order = (uint32_t)s->seen;
	s->of_family[item->family].kept++;
	s->worst_s = s->list[evictable(s)].rank_s;
}

bool mq_hybrid_shapes_only(const struct mq_limits *l)
{
	return l->fix_dp || l->fix_pp || l->fix_mbs || l->fix_cp > 1 || l->fix_ulysses > 1 || l->fix_ep > 1 ||
	       l->fix_etp > 1 || l->fix_virtual > 1 || l->max_dp || l->max_pp;
}

/* ---- screening ----------------------------------------------------------------------------- */

MQ_COMPARE(faster, struct mq_hybrid_item, MQ_ORDER(a->step_s, b->step_s) ?: MQ_ORDER(a->order, b->order))

/* Relative penalty per plan of the family ranked before (chosen). */
static const double like_each = 0.02;

/* Screening in two halves: first one item per family, best estimates first, so that no family with flattering estimates
 * crowds out the others; then more of the families that screened best. */
struct screening {
	struct mq_hybrid *s;
	const struct mq_problem *problem;
	struct mq_arena arena;
	uint32_t *tries; /* [families] */
	double *best;    /* [families] best screened time */
	uint8_t *known;  /* [n] 1 = fits, 2 = does not, 0 = not screened */
	uint32_t left, fit, unfit;
};

static void screen_item(struct screening *w, uint32_t i)
{
	struct mq_arena_mark mark = mq_arena_mark(&w->arena);
	struct mq_hybrid_item *item = &w->s->list[i];
	const struct mq_costs *costs = w->problem->costs;
	struct mq_result r = { .verdict = MQ_VERDICT_OOM };
	struct mq_plan plan;

	w->known[i] = 2;
	w->tries[item->family]++;
	if (w->s->make(w->s, item, &w->arena, &plan))
		costs->screen(costs->screen_context, &plan, &r);
	if (r.verdict == MQ_VERDICT_OK ||
	    r.verdict == MQ_VERDICT_REFUSED) { /* too dear to screen: judging it says so */
		w->known[i] = 1;
		w->fit++;
		w->left--;
		item->step_s = r.verdict == MQ_VERDICT_OK ? r.step_time_s : item->step_s;
		w->best[item->family] = fmin(w->best[item->family], item->step_s);
	}
	/* plans that do not fit give no time: eight of them count as one screen */
	if (w->known[i] == 2 && ++w->unfit % 8 == 0)
		w->left--;
	if (!mq_hybrid_time(w->s, w->problem, "screens"))
		w->left = 0;
	mq_arena_rewind(&w->arena, mark);
}

static void screen_families(struct screening *w, uint32_t n)
{
	const struct mq_hybrid_item *list = w->s->list;
	uint32_t half = w->left / 2;

	/* up to three of a family until one fits, and more if nothing fits */
	for (uint32_t most = 3; w->left > half && (most == 3 || most <= n) && !w->fit; most *= 4)
		for (uint32_t i = 0; i < n && w->left > half; i++)
			if (!w->known[i] && isinf(w->best[list[i].family]) && w->tries[list[i].family] < most)
				screen_item(w, i);
	while (w->left) {
		uint32_t pick = MQ_NONE;
		double least = INFINITY;

		for (uint32_t i = 0; i < n; i++) {
			/* each screen of a family is a small penalty */
			double worth = w->best[list[i].family] * (1 + 0.01 * w->tries[list[i].family]);

			if (!w->known[i] && worth < least)
				least = worth, pick = i;
		}
		if (pick == MQ_NONE)
			break;
		screen_item(w, pick);
	}
}

/* Number of screens: per plan that the list will be asked for, four where the estimate ranks them, sixteen without
 * layers, where it only knows single ops. Screens take time proportional to the devices: above 64 of them the total
 * time stays that of 64; under a time limit, a quarter. */
static uint32_t count_screens(const struct mq_hybrid *s, const struct mq_problem *problem, uint32_t devices)
{
	double asked = MQ_HYBRID_HEAD, rest = (double)problem->evals - MQ_HYBRID_HEAD;

	/* without moves it is one engine of several, asked about half as often */
	if (rest > 0 && !isfinite(problem->seconds)) /* under a time limit the number is unknown: the head only */
		asked += rest / (s->moves ? 3 : 6);
	double n = fmin(asked, s->keep) * (s->cost.n_layers ? 4 : 16);

	if (devices > 64)
		n = n * 64 / devices + 4;
	return (uint32_t)(isfinite(problem->seconds) ? n / 4 : n);
}

/* Orders the list for proposal: next the least time, with a penalty for each plan of its family before it. */
static void diversify(struct mq_hybrid_item *item, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t best = i;

		for (uint32_t k = i + 1; k < n; k++)
			if (item[k].step_s * (1 + like_each * item[k].like) <
			    item[best].step_s * (1 + like_each * item[best].like))
				best = k;
		const struct mq_hybrid_item next = item[best];

		memmove(&item[i + 1], &item[i], (best - i) * sizeof(*item));
		item[i] = next;
		for (uint32_t k = i + 1; k < n; k++)
			item[k].like += item[k].family == next.family;
	}
}

void mq_hybrid_halve(struct mq_hybrid *s, const struct mq_problem *problem)
{
	double left_s = problem->left_s ? problem->left_s(problem->tick_context) : (double)INFINITY;

	s->until_s = isfinite(left_s) ? left_s / 2 : -(double)INFINITY;
}

bool mq_hybrid_time(const struct mq_hybrid *s, const struct mq_problem *problem, const char *what)
{
	return mq_tick(problem, (double)NAN, what) &&
	       (isinf(s->until_s) || problem->left_s(problem->tick_context) > s->until_s);
}

void mq_hybrid_screen(struct mq_hybrid *s, const struct mq_problem *problem)
{
	uint32_t n = s->screens, devices = s->space.set[0].n, kept = 0, fit = 0;
	struct screening w = { .s = s, .problem = problem };
	struct mq_hybrid_item *sorted;

	if (!problem->costs->screen)
		return;
	if (!n)
		n = count_screens(s, problem, devices);
	mq_hybrid_halve(s, problem);
	w.left = s->n < n ? s->n : n;
	w.tries = mq_arena_array(&w.arena, s->families.n, uint32_t);
	w.best = mq_arena_array(&w.arena, s->families.n, double);
	w.known = mq_arena_array(&w.arena, s->n, uint8_t);
	sorted = mq_arena_array(&w.arena, s->n, struct mq_hybrid_item);
	for (uint32_t i = 0; i < s->families.n; i++)
		w.best[i] = INFINITY;
	screen_families(&w, s->n);
	s->none_fits = !w.fit;
	for (uint32_t i = 0; i < s->n; i++)
		if (w.known[i] == 1)
			sorted[fit++] = s->list[i];
	qsort(sorted, fit, sizeof(*sorted), faster);
	/* equal times mean equivalent plans: keeps the first */
	for (uint32_t i = 0; i < fit; i++)
		if (!i || sorted[i].step_s != sorted[kept - 1].step_s)
			sorted[kept++] = sorted[i];
	diversify(sorted, kept);
	s->n_screened = kept;
	for (uint32_t i = 0; i < s->n; i++)
		if (!w.known[i])
			sorted[kept++] = s->list[i];
	memcpy(s->list, sorted, kept * sizeof(*sorted));
	s->n = kept;
	mq_arena_fini(&w.arena);
}

/* ---- contention ----------------------------------------------------------------------------- */

/* Index of the devices that an item uses, which share the contention on their links. */
static uint32_t device_set_of(struct mq_hybrid *s, const struct mq_hybrid_item *item)
{
	uint32_t key[1 + MQ_HYBRID_MAX_TYPES] = { item->kind == MQ_HYBRID_TYPED ? 0 : 1 + item->point.set };
	uint32_t before = s->uses.n;

	for (uint32_t i = 0; i < item->n_parts; i++)
		key[1 + item->part[i].type] += item->part[i].pp * item->part[i].dp * item->part[i].tp;
	uint32_t at = mq_map_add(&s->uses, mq_hash(MQ_HASH_INIT, key, sizeof(key)));

	struct mq_hybrid_use none = { 1, 1 };

	if (at == before)
		MQ_PUSH(s->space.problem->arena, s->of_use, before, s->use_room, none);
	return at;
}

void mq_hybrid_choose(struct mq_hybrid *s)
{
	uint32_t best = s->next;
	double least = INFINITY;

	for (uint32_t i = s->next; i < s->n_screened; i++) {
		uint32_t at = device_set_of(s, &s->list[i]);
		const struct mq_hybrid_use *use = &s->of_use[at];
		double value = s->list[i].step_s * (1 + like_each * s->list[i].like) * use->sum / use->n;

		if (value < least)
			least = value, best = i;
	}
	const struct mq_hybrid_item item = s->list[best];

	s->asked[s->turn % 64] = best < s->n_screened ? device_set_of(s, &item) : MQ_NONE;
	memmove(&s->list[s->next + 1], &s->list[s->next], (best - s->next) * sizeof(item));
	s->list[s->next] = item;
}

void mq_hybrid_contends(struct mq_hybrid *s, uint64_t turn, double ratio)
{
	uint32_t use = s->asked[turn % 64];

	if (use == MQ_NONE)
		return;
	s->of_use[use].n++;
	s->of_use[use].sum += ratio;
}

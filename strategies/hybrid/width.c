/* width.c - stages of unequal width on devices of one type: see hybrid.h.
 *
 * Layers are equal, so in a time T a stage of w replicas has room for the largest number of layers l with M f(w, l) +
 * sync(w, l) <= T. The most layers on all devices is a knapsack over the widths, except for the first and last stage,
 * which also run the ops outside the layers; bisection finds the least T with room for all layers. Bubbles, transfers
 * and memory are left to the estimate, so each limit on the width is tried: few wide stages or many narrow ones.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "hybrid/hybrid.h"

enum { MOST_WIDTH = 64, ROUNDS = 24 };
enum role { FIRST, MIDDLE, LAST, N_ROLES };

struct knapsack {
	uint32_t n, widest, layers;
	double *time_s;        /* [N_ROLES][n + 1][layers + 1] by replicas and layers */
	uint32_t *room;        /* [N_ROLES][n + 1] layers within time T */
	uint32_t *best, *take; /* [n + 1] by replicas: layers of the middle stages, and the width of the last of them */
	uint32_t first, last;  /* widths of the first and last stage */
};

static double *times(const struct knapsack *k, enum role role, uint32_t width)
{
	return k->time_s + ((size_t)role * (k->n + 1) + width) * (k->layers + 1);
}

/* The most layers that fit in time T. */
static uint32_t fill(struct knapsack *k, double most_s)
{
	uint32_t found = 0;

	for (int role = 0; role < N_ROLES; role++)
		for (uint32_t w = 1; w <= k->n; w++) {
			uint32_t *room = &k->room[(uint32_t)role * (k->n + 1) + w];

			for (*room = 0; *room < k->layers && times(k, role, w)[*room + 1] <= most_s; ++*room)
				;
		}
	k->best[0] = 0;
	for (uint32_t x = 1; x <= k->n; x++) {
		k->best[x] = k->best[x - 1];
		k->take[x] = 0;
		for (uint32_t w = 1; w <= x && w <= k->widest; w++) {
			uint32_t room = k->room[MIDDLE * (k->n + 1) + w];

			if (room && k->best[x - w] + room > k->best[x]) {
				k->best[x] = k->best[x - w] + room;
				k->take[x] = w;
			}
		}
	}
	for (uint32_t a = 1; a <= k->widest && a < k->n; a++)
		for (uint32_t b = 1; b <= k->widest && a + b <= k->n; b++) {
			uint32_t first = k->room[FIRST * (k->n + 1) + a], last = k->room[LAST * (k->n + 1) + b];
			uint32_t all = first + last + k->best[k->n - a - b];

			if (first && last && all > found) {
				found = all;
				k->first = a;
				k->last = b;
			}
		}
	return found;
}

static bool solve(struct knapsack *k)
{
	double low = 0, high = 0;

	for (int role = 0; role < N_ROLES; role++)
		high = fmax(high, times(k, role, 1)[k->layers]);
	if (!isfinite(high) || fill(k, high) < k->layers)
		return false;
	for (int round = 0; round < ROUNDS; round++) {
		double middle = (low + high) / 2;

		*(fill(k, middle) >= k->layers ? &high : &low) = middle;
	}
	return fill(k, high) >= k->layers;
}

static bool add_part(struct mq_hybrid_item *item, uint32_t tp, uint32_t width, uint32_t *first)
{
	struct mq_hybrid_part *last = item->n_parts ? &item->part[item->n_parts - 1] : NULL;

	if (last && last->dp == width) {
		last->pp++;
	} else if (item->n_parts < MQ_HYBRID_MAX_PARTS) {
		item->part[item->n_parts++] = (struct mq_hybrid_part){ 0, tp, width, 1, *first };
	} else {
		return false;
	}
	*first += width * tp;
	return true;
}

/* The stages of the solution, the widest middle stages first: they hold more micro-batches in flight. */
static bool unpack(const struct knapsack *k, uint32_t tp, struct mq_hybrid_item *item)
{
	uint32_t count[MOST_WIDTH + 1] = { 0 }, at = 0;

	item->n_parts = 0;
	for (uint32_t x = k->n - k->first - k->last; x;) {
		uint32_t w = k->take[x];

		count[w] += w > 0;
		x -= w ? w : 1;
	}
	if (!add_part(item, tp, k->first, &at))
		return false;
	for (uint32_t w = k->n; w > 0; w--)
		while (count[w]--)
			if (!add_part(item, tp, w, &at))
				return false;
	return add_part(item, tp, k->last, &at);
}

bool mq_hybrid_widths(struct mq_hybrid *s, uint32_t tp, bool (*visit)(struct mq_hybrid *s, struct mq_hybrid_item *item),
		      struct mq_hybrid_item *item)
{
	struct mq_arena_mark mark = mq_arena_mark(&s->cost.scratch);
	struct knapsack k = { .n = s->cost.type[0].n / tp, .layers = s->cost.n_layers };
	bool go_on = true;

	if (k.n < 3 || k.n > MOST_WIDTH)
		return true;
	k.time_s = mq_arena_array(&s->cost.scratch, (size_t)N_ROLES * (k.n + 1) * (k.layers + 1), double);
	k.room = mq_arena_array(&s->cost.scratch, (size_t)N_ROLES * (k.n + 1), uint32_t);
	k.best = mq_arena_array(&s->cost.scratch, k.n + 1, uint32_t);
	k.take = mq_arena_array(&s->cost.scratch, k.n + 1, uint32_t);
	for (int role = 0; role < N_ROLES; role++)
		for (uint32_t w = 1; w <= k.n; w++)
			mq_hybrid_stage_times(&s->cost, &s->now, role == FIRST, role == LAST, w, tp, k.layers,
					      times(&k, role, w));
	for (k.widest = 1; k.widest < 2 * k.n && go_on; k.widest *= 2)
		if (solve(&k) && unpack(&k, tp, item))
			go_on = visit(s, item);
	mq_arena_rewind(&s->cost.scratch, mark);
	return go_on;
}

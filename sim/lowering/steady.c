/* steady.c - extrapolates steps with many micro-batches from few: in the steady state of the pipeline each period, of
 * as many micro-batches as ranks, repeats the previous one.
 *
 * This part checks, slot by slot, that the omitted passes are the same. That they also take the same time follows from
 * simulating the others: if each task of three successive periods is later than in the period before by one and the
 * same time, so are all following periods, since tasks depend on tasks of their own period or the previous one
 * (Baccelli, Cohen, Olsder, Quadrat, "Synchronization and Linearity", 1992), and share links and devices with those.
 * Two periods would suffice if those of all ranks ended together. A fourth period follows: a message at its end may
 * wait for a receiver whose last period is over, as it does without omission. SPDX-License-Identifier: Apache-2.0 */
#include "lowering/program.h"

enum { COMPARED = 3, PERIODS }; /* periods that are compared; with the one after them */

/* Is it the same pass, `later` micro-batches later? */
static bool same(const struct mq_order *a, uint32_t i, const struct mq_order *b, uint32_t k, uint32_t later)
{
	const struct mq_slot *x = &a->slot[i], *y = &b->slot[k];

	return x->pass == y->pass && x->turns == y->turns && x->chunk == y->chunk &&
	       x->micro_batch + later == y->micro_batch && a->t[i] == b->t[k];
}

/* The slot after which periods of `slots` passes are omitted; 0: the passes do not repeat. */
static uint32_t cut_of(const struct mq_order *all, const struct mq_order *few, uint32_t slots, uint32_t each,
		       uint32_t left_out)
{
	uint32_t gap = all->n - few->n, cut = 0;

	while (cut < few->n && same(few, cut, all, cut, 0))
		cut++;
	if (cut < PERIODS * slots)
		return 0;
	for (uint32_t i = cut; i < few->n; i++)
		if (!same(few, i, all, i + gap, left_out))
			return 0;
	for (uint32_t i = cut - PERIODS * slots; i + slots < cut + gap; i++)
		if (!same(all, i, all, i + slots, each))
			return 0;
	return cut;
}

static uint32_t tasks_of(const struct mq_order *order, uint32_t from, uint32_t to)
{
	uint32_t n = 0;

	for (uint32_t i = from; i < to; i++)
		n += order->t[i]->n_tasks;
	return n;
}

const struct mq_steady *mq_low_steady(struct mq_low *low, uint32_t filling, struct mq_order *order)
{
	uint32_t all = low->plan->micro_batches, n = low->num.n_ranks, first = 0;
	uint32_t few = all % n + (PERIODS + filling) * n, periods = all > few ? (all - few) / n : 0;
	struct mq_order *fewer = mq_arena_array(&low->scratch, n, struct mq_order);
	struct mq_steady *steady = mq_arena_array(low->arena, 1, struct mq_steady);
	char message[256];

	/* would save less than half, or the caller reads all tasks */
	if (periods < PERIODS + filling || order[0].tasks * n <= low->rq.first_tasks * low->prog.schedule->n_devices)
		return NULL;
	*steady = (struct mq_steady){ periods, n, mq_arena_array(low->arena, n, struct mq_stretch) };
	for (uint32_t r = 0; r < n; r++) {
		uint32_t slots, cut;

		if (!mq_low_order(low, r, few, &fewer[r], message))
			return NULL;
		slots = (order[r].n - fewer[r].n) / periods;
		cut = slots * periods == order[r].n - fewer[r].n ? cut_of(&order[r], &fewer[r], slots, n, all - few) :
								   0;
		if (!cut)
			return NULL;
		steady->period[r].first = first + tasks_of(&fewer[r], 0, cut - 2 * slots);
		steady->period[r].n = tasks_of(&fewer[r], cut - slots, cut);
		first += (uint32_t)fewer[r].tasks;
	}
	memcpy(order, fewer, n * sizeof(*order));
	return steady;
}

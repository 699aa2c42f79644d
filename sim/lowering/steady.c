/* steady.c - steps of many micro-batches by those of a few: once the pipeline is full, each period of as many
 * micro-batches as it has ranks is the one before it again.
 *
 * Whether the passes that are left out are the same is found here, slot by slot. Whether they also take the same time is
 * known from running the others: where each task of three periods in a row comes later than that of the period before
 * it by one and the same time, so do all periods that follow, since tasks wait for others of their own period or the
 * one before (Baccelli, Cohen, Olsder, Quadrat, "Synchronization and Linearity", 1992), and meet on links and devices
 * those that ran then. Two periods would do if those of all ranks ended together. One more period follows the three: a
 * message at its end may wait for a receiver whose own last period is over, as it does where none is left out.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lowering/program.h"

enum { COMPARED = 3, PERIODS }; /* with the one behind them */

/* The same pass, `later` micro-batches later? */
static bool same(const struct mq_order *a, uint32_t i, const struct mq_order *b, uint32_t k, uint32_t later)
{
	const struct mq_slot *x = &a->slot[i], *y = &b->slot[k];

	return x->pass == y->pass && x->turns == y->turns && x->chunk == y->chunk &&
	       x->micro_batch + later == y->micro_batch && a->t[i] == b->t[k];
}

/* The slot behind which passes are left out, each period `slots` of them; 0: they are others than those before it. */
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

	/* less than half would be saved */
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

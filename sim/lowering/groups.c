/* groups.c - the positions of a plan's configs with tasks (seats), and the groups in which they call collectives. See
 * program.h.
 *
 * In a folded plan one device represents thousands; lowering loops over positions with tasks, not over all.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "lowering/program.h"

static struct mq_seats *seats_of(struct mq_low *low, const struct mq_config *c)
{
	struct mq_seats *seats = mq_arena_array(&low->scratch, 1, struct mq_seats);

	seats->at = mq_arena_none(&low->scratch, c->n_devices);
	for (uint32_t p = 0; p < c->n_devices; p++)
		if (low->prog.index_of[c->device[p]] != MQ_NONE)
			seats->at[p] = seats->n++;
	seats->position = mq_arena_array(&low->scratch, seats->n, uint32_t);
	seats->device = mq_arena_array(&low->scratch, seats->n, uint32_t);
	for (uint32_t p = 0; p < c->n_devices; p++)
		if (seats->at[p] != MQ_NONE) {
			seats->position[seats->at[p]] = p;
			seats->device[seats->at[p]] = low->prog.index_of[c->device[p]];
		}
	return seats;
}

void mq_low_take_seats(struct mq_low *low)
{
	uint32_t n = low->plan->n_configs;
	struct mq_seats **of_set = mq_arena_array(&low->scratch, n, struct mq_seats *);

	low->prog.seats = mq_arena_array(&low->scratch, n, struct mq_seats *);
	for (uint32_t i = 0; i < n; i++) {
		struct mq_seats **mine = &of_set[low->num.devset_of[i]];

		if (!*mine)
			*mine = seats_of(low, &low->plan->config[i]);
		low->prog.seats[i] = *mine;
	}
	low->prog.group_index = mq_index_new(&low->scratch);
	for (uint32_t t = 0; t < low->moves.n; t++)
		low->moves.transfer[t].arrival = NULL;
}

/* ---- groups ------------------------------------------------------------------------------------------- */

static uint32_t first_of(const struct mq_group_request *rq, uint32_t p)
{
	return rq->mask ? mq_mesh_first(rq->config, rq->mask, p) : p - p / rq->stride % rq->size * rq->stride;
}

/* Positions of all members of the group whose first is `first`. Returns their number. */
static uint32_t whole_group(const struct mq_group_request *rq, uint32_t first, uint32_t *position)
{
	if (rq->mask)
		return mq_mesh_group(rq->config, rq->mask, first, position);
	for (uint32_t i = 0; i < rq->size; i++)
		position[i] = first + i * rq->stride;
	return rq->size;
}

MQ_COMPARE(lower, uint32_t, MQ_ORDER(*a, *b))

/* The first members of all groups with a seat. Returns their number. */
static uint32_t list_firsts(struct mq_low *low, const struct mq_group_request *rq, uint32_t *first)
{
	const struct mq_seats *seats = mq_low_seats(low, rq->config);
	bool *known = mq_arena_array(&low->scratch, rq->config->n_devices, bool);
	uint32_t n = 0;

	for (uint32_t s = 0; s < seats->n; s++) {
		uint32_t p = first_of(rq, seats->position[s]);

		if (!known[p])
			first[n++] = p;
		known[p] = true;
	}
	if (rq->by_first)
		qsort(first, n, sizeof(*first), lower);
	return n;
}

/* Uneven batch shares: most samples of a member / the mean. */
static double fullest(const struct mq_low *low, const struct mq_config *c, const uint32_t *position, uint32_t n)
{
	double parts = c->split[MQ_DIM_BATCH], mean = low->train->batch / low->plan->micro_batches, most = 0;

	for (uint32_t i = 0; i < n && parts > 1; i++)
		most = fmax(most, mq_low_samples(low, c, position[i]) * parts / mean);
	return parts > 1 ? most : 1;
}

/* Adds the group of these members, if any has a seat. */
static void add_group(struct mq_low *low, const struct mq_group_request *rq, const uint32_t *position,
		      struct mq_groups *groups)
{
	const struct mq_seats *seats = mq_low_seats(low, rq->config);
	uint32_t *member = mq_arena_array(&low->scratch, rq->size, uint32_t);
	struct mq_group g = { .seat = mq_arena_array(&low->scratch, rq->size, uint32_t) };

	for (uint32_t i = 0; i < rq->size; i++) {
		member[i] = rq->config->device[position[i]];
		if (seats->at[position[i]] != MQ_NONE)
			g.seat[g.n_seats++] = seats->at[position[i]];
	}
	if (!g.n_seats)
		return;
	if (!rq->mask)
		g.fullest = fullest(low, rq->config, position, rq->size);
	g.comm = mq_comm_of(low, member, rq->size, rq->purpose, rq->apart);
	MQ_PUSH(&low->scratch, groups->group, groups->n, groups->room, g);
}

static void list_groups(struct mq_low *low, const struct mq_group_request *rq, struct mq_groups *groups)
{
	uint32_t room = rq->mask ? mq_mesh_group_size(rq->config, rq->mask) : rq->size;
	uint32_t *first = mq_arena_array(&low->scratch, mq_low_seats(low, rq->config)->n, uint32_t);
	uint32_t *whole = mq_arena_array(&low->scratch, room, uint32_t);
	uint32_t *part = mq_arena_array(&low->scratch, rq->size, uint32_t);
	uint32_t n_firsts = list_firsts(low, rq, first), step = rq->mask ? rq->stride : 1;

	for (uint32_t f = 0; f < n_firsts; f++) {
		uint32_t n = whole_group(rq, first[f], whole);

		for (uint32_t k = 0; k < n / rq->size; k++) {
			for (uint32_t i = 0; i < rq->size; i++)
				part[i] = whole[(step == 1 ? k * rq->size : k) + i * step];
			add_group(low, rq, part, groups);
		}
	}
}

const struct mq_groups *mq_groups_of(struct mq_low *low, const struct mq_group_request *rq)
{
	uint32_t config = (uint32_t)(rq->config - low->plan->config);
	uint32_t key[] = { config, rq->mask, rq->stride, rq->size, rq->by_first, rq->apart };
	bool found;
	struct mq_groups *groups = mq_index_value(low->prog.group_index, key, sizeof(key), sizeof(*groups), &found);

	if (!found)
		list_groups(low, rq, groups);
	return groups;
}

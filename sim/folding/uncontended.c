/* uncontended.c - finds links that can never fill up; see replica_flows.h.
 *
 * Flows on a link cross other links too. If the narrowest ones before it, or those after it, carry together no more
 * than the link can, the link never fills. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/map.h"
#include "folding/replica_flows.h"

/* All flows from one device to another, of any communication. */
struct way {
	const struct mq_route *route;
	double cap_Bps;
};

struct uncontended {
	struct mq_replica_flows *rf;
	struct mq_arena *arena;
	struct mq_map pairs;
	uint32_t n_ways, room;
	struct way *way;
	uint32_t *first, *at; /* CSR: ways of each link */
	double *through_Bps;  /* [n_links] rates through each bottleneck of the current link */
	uint32_t *bottleneck; /* [n_links] bottlenecks of the current link */
	bool *needed;         /* [n_links] a bottleneck that keeps another link from filling */
};

static enum mq_status add_ways(struct uncontended *s, const struct mq_task *t, struct mq_err *err)
{
	uint32_t count = mq_replica_flows_count(s->rf, t);

	for (uint32_t i = 0; i < count; i++) {
		struct mq_replica_flow replica;

		MQ_TRY(mq_replica_flows_get(s->rf, t, i, &replica, err));
		for (uint32_t f = 0; f < replica.n_flows; f++) {
			const struct mq_flow *flow = &replica.flow[f];
			uint32_t index = mq_map_add(&s->pairs,
						    (uint64_t)replica.rank[flow->src] << 32 | replica.rank[flow->dst]);

			if (index == s->n_ways) {
				struct way way = { replica.route[f], 0 };

				MQ_PUSH(s->arena, s->way, s->n_ways, s->room, way);
			}
			s->way[index].cap_Bps += flow->rate_Bps;
		}
	}
	return MQ_OK;
}

static void list_ways(struct uncontended *s)
{
	uint32_t n_links = s->rf->cluster->n_links;

	s->first = mq_arena_array(s->arena, n_links + 2, uint32_t);
	for (uint32_t w = 0; w < s->n_ways; w++)
		for (uint32_t k = 0; k < s->way[w].route->n_links; k++)
			s->first[s->way[w].route->link[k] + 2]++;
	for (uint32_t l = 0; l < n_links; l++)
		s->first[l + 2] += s->first[l + 1];
	s->at = mq_arena_array(s->arena, s->first[n_links + 1], uint32_t);
	for (uint32_t w = 0; w < s->n_ways; w++)
		for (uint32_t k = 0; k < s->way[w].route->n_links; k++)
			s->at[s->first[s->way[w].route->link[k] + 1]++] = w;
}

/* The route's narrowest link before `link` (or after it) that can fill up. */
static uint32_t narrowest(const struct uncontended *s, const struct mq_route *route, uint32_t link, bool before)
{
	uint32_t best = MQ_NONE;
	bool past = false;

	for (uint32_t k = 0; k < route->n_links; k++) {
		uint32_t l = route->link[k];
		const struct mq_link *candidate = &s->rf->cluster->link[l];

		past |= l == link;
		if (l == link || past == before || s->rf->uncontended[l] || candidate->fatpipe)
			continue;
		if (best == MQ_NONE || mq_link_usable_Bps(candidate) < mq_link_usable_Bps(&s->rf->cluster->link[best]))
			best = l;
	}
	return best;
}

/* The highest rate that the bottlenecks before (or after) a link let through; lists them in bottleneck[]. */
static double max_through(struct uncontended *s, uint32_t link, bool before, uint32_t *n)
{
	double sum = 0;

	*n = 0;
	for (uint32_t k = s->first[link]; k < s->first[link + 1]; k++) {
		const struct way *way = &s->way[s->at[k]];
		uint32_t b = narrowest(s, way->route, link, before);

		if (k > s->first[link] && s->at[k] == s->at[k - 1])
			sum = INFINITY; /* a route may cross a link twice where zones are merged */
		if (b == MQ_NONE) {
			sum += way->cap_Bps;
			continue;
		}
		if (!(s->through_Bps[b] > 0))
			s->bottleneck[(*n)++] = b;
		s->through_Bps[b] += way->cap_Bps;
	}
	for (uint32_t i = 0; i < *n; i++) {
		uint32_t b = s->bottleneck[i];

		sum += fmin(s->through_Bps[b], mq_link_usable_Bps(&s->rf->cluster->link[b]));
		s->through_Bps[b] = 0;
	}
	return sum;
}

/* Marks a link that can never fill up; a link that serves as another's bottleneck stays unmarked. */
static void try_link(struct uncontended *s, uint32_t link)
{
	double limit = mq_link_usable_Bps(&s->rf->cluster->link[link]) * (1 + 1e-12);
	uint32_t n;

	if (s->needed[link] || s->first[link] == s->first[link + 1])
		return;
	for (int before = 1; before >= 0; before--) {
		if (max_through(s, link, before, &n) > limit)
			continue;
		s->rf->uncontended[link] = true;
		for (uint32_t i = 0; i < n; i++)
			s->needed[s->bottleneck[i]] = true;
		return;
	}
}

/* Trunks are tried first: ports limit trunks, not the other way round. */
static bool is_trunk(const struct mq_link *link)
{
	return link->class == MQ_LINK_FABRIC || link->class == MQ_LINK_SOCKET || link->class == MQ_LINK_PCIE_SWITCH ||
	       link->class == MQ_LINK_OTHER;
}

enum mq_status mq_replica_flows_uncontended(struct mq_replica_flows *rf, const struct mq_task *const *task, uint32_t n,
					    struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	uint32_t n_links = rf->cluster->n_links;
	struct uncontended s = { .rf = rf, .arena = &arena };

	mq_map_init(&s.pairs, &arena, 1024);
	for (uint32_t i = 0; i < n; i++)
		MQ_TRY(add_ways(&s, task[i], err));
	list_ways(&s);
	s.through_Bps = mq_arena_array(&arena, n_links, double);
	s.bottleneck = mq_arena_array(&arena, n_links, uint32_t);
	s.needed = mq_arena_array(&arena, n_links, bool);
	for (int trunks = 1; trunks >= 0; trunks--)
		for (uint32_t l = 0; l < n_links; l++)
			if (is_trunk(&rf->cluster->link[l]) == (trunks == 1))
				try_link(&s, l);
	return MQ_OK;
}

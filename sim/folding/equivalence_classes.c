/* equivalence_classes.c - see equivalence_classes.h.
 *
 * A colour is a 64-bit hash; each round mixes in the colours of the links a flow crosses, or of the flows a link
 * carries. Flows of two communications never share a colour, so a communication's colours are a range.
 * SPDX-License-Identifier: Apache-2.0 */
#include "folding/equivalence_classes.h"

#include <math.h>

#include "costing/predict.h"
#include "maquette/map.h"

struct instance { /* a flow of a replica */
	uint64_t colour;
	double bytes, cap_Bps, way_Bps;
	uint32_t first, n; /* into crossed[] */
};

struct partition {
	struct mq_replica_flows *rf;
	struct mq_arena *arena; /* scratch */
	uint32_t n, room, n_crossed, crossed_room, n_links, link_room;
	struct instance *flow;
	uint32_t *crossed; /* dense link ids */
	uint32_t *dense;   /* [cluster's links] 1 + dense id */
	uint64_t *link_colour;
	double *link_Bps;
	uint32_t n_replicas, replica_room;
	struct replica_range {
		uint32_t communication, first, end; /* its flows */
	} * replica;
};

static uint64_t bits(double x)
{
	uint64_t b;

	memcpy(&b, &x, sizeof(b));
	return b;
}

/* ---- flows and links ---------------------------------------------------------------------------- */

static void add_crossing(struct partition *p, struct instance *flow, uint32_t link)
{
	const struct mq_link *l = &p->rf->cluster->link[link];
	double bw = mq_link_usable_Bps(l);

	flow->way_Bps = fmin(flow->way_Bps, bw);
	if (l->fatpipe) {
		flow->cap_Bps = fmin(flow->cap_Bps, bw);
		return;
	}
	if (p->rf->uncontended[link])
		return;
	if (!p->dense[link]) {
		uint32_t room = p->link_room;

		if (p->n_links == room)
			p->link_Bps =
				mq_arena_grow(p->arena, p->link_Bps, sizeof(double), p->n_links, p->n_links + 1, &room);
		p->link_Bps[p->n_links] = bw;
		MQ_PUSH(p->arena, p->link_colour, p->n_links, p->link_room, bits(bw));
		p->dense[link] = p->n_links;
	}
	uint32_t id = p->dense[link] - 1;
	MQ_PUSH(p->arena, p->crossed, p->n_crossed, p->crossed_room, id);
	flow->n++;
}

static void add_flow(struct partition *p, uint32_t communication, const struct mq_flow *f, const struct mq_route *route)
{
	struct instance flow = {
		.bytes = f->bytes, .cap_Bps = f->rate_Bps, .way_Bps = INFINITY, .first = p->n_crossed
	};

	if (!(f->bytes > 0))
		return;
	for (uint32_t k = 0; k < route->n_links; k++)
		add_crossing(p, &flow, route->link[k]);
	if (!flow.n && isinf(flow.cap_Bps))
		return; /* no link limits it, so it takes no time */
	flow.colour = mq_map_mix(mq_map_mix(communication + 1, bits(flow.bytes)),
				 mq_map_mix(bits(flow.cap_Bps), bits(flow.way_Bps)));
	MQ_PUSH(p->arena, p->flow, p->n, p->room, flow);
}

static enum mq_status add_communication(struct partition *p, uint32_t communication, const struct mq_task *t,
					struct mq_err *err)
{
	uint32_t count = mq_replica_flows_count(p->rf, t);

	for (uint32_t i = 0; i < count; i++) {
		struct replica_range range = { .communication = communication, .first = p->n };
		struct mq_replica_flow replica;

		MQ_TRY(mq_replica_flows_get(p->rf, t, i, &replica, err));
		for (uint32_t f = 0; f < replica.n_flows; f++)
			add_flow(p, communication, &replica.flow[f], replica.route[f]);
		range.end = p->n;
		MQ_PUSH(p->arena, p->replica, p->n_replicas, p->replica_room, range);
	}
	return MQ_OK;
}

/* ---- refinement --------------------------------------------------------------------------------- */

static uint32_t count_colours(const struct partition *p)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_map map;

	mq_map_init(&map, &scratch, 64);
	for (uint32_t i = 0; i < p->n; i++)
		mq_map_add(&map, p->flow[i].colour);
	uint32_t n = map.n;
	return n;
}

static void refine(struct partition *p)
{
	uint64_t *met = mq_arena_array(p->arena, p->n_links, uint64_t);
	uint32_t n = count_colours(p), before;

	do { /* as many rounds as links on the longest chain of flows that meet: hundreds for rings of many machines */
		before = n;
		memset(met, 0, p->n_links * sizeof(*met));
		for (uint32_t i = 0; i < p->n; i++)
			for (uint32_t k = 0; k < p->flow[i].n; k++)
				met[p->crossed[p->flow[i].first + k]] += p->flow[i].colour;
		for (uint32_t l = 0; l < p->n_links; l++)
			p->link_colour[l] = mq_map_mix(p->link_colour[l], met[l]);
		for (uint32_t i = 0; i < p->n; i++) {
			uint64_t sum = 0;

			for (uint32_t k = 0; k < p->flow[i].n; k++)
				sum += p->link_colour[p->crossed[p->flow[i].first + k]];
			p->flow[i].colour = mq_map_mix(p->flow[i].colour, sum);
		}
		n = count_colours(p);
	} while (n > before);
}

/* ---- the network -------------------------------------------------------------------------------- */

/* One flow per colour, numbered as they come. */
static void add_colours(struct partition *p, struct mq_arena *arena, struct mq_equivalence *q, uint32_t *colour_of)
{
	struct mq_map map;

	mq_map_init(&map, p->arena, 64);
	for (uint32_t i = 0; i < p->n; i++)
		colour_of[i] = mq_map_add(&map, p->flow[i].colour);
	q->net.n_flows = map.n;
	q->net.cap_Bps = mq_arena_array(arena, map.n, double);
	q->net.rate_Bps = mq_arena_array(arena, map.n, double);
	q->bytes = mq_arena_array(arena, map.n, double);
	q->way_Bps = mq_arena_array(arena, map.n, double);
	q->flow_first = mq_arena_array(arena, q->n_communications + 1, uint32_t);
	for (uint32_t r = 0; r < p->n_replicas; r++)
		for (uint32_t i = p->replica[r].first; i < p->replica[r].end; i++) {
			uint32_t c = colour_of[i], *end = &q->flow_first[p->replica[r].communication + 1];

			q->net.cap_Bps[c] = p->flow[i].cap_Bps;
			q->bytes[c] = p->flow[i].bytes;
			q->way_Bps[c] = p->flow[i].way_Bps;
			*end = c + 1 > *end ? c + 1 : *end;
		}
	for (uint32_t m = 0; m < q->n_communications; m++) /* also those without flows */
		if (q->flow_first[m + 1] < q->flow_first[m])
			q->flow_first[m + 1] = q->flow_first[m];
}

struct entry { /* flows of one colour on a link of one colour */
	uint32_t colour, class, times;
};

/* Counts how often flows of each colour cross the first link of each colour. */
static struct entry *count_entries(struct partition *p, const uint32_t *colour_of, const uint32_t *class,
				   const bool *first, uint32_t *n)
{
	struct entry *entry = mq_arena_array(p->arena, 1, struct entry);
	uint32_t room = 1;
	struct mq_map map;

	*n = 0;
	mq_map_init(&map, p->arena, 64);
	for (uint32_t i = 0; i < p->n; i++)
		for (uint32_t k = 0; k < p->flow[i].n; k++) {
			uint32_t l = p->crossed[p->flow[i].first + k];
			struct entry fresh = { colour_of[i], class[l], 0 };

			if (!first[l])
				continue;
			uint32_t e = mq_map_add(&map, (uint64_t)fresh.colour << 32 | fresh.class);
			if (e == *n)
				MQ_PUSH(p->arena, entry, *n, room, fresh);
			entry[e].times++;
		}
	return entry;
}

/* One link per colour. */
static void add_links(struct partition *p, struct mq_arena *arena, struct mq_equivalence *q, const uint32_t *colour_of)
{
	uint32_t *class = mq_arena_array(p->arena, p->n_links, uint32_t), n;
	bool *first = mq_arena_array(p->arena, p->n_links, bool);
	struct mq_map map;

	mq_map_init(&map, p->arena, 64);
	q->net.bw_Bps = mq_arena_array(arena, p->n_links, double);
	for (uint32_t l = 0; l < p->n_links; l++) {
		class[l] = mq_map_add(&map, p->link_colour[l]);
		first[l] = class[l] == q->net.n_links;
		q->net.bw_Bps[class[l]] = p->link_Bps[l];
		q->net.n_links = map.n;
	}
	struct entry *entry = count_entries(p, colour_of, class, first, &n);
	mq_csr_make(arena, q->net.n_flows, n, &entry->colour, NULL, sizeof(*entry), &q->net.first, &q->net.link);
	q->net.weight = mq_arena_array(arena, n, double);
	for (uint32_t k = 0; k < n; k++) {
		q->net.weight[k] = entry[q->net.link[k]].times;
		q->net.link[k] = entry[q->net.link[k]].class;
	}
}

/* Groups replicas whose flows have the same colours: they end at the same time. */
static void add_sets(struct partition *p, struct mq_arena *arena, struct mq_equivalence *q, const uint32_t *colour_of)
{
	uint32_t *stamp = mq_arena_array(p->arena, q->net.n_flows, uint32_t);
	uint32_t n_sets = 0, n_members = 0, first_room = 0, room = 0;
	struct mq_map map;

	mq_map_init(&map, p->arena, 64);
	q->set_first = mq_arena_array(arena, q->n_communications + 1, uint32_t);
	q->replica_first = mq_arena_array(arena, q->n_communications, uint32_t);
	q->set_of = mq_arena_array(arena, p->n_replicas, uint32_t);
	for (uint32_t r = p->n_replicas; r--;)
		q->replica_first[p->replica[r].communication] = r;
	for (uint32_t r = 0; r < p->n_replicas; r++) {
		const struct replica_range *replica = &p->replica[r];
		uint64_t sum = 0;

		for (uint32_t i = replica->first; i < replica->end; i++)
			sum += p->flow[i].colour;
		q->set_of[r] = mq_map_add(&map, mq_map_mix(replica->communication + 1, sum));
		if (q->set_of[r] == n_sets) {
			MQ_PUSH(arena, q->member_first, n_sets, first_room, n_members);
			for (uint32_t i = replica->first; i < replica->end; i++) {
				if (stamp[colour_of[i]] == n_sets)
					continue;
				stamp[colour_of[i]] = n_sets;
				MQ_PUSH(arena, q->member, n_members, room, colour_of[i]);
			}
		}
		q->set_first[replica->communication + 1] = n_sets;
	}
	MQ_PUSH(arena, q->member_first, n_sets, first_room, n_members);
}

enum mq_status mq_equivalence_build(struct mq_replica_flows *rf, const struct mq_task *const *task, uint32_t n,
				    struct mq_arena *arena, struct mq_equivalence *q, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct partition p = { .rf = rf, .arena = &scratch };

	*q = (struct mq_equivalence){ .n_communications = n };
	p.dense = mq_arena_array(&scratch, rf->cluster->n_links, uint32_t);
	for (uint32_t m = 0; m < n; m++)
		MQ_TRY(add_communication(&p, m, task[m], err));
	uint32_t *colour_of = mq_arena_array(&scratch, p.n, uint32_t);

	refine(&p);
	add_colours(&p, arena, q, colour_of);
	add_links(&p, arena, q, colour_of);
	add_sets(&p, arena, q, colour_of);
	mq_fluid_begin(&q->net, arena);
	return MQ_OK;
}

/* When the replicas of a set have ended. */
static double set_end(const struct mq_equivalence *q, uint32_t set, double start_s, const double *done_s)
{
	double end = start_s;

	for (uint32_t k = q->member_first[set]; k < q->member_first[set + 1]; k++)
		end = fmax(end, done_s[q->member[k]]);
	return end;
}

enum mq_status mq_equivalence_positions(const struct mq_equivalence *q, uint32_t communication, const struct mq_task *t,
					double start_s, const double *done_s, struct mq_replica_flows *rf,
					double *position_s, struct mq_err *err)
{
	for (uint32_t p = 0; p < rf->fold->n_positions; p++)
		position_s[p] = NAN;
	for (uint32_t i = 0; i < mq_replica_flows_count(rf, t); i++) {
		uint32_t set = q->set_of[q->replica_first[communication] + i];
		struct mq_replica_flow replica;

		MQ_TRY(mq_replica_flows_get(rf, t, i, &replica, err));
		for (uint32_t k = 0; k < replica.n; k++)
			position_s[rf->fold->position[replica.rank[k]]] =
				replica.latency_s + set_end(q, set, start_s, done_s) - start_s;
	}
	for (uint32_t p = rf->zone; p < rf->fold->n_positions; p++)
		position_s[p] = position_s[p % rf->zone];
	return MQ_OK;
}

bool mq_equivalence_together(const struct mq_equivalence *q, uint32_t communication, double start_s,
			     const double *done_s)
{
	double first = INFINITY, last = start_s;

	for (uint32_t s = q->set_first[communication]; s < q->set_first[communication + 1]; s++) {
		double end = set_end(q, s, start_s, done_s);

		first = fmin(first, end);
		last = fmax(last, end);
	}
	return !mq_equivalence_differ(first - start_s, last - start_s);
}

/* ---- times -------------------------------------------------------------------------------------- */

static bool has_root(const struct mq_task *t)
{
	return t->kind == MQ_TASK_COLLECTIVE && mq_coll_has_root(t->coll);
}

static bool is_closed(const struct mq_task *t)
{
	return has_root(t) && t->root == MQ_NONE;
}

/* Two bounds of the time. Lower: each link needs its load over its bandwidth. Upper: under max-min fairness a flow
 * always gets at least an equal share of its most contended link. Where they are equal, no rates need be computed.
 *
 * A broadcast or reduce is a ring without the root's edges. It takes as long as the closed ring if every replica keeps
 * a link of the longest time. Sets of roots are 64-bit masks of root % 64. */
struct bounds {
	struct mq_replica_flows *rf;
	const struct mq_task *task;
	struct mq_arena *arena;
	uint32_t n_crossed, room, *crossed;
	/* of the newest replica */
	double least_s, most_s;
	uint64_t lost; /* roots without which no link of the longest time is left */
};

static void take_least(struct bounds *b, double seconds, uint64_t roots)
{
	if (seconds > b->least_s * (1 + 1e-12))
		b->lost = roots;
	else if (seconds >= b->least_s * (1 - 1e-12))
		b->lost &= roots;
	b->least_s = fmax(b->least_s, seconds);
}

/* Adds a flow to the load of its links (count), or takes its bounds from that load. */
static void bound_flow(struct bounds *b, const struct mq_flow *f, const struct mq_route *route, bool count)
{
	uint64_t root = 1ull << (b->task->coll == MQ_COLL_REDUCE ? f->src : f->dst) % 64;
	double cap = f->rate_Bps, most_s = 0;

	for (uint32_t k = 0; k < route->n_links; k++) {
		uint32_t l = route->link[k];
		struct mq_link_load *load = &b->rf->load[l];
		double bw = mq_link_usable_Bps(&b->rf->cluster->link[l]);

		if (b->rf->cluster->link[l].fatpipe) {
			cap = fmin(cap, bw);
		} else if (b->rf->uncontended[l]) {
			continue;
		} else if (count) {
			if (!load->n++)
				MQ_PUSH(b->arena, b->crossed, b->n_crossed, b->room, l);
			load->bytes += f->bytes;
			load->roots |= root;
		} else {
			take_least(b, load->bytes / bw, load->roots);
			most_s = fmax(most_s, f->bytes / (bw / load->n));
		}
	}
	take_least(b, f->bytes / cap, root);
	b->most_s = fmax(b->most_s, fmax(most_s, f->bytes / cap));
}

static enum mq_status bound_replica(struct bounds *b, uint32_t i, bool count, struct mq_err *err)
{
	struct mq_replica_flow replica;

	b->least_s = b->most_s = 0;
	b->lost = UINT64_MAX;
	MQ_TRY(mq_replica_flows_get(b->rf, b->task, i, &replica, err));
	for (uint32_t f = 0; f < replica.n_flows; f++)
		if (replica.flow[f].bytes > 0)
			bound_flow(b, &replica.flow[f], replica.route[f], count);
	return MQ_OK;
}

/* Bounds of the first `count` replicas alone on the links. *tells: the bounds are equal, and all replicas end
 * together. */
static enum mq_status find_bounds(struct bounds *b, uint32_t count, double *least_s, bool *exact, struct mq_err *err)
{
	double most_s = 0, first_s = INFINITY;
	bool closed = is_closed(b->task);

	*least_s = 0;
	*exact = true;
	for (uint32_t i = 0; i < count; i++)
		MQ_TRY(bound_replica(b, i, true, err));
	for (uint32_t i = 0; i < count; i++) {
		MQ_TRY(bound_replica(b, i, false, err));
		first_s = fmin(first_s, b->least_s);
		*least_s = fmax(*least_s, b->least_s);
		most_s = fmax(most_s, b->most_s);
		*exact &= !closed || !b->lost;
	}
	/* Flows on a link of the longest time last to its end, so replicas that have such a link end together. */
	*exact &= most_s <= *least_s * (1 + 1e-12) && first_s >= *least_s * (1 - 1e-12);
	return MQ_OK;
}

static enum mq_status bound_of(struct mq_replica_flows *rf, const struct mq_task *t, uint32_t count,
			       struct mq_arena *scratch, double *least_s, bool *exact, struct mq_err *err)
{
	struct bounds b = { .rf = rf, .task = t, .arena = scratch };
	enum mq_status status = find_bounds(&b, count, least_s, exact, err);

	for (uint32_t i = 0; i < b.n_crossed; i++)
		rf->load[b.crossed[i]] = (struct mq_link_load){ 0 };
	return status;
}

/* Sets own_s of a communication with a root; without one it is the collective's alone_s. */
static enum mq_status find_own(struct mq_replica_flows *rf, const struct mq_task *t, struct mq_arena *scratch,
			       struct mq_replica_flow_times *times, struct mq_err *err)
{
	struct mq_replica_flow own;
	double end_s;
	bool exact;

	MQ_TRY(bound_of(rf, t, 1, scratch, &end_s, &exact, err));
	times->any_root &= exact;
	if (!exact && !is_closed(t)) {
		MQ_TRY(mq_replica_flows_get(rf, t, 0, &own, err));
		MQ_TRY(mq_flows_time(rf->cluster, own.rank, own.flow, own.n_flows, scratch, &end_s, err));
	}
	times->own_s = times->latency_s + end_s;
	return MQ_OK;
}

static enum mq_status find_times(struct mq_replica_flows *rf, const struct mq_task *t,
				 struct mq_replica_flow_times *times, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	uint32_t count = mq_replica_flows_count(rf, t);
	bool equal = count > 0, exact;
	struct mq_equivalence q;
	double end_s, *done_s;

	for (uint32_t i = 0; i < count; i++) {
		struct mq_replica_flow replica;

		MQ_TRY(mq_replica_flows_get(rf, t, i, &replica, err));
		if (i == 0) {
			times->latency_s = replica.latency_s;
			times->own_s = replica.alone_s;
		}
		equal = equal && fabs(replica.latency_s - times->latency_s) <= 1e-12 * times->latency_s;
	}
	times->any_root = is_closed(t);
	if (has_root(t))
		MQ_TRY(find_own(rf, t, &scratch, times, err));
	MQ_TRY(bound_of(rf, t, count, &scratch, &end_s, &exact, err));
	times->any_root &= exact;
	times->alone_s = times->bound_s = times->latency_s + end_s;
	if (!exact && !is_closed(t)) {
		MQ_TRY(mq_equivalence_build(rf, &t, 1, &scratch, &q, err));
		done_s = mq_arena_array(&scratch, q.net.n_flows, double);
		times->alone_s = times->latency_s + mq_fluid_run(&q.net, q.bytes, &scratch, done_s);
		times->same = mq_equivalence_together(&q, 0, 0, done_s);
		times->bound_s = fmin(times->bound_s, times->alone_s);
	}
	times->same &= equal;
	return MQ_OK;
}

enum mq_status mq_replica_flows_times(struct mq_replica_flows *rf, const struct mq_task *t,
				      struct mq_replica_flow_times *times, struct mq_err *err)
{
	const struct mq_communication_key key = mq_communication_key(t);
	bool found;

	if (has_root(t) && !is_closed(t)) {
		struct mq_task closed = *t;

		closed.root = MQ_NONE;
		MQ_TRY(mq_replica_flows_times(rf, &closed, times, err));
		if (times->any_root)
			return MQ_OK;
	}
	struct mq_replica_flow_times *known = mq_index_value(rf->known, &key, sizeof(key), sizeof(*known), &found);

	if (!found) {
		known->same = true;
		MQ_TRY(find_times(rf, t, known, err));
	}
	*times = *known;
	return MQ_OK;
}

enum mq_status mq_replica_flows_positions(struct mq_replica_flows *rf, const struct mq_task *t, double *position_s,
					  struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_equivalence q;

	MQ_TRY(mq_equivalence_build(rf, &t, 1, &scratch, &q, err));
	double *done_s = mq_arena_array(&scratch, q.net.n_flows, double);

	(void)mq_fluid_run(&q.net, q.bytes, &scratch, done_s);
	return mq_equivalence_positions(&q, 0, t, 0, done_s, rf, position_s, err);
}

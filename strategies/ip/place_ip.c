/* place_ip.c - see place_ip.h. SPDX-License-Identifier: Apache-2.0 */
#include "ip/place_ip.h"

#include <math.h>

#include "ip/place_latency.h"
#include "lib/place/model.h"

/* A slot, the second index of x: a device, one of its pieces, or the pool of CPUs. */
struct slot {
	uint32_t type, device; /* device: number among all devices */
	uint32_t nth;          /* device number within its type */
	bool own_memory;
};

struct ip {
	const struct mq_place *place;
	const struct mq_place_ip_options *o;
	struct mq_arena *arena;
	struct mq_units u;
	struct mq_mip mip;
	uint32_t n_slots;
	struct slot *slot;
	uint32_t *x;        /* [n_units * n_slots] columns */
	uint32_t goal;      /* column of the objective */
	uint32_t goal_back; /* column of the backward part, if phases count separately */
	uint32_t *memory;   /* [devices] row, or MQ_NONE */
	/* items that must be contiguous: units or, for latency, nodes */
	uint32_t n_items, n_arcs;
	const uint32_t *unit_of;         /* [n_items] */
	const struct mq_place_edge *arc; /* between items */
	/* latency */
	uint32_t *latency;        /* [n_nodes] columns: when the output is there */
	uint32_t *start, *finish; /* [n_slots] columns */
	double limit;             /* upper bound of the latency, big M */
	double *guess;            /* [columns] start solution */
};

static uint32_t at(const struct ip *ip, uint32_t unit, uint32_t slot)
{
	return ip->x[(size_t)unit * ip->n_slots + slot];
}

static void make_slots(struct ip *ip)
{
	struct mq_placement device = mq_placement_empty(ip->place, ip->arena);
	bool latency = ip->o->objective == MQ_PLACE_LATENCY, pool = false;
	uint32_t pieces = latency && ip->o->pieces ? ip->o->pieces : 1;

	ip->slot = mq_arena_array(ip->arena, device.n_stages * pieces, struct slot);
	for (uint32_t d = 0; d < device.n_stages; d++) {
		const struct mq_place_stage *s = &device.stage[d];
		bool own = ip->place->type[s->type].own_memory;

		if (latency && !own && pool)
			continue;
		pool = pool || (latency && !own);
		for (uint32_t i = 0; i < (own ? pieces : 1); i++)
			ip->slot[ip->n_slots++] = (struct slot){ s->type, d, s->device, own };
	}
}

/* Columns x for units and slots; rows: each unit has one slot, the memory of each device. */
static void add_assignment(struct ip *ip)
{
	const struct mq_place *p = ip->place;

	ip->x = mq_arena_array(ip->arena, (size_t)ip->u.n * ip->n_slots, uint32_t);
	ip->memory = mq_arena_array(ip->arena, ip->n_slots, uint32_t);
	for (uint32_t i = 0; i < ip->n_slots; i++) {
		const struct slot *s = &ip->slot[i];
		bool new_device = i == 0 || s->device != ip->slot[i - 1].device;

		ip->memory[i] = !new_device                       ? ip->memory[i - 1] :
				isfinite(p->type[s->type].memory) ? mq_mip_row(&ip->mip, 'L', p->type[s->type].memory) :
								    MQ_NONE;
	}
	uint32_t *some = mq_arena_array(ip->arena, ip->n_slots, uint32_t);
	bool all = ip->o->use_all && ip->o->pieces <= 1;

	for (uint32_t i = 0; i < ip->n_slots && all; i++)
		some[i] = mq_mip_row(&ip->mip, 'G', 1);
	for (uint32_t v = 0; v < ip->u.n; v++) {
		uint32_t once = mq_mip_row(&ip->mip, 'E', 1);

		for (uint32_t i = 0; i < ip->n_slots; i++) {
			const struct slot *s = &ip->slot[i];
			/* symmetry breaking: of equal devices, number n gets units from n on only */
			bool allowed = isfinite(ip->u.time[v * p->n_types + s->type]) && s->nth <= v;
			uint32_t x = mq_mip_column(&ip->mip, 0, 0, allowed ? 1 : 0, true);

			ip->x[(size_t)v * ip->n_slots + i] = x;
			mq_mip_add(&ip->mip, once, x, 1);
			if (all)
				mq_mip_add(&ip->mip, some[i], x, 1);
			if (ip->memory[i] != MQ_NONE)
				mq_mip_add(&ip->mip, ip->memory[i], x, ip->u.size[v]);
		}
	}
}

/* Contiguity of a slot's set: z marks its ancestors; a path that leaves the set never enters it again. */
static void add_contiguity(struct ip *ip, uint32_t slot)
{
	uint32_t *z = mq_arena_array(ip->arena, ip->n_items, uint32_t);

	for (uint32_t v = 0; v < ip->n_items; v++) {
		z[v] = mq_mip_column(&ip->mip, 0, 0, 1, false);
		MQ_MIP_ROW(&ip->mip, 'G', 0, { z[v], 1 }, { at(ip, ip->unit_of[v], slot), -1 });
	}
	for (uint32_t i = 0; i < ip->n_arcs; i++) {
		uint32_t u = ip->arc[i].src, v = ip->arc[i].dst;

		MQ_MIP_ROW(&ip->mip, 'G', 0, { z[u], 1 }, { z[v], -1 });
		MQ_MIP_ROW(&ip->mip, 'L', 1, { z[v], 1 }, { at(ip, ip->unit_of[v], slot), -1 },
			   { at(ip, ip->unit_of[u], slot), 1 });
	}
}

/* Items: units with their precedence, or nodes with their edges. */
static void choose_items(struct ip *ip, bool nodes)
{
	const struct mq_place *p = ip->place;
	uint32_t n = 0;

	if (nodes) {
		ip->n_items = p->n_nodes;
		ip->unit_of = ip->u.of_node;
		ip->n_arcs = p->n_edges;
		ip->arc = p->edge;
		return;
	}
	uint32_t *self = mq_arena_array(ip->arena, ip->u.n, uint32_t);
	struct mq_place_edge *arc = mq_arena_array(ip->arena, ip->u.pred_first[ip->u.n], struct mq_place_edge);

	for (uint32_t v = 0; v < ip->u.n; v++) {
		self[v] = v;
		for (uint32_t i = ip->u.pred_first[v]; i < ip->u.pred_first[v + 1]; i++)
			arc[n++] = (struct mq_place_edge){ ip->u.pred[i], v };
	}
	ip->n_items = ip->u.n;
	ip->unit_of = self;
	ip->n_arcs = n;
	ip->arc = arc;
}

/* y >= x_a - x_b */
static void add_border(struct ip *ip, uint32_t y, uint32_t a, uint32_t b, uint32_t slot)
{
	MQ_MIP_ROW(&ip->mip, 'G', 0, { y, 1 }, { at(ip, a, slot), -1 }, { at(ip, b, slot), 1 });
}

/* Adds the compute and transfers of a slot to a row, the backward part to another, possibly the same. The latency
 * program pays a signal for entering and for leaving separately, although only one can happen. */
static void add_load(struct ip *ip, uint32_t slot, uint32_t row, uint32_t row_back)
{
	const struct mq_units *u = &ip->u;
	const struct slot *s = &ip->slot[slot];

	for (uint32_t v = 0; v < u->n; v++) {
		double time = u->time[v * u->n_types + s->type], back = u->time_back[v * u->n_types + s->type];

		if (!isfinite(time))
			continue;
		mq_mip_add(&ip->mip, row, at(ip, v, slot), row == row_back ? time : time - back);
		if (row != row_back)
			mq_mip_add(&ip->mip, row_back, at(ip, v, slot), back);
	}
	for (uint32_t g = 0; g < u->n_signals && s->own_memory; g++) {
		uint32_t y = mq_mip_column(&ip->mip, 0, 0, 1, false);

		mq_mip_add(&ip->mip, row, y, row == row_back ? u->cost[g] : u->cost[g] - u->cost_back[g]);
		if (row != row_back)
			mq_mip_add(&ip->mip, row_back, y, u->cost_back[g]);
		for (uint32_t d = u->dst_first[g]; d < u->dst_first[g + 1]; d++) {
			add_border(ip, y, u->dst[d], u->home[g], slot);
			add_border(ip, y, u->home[g], u->dst[d], slot);
		}
	}
}

static void formulate_max_load(struct ip *ip)
{
	bool phases = ip->o->objective == MQ_PLACE_PHASES;

	ip->goal = mq_mip_column(&ip->mip, 1, 0, INFINITY, false);
	ip->goal_back = phases ? mq_mip_column(&ip->mip, 1, 0, INFINITY, false) : ip->goal;
	for (uint32_t i = 0; i < ip->n_slots; i++) {
		uint32_t row = MQ_MIP_ROW(&ip->mip, 'L', 0, { ip->goal, -1 });

		add_load(ip, i, row, phases ? MQ_MIP_ROW(&ip->mip, 'L', 0, { ip->goal_back, -1 }) : row);
		if (ip->o->contiguous)
			add_contiguity(ip, i);
	}
}

/* ---- latency ------------------------------------------------------------------------------------ */

/* later >= earlier - limit * (1 - on); without `on` (MQ_NONE): later >= earlier. */
static void add_after(struct ip *ip, uint32_t later, uint32_t earlier, uint32_t on)
{
	if (on == MQ_NONE)
		MQ_MIP_ROW(&ip->mip, 'G', 0, { later, 1 }, { earlier, -1 });
	else
		MQ_MIP_ROW(&ip->mip, 'G', -ip->limit, { later, 1 }, { earlier, -1 }, { on, -ip->limit });
}

static void add_slot_times(struct ip *ip, uint32_t slot)
{
	const struct mq_place *p = ip->place;
	/* start + load - finish <= 0 */
	uint32_t row = MQ_MIP_ROW(&ip->mip, 'L', 0, { ip->start[slot], 1 }, { ip->finish[slot], -1 });

	add_load(ip, slot, row, row);
	/* predecessors must have finished even if moving their output is free */
	for (uint32_t e = 0; e < p->n_edges; e++) {
		uint32_t u = p->edge[e].src, v = p->edge[e].dst;

		if (ip->u.of_node[u] == ip->u.of_node[v])
			continue;
		uint32_t enters = mq_mip_column(&ip->mip, 0, 0, 1, false);

		add_border(ip, enters, ip->u.of_node[v], ip->u.of_node[u], slot);
		add_after(ip, ip->start[slot], ip->latency[u], enters);
	}
	for (uint32_t v = 0; v < p->n_nodes; v++)
		add_after(ip, ip->latency[v], ip->finish[slot], at(ip, ip->u.of_node[v], slot));
	add_contiguity(ip, slot);
	if (slot > 0 && ip->slot[slot - 1].device == ip->slot[slot].device)
		add_after(ip, ip->start[slot], ip->finish[slot - 1], MQ_NONE);
}

/* latency_v >= latency_u + time_v x_v; u = MQ_NONE: without predecessor. */
static void add_pool_time(struct ip *ip, uint32_t slot, uint32_t u, uint32_t v)
{
	double time = ip->place->time[v * ip->place->n_types + ip->slot[slot].type];
	uint32_t row = mq_mip_row(&ip->mip, 'G', 0);

	mq_mip_add(&ip->mip, row, ip->latency[v], 1);
	if (isfinite(time))
		mq_mip_add(&ip->mip, row, at(ip, ip->u.of_node[v], slot), -time);
	if (u != MQ_NONE)
		mq_mip_add(&ip->mip, row, ip->latency[u], -1);
}

static void formulate_latency(struct ip *ip, double least)
{
	ip->latency = mq_arena_array(ip->arena, ip->place->n_nodes, uint32_t);
	ip->start = mq_arena_array(ip->arena, ip->n_slots, uint32_t);
	ip->finish = mq_arena_array(ip->arena, ip->n_slots, uint32_t);
	ip->goal = mq_mip_column(&ip->mip, 1, fmin(least, ip->limit), ip->limit, false);
	for (uint32_t v = 0; v < ip->place->n_nodes; v++) {
		ip->latency[v] = mq_mip_column(&ip->mip, 0, 0, ip->limit, false);
		add_after(ip, ip->goal, ip->latency[v], MQ_NONE);
	}
	for (uint32_t i = 0; i < ip->n_slots; i++) {
		ip->start[i] = mq_mip_column(&ip->mip, 0, 0, ip->limit, false);
		ip->finish[i] = mq_mip_column(&ip->mip, 0, 0, ip->limit, false);
	}
	for (uint32_t i = 0; i < ip->n_slots; i++) {
		if (ip->slot[i].own_memory)
			add_slot_times(ip, i);
		else {
			for (uint32_t v = 0; v < ip->place->n_nodes; v++)
				add_pool_time(ip, i, MQ_NONE, v);
			for (uint32_t e = 0; e < ip->place->n_edges; e++)
				add_pool_time(ip, i, ip->place->edge[e].src, ip->place->edge[e].dst);
		}
	}
}

/* Upper bound: everything in sequence, at its slowest. */
static double latency_limit(const struct ip *ip)
{
	double sum = 1;

	for (uint32_t v = 0; v < ip->u.n; v++) {
		double most = 0;

		for (uint32_t t = 0; t < ip->u.n_types; t++)
			if (isfinite(ip->u.time[v * ip->u.n_types + t]))
				most = fmax(most, ip->u.time[v * ip->u.n_types + t]);
		sum += most;
	}
	for (uint32_t s = 0; s < ip->u.n_signals; s++)
		sum += ip->u.cost[s] * (1 + ip->u.dst_first[s + 1] - ip->u.dst_first[s]);
	return sum;
}

/* ---- solutions ---------------------------------------------------------------------------------- */

static double value_of(const struct ip *ip, const struct mq_placement *placement)
{
	if (ip->o->objective == MQ_PLACE_LATENCY)
		return mq_place_latency(ip->place, placement, ip->arena);
	if (ip->o->objective == MQ_PLACE_PHASES)
		return mq_place_phases(ip->place, placement, ip->arena);
	return placement->max_load;
}

static void decode(struct ip *ip, const double *value, struct mq_placement *out)
{
	uint32_t *slot_of = mq_arena_none(ip->arena, ip->u.n);

	*out = (struct mq_placement){ .n_stages = ip->n_slots,
				      .stage = mq_arena_array(ip->arena, ip->n_slots, struct mq_place_stage) };
	for (uint32_t i = 0; i < ip->n_slots; i++) {
		out->stage[i] = (struct mq_place_stage){ ip->slot[i].type, 1, ip->slot[i].nth, 0, 0, NULL };
		for (uint32_t v = 0; v < ip->u.n; v++)
			if (value[at(ip, v, i)] > 0.5)
				slot_of[v] = i;
	}
	mq_placement_fill(&ip->u, ip->place->n_nodes, slot_of, ip->arena, out);
	mq_placement_loads(ip->place, out, ip->arena);
}

/* The start placement as values of x; NULL: it does not fit the slots. */
static double *encode(struct ip *ip, const struct mq_placement *start)
{
	double *value = mq_arena_array(ip->arena, ip->mip.n_columns, double);
	uint32_t *lowest = mq_arena_array(ip->arena, start->n_stages, uint32_t);
	bool *used = mq_arena_array(ip->arena, ip->n_slots, bool);

	for (uint32_t s = 0; s < start->n_stages; s++) {
		lowest[s] = MQ_NONE;
		if (start->stage[s].replicas != 1)
			return NULL;
		for (uint32_t i = 0; i < start->stage[s].n_nodes; i++) {
			uint32_t v = ip->u.of_node[start->stage[s].node[i]];

			lowest[s] = v < lowest[s] ? v : lowest[s];
		}
	}
	for (uint32_t round = 0; round < start->n_stages; round++) { /* sets in order of their lowest unit */
		uint32_t s = MQ_NONE, slot = 0;

		for (uint32_t i = 0; i < start->n_stages; i++)
			if (lowest[i] != MQ_NONE && (s == MQ_NONE || lowest[i] < lowest[s]))
				s = i;
		if (s == MQ_NONE)
			break;
		lowest[s] = MQ_NONE;
		while (slot < ip->n_slots && (ip->slot[slot].type != start->stage[s].type || used[slot]))
			slot++;
		bool pool = slot < ip->n_slots && !ip->slot[slot].own_memory && ip->o->objective == MQ_PLACE_LATENCY;

		if (slot == ip->n_slots)
			return NULL;
		for (uint32_t i = slot; i < ip->n_slots; i++) /* its other pieces are used too */
			used[i] = used[i] || (!pool && ip->slot[i].device == ip->slot[slot].device);
		for (uint32_t i = 0; i < start->stage[s].n_nodes; i++)
			value[at(ip, ip->u.of_node[start->stage[s].node[i]], slot)] = 1;
	}
	return value;
}

enum mq_status mq_place_ip(const struct mq_place *place, const struct mq_place_ip_options *o, struct mq_arena *arena,
			   struct mq_place_ip_result *result, struct mq_err *err)
{
	struct ip ip = { .place = place, .o = o, .arena = arena, .mip = { .arena = arena } };
	struct mq_mip_options options = {
		.seconds = o->seconds, .gap = o->gap, .tick = o->tick, .tick_context = o->tick_context
	};
	bool latency = o->objective == MQ_PLACE_LATENCY;
	struct mq_mip_result solved;
	double least = 0; /* lower bound of the latency without the program */

	*result = (struct mq_place_ip_result){ .value = INFINITY, .bound = -INFINITY };
	for (uint32_t v = 0; v < place->n_nodes && latency; v++)
		if (place->backward && place->backward[v])
			return mq_bad(err, "latency is defined for inference graphs: this one has backward nodes; use "
					   "--objective max-load");
	MQ_TRY(mq_units_make(place, o->contiguous && !latency ? MQ_UNITS_CYCLES : MQ_UNITS_COLORS, arena, &ip.u, err));
	choose_items(&ip, latency);
	make_slots(&ip);
	ip.limit = latency_limit(&ip);
	if (o->start && o->start->n_stages)
		ip.limit = fmin(ip.limit, value_of(&ip, o->start) * (1 + 1e-9) + 1e-9);
	if (latency) {
		MQ_TRY(mq_place_latency_bound(place, o->pieces, arena, &least, err));
		if (o->start && o->start->n_stages && value_of(&ip, o->start) <= least * (1 + 1e-8)) {
			*result = (struct mq_place_ip_result){ *o->start, value_of(&ip, o->start), least, true, false };
			return MQ_OK;
		}
	}
	add_assignment(&ip);
	if (latency)
		formulate_latency(&ip, least);
	else
		formulate_max_load(&ip);
	if (o->start && o->start->n_stages)
		options.start = encode(&ip, o->start);
	MQ_TRY(mq_mip_solve(&ip.mip, &options, arena, &solved, err));
	result->infeasible = solved.verdict == MQ_MIP_INFEASIBLE;
	result->optimal = solved.verdict == MQ_MIP_OPTIMAL;
	result->bound = solved.bound;
	if (latency && !result->infeasible) /* also if cbc stopped without a bound */
		result->bound = fmax(result->bound, least);
	if (solved.value) {
		decode(&ip, solved.value, &result->placement);
		result->value = value_of(&ip, &result->placement);
	}
	if (o->start && o->start->n_stages && value_of(&ip, o->start) < result->value) {
		result->placement = *o->start;
		result->value = value_of(&ip, o->start);
	}
	if (result->optimal && o->gap <= 0) /* the solver's tolerance may put the bound above the value */
		result->bound = fmin(result->bound, result->value);
	return MQ_OK;
}

/* units.c - contraction of an operator graph to units, and loads; see place.h.
 *
 * Steps, after the released solver of Tarnawski et al. (2020): (1) one group per colour; (2) groups of backward nodes
 * alone join the forward graph by mirrored edges; (3) strongly connected groups of that graph merge; (4) an idle group
 * with a single neighbour joins it; (5) topological numbering. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "lib/place/place.h"
#include "lib/csr.h"

static bool is_backward(const struct mq_place *p, uint32_t node)
{
	return p->backward && p->backward[node];
}

enum { FORWARD = 1, BACKWARD = 2 };

/* Load of a stage in the given phases: times and output costs; +inf: it does not fit. */
static double stage_load(const struct mq_place *p, const struct mq_place_stage *stage, uint32_t phases,
			 struct mq_arena *scratch)
{
	struct mq_arena_mark mark = mq_arena_mark(scratch);
	bool *in = mq_arena_array(scratch, p->n_nodes, bool), *paid = mq_arena_array(scratch, p->n_nodes, bool);
	double time = 0, size = 0, sync = 0, r = stage->replicas;
	const struct mq_place_type *t = &p->type[stage->type];

	for (uint32_t i = 0; i < stage->n_nodes; i++)
		in[stage->node[i]] = true;
	for (uint32_t v = 0; v < p->n_nodes; v++) {
		if (!in[v])
			continue;
		time += phases & (is_backward(p, v) ? BACKWARD : FORWARD) ? p->time[v * p->n_types + stage->type] : 0;
		size += p->size[v];
		sync += p->sync ? p->sync[v] : 0;
	}
	for (uint32_t e = 0; t->own_memory && e < p->n_edges; e++)
		if (in[p->edge[e].src] != in[p->edge[e].dst])
			paid[p->edge[e].src] = true;
	for (uint32_t v = 0; v < p->n_nodes; v++)
		time += paid[v] && phases & (is_backward(p, v) ? BACKWARD : FORWARD) ? p->out_cost[v] : 0;
	mq_arena_rewind(scratch, mark);
	return size > t->memory ? (double)INFINITY : time / r + 2 * (r - 1) / r * sync;
}

double mq_place_phases(const struct mq_place *p, const struct mq_placement *placement, struct mq_arena *scratch)
{
	double forward = 0, backward = 0;

	for (uint32_t s = 0; s < placement->n_stages; s++) {
		forward = fmax(forward, stage_load(p, &placement->stage[s], FORWARD, scratch));
		backward = fmax(backward, stage_load(p, &placement->stage[s], BACKWARD, scratch));
	}
	return forward + backward;
}

struct mq_placement mq_placement_empty(const struct mq_place *p, struct mq_arena *arena)
{
	struct mq_placement out = { 0 };

	for (uint32_t t = 0; t < p->n_types; t++)
		out.n_stages += p->type[t].count;
	out.stage = mq_arena_array(arena, out.n_stages, struct mq_place_stage);
	for (uint32_t t = 0, d = 0; t < p->n_types; t++)
		for (uint32_t i = 0; i < p->type[t].count; i++)
			out.stage[d++] = (struct mq_place_stage){ .type = t, .replicas = 1, .device = i };
	return out;
}

void mq_placement_fill(const struct mq_units *u, uint32_t n_nodes, const uint32_t *set, struct mq_arena *arena,
		       struct mq_placement *placement)
{
	uint32_t *set_of = mq_arena_array(arena, n_nodes, uint32_t), *first, *node, n = 0;

	for (uint32_t v = 0; v < n_nodes; v++)
		set_of[v] = set[u->of_node[v]];
	mq_csr_make(arena, placement->n_stages, n_nodes, set_of, NULL, sizeof(*set_of), &first, &node);
	for (uint32_t s = 0; s < placement->n_stages; s++) {
		struct mq_place_stage stage = placement->stage[s];

		stage.node = node + first[s];
		stage.n_nodes = first[s + 1] - first[s];
		if (stage.n_nodes)
			placement->stage[n++] = stage;
	}
	placement->n_stages = n;
}

void mq_placement_loads(const struct mq_place *p, struct mq_placement *placement, struct mq_arena *scratch)
{
	placement->max_load = 0;
	for (uint32_t s = 0; s < placement->n_stages; s++) {
		struct mq_place_stage *stage = &placement->stage[s];

		stage->load = stage_load(p, stage, FORWARD | BACKWARD, scratch);
		placement->max_load = fmax(placement->max_load, stage->load);
	}
}

/* ---- groups ------------------------------------------------------------------------------------- */

struct arc {
	uint32_t from, to;
	bool mirrored;
};

struct groups {
	const struct mq_place *place;
	struct mq_arena *arena;
	uint32_t n;
	uint32_t *of_node;
	uint32_t n_arcs;
	struct arc *arc; /* sorted, distinct */
	bool *has_forward;
};

MQ_COMPARE(compare_arcs, struct arc,
	   MQ_ORDER(a->from, b->from)     ?:
		   MQ_ORDER(a->to, b->to) ?:
					    (int)a->mirrored - (int)b->mirrored)

/* Numbers groups by colour, then nodes without one. */
static void group_colors(struct groups *g)
{
	uint32_t n = g->place->n_nodes;
	double *color = mq_arena_array(g->arena, n, double);

	for (uint32_t v = 0; v < n; v++)
		color[v] = g->place->color ? g->place->color[v] : MQ_NONE;
	const uint32_t *node = mq_arena_order(g->arena, color, n);
	g->of_node = mq_arena_array(g->arena, n, uint32_t);
	for (uint32_t i = 0; i < n; i++) {
		bool same = i > 0 && color[node[i]] != MQ_NONE && color[node[i]] == color[node[i - 1]];

		g->n += !same;
		g->of_node[node[i]] = g->n - 1;
	}
}

static void sort_arcs(struct groups *g)
{
	uint32_t kept = 0;

	qsort(g->arc, g->n_arcs, sizeof(*g->arc), compare_arcs);
	for (uint32_t i = 0; i < g->n_arcs; i++)
		if (g->arc[i].from != g->arc[i].to && (kept == 0 || compare_arcs(&g->arc[kept - 1], &g->arc[i]) != 0))
			g->arc[kept++] = g->arc[i];
	g->n_arcs = kept;
}

/* Collects the forward graph's precedence; mirrors edges known only from backward nodes. */
static enum mq_status collect_arcs(struct groups *g, struct mq_err *err)
{
	const struct mq_place *p = g->place;

	g->has_forward = mq_arena_array(g->arena, g->n, bool);
	for (uint32_t v = 0; v < p->n_nodes; v++)
		if (!is_backward(p, v))
			g->has_forward[g->of_node[v]] = true;
	g->arc = mq_arena_array(g->arena, p->n_edges, struct arc);
	for (uint32_t e = 0; e < p->n_edges; e++) {
		uint32_t src = p->edge[e].src, dst = p->edge[e].dst;
		uint32_t a = g->of_node[src], b = g->of_node[dst];

		if (is_backward(p, src) && !is_backward(p, dst))
			return mq_bad(
				err,
				"node %u of the backward pass feeds node %u of the forward pass: no pipeline can run "
				"that",
				src, dst);
		if (!is_backward(p, src) && !is_backward(p, dst))
			g->arc[g->n_arcs++] = (struct arc){ a, b, false };
		else if (is_backward(p, src) && (!g->has_forward[a] || !g->has_forward[b]))
			g->arc[g->n_arcs++] = (struct arc){ b, a, true };
	}
	sort_arcs(g);
	return MQ_OK;
}

/* Merges groups with the same key (a group's number); keeps their order and the arcs between different ones. */
static void merge_groups(struct groups *g, const uint32_t *key)
{
	uint32_t *name = mq_arena_none(g->arena, g->n), n = 0;

	for (uint32_t i = 0; i < g->n; i++)
		if (name[key[i]] == MQ_NONE)
			name[key[i]] = n++;
	g->n = n;
	for (uint32_t v = 0; v < g->place->n_nodes; v++)
		g->of_node[v] = name[key[g->of_node[v]]];
	for (uint32_t i = 0; i < g->n_arcs; i++) {
		g->arc[i].from = name[key[g->arc[i].from]];
		g->arc[i].to = name[key[g->arc[i].to]];
	}
	sort_arcs(g);
}

/* ---- cycles ------------------------------------------------------------------------------------- */

/* Marks v and the groups behind it. */
static void reach(const uint32_t *first, const uint32_t *to, uint32_t v, uint32_t *stack, bool *seen)
{
	uint32_t n = 0;

	seen[v] = true;
	stack[n++] = v;
	while (n) {
		uint32_t at = stack[--n];

		for (uint32_t i = first[at]; i < first[at + 1]; i++) {
			if (!seen[to[i]])
				stack[n++] = to[i];
			seen[to[i]] = true;
		}
	}
}

/* Merges groups that reach each other; mostly there is no cycle. */
static void fuse_cycles(struct groups *g)
{
	uint32_t *first, *to, *back_first, *back, *key = mq_arena_count(g->arena, g->n);
	uint32_t *stack = mq_arena_array(g->arena, g->n, uint32_t);
	bool *there = mq_arena_array(g->arena, g->n, bool), *here = mq_arena_array(g->arena, g->n, bool);

	mq_csr_make(g->arena, g->n, g->n_arcs, &g->arc->from, &g->arc->to, sizeof(*g->arc), &first, &to);
	mq_csr_make(g->arena, g->n, g->n_arcs, &g->arc->to, &g->arc->from, sizeof(*g->arc), &back_first, &back);
	bool cyclic = mq_csr_sort(g->arena, g->n, first, to, NULL, true, stack) < g->n;
	for (uint32_t v = 0; v < g->n && cyclic; v++) {
		if (key[v] != v)
			continue;
		memset(there, 0, g->n * sizeof(*there));
		memset(here, 0, g->n * sizeof(*here));
		reach(first, to, v, stack, there);
		reach(back_first, back, v, stack, here);
		for (uint32_t w = v; w < g->n; w++)
			key[w] = there[w] && here[w] ? v : key[w];
	}
	merge_groups(g, key);
}

/* ---- idle groups -------------------------------------------------------------------------------- */

static bool merge_one_idle(struct groups *g)
{
	const struct mq_place *p = g->place;
	struct mq_arena_mark mark = mq_arena_mark(g->arena);
	double *work = mq_arena_array(g->arena, g->n, double);
	bool *tied = mq_arena_array(g->arena, g->n, bool); /* has edges to backward nodes */
	uint32_t *n_near = mq_arena_array(g->arena, g->n, uint32_t);
	uint32_t *near = mq_arena_array(g->arena, g->n, uint32_t);
	uint32_t *key = mq_arena_count(g->arena, g->n);

	for (uint32_t v = 0; v < p->n_nodes; v++)
		for (uint32_t t = 0; t < p->n_types; t++)
			work[g->of_node[v]] += p->time[v * p->n_types + t];
	for (uint32_t e = 0; e < p->n_edges; e++)
		if (is_backward(p, p->edge[e].dst) && !is_backward(p, p->edge[e].src))
			tied[g->of_node[p->edge[e].src]] = true;
	for (uint32_t i = 0; i < g->n_arcs; i++) {
		near[g->arc[i].from] = g->arc[i].to;
		near[g->arc[i].to] = g->arc[i].from;
		n_near[g->arc[i].from]++;
		n_near[g->arc[i].to]++;
	}
	for (uint32_t v = 0; v < g->n; v++) {
		if (work[v] < 2e-6 && !tied[v] && n_near[v] == 1) {
			key[v] = near[v];
			merge_groups(g, key);
			return true;
		}
	}
	mq_arena_rewind(g->arena, mark);
	return false;
}

/* ---- units -------------------------------------------------------------------------------------- */

/* Topological order of the groups; `deep`: the newest ready group first, else the lowest. */
static uint32_t *sort_groups(const struct groups *g, bool deep)
{
	uint32_t *order = mq_arena_array(g->arena, g->n, uint32_t), *first, *next;

	mq_csr_make(g->arena, g->n, g->n_arcs, &g->arc->from, &g->arc->to, sizeof(*g->arc), &first, &next);
	mq_assert(mq_csr_sort(g->arena, g->n, first, next, NULL, deep, order) == g->n); /* cycles were fused */
	return order;
}

static void fill_units(const struct groups *g, struct mq_units *u)
{
	const struct mq_place *p = g->place;
	uint32_t *order = sort_groups(g, false), *deep = sort_groups(g, true);
	uint32_t *rank = mq_arena_array(g->arena, g->n, uint32_t);
	uint32_t *from = mq_arena_array(g->arena, g->n_arcs, uint32_t);
	uint32_t *to = mq_arena_array(g->arena, g->n_arcs, uint32_t);

	*u = (struct mq_units){ .n = g->n,
				.n_types = p->n_types,
				.of_node = mq_arena_array(g->arena, p->n_nodes, uint32_t),
				.time = mq_arena_array(g->arena, g->n * p->n_types, double),
				.time_back = mq_arena_array(g->arena, g->n * p->n_types, double),
				.size = mq_arena_array(g->arena, g->n, double),
				.sync = mq_arena_array(g->arena, g->n, double),
				.line = mq_arena_array(g->arena, g->n, uint32_t) };
	for (uint32_t i = 0; i < g->n; i++)
		rank[order[i]] = i;
	for (uint32_t i = 0; i < g->n; i++)
		u->line[i] = rank[deep[i]];
	for (uint32_t v = 0; v < p->n_nodes; v++) {
		uint32_t unit = u->of_node[v] = rank[g->of_node[v]];

		u->size[unit] += p->size[v];
		u->sync[unit] += p->sync ? p->sync[v] : 0;
		for (uint32_t t = 0; t < p->n_types; t++) {
			u->time[unit * p->n_types + t] += p->time[v * p->n_types + t];
			u->time_back[unit * p->n_types + t] += is_backward(p, v) ? p->time[v * p->n_types + t] : 0;
		}
	}
	mq_csr_make(g->arena, g->n, p->n_nodes, u->of_node, NULL, sizeof(uint32_t), &u->node_first, &u->node);
	for (uint32_t i = 0; i < g->n_arcs; i++) {
		from[i] = rank[g->arc[i].from];
		to[i] = rank[g->arc[i].to];
	}
	mq_csr_make(g->arena, g->n, g->n_arcs, from, to, sizeof(uint32_t), &u->succ_first, &u->succ);
	mq_csr_make(g->arena, g->n, g->n_arcs, to, from, sizeof(uint32_t), &u->pred_first, &u->pred);
}

/* ---- signals ------------------------------------------------------------------------------------ */

struct signal {
	uint32_t home, n;
	uint32_t *dst;     /* sorted */
	double cost, back; /* back: the part that the backward pass sends */
};

static int compare_signals(const void *left, const void *right)
{
	const struct signal *a = left, *b = right;

	if (a->home != b->home)
		return a->home < b->home ? -1 : 1;
	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	for (uint32_t i = 0; i < a->n; i++)
		if (a->dst[i] != b->dst[i])
			return a->dst[i] < b->dst[i] ? -1 : 1;
	if (a->cost != b->cost) /* so that sums do not depend on the sort */
		return a->cost < b->cost ? -1 : 1;
	return MQ_ORDER(a->back, b->back);
}

MQ_COMPARE(compare_u32, uint32_t, MQ_ORDER(*a, *b))

static uint32_t collect_signals(const struct groups *g, const struct mq_units *u, struct signal *signal)
{
	const struct mq_place *p = g->place;
	uint32_t *first, *list, n = 0;
	uint32_t *src = mq_arena_array(g->arena, p->n_edges, uint32_t);
	uint32_t *dst = mq_arena_array(g->arena, p->n_edges, uint32_t);

	for (uint32_t e = 0; e < p->n_edges; e++) {
		src[e] = p->edge[e].src;
		dst[e] = u->of_node[p->edge[e].dst];
	}
	mq_csr_make(g->arena, p->n_nodes, p->n_edges, src, dst, sizeof(uint32_t), &first, &list);
	for (uint32_t v = 0; v < p->n_nodes; v++) {
		struct signal s = { u->of_node[v], 0, list + first[v], p->out_cost[v],
				    is_backward(p, v) ? p->out_cost[v] : 0 };

		qsort(s.dst, first[v + 1] - first[v], sizeof(*s.dst), compare_u32);
		for (uint32_t i = first[v]; i < first[v + 1]; i++)
			if (list[i] != s.home && (s.n == 0 || s.dst[s.n - 1] != list[i]))
				s.dst[s.n++] = list[i];
		if (s.n && s.cost > 0)
			signal[n++] = s;
	}
	qsort(signal, n, sizeof(*signal), compare_signals);
	return n;
}

static void fill_signals(const struct groups *g, struct mq_units *u)
{
	struct signal *signal = mq_arena_array(g->arena, g->place->n_nodes, struct signal);
	uint32_t n = collect_signals(g, u, signal), n_dst = 0, total = 0;

	for (uint32_t i = 0; i < n; i++)
		total += signal[i].n;
	u->home = mq_arena_array(g->arena, n, uint32_t);
	u->cost = mq_arena_array(g->arena, n, double);
	u->cost_back = mq_arena_array(g->arena, n, double);
	u->dst_first = mq_arena_array(g->arena, n + 1, uint32_t);
	u->dst = mq_arena_array(g->arena, total, uint32_t);
	uint32_t *owner = mq_arena_array(g->arena, total, uint32_t);

	for (uint32_t i = 0; i < n; i++) {
		struct signal last = i ? signal[i - 1] : signal[i], now = signal[i];

		last.cost = now.cost = last.back = now.back = 0;
		if (i > 0 && compare_signals(&last, &now) == 0) {
			u->cost[u->n_signals - 1] += signal[i].cost;
			u->cost_back[u->n_signals - 1] += signal[i].back;
			continue;
		}
		uint32_t s = u->n_signals++;

		u->home[s] = signal[i].home;
		u->cost[s] = signal[i].cost;
		u->cost_back[s] = signal[i].back;
		for (uint32_t d = 0; d < signal[i].n; d++) {
			u->dst[n_dst] = signal[i].dst[d];
			owner[n_dst++] = s;
		}
		u->dst_first[s + 1] = n_dst;
	}
	mq_csr_make(g->arena, u->n, u->n_signals, u->home, NULL, sizeof(uint32_t), &u->sent_first, &u->sent);
	mq_csr_make(g->arena, u->n, n_dst, u->dst, owner, sizeof(uint32_t), &u->got_first, &u->got);
}

enum mq_status mq_units_make(const struct mq_place *place, enum mq_units_kind kind, struct mq_arena *arena,
			     struct mq_units *units, struct mq_err *err)
{
	struct groups g = { .place = place, .arena = arena };

	group_colors(&g);
	MQ_TRY(collect_arcs(&g, err));
	if (kind == MQ_UNITS_COLORS)
		g.n_arcs = 0; /* colours may form cycles */
	else
		fuse_cycles(&g);
	while (kind == MQ_UNITS_IDLE && merge_one_idle(&g))
		continue;
	fill_units(&g, units);
	fill_signals(&g, units);
	return MQ_OK;
}

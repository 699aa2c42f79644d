/* place_latency_bound.c - lower bound of the latency; see place_latency.h. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "ip/place_latency.h"
#include "lib/sfb.h"

enum { MOST_NODES = 4096, WORD = 64 }; /* sets of nodes are bit sets: n^2 / 4 bytes in all */

struct bound {
	const struct mq_place *p;
	struct mq_arena *arena;
	uint32_t n_sets, words;
	uint32_t *like;            /* [n] the first node that must share its set */
	uint32_t *out_first, *out; /* CSR: receivers of each node */
	uint64_t *above, *below;   /* [n * words] ancestors and descendants, including the node */
	double *fast, *slow;       /* [n] least time on an accelerator, on a CPU */
	double room;
	uint32_t n_path, *path;
	/* the set of an interval */
	uint64_t *in, *up, *down; /* members; ancestors and descendants of members */
	uint64_t *colors;         /* first node of each colour among the members */
};

static bool has(const uint64_t *set, uint32_t v)
{
	return set[v / WORD] >> v % WORD & 1;
}

static void put(uint64_t *set, uint32_t v)
{
	set[v / WORD] |= (uint64_t)1 << v % WORD;
}

static const uint64_t *row(const struct bound *b, const uint64_t *sets, uint32_t v)
{
	return sets + (size_t)v * b->words;
}

/* Ancestors and descendants, by relaxing all edges to a fixpoint, as they come in any order. */
static void close_paths(struct bound *b)
{
	const struct mq_place *p = b->p;
	bool changed = true;

	b->above = mq_arena_array(b->arena, (size_t)p->n_nodes * b->words, uint64_t);
	b->below = mq_arena_array(b->arena, (size_t)p->n_nodes * b->words, uint64_t);
	for (uint32_t v = 0; v < p->n_nodes; v++) {
		put(b->above + (size_t)v * b->words, v);
		put(b->below + (size_t)v * b->words, v);
	}
	while (changed) {
		changed = false;
		for (uint32_t k = 0; k < 2 * p->n_edges; k++) {
			/* ancestors in edge order, descendants against it: sorted edges take few rounds */
			uint32_t e = k < p->n_edges ? k : 2 * p->n_edges - 1 - k;
			bool up = k < p->n_edges;
			uint32_t from = up ? p->edge[e].src : p->edge[e].dst;
			uint32_t to = up ? p->edge[e].dst : p->edge[e].src;
			uint64_t *sets = up ? b->above : b->below;

			for (uint32_t w = 0; w < b->words; w++) {
				uint64_t more = sets[(size_t)from * b->words + w] & ~sets[(size_t)to * b->words + w];

				sets[(size_t)to * b->words + w] |= more;
				changed = changed || more;
			}
		}
	}
}

/* If each device has one set, nodes of a colour are in the same set. */
static void find_colors(struct bound *b, bool one_set)
{
	const uint32_t *color = b->p->color;

	b->like = mq_arena_array(b->arena, b->p->n_nodes, uint32_t);
	for (uint32_t v = 0; v < b->p->n_nodes; v++) {
		b->like[v] = v;
		for (uint32_t u = 0; u < v && one_set && color && color[v] != MQ_NONE && b->like[v] == v; u++)
			b->like[v] = color[u] == color[v] ? u : v;
	}
}

static void find_times(struct bound *b)
{
	const struct mq_place *p = b->p;

	b->fast = mq_arena_array(b->arena, p->n_nodes, double);
	b->slow = mq_arena_array(b->arena, p->n_nodes, double);
	for (uint32_t v = 0; v < p->n_nodes; v++) {
		b->fast[v] = b->slow[v] = INFINITY;
		for (uint32_t t = 0; t < p->n_types; t++) {
			double *least = p->type[t].own_memory ? &b->fast[v] : &b->slow[v];

			if (p->type[t].count)
				*least = fmin(*least, p->time[v * p->n_types + t]);
		}
	}
}

static void prepare(struct bound *b)
{
	const struct mq_place *p = b->p;
	uint64_t **sets[] = { &b->in, &b->up, &b->down, &b->colors };

	b->words = (p->n_nodes + WORD - 1) / WORD;
	mq_csr_make(b->arena, p->n_nodes, p->n_edges, &p->edge->src, &p->edge->dst, sizeof(*p->edge), &b->out_first,
		    &b->out);
	for (int i = 0; i < 4; i++)
		*sets[i] = mq_arena_array(b->arena, b->words, uint64_t);
	close_paths(b);
}

/* Finds the longest path by time and `output` x output cost; returns its length. */
static double find_path(struct bound *b, double output)
{
	const struct mq_place *p = b->p;
	double *length = mq_arena_array(b->arena, p->n_nodes, double);
	uint32_t *next = mq_arena_array(b->arena, p->n_nodes, uint32_t), first = 0;
	bool changed = true;

	for (uint32_t v = 0; v < p->n_nodes; v++) {
		length[v] = fmin(b->fast[v], b->slow[v]) + output * p->out_cost[v];
		next[v] = MQ_NONE;
	}
	while (changed) {
		changed = false;
		for (uint32_t e = p->n_edges; e-- > 0;) {
			uint32_t u = p->edge[e].src, v = p->edge[e].dst;
			double with = fmin(b->fast[u], b->slow[u]) + output * p->out_cost[u] + length[v];

			if (with > length[u]) {
				length[u] = with;
				next[u] = v;
				changed = true;
			}
		}
	}
	for (uint32_t v = 0; v < p->n_nodes; v++)
		if (length[v] > length[first])
			first = v;
	b->path = mq_arena_array(b->arena, p->n_nodes, uint32_t);
	for (b->n_path = 0; first != MQ_NONE; first = next[first])
		b->path[b->n_path++] = first;
	return b->n_path ? length[b->path[0]] : 0;
}

static void add_member(struct bound *b, uint32_t v)
{
	const uint64_t *above = row(b, b->above, v), *below = row(b, b->below, v);

	put(b->in, v);
	put(b->colors, b->like[v]);
	for (uint32_t w = 0; w < b->words; w++) {
		b->up[w] |= above[w];
		b->down[w] |= below[w];
	}
}

/* Adds a node to the set, with all nodes between it and the members, and those that share a colour. */
static void add_to_set(struct bound *b, uint32_t node)
{
	bool changed = true;

	add_member(b, node);
	while (changed) {
		changed = false;
		for (uint32_t v = 0; v < b->p->n_nodes; v++) {
			if (has(b->in, v) || !(has(b->colors, b->like[v]) || (has(b->up, v) && has(b->down, v))))
				continue;
			add_member(b, v);
			changed = true;
		}
	}
}

/* ---- minimum cut -------------------------------------------------------------------------------- */

struct cut {
	struct mq_sfb_problem problem;
	uint32_t *node; /* [n_nodes] number in the problem: 0 = in the set, 1 = outside, MQ_NONE = not yet numbered */
	double *cost;
	bool *forbidden;
	struct mq_sfb_edge *edge;
};

static uint32_t add_node(struct cut *c, double cost)
{
	c->cost[c->problem.n_ops] = cost;
	return c->problem.n_ops++;
}

static void add_edge(struct cut *c, uint32_t src, uint32_t dst, double cost)
{
	c->edge[c->problem.n_edges++] = (struct mq_sfb_edge){ src, dst, cost };
}

/* Output u enters the set if a receiver is inside and u is not; it leaves if u is inside and a receiver is not. One
 * auxiliary node each stands for "any" and "all" receivers. */
static void add_signal(const struct bound *b, struct cut *c, uint32_t u, double never)
{
	uint32_t any, all, some_in = 0, some_out = 0, open = c->node[u] > 1;

	for (uint32_t i = b->out_first[u]; i < b->out_first[u + 1]; i++) {
		some_in += c->node[b->out[i]] == 0;
		some_out += c->node[b->out[i]] == 1;
		open += c->node[b->out[i]] > 1;
	}
	if (!open) {
		if ((c->node[u] == 1 && some_in) || (c->node[u] == 0 && some_out))
			c->cost[0] += b->p->out_cost[u];
		return;
	}
	any = add_node(c, 0);
	all = add_node(c, 0);
	add_edge(c, c->node[u], any, b->p->out_cost[u]);
	add_edge(c, all, c->node[u], b->p->out_cost[u]);
	for (uint32_t i = b->out_first[u]; i < b->out_first[u + 1]; i++) {
		add_edge(c, any, c->node[b->out[i]], never);
		add_edge(c, c->node[b->out[i]], all, never);
	}
}

/* Compute and transfers of the cheapest set with all of `in`, without ancestors of node i - 1 of the path and
 * descendants of node j + 1. */
static enum mq_status price_interval(struct bound *b, uint32_t i, uint32_t j, double *cost, struct mq_err *err)
{
	const struct mq_place *p = b->p;
	struct mq_arena_mark mark = mq_arena_mark(b->arena);
	uint32_t most = 3 * p->n_nodes + 2, most_edges = 2 * p->n_nodes + 2 * p->n_edges;
	struct cut c = { .node = mq_arena_array(b->arena, p->n_nodes, uint32_t),
			 .cost = mq_arena_array(b->arena, most, double),
			 .forbidden = mq_arena_array(b->arena, most, bool),
			 .edge = mq_arena_array(b->arena, most_edges, struct mq_sfb_edge) };
	double work = 0, never = 1;
	struct mq_sfb_result r;

	add_node(&c, 0);
	add_node(&c, 0);
	c.forbidden[1] = true;
	for (uint32_t v = 0; v < p->n_nodes; v++) {
		bool before = i > 0 && has(row(b, b->above, b->path[i - 1]), v);
		bool after = j + 1 < b->n_path && has(row(b, b->below, b->path[j + 1]), v);

		never += p->out_cost[v] + (isfinite(b->fast[v]) ? b->fast[v] : 0);
		work += has(b->in, v) ? b->fast[v] : 0;
		c.node[v] = has(b->in, v) ? 0 : before || after || isinf(b->fast[v]) ? 1 : add_node(&c, b->fast[v]);
	}
	for (uint32_t v = 0; v < p->n_nodes; v++)
		if (b->out_first[v + 1] > b->out_first[v])
			add_signal(b, &c, v, never);
	double sure = c.cost[0];

	if (c.problem.n_ops > 2) {
		c.cost[0] = -2 * never;
		c.problem.cost = c.cost;
		c.problem.forbidden = c.forbidden;
		c.problem.edge = c.edge;
		MQ_TRY(mq_sfb_solve(&c.problem, b->arena, &r, err));
		c.cost[0] = sure;
		sure = mq_sfb_cost(&c.problem, r.duplicate);
	}
	*cost = work + sure;
	mq_arena_rewind(b->arena, mark);
	return MQ_OK;
}

/* ---- dynamic program over the path -------------------------------------------------------------- */

/* Extends least[i][.] by the sets that begin at node i of the path, to least[j + 1][sets]. */
static enum mq_status extend(struct bound *b, uint32_t i, double *least, struct mq_err *err)
{
	uint32_t wide = b->n_sets + 1;

	memset(b->in, 0, b->words * sizeof(*b->in));
	memset(b->up, 0, b->words * sizeof(*b->up));
	memset(b->down, 0, b->words * sizeof(*b->down));
	memset(b->colors, 0, b->words * sizeof(*b->colors));
	for (uint32_t j = i; j < b->n_path; j++) {
		double size = 0, cost;

		add_to_set(b, b->path[j]);
		for (uint32_t v = 0; v < b->p->n_nodes; v++)
			size += has(b->in, v) ? b->p->size[v] : 0;
		if (size > b->room || (i && has(b->in, b->path[i - 1])))
			break;
		if (j + 1 < b->n_path && has(b->in, b->path[j + 1]))
			continue;
		MQ_TRY(price_interval(b, i, j, &cost, err));
		for (uint32_t k = 0; k < b->n_sets; k++) {
			double *to = &least[(size_t)(j + 1) * wide + k + 1];

			*to = fmin(*to, least[(size_t)i * wide + k] + cost);
		}
	}
	return MQ_OK;
}

static enum mq_status cut_path(struct bound *b, double *bound, struct mq_err *err)
{
	uint32_t wide = b->n_sets + 1;
	double *least = mq_arena_array(b->arena, (size_t)(b->n_path + 1) * wide, double);

	for (uint32_t i = wide; i < (b->n_path + 1) * wide; i++)
		least[i] = INFINITY;
	for (uint32_t i = 0; i < b->n_path; i++) {
		for (uint32_t k = 0; k < wide; k++) {
			double *to = &least[(size_t)(i + 1) * wide + k];

			*to = fmin(*to, least[(size_t)i * wide + k] + b->slow[b->path[i]]);
		}
		MQ_TRY(extend(b, i, least, err));
	}
	*bound = INFINITY;
	for (uint32_t k = 0; k < wide; k++)
		*bound = fmin(*bound, least[(size_t)b->n_path * wide + k]);
	return MQ_OK;
}

enum mq_status mq_place_latency_bound(const struct mq_place *p, uint32_t pieces, struct mq_arena *arena, double *bound,
				      struct mq_err *err)
{
	struct bound b = { .p = p, .arena = arena };

	find_times(&b);
	*bound = find_path(&b, 0); /* every node on its fastest device */
	if (p->n_nodes > MOST_NODES)
		return MQ_OK;
	for (uint32_t t = 0; t < p->n_types; t++) {
		if (!p->type[t].own_memory)
			continue;
		b.n_sets += p->type[t].count * (pieces ? pieces : 1);
		b.room = fmax(b.room, p->type[t].count ? p->type[t].memory : 0);
	}
	find_colors(&b, pieces <= 1);
	prepare(&b);
	for (int output = 0; output < 2;
	     output++) { /* a path by time, and one by time and output costs: both are bounds */
		double one;

		find_path(&b, output);
		MQ_TRY(cut_path(&b, &one, err));
		*bound = fmax(*bound, isfinite(one) ? one * (1 - 1e-9) : 0); /* rounding of the cut */
	}
	return MQ_OK;
}

/* dp.c - see dp.h. SPDX-License-Identifier: Apache-2.0 */
#include "piper/dp.h"

#include <math.h>
#include <stdlib.h>

#include "maquette/types.h"
#include "lib/place/ideals.h"

/* A choice of one node of the current stage: its time and its memory a y + b. */
struct item {
	double time, a, b;
};

/* A change of a node's choice that saves memory, with its seconds per byte saved. */
struct swap {
	double price;
	uint32_t node, choice;
};

/* Values of one (downset, k) are non-increasing in s; `drop` lists where they fall. */
struct row {
	uint32_t n;
	uint32_t *drop;
};

struct run {
	const struct mq_piper *p;
	struct mq_arena *arena;
	struct mq_ideals downsets;
	uint32_t bound;  /* largest s */
	double *dp;      /* [n_downsets][devices + 1][bound + 1] */
	struct row *row; /* [n_downsets][devices + 1] */
	/* the current stage */
	uint32_t n, *node; /* nodes of the set */
	bool *in;          /* [n_nodes] */
	uint32_t *first;   /* [n + 1] into item */
	struct item *item;
	double *edge_bytes; /* [items] bytes of cut edges */
	uint32_t *fastest, *chosen;
	struct swap *swap;
	double *time_of_y; /* [bound + 2] */
	double a_fast, b_fast, time_fast;
};

/* ---- one stage ---------------------------------------------------------------------------------- */

/* Fills the items for tensor degree index t; false: a node does not support it. */
static bool load_items(struct run *r, uint32_t t)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->n; i++) {
		const struct mq_piper_node *node = &r->p->node[r->node[i]];

		r->first[i] = n;
		if (!node->n_choices[t])
			return false;
		for (uint32_t c = 0; c < node->n_choices[t]; c++) {
			double bytes = 0;

			for (uint32_t e = 0; e < node->n_edges; e++) {
				const struct mq_piper_edge *edge = &r->p->edge[node->edge[e]];
				uint32_t other = edge->src == r->node[i] ? edge->dst : edge->src;

				if (!r->in[other])
					bytes += 2 * (edge->bytes + node->choice[t][c].sync[e]);
			}
			r->edge_bytes[n++] = bytes;
		}
	}
	r->first[r->n] = n;
	return true;
}

static void price_items(struct run *r, uint32_t t, uint32_t d)
{
	r->a_fast = r->b_fast = r->time_fast = 0;
	for (uint32_t i = 0; i < r->n; i++) {
		const struct mq_piper_choice *choice = r->p->node[r->node[i]].choice[t];

		r->fastest[i] = 0;
		for (uint32_t x = r->first[i]; x < r->first[i + 1]; x++) {
			const struct mq_piper_choice *c = &choice[x - r->first[i]];
			double bytes = r->edge_bytes[x] / d + 4 * (d - 1.0) * c->parameters / d / r->p->micro_batches;

			r->item[x] = (struct item){ bytes / r->p->bandwidth + c->time / d, c->memory_a, c->memory_b };
			if (r->item[x].time < r->item[r->first[i] + r->fastest[i]].time)
				r->fastest[i] = x - r->first[i];
		}
		const struct item *fast = &r->item[r->first[i] + r->fastest[i]];

		r->a_fast += fast->a;
		r->b_fast += fast->b;
		r->time_fast += fast->time;
	}
}

MQ_COMPARE(compare_swaps, struct swap,
	   MQ_ORDER(a->price, b->price)       ?:
		   MQ_ORDER(a->node, b->node) ?:
						MQ_ORDER(a->choice, b->choice))

static double memory_at(const struct item *item, double y)
{
	return item->a * y + item->b;
}

/* Greedy knapsack for y micro-batches in flight; fills `chosen`. +inf: nothing fits. */
static double choose(struct run *r, double y)
{
	double excess = r->a_fast * y + r->b_fast - r->p->memory, time = 0, least = 0;
	uint32_t n_swaps = 0;

	memcpy(r->chosen, r->fastest, r->n * sizeof(*r->chosen));
	if (excess <= 0)
		return r->time_fast;
	for (uint32_t i = 0; i < r->n; i++) {
		const struct item *now = &r->item[r->first[i] + r->fastest[i]];
		double here = INFINITY;

		for (uint32_t x = r->first[i]; x < r->first[i + 1]; x++) {
			double saved = memory_at(now, y) - memory_at(&r->item[x], y);

			here = fmin(here, memory_at(&r->item[x], y));
			if (saved > 1e-9)
				r->swap[n_swaps++] =
					(struct swap){ (r->item[x].time - now->time) / saved, i, x - r->first[i] };
		}
		least += here;
	}
	if (least > r->p->memory)
		return INFINITY;
	qsort(r->swap, n_swaps, sizeof(*r->swap), compare_swaps);
	for (uint32_t s = 0; s < n_swaps && excess >= 1e-9; s++) {
		uint32_t i = r->swap[s].node;
		double saved = memory_at(&r->item[r->first[i] + r->chosen[i]], y) -
			       memory_at(&r->item[r->first[i] + r->swap[s].choice], y);

		if (saved <= 0) /* an earlier swap of this node saved more */
			continue;
		excess -= saved;
		r->chosen[i] = r->swap[s].choice;
	}
	for (uint32_t i = 0; i < r->n; i++)
		time += r->item[r->first[i] + r->chosen[i]].time;
	return time;
}

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
	return (a + b - 1) / b;
}

/* Fills time_of_y for all y up to s = bound; if y does not fit, no larger y does. */
static void price_stage(struct run *r, uint32_t t, uint32_t d)
{
	uint32_t most = ceil_div(r->bound, d), y = 1;

	price_items(r, t, d);
	r->time_of_y[0] = INFINITY;
	for (; y <= most; y++) {
		r->time_of_y[y] = choose(r, y);
		if (isinf(r->time_of_y[y]))
			break;
	}
	for (; y <= most; y++)
		r->time_of_y[y] = INFINITY;
}

/* ---- DP table ----------------------------------------------------------------------------------- */

static double *values(const struct run *r, uint32_t downset, uint32_t k)
{
	return r->dp + ((size_t)downset * (r->p->devices + 1) + k) * (r->bound + 1);
}

/* Updates dp[id][k][s] from dp[sub][k - t d][s - d] for all s: only where the latter falls, while it is slower than the
 * stage; the rest follows from monotonicity. */
static void relax(struct run *r, uint32_t id, uint32_t sub, uint32_t used, uint32_t d)
{
	for (uint32_t k = used; k <= r->p->devices; k++) {
		const struct row *row = &r->row[(size_t)sub * (r->p->devices + 1) + k - used];
		const double *from = values(r, sub, k - used);
		double *to = values(r, id, k);

		for (uint32_t i = 0; i < row->n && row->drop[i] + d <= r->bound; i++) {
			uint32_t s = row->drop[i] + d;
			double stage = r->time_of_y[ceil_div(s, d)], rest = from[row->drop[i]];
			double value = rest > stage ? rest : stage;

			if (value < to[s])
				to[s] = value;
			if (rest <= stage)
				break; /* a larger s only slows this stage down */
		}
	}
}

static void finish_downset(struct run *r, uint32_t id)
{
	uint32_t *drop = mq_arena_array(r->arena, r->bound + 1, uint32_t);

	for (uint32_t k = 0; k <= r->p->devices; k++) {
		struct row *row = &r->row[(size_t)id * (r->p->devices + 1) + k];
		double *now = values(r, id, k);

		row->n = 0;
		drop[row->n++] = 0;
		for (uint32_t s = 0; s <= r->bound; s++) {
			if (k > 0)
				now[s] = fmin(now[s], values(r, id, k - 1)[s]);
			if (s > 0) {
				now[s] = fmin(now[s], now[s - 1]);
				if (now[s] < now[s - 1])
					drop[row->n++] = s;
			}
		}
		row->drop = mq_arena_array(r->arena, row->n, uint32_t);
		memcpy(row->drop, drop, row->n * sizeof(*drop));
	}
}

static void set_difference(struct run *r, uint32_t id, uint32_t sub)
{
	r->n = 0;
	for (uint32_t v = 0; v < r->p->n_nodes; v++) {
		r->in[v] = mq_ideals_has(&r->downsets, id, v) && !mq_ideals_has(&r->downsets, sub, v);
		if (r->in[v])
			r->node[r->n++] = v;
	}
}

/* Calls visit for every downset strictly inside `id`; stops when it returns true. */
static bool each_below(struct run *r, uint32_t id,
		       bool (*visit)(struct run *r, uint32_t id, uint32_t sub, void *context), void *context)
{
	struct mq_arena_mark mark = mq_arena_mark(r->arena);
	bool *seen = mq_arena_array(r->arena, id + 1, bool), found = false;
	uint32_t *stack = mq_arena_array(r->arena, id + 1, uint32_t), n = 0;

	stack[n++] = id;
	while (n && !found) {
		uint32_t top = stack[--n];

		found = top != id && visit(r, id, top, context);
		for (uint32_t l = r->downsets.link_first[top]; l < r->downsets.link_first[top + 1]; l++) {
			uint32_t sub = r->downsets.link_to[l];

			if (!seen[sub])
				stack[n++] = sub;
			seen[sub] = true;
		}
	}
	mq_arena_rewind(r->arena, mark);
	return found;
}

static bool allowed(const struct mq_piper *p, uint32_t d, uint32_t t)
{
	return p->micro_batches % d == 0 && (!p->only_d || d == p->only_d) && (!p->most_d || d <= p->most_d) &&
	       (!p->width || d * t == p->width);
}

static bool relax_pair(struct run *r, uint32_t id, uint32_t sub, void *context)
{
	double *pairs = context;

	*pairs += 1;
	set_difference(r, id, sub);
	for (uint32_t t = 0; t < r->p->n_degrees && r->p->degree[t] <= r->p->devices; t++) {
		if (!load_items(r, t))
			continue;
		for (uint32_t d = 1; d * r->p->degree[t] <= r->p->devices && d <= r->bound; d++) {
			if (!allowed(r->p, d, r->p->degree[t]))
				continue;
			price_stage(r, t, d);
			if (isfinite(r->time_of_y[1]))
				relax(r, id, sub, d * r->p->degree[t], d);
		}
	}
	return false;
}

/* ---- backtracking ------------------------------------------------------------------------------- */

struct trace {
	uint32_t k, s;      /* of the value to trace */
	uint32_t sub, t, d; /* found */
	struct mq_piper_stage *stage;
};

static bool trace_stage(struct run *r, uint32_t id, uint32_t sub, void *context)
{
	struct trace *trace = context;
	double want = values(r, id, trace->k)[trace->s];

	set_difference(r, id, sub);
	for (uint32_t t = 0; t < r->p->n_degrees && r->p->degree[t] <= trace->k; t++) {
		if (!load_items(r, t))
			continue;
		for (uint32_t d = 1; d * r->p->degree[t] <= trace->k && d <= trace->s; d++) {
			if (!allowed(r->p, d, r->p->degree[t]))
				continue;
			price_items(r, t, d);
			double time = choose(r, ceil_div(trace->s, d));
			double rest = values(r, sub, trace->k - d * r->p->degree[t])[trace->s - d];

			if (fmax(time, rest) != want)
				continue;
			trace->sub = sub;
			trace->t = r->p->degree[t];
			trace->d = d;
			*trace->stage = (struct mq_piper_stage){ .n_nodes = r->n, .t = trace->t, .d = d, .time = time };
			return true;
		}
	}
	return false;
}

static void add_stage(struct run *r, struct trace *trace, uint32_t id, struct mq_piper_result *out)
{
	trace->stage = &out->stage[out->n_stages];
	bool found = each_below(r, id, trace_stage, trace);

	mq_assert(found);
	trace->stage->node = mq_arena_array(r->arena, r->n, uint32_t);
	trace->stage->choice = mq_arena_array(r->arena, r->n, uint32_t);
	memcpy(trace->stage->node, r->node, r->n * sizeof(*r->node));
	memcpy(trace->stage->choice, r->chosen, r->n * sizeof(*r->chosen));
	out->n_stages++;
	out->time = fmax(out->time, trace->stage->time);
}

static void backtrack(struct run *r, struct mq_piper_result *out)
{
	uint32_t id = r->downsets.n - 1;
	struct trace trace = { .k = r->p->devices, .s = r->bound };

	out->time = values(r, id, trace.k)[trace.s];
	if (isinf(out->time))
		return;
	out->time = 0;
	out->stage = mq_arena_array(r->arena, r->p->n_nodes, struct mq_piper_stage);
	while (id) {
		/* the fewest devices and micro-batches that attain the value */
		while (trace.k > 0 && values(r, id, trace.k - 1)[trace.s] == values(r, id, trace.k)[trace.s])
			trace.k--;
		while (trace.s > 0 && values(r, id, trace.k)[trace.s - 1] == values(r, id, trace.k)[trace.s])
			trace.s--;
		add_stage(r, &trace, id, out);
		trace.k -= trace.t * trace.d;
		trace.s -= trace.d;
		id = trace.sub;
	}
}

static void prepare(struct run *r)
{
	const struct mq_piper *p = r->p;
	uint32_t n_items = 0;

	for (uint32_t v = 0; v < p->n_nodes; v++) {
		uint32_t most = 0;

		for (uint32_t t = 0; t < p->n_degrees; t++)
			most = p->node[v].n_choices[t] > most ? p->node[v].n_choices[t] : most;
		n_items += most;
	}
	r->node = mq_arena_array(r->arena, p->n_nodes, uint32_t);
	r->in = mq_arena_array(r->arena, p->n_nodes, bool);
	r->first = mq_arena_array(r->arena, p->n_nodes + 1, uint32_t);
	r->item = mq_arena_array(r->arena, n_items, struct item);
	r->edge_bytes = mq_arena_array(r->arena, n_items, double);
	r->swap = mq_arena_array(r->arena, n_items, struct swap);
	r->fastest = mq_arena_array(r->arena, p->n_nodes, uint32_t);
	r->chosen = mq_arena_array(r->arena, p->n_nodes, uint32_t);
	r->time_of_y = mq_arena_array(r->arena, r->bound + 2, double);
}

enum mq_status mq_piper_solve(const struct mq_piper *p, struct mq_arena *arena, struct mq_piper_result *result,
			      struct mq_err *err)
{
	struct run r = { .p = p, .arena = arena };
	size_t rows, cells;

	*result = (struct mq_piper_result){ .time = INFINITY };
	r.bound = p->micro_batches < p->devices ? p->micro_batches : p->devices;
	/* downsets are ideals of the reversed graph */
	MQ_TRY(mq_ideals_of_edges(p->n_nodes, p->n_edges, &p->edge->dst, &p->edge->src, sizeof(*p->edge),
				  p->max_ideals ? p->max_ideals : 40000, arena, &r.downsets, err));
	result->n_ideals = r.downsets.n;
	rows = (size_t)r.downsets.n * (p->devices + 1);
	cells = rows * (r.bound + 1);
	if (cells > (size_t)1 << 28)
		return mq_bad(
			err,
			"%u downsets x %u devices x %u replicas need %.3g table entries (bound 2.7e+08): use fewer "
			"devices or coarser layers",
			r.downsets.n, p->devices, r.bound, (double)cells);
	r.dp = mq_arena_array(arena, cells, double);
	r.row = mq_arena_array(arena, rows, struct row);
	prepare(&r);
	for (size_t i = (size_t)(p->devices + 1) * (r.bound + 1); i < cells; i++)
		r.dp[i] = INFINITY; /* 0 for the empty downset */
	finish_downset(&r, 0);
	for (uint32_t id = 1; id < r.downsets.n; id++) {
		if (p->tick && !p->tick(p->tick_context, (double)id / r.downsets.n, "downsets")) {
			result->stopped = true;
			return MQ_OK;
		}
		each_below(&r, id, relax_pair, &result->pairs);
		finish_downset(&r, id);
	}
	backtrack(&r, result);
	return MQ_OK;
}

double mq_piper_stage_time(const struct mq_piper *p, const struct mq_piper_stage *stage, uint32_t s,
			   struct mq_arena *scratch)
{
	struct mq_arena_mark mark = mq_arena_mark(scratch);
	bool *in = mq_arena_array(scratch, p->n_nodes, bool);
	double time = 0, bytes = 0, memory = 0, d = stage->d;
	uint32_t t = 0;

	while (t < p->n_degrees && p->degree[t] != stage->t)
		t++;
	for (uint32_t i = 0; i < stage->n_nodes; i++)
		in[stage->node[i]] = true;
	for (uint32_t i = 0; i < stage->n_nodes && t < p->n_degrees; i++) {
		const struct mq_piper_node *node = &p->node[stage->node[i]];

		if (stage->choice[i] >= node->n_choices[t]) {
			memory = INFINITY;
			break;
		}
		const struct mq_piper_choice *c = &node->choice[t][stage->choice[i]];

		time += c->time / d;
		bytes += 4 * (d - 1) * c->parameters / d / p->micro_batches;
		memory += c->memory_a * ceil_div(s, stage->d) + c->memory_b;
		for (uint32_t e = 0; e < node->n_edges; e++) {
			const struct mq_piper_edge *edge = &p->edge[node->edge[e]];

			if (!in[edge->src] || !in[edge->dst])
				bytes += 2 * (edge->bytes + c->sync[e]) / d;
		}
	}
	mq_arena_rewind(scratch, mark);
	return t == p->n_degrees || memory > p->memory ? (double)INFINITY : time + bytes / p->bandwidth;
}

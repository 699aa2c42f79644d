/* place_latency.c - latency and order of a placement's sets; see model.h, place.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "lib/place/model.h"
#include "lib/csr.h"

struct walk {
	const struct mq_place *p;
	uint32_t n_blocks;
	uint32_t *block;                   /* [n_nodes] */
	uint32_t *set;                     /* [n_nodes] stage */
	double *finish;                    /* [n_blocks] */
	double *work, *in_cost, *out_cost; /* [n_blocks] */
	bool *own;                         /* [n_blocks] on a device with memory of its own: pays for tensors */
};

/* Cuts a set where a path leaves and re-enters it: a node's piece is the most times that a path to it entered the set.
 * Relaxed to a fixpoint, as edges come in any order. */
static void cut_set(struct walk *w, uint32_t set, uint32_t *piece)
{
	bool changed = true;

	for (uint32_t v = 0; v < w->p->n_nodes; v++)
		piece[v] = w->set[v] == set;
	while (changed) {
		changed = false;
		for (uint32_t e = 0; e < w->p->n_edges; e++) {
			uint32_t u = w->p->edge[e].src, v = w->p->edge[e].dst;
			uint32_t least = piece[u] + (w->set[v] == set && w->set[u] != set);

			if (least > piece[v]) {
				piece[v] = least;
				changed = true;
			}
		}
	}
}

static void make_blocks(struct walk *w, const struct mq_placement *placement, struct mq_arena *arena)
{
	uint32_t *piece = mq_arena_array(arena, w->p->n_nodes, uint32_t);

	for (uint32_t s = 0; s < placement->n_stages; s++) {
		const struct mq_place_stage *stage = &placement->stage[s];
		bool own = w->p->type[stage->type].own_memory;
		uint32_t most = 0;

		if (own)
			cut_set(w, s, piece);
		for (uint32_t i = 0; i < stage->n_nodes; i++) {
			uint32_t v = stage->node[i];

			w->block[v] = w->n_blocks + (own ? piece[v] - 1 : i);
			most = own ? (piece[v] > most ? piece[v] : most) : stage->n_nodes;
			w->own[w->block[v]] = own;
			w->work[w->block[v]] += w->p->time[v * w->p->n_types + stage->type];
		}
		w->n_blocks += most;
	}
}

/* A block pays once for each op whose output enters it, and once for each whose output leaves it. */
static void add_transfers(struct walk *w, struct mq_arena *arena)
{
	uint32_t *paid_by = mq_arena_array(arena, w->p->n_edges, uint32_t);
	uint32_t n = w->p->n_nodes;
	uint32_t *first, *list;

	mq_csr_make(arena, n, w->p->n_edges, &w->p->edge->src, &w->p->edge->dst, sizeof(*w->p->edge), &first, &list);
	for (uint32_t e = 0; e < w->p->n_edges; e++)
		list[e] = w->block[list[e]];
	for (uint32_t u = 0; u < n; u++) {
		bool leaves = false;

		for (uint32_t i = first[u]; i < first[u + 1]; i++) {
			bool seen = list[i] == w->block[u];

			for (uint32_t j = first[u]; j < i && !seen; j++)
				seen = paid_by[j] == list[i];
			paid_by[i] = list[i];
			leaves = leaves || list[i] != w->block[u];
			if (!seen && w->own[list[i]])
				w->in_cost[list[i]] += w->p->out_cost[u];
		}
		if (leaves && w->own[w->block[u]])
			w->out_cost[w->block[u]] += w->p->out_cost[u];
	}
}

double mq_place_latency(const struct mq_place *p, const struct mq_placement *placement, struct mq_arena *scratch)
{
	struct mq_arena_mark mark = mq_arena_mark(scratch);
	uint32_t n = p->n_nodes;
	struct walk w = { .p = p,
			  .block = mq_arena_array(scratch, n, uint32_t),
			  .set = mq_arena_array(scratch, n, uint32_t),
			  .finish = mq_arena_array(scratch, 2 * n, double),
			  .work = mq_arena_array(scratch, 2 * n, double),
			  .in_cost = mq_arena_array(scratch, 2 * n, double),
			  .out_cost = mq_arena_array(scratch, 2 * n, double),
			  .own = mq_arena_array(scratch, 2 * n, bool) };
	double *start = mq_arena_array(scratch, 2 * n, double), last = 0;
	bool changed = true;

	for (uint32_t s = 0; s < placement->n_stages; s++) {
		double size = 0;

		for (uint32_t i = 0; i < placement->stage[s].n_nodes; i++) {
			w.set[placement->stage[s].node[i]] = s;
			size += p->size[placement->stage[s].node[i]];
		}
		if (size > p->type[placement->stage[s].type].memory)
			last = INFINITY;
	}
	make_blocks(&w, placement, scratch);
	add_transfers(&w, scratch);
	for (uint32_t round = 0; changed && round <= w.n_blocks; round++) {
		changed = false;
		for (uint32_t b = 0; b < w.n_blocks; b++)
			w.finish[b] = start[b] + w.in_cost[b] + w.work[b] + w.out_cost[b];
		for (uint32_t e = 0; e < p->n_edges; e++) {
			uint32_t a = w.block[p->edge[e].src], b = w.block[p->edge[e].dst];

			if (a != b && w.finish[a] > start[b]) {
				start[b] = w.finish[a];
				changed = true;
			}
		}
	}
	for (uint32_t b = 0; b < w.n_blocks; b++)
		last = fmax(last, w.finish[b]);
	mq_arena_rewind(scratch, mark);
	return changed ? (double)INFINITY : last; /* a cycle between sets, due to colours */
}

bool mq_placement_sort(const struct mq_place *p, struct mq_placement *placement, struct mq_arena *scratch)
{
	struct mq_arena_mark mark = mq_arena_mark(scratch);
	uint32_t n = placement->n_stages, *set = mq_arena_array(scratch, p->n_nodes, uint32_t), n_arcs = 0;
	uint32_t *order = mq_arena_array(scratch, n, uint32_t), *first, *next;
	struct mq_place_edge *arc = mq_arena_array(scratch, p->n_edges, struct mq_place_edge);
	struct mq_place_stage *sorted = mq_arena_array(scratch, n, struct mq_place_stage);
	bool fits = true;

	for (uint32_t s = 0; s < n; s++) {
		for (uint32_t i = 0; i < placement->stage[s].n_nodes; i++)
			set[placement->stage[s].node[i]] = s;
		for (uint32_t t = 0; t < s; t++)
			fits = fits && !(placement->stage[s].type == placement->stage[t].type &&
					 placement->stage[s].device == placement->stage[t].device);
	}
	for (uint32_t e = 0; e < p->n_edges; e++) {
		uint32_t u = p->edge[e].src, v = p->edge[e].dst;
		/* backward edges are reversed; edges between the passes may go either way */
		bool back_u = p->backward && p->backward[u], back_v = p->backward && p->backward[v];

		if (back_u == back_v && set[u] != set[v])
			arc[n_arcs++] = (struct mq_place_edge){ set[back_u ? v : u], set[back_u ? u : v] };
	}
	mq_csr_make(scratch, n, n_arcs, &arc->src, &arc->dst, sizeof(*arc), &first, &next);
	fits = fits && mq_csr_sort(scratch, n, first, next, NULL, false, order) == n;
	for (uint32_t i = 0; fits && i < n; i++)
		sorted[i] = placement->stage[order[i]];
	if (fits)
		memcpy(placement->stage, sorted, n * sizeof(*sorted));
	mq_arena_rewind(scratch, mark);
	return fits;
}

/* equal.c - Piper's baseline, an equal split of the repeated layers; see dp.h. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "lib/csr.h"
#include "piper/dp.h"

struct split {
	const struct mq_piper *p;
	struct mq_arena *arena;
	uint32_t n_layers, *layer; /* repeated nodes in topological order */
	uint32_t n_head, *head;    /* nodes before a repeated one */
	uint32_t n_tail, *tail;    /* the others */
};

/* The most common name, which is that of the repeated nodes. */
static const char *common_name(const struct mq_piper *p)
{
	const char *best = "";
	uint32_t most = 0;

	for (uint32_t v = 0; v < p->n_nodes; v++) {
		uint32_t n = 0;

		for (uint32_t w = v; w < p->n_nodes; w++)
			n += !strcmp(p->node[v].name, p->node[w].name);
		if (n > most)
			most = n, best = p->node[v].name;
	}
	return best;
}

static void classify_nodes(struct split *s)
{
	const struct mq_piper *p = s->p;
	const char *name = common_name(p);
	uint32_t *order = mq_arena_array(s->arena, p->n_nodes, uint32_t), *first, *next;
	bool *before = mq_arena_array(s->arena, p->n_nodes, bool);

	mq_csr_make(s->arena, p->n_nodes, p->n_edges, &p->edge->src, &p->edge->dst, sizeof(*p->edge), &first, &next);
	mq_csr_sort(s->arena, p->n_nodes, first, next, NULL, false, order);
	s->layer = mq_arena_array(s->arena, p->n_nodes, uint32_t);
	s->head = mq_arena_array(s->arena, p->n_nodes, uint32_t);
	s->tail = mq_arena_array(s->arena, p->n_nodes, uint32_t);
	for (uint32_t i = p->n_nodes; i-- > 0;) {
		uint32_t v = order[i];

		before[v] = !strcmp(p->node[v].name, name);
		for (uint32_t e = 0; e < p->n_edges; e++)
			before[v] = before[v] || (p->edge[e].src == v && before[p->edge[e].dst]);
	}
	for (uint32_t i = 0; i < p->n_nodes; i++) {
		uint32_t v = order[i];

		if (!strcmp(p->node[v].name, name))
			s->layer[s->n_layers++] = v;
		else if (before[v])
			s->head[s->n_head++] = v;
		else
			s->tail[s->n_tail++] = v;
	}
}

/* The stages of one candidate; the last ones get the layers left over. apart: other nodes get stages of their own. */
static struct mq_piper_stage *divide(const struct split *s, uint32_t n_stages, uint32_t apart)
{
	struct mq_piper_stage *stage = mq_arena_array(s->arena, n_stages, struct mq_piper_stage);
	uint32_t inner = n_stages - 2 * apart, each = s->n_layers / inner;
	uint32_t larger = s->n_layers % inner, next = 0;

	for (uint32_t i = 0; i < n_stages; i++) {
		bool middle = i >= apart && i < n_stages - apart;
		uint32_t n = middle ? each + (i - apart >= inner - larger) : 0;

		stage[i].node = mq_arena_array(s->arena, s->p->n_nodes, uint32_t);
		stage[i].choice = mq_arena_array(s->arena, s->p->n_nodes, uint32_t);
		for (uint32_t k = 0; k < n; k++)
			stage[i].node[stage[i].n_nodes++] = s->layer[next++];
		for (uint32_t k = 0; i == 0 && k < s->n_head; k++)
			stage[i].node[stage[i].n_nodes++] = s->head[k];
		for (uint32_t k = 0; i == n_stages - 1 && k < s->n_tail; k++)
			stage[i].node[stage[i].n_nodes++] = s->tail[k];
	}
	return stage;
}

/* The slowest stage of a candidate, counting micro-batches in flight from the last stage on. */
static double judge(const struct split *s, struct mq_piper_stage *stage, uint32_t n_stages)
{
	double slowest = 0;
	uint32_t in_flight = 0;

	for (uint32_t i = n_stages; i-- > 0;) {
		in_flight += stage[i].d;
		stage[i].time = mq_piper_stage_time(s->p, &stage[i], in_flight, s->arena);
		slowest = fmax(slowest, stage[i].time);
	}
	return slowest;
}

/* The least time over all degrees and choices for one division of the layers. */
static double try_degrees(const struct split *s, uint32_t n_stages, uint32_t apart)
{
	const struct mq_piper *p = s->p;
	struct mq_piper_stage *stage = divide(s, n_stages, apart);
	uint32_t limit = p->devices < p->micro_batches ? p->devices : p->micro_batches;
	double least = INFINITY;

	for (uint32_t d = 1; n_stages * d <= limit; d++)
		for (uint32_t t = 0; t < p->n_degrees && p->micro_batches % d == 0; t++) {
			if (n_stages * d * p->degree[t] > p->devices)
				break;
			for (uint32_t c = 0; c < p->node[0].n_choices[t]; c++) {
				for (uint32_t i = 0; i < n_stages; i++) {
					stage[i].d = d;
					stage[i].t = p->degree[t];
					for (uint32_t k = 0; k < stage[i].n_nodes; k++)
						stage[i].choice[k] = c;
				}
				least = fmin(least, judge(s, stage, n_stages));
			}
		}
	return least;
}

double mq_piper_equal_split(const struct mq_piper *p, struct mq_arena *arena)
{
	struct split s = { .p = p, .arena = arena };
	double least = INFINITY;

	classify_nodes(&s);
	for (uint32_t apart = 0; apart < 2; apart++)
		for (uint32_t n = 1 + 2 * apart; n <= p->devices && n <= s.n_layers + 2 * apart; n++)
			least = fmin(least, try_degrees(&s, n, apart));
	return least;
}

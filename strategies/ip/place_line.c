/* place_line.c - upper bound of the latency; see place_latency.h. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "ip/place_latency.h"
#include "lib/csr.h"
#include "lib/place/model.h"

struct cell {
	double latency;
	uint32_t from;   /* number of units before the last set */
	bool skip, pool; /* the device is unused; the last unit is on the CPUs */
};

struct line {
	const struct mq_place *p;
	struct mq_units u;
	struct mq_arena *arena;
	uint32_t n_devices;
	struct mq_place_stage *device; /* accelerators in turn, as empty stages */
	uint32_t cpu;                  /* type of the pool, or MQ_NONE */
	double room;                   /* memory of the largest accelerator */
	uint32_t *order, *at;          /* [units] the order and its inverse */
	double *rank;                  /* [units] the ready unit of least rank comes next */
	struct cell *cell;             /* [(units + 1) * (devices + 1)] */
	uint32_t *stamp, *left;        /* [signals] */
	double *in_s;                  /* [units] transfers of the set that ends there, s */
};

static void list_devices(struct line *l)
{
	struct mq_placement all = mq_placement_empty(l->p, l->arena);

	l->device = all.stage;
	l->cpu = MQ_NONE;
	for (uint32_t d = 0; d < all.n_stages; d++) {
		const struct mq_place_type *type = &l->p->type[all.stage[d].type];

		if (type->own_memory) {
			l->device[l->n_devices++] = all.stage[d];
			l->room = fmax(l->room, type->memory);
		} else if (l->cpu == MQ_NONE) {
			l->cpu = all.stage[d].type;
		}
	}
}

/* Sorts units topologically, lowest rank first. */
static void sort_units(struct line *l)
{
	struct mq_arena_mark mark = mq_arena_mark(l->arena);
	uint32_t n = mq_csr_sort(l->arena, l->u.n, l->u.succ_first, l->u.succ, l->rank, false, l->order);

	for (uint32_t i = 0; i < n; i++)
		l->at[l->order[i]] = i;
	mq_arena_rewind(l->arena, mark);
}

/* Transfers of the sets [first, j] of the order; returns how many of them fit the largest memory. */
static uint32_t price_sets(struct line *l, uint32_t first)
{
	const struct mq_units *u = &l->u;
	double size = 0, enters = 0, leaves = 0;
	uint32_t j = first;

	for (; j < u->n; j++) {
		uint32_t v = l->order[j];

		size += u->size[v];
		if (size > l->room)
			break;
		for (uint32_t i = u->got_first[v]; i < u->got_first[v + 1]; i++) {
			uint32_t s = u->got[i];

			if (l->at[u->home[s]] >= first) {
				if (--l->left[s] == 0)
					leaves -= u->cost[s];
			} else if (l->stamp[s] != first) {
				l->stamp[s] = first;
				enters += u->cost[s];
			}
		}
		for (uint32_t i = u->sent_first[v]; i < u->sent_first[v + 1]; i++) {
			uint32_t s = u->sent[i];

			l->left[s] = u->dst_first[s + 1] - u->dst_first[s];
			leaves += u->cost[s];
		}
		l->in_s[j] = enters + leaves;
	}
	return j - first;
}

static void improve(struct cell *c, struct cell with)
{
	if (with.latency < c->latency)
		*c = with;
}

/* Dynamic program: the best intervals along the order, sets in sequence. */
static void cut_line(struct line *l)
{
	const struct mq_units *u = &l->u;
	uint32_t wide = l->n_devices + 1;

	for (uint32_t i = 0; i < (u->n + 1) * wide; i++)
		l->cell[i] = (struct cell){ .latency = i ? (double)INFINITY : 0 };
	for (uint32_t s = 0; s < u->n_signals; s++)
		l->stamp[s] = MQ_NONE;
	for (uint32_t i = 0; i <= u->n; i++) {
		struct cell *here = l->cell + (size_t)i * wide;

		for (uint32_t a = 1; a < wide; a++)
			improve(&here[a], (struct cell){ here[a - 1].latency, i, true, false });
		if (i == u->n)
			break;
		for (uint32_t a = 0; a < wide && l->cpu != MQ_NONE; a++)
			improve(&here[wide + a],
				(struct cell){ here[a].latency + u->time[l->order[i] * u->n_types + l->cpu], i, false,
					       true });
		uint32_t fit = price_sets(l, i);

		for (uint32_t a = 0; a < l->n_devices; a++) {
			double work = 0, size = 0;

			for (uint32_t j = i; j < i + fit; j++) {
				uint32_t v = l->order[j];

				work += u->time[v * u->n_types + l->device[a].type];
				size += u->size[v];
				if (size > l->p->type[l->device[a].type].memory || isinf(work))
					break;
				improve(&l->cell[(size_t)(j + 1) * wide + a + 1],
					(struct cell){ here[a].latency + work + l->in_s[j], i, false, false });
			}
		}
	}
}

/* The placement of the best intervals, in arena `out`. */
static void read_line(const struct line *l, struct mq_arena *out, struct mq_placement *placement)
{
	const struct mq_units *u = &l->u;
	uint32_t wide = l->n_devices + 1, *stage_of = mq_arena_array(out, u->n, uint32_t), pool = MQ_NONE;

	*placement = (struct mq_placement){ .stage = mq_arena_array(out, wide, struct mq_place_stage) };
	if (isinf(l->cell[(size_t)u->n * wide + l->n_devices].latency))
		return;
	for (uint32_t j = u->n, a = l->n_devices; j > 0;) {
		const struct cell *c = &l->cell[(size_t)j * wide + a];

		if (c->skip) {
			a--;
			continue;
		}
		uint32_t s = c->pool && pool != MQ_NONE ? pool : placement->n_stages;

		if (s == placement->n_stages)
			placement->stage[placement->n_stages++] =
				c->pool ? (struct mq_place_stage){ .type = l->cpu, .replicas = 1 } : l->device[a - 1];
		pool = c->pool ? s : pool;
		for (uint32_t i = c->from; i < j; i++)
			stage_of[l->order[i]] = s;
		a -= !c->pool;
		j = c->from;
	}
	mq_placement_fill(u, l->p->n_nodes, stage_of, out, placement);
}

static double try_line(struct line *l, struct mq_arena *out, struct mq_placement *placement)
{
	sort_units(l);
	cut_line(l);
	read_line(l, out, placement);
	return placement->n_stages ? mq_place_latency(l->p, placement, l->arena) : (double)INFINITY;
}

enum mq_status mq_place_line(const struct mq_place *p, uint32_t orders, struct mq_rng *rng, struct mq_arena *arena,
			     struct mq_placement *out, struct mq_err *err)
{
	struct line l = { .p = p, .arena = arena };

	MQ_TRY(mq_units_make(p, MQ_UNITS_CYCLES, arena, &l.u, err));
	list_devices(&l);
	l.order = mq_arena_array(arena, l.u.n, uint32_t);
	l.at = mq_arena_array(arena, l.u.n, uint32_t);
	l.rank = mq_arena_array(arena, l.u.n, double);
	l.in_s = mq_arena_array(arena, l.u.n, double);
	l.cell = mq_arena_array(arena, (size_t)(l.u.n + 1) * (l.n_devices + 1), struct cell);
	l.stamp = mq_arena_array(arena, l.u.n_signals, uint32_t);
	l.left = mq_arena_array(arena, l.u.n_signals, uint32_t);
	for (uint32_t i = 0; i < l.u.n; i++)
		l.rank[l.u.line[i]] = i;
	double best = try_line(&l, arena, out);

	for (uint32_t k = 1; k < orders && l.u.n > 1; k++) {
		struct mq_arena_mark mark = mq_arena_mark(arena);
		struct mq_placement next;
		uint32_t v = mq_rng_below(rng, l.u.n);
		double was = l.rank[v];

		l.rank[v] = l.u.n * mq_rng_unit(rng);
		double now = try_line(&l, arena, &next);

		if (now > best) {
			l.rank[v] = was;
			mq_arena_rewind(arena, mark);
			continue;
		}
		best = now;
		*out = next;
	}
	mq_placement_loads(p, out, arena);
	return MQ_OK;
}

/* elim.c - see elim.h.
 *
 * A table ("factor") holds its variables, in the order in which they are eliminated: the next one varies slowest and
 * the last one fastest, so the inner loop of every step reads consecutive numbers. Input pairs are transposed once
 * where needed. For each choice of the eliminated variable, the inner loop adds one row of each table that varies along
 * the innermost variable to the sum of those that do not, and keeps the minimum. SPDX-License-Identifier: Apache-2.0 */
#include "lib/elim.h"

#include <math.h>
#include <stdbool.h>

#include "maquette/types.h"

struct factor {
	uint32_t n_vars;
	uint32_t *var; /* in the order of elimination: first = slowest */
	uint32_t *n;   /* choices of each */
	double *value;
	bool used; /* merged into a later table */
};

struct elim {
	const struct mq_elim_problem *problem;
	struct mq_arena *arena;
	uint32_t *order, *position;
	uint32_t **scope; /* [step] neighbours D of the variable eliminated then */
	uint32_t *scope_size;
	uint32_t n_factors;
	struct factor *factor; /* pairs first, then one per step */
	struct mq_elim_result *result;
};

double mq_elim_cost(const struct mq_elim_problem *p, const uint32_t *choice)
{
	double sum = 0;

	for (uint32_t v = 0; v < p->n_vars; v++)
		sum += p->cost[v][choice[v]];
	for (uint32_t i = 0; i < p->n_pairs; i++) {
		const struct mq_elim_pair *pair = &p->pair[i];

		sum += pair->cost[(size_t)choice[pair->a] * p->n_choices[pair->b] + choice[pair->b]];
	}
	return sum;
}

/* ---- order -------------------------------------------------------------------------------------- */

/* Neighbours as sorted lists of ids; merging takes linear time. */
struct list {
	uint32_t n, *id;
};

static struct list merge(struct mq_arena *arena, struct list a, struct list b, uint32_t without1, uint32_t without2)
{
	struct list out = { 0, mq_arena_array(arena, a.n + b.n, uint32_t) };

	for (uint32_t i = 0, j = 0; i < a.n || j < b.n;) {
		uint32_t next = j >= b.n || (i < a.n && a.id[i] <= b.id[j]) ? a.id[i] : b.id[j];

		if (i < a.n && a.id[i] == next)
			i++;
		if (j < b.n && b.id[j] == next)
			j++;
		if (next != without1 && next != without2)
			out.id[out.n++] = next;
	}
	return out;
}

static struct list *neighbours(const struct mq_elim_problem *p, struct mq_arena *arena)
{
	struct list *list = mq_arena_array(arena, p->n_vars, struct list);

	for (uint32_t i = 0; i < p->n_pairs; i++) {
		uint32_t end[2] = { p->pair[i].a, p->pair[i].b };

		mq_assert(end[0] != end[1] && end[0] < p->n_vars && end[1] < p->n_vars);
		for (int side = 0; side < 2; side++) {
			struct list one = { 1, &end[!side] };

			list[end[side]] = merge(arena, list[end[side]], one, MQ_NONE, MQ_NONE);
		}
	}
	return list;
}

static void order_least(struct elim *e, struct list *list)
{
	uint32_t n = e->problem->n_vars;
	bool *done = mq_arena_array(e->arena, n, bool);

	for (uint32_t step = 0; step < n; step++) {
		uint32_t best = MQ_NONE;

		for (uint32_t v = 0; v < n; v++)
			if (!done[v] && (best == MQ_NONE || list[v].n < list[best].n))
				best = v;
		done[best] = true;
		e->order[step] = best;
		e->scope[step] = list[best].id;
		e->scope_size[step] = list[best].n;
		for (uint32_t i = 0; i < list[best].n; i++) {
			uint32_t w = list[best].id[i];

			list[w] = merge(e->arena, list[w], list[best], best, w);
		}
	}
}

static void order_breadth(struct elim *e, const struct list *list)
{
	uint32_t n = e->problem->n_vars, head = 0, tail = 0;
	bool *seen = mq_arena_array(e->arena, n, bool);
	struct list frontier = { 0, NULL };

	for (uint32_t root = 0; root < n; root++) {
		if (!seen[root])
			e->order[tail++] = root;
		seen[root] = true;
		for (; head < tail; head++) {
			const struct list *next = &list[e->order[head]];

			for (uint32_t i = 0; i < next->n; i++) {
				if (!seen[next->id[i]])
					e->order[tail++] = next->id[i];
				seen[next->id[i]] = true;
			}
		}
	}
	memset(seen, 0, n * sizeof(*seen));
	for (uint32_t step = 0; step < n; step++) {
		uint32_t v = e->order[step];
		struct list open = { 0, mq_arena_array(e->arena, list[v].n, uint32_t) };

		seen[v] = true;
		for (uint32_t i = 0; i < list[v].n; i++)
			if (!seen[list[v].id[i]])
				open.id[open.n++] = list[v].id[i];
		frontier = merge(e->arena, frontier, open, v, MQ_NONE);
		e->scope[step] = frontier.id;
		e->scope_size[step] = frontier.n;
	}
}

static void sort_by_position(const struct elim *e, uint32_t *var, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++) {
		uint32_t v = var[i], j = i;

		for (; j > 0 && e->position[var[j - 1]] > e->position[v]; j--)
			var[j] = var[j - 1];
		var[j] = v;
	}
}

/* Checks the sizes of all tables against the bounds before any is made. */
static enum mq_status check_bounds(struct elim *e, struct mq_err *err)
{
	const struct mq_elim_problem *p = e->problem;
	double max_rows = p->max_rows > 0 ? p->max_rows : 4e9;
	double max_entries = p->max_entries > 0 ? p->max_entries : (double)(1 << 27);
	double entries = 0;

	for (uint32_t step = 0; step < p->n_vars; step++) {
		double size = 1, rows;

		for (uint32_t i = 0; i < e->scope_size[step]; i++)
			size *= p->n_choices[e->scope[step][i]];
		rows = size * p->n_choices[e->order[step]];
		entries += size;
		e->result->rows += rows;
		e->result->largest = fmax(e->result->largest, rows);
		if (e->scope_size[step] + 1 > e->result->widest)
			e->result->widest = e->scope_size[step] + 1;
		if (rows > max_rows || entries > max_entries)
			return mq_bad(
				err,
				"elimination of variable %u needs %.3g combinations over %u variables (bound %.3g; "
				"%.3g table entries, bound %.3g): fewer configurations, or the least-dependent order",
				e->order[step], rows, e->scope_size[step] + 1, max_rows, entries, max_entries);
	}
	return MQ_OK;
}

/* ---- tables ------------------------------------------------------------------------------------- */

static void add_pairs(struct elim *e)
{
	const struct mq_elim_problem *p = e->problem;

	for (uint32_t i = 0; i < p->n_pairs; i++) {
		const struct mq_elim_pair *pair = &p->pair[i];
		struct factor *f = &e->factor[e->n_factors++];
		bool swap = e->position[pair->a] > e->position[pair->b];
		uint32_t na = p->n_choices[pair->a], nb = p->n_choices[pair->b];

		f->n_vars = 2;
		f->var = mq_arena_array(e->arena, 2, uint32_t);
		f->n = mq_arena_array(e->arena, 2, uint32_t);
		f->var[0] = swap ? pair->b : pair->a;
		f->var[1] = swap ? pair->a : pair->b;
		f->n[0] = swap ? nb : na;
		f->n[1] = swap ? na : nb;
		f->value = mq_arena_array(e->arena, (size_t)na * nb, double);
		for (uint32_t a = 0; a < na; a++)
			for (uint32_t b = 0; b < nb; b++)
				f->value[swap ? (size_t)b * na + a : (size_t)a * nb + b] =
					pair->cost[(size_t)a * nb + b];
	}
}

/* A factor in one elimination step: its stride along each loop variable. */
struct view {
	const double *value;
	size_t stride_v; /* of the eliminated variable */
	size_t *stride;  /* [scope] */
	size_t at;       /* offset of the current outer choice */
};

struct step {
	uint32_t v, n_v, n_scope;
	const uint32_t *n;  /* [n_scope] choices */
	const double *cost; /* unary of v */
	uint32_t n_inner, n_outer;
	struct view *inner, *outer; /* views that vary along the innermost variable, and the others */
	double *out;
	const double *zero; /* [row] zeros, in place of absent inner views */
	size_t row;         /* choices of the innermost variable (1 if the scope is empty) */
};

static struct view view_of(struct elim *e, const struct factor *f, uint32_t v, const uint32_t *scope, uint32_t n_scope)
{
	struct view view = { .value = f->value, .stride = mq_arena_array(e->arena, n_scope, size_t) };
	size_t stride = 1;

	for (uint32_t i = f->n_vars; i-- > 0;) {
		if (f->var[i] == v)
			view.stride_v = stride;
		for (uint32_t s = 0; s < n_scope; s++)
			if (scope[s] == f->var[i])
				view.stride[s] = stride;
		stride *= f->n[i];
	}
	return view;
}

static bool has_variable(const struct factor *f, uint32_t v)
{
	for (uint32_t i = 0; i < f->n_vars; i++)
		if (f->var[i] == v)
			return true;
	return false;
}

static void row_minimum(const struct step *s, double *restrict out)
{
	for (size_t x = 0; x < s->row; x++)
		out[x] = INFINITY;
	for (uint32_t c = 0; c < s->n_v; c++) {
		const double *row[2] = { s->zero, s->zero };
		double base = s->cost[c];

		for (uint32_t i = 0; i < s->n_outer; i++)
			base += s->outer[i].value[s->outer[i].at + c * s->outer[i].stride_v];
		for (uint32_t i = 0; i < s->n_inner && i < 2; i++)
			row[i] = s->inner[i].value + s->inner[i].at + c * s->inner[i].stride_v;
		for (size_t x = 0; x < s->row && s->n_inner <= 2; x++) { /* the usual case, vectorized */
			double sum = base + row[0][x] + row[1][x];

			out[x] = sum < out[x] ? sum : out[x];
		}
		for (size_t x = 0; x < s->row && s->n_inner > 2; x++) {
			double sum = base;

			for (uint32_t i = 0; i < s->n_inner; i++)
				sum += s->inner[i].value[s->inner[i].at + c * s->inner[i].stride_v + x];
			out[x] = sum < out[x] ? sum : out[x];
		}
	}
}

static bool go_on(const struct mq_elim_problem *p)
{
	return !p->tick || p->tick(p->tick_context, (double)NAN, "eliminating");
}

/* False: the time is over. */
static bool fill_table(const struct step *s, const struct mq_elim_problem *p, uint32_t *digit)
{
	uint32_t outer = s->n_scope ? s->n_scope - 1 : 0;
	size_t rows = 0, often = 1 + (1 << 20) / (s->row * s->n_v); /* polls a few times a second */
	double *out = s->out;

	memset(digit, 0, (outer + 1) * sizeof(*digit));
	for (;;) {
		if (++rows % often == 0 && !go_on(p))
			return false;
		row_minimum(s, out);
		out += s->row;
		uint32_t d = outer;

		while (d > 0) { /* odometer over all but the innermost variable */
			d--;
			size_t carry = 0;

			if (++digit[d] == s->n[d])
				carry = s->n[d], digit[d] = 0;
			for (uint32_t i = 0; i < s->n_inner + s->n_outer; i++) {
				struct view *w = i < s->n_inner ? &s->inner[i] : &s->outer[i - s->n_inner];
				w->at += w->stride[d];
				w->at -= carry * w->stride[d];
			}
			if (!carry)
				break;
			if (d == 0)
				return true;
		}
		if (outer == 0)
			return true;
	}
}

/* The tables combined in this step: those over v and, in breadth-first order, the previous step's, whatever it
 * spans. */
static uint32_t collect_tables(struct elim *e, uint32_t step, struct view *view)
{
	uint32_t v = e->order[step], n = 0;
	uint32_t running = e->problem->n_pairs + step - 1;
	bool breadth = e->problem->order == MQ_ELIM_BREADTH;

	for (uint32_t i = 0; i < e->n_factors; i++) {
		struct factor *f = &e->factor[i];

		if (f->used || !(has_variable(f, v) || (breadth && step > 0 && i == running)))
			continue;
		f->used = true;
		view[n++] = view_of(e, f, v, e->scope[step], e->scope_size[step]);
	}
	return n;
}

static bool eliminate(struct elim *e, uint32_t step, uint32_t *digit)
{
	const struct mq_elim_problem *p = e->problem;
	uint32_t v = e->order[step], n_scope = e->scope_size[step];
	struct factor *f = &e->factor[p->n_pairs + step];
	size_t size = 1;

	sort_by_position(e, e->scope[step], n_scope);
	f->n_vars = n_scope;
	f->var = e->scope[step];
	f->n = mq_arena_array(e->arena, n_scope, uint32_t);
	for (uint32_t i = 0; i < n_scope; i++)
		size *= f->n[i] = p->n_choices[f->var[i]];
	f->value = mq_arena_array(e->arena, size, double);

	struct view *view = mq_arena_array(e->arena, e->n_factors, struct view);
	struct step s = { .v = v,
			  .n_v = p->n_choices[v],
			  .n_scope = n_scope,
			  .n = f->n,
			  .cost = p->cost[v],
			  .out = f->value,
			  .row = n_scope ? f->n[n_scope - 1] : 1 };
	s.zero = mq_arena_array(e->arena, s.row, double);
	uint32_t n = collect_tables(e, step, view);

	s.inner = mq_arena_array(e->arena, n, struct view);
	s.outer = mq_arena_array(e->arena, n, struct view);
	for (uint32_t i = 0; i < n; i++) {
		if (n_scope && view[i].stride[n_scope - 1])
			s.inner[s.n_inner++] = view[i];
		else
			s.outer[s.n_outer++] = view[i];
	}
	for (uint32_t i = 0; i < s.n_inner; i++) /* the scope's innermost variable is each table's too */
		mq_assert(s.inner[i].stride[n_scope - 1] == 1);
	e->n_factors++;
	return fill_table(&s, p, digit);
}

/* ---- back-substitution -------------------------------------------------------------------------- */

static double factor_at(const struct factor *f, const uint32_t *choice)
{
	size_t at = 0;

	for (uint32_t i = 0; i < f->n_vars; i++)
		at = at * f->n[i] + choice[f->var[i]];
	return f->value[at];
}

/* From the last eliminated variable back: all other variables of its tables are known by then. */
static void back_substitute(struct elim *e)
{
	const struct mq_elim_problem *p = e->problem;
	uint32_t *choice = e->result->choice;

	for (uint32_t step = p->n_vars; step-- > 0;) {
		uint32_t v = e->order[step], best = 0, n_known = p->n_pairs + step;
		double least = INFINITY;

		for (uint32_t c = 0; c < p->n_choices[v]; c++) {
			double sum = p->cost[v][c];

			choice[v] = c;
			for (uint32_t i = 0; i < n_known; i++)
				if (has_variable(&e->factor[i], v) && e->position[e->factor[i].var[0]] >= step)
					sum += factor_at(&e->factor[i], choice);
			if (sum < least)
				least = sum, best = c;
		}
		choice[v] = best;
	}
}

enum mq_status mq_elim_solve(const struct mq_elim_problem *p, struct mq_arena *arena, struct mq_elim_result *result,
			     struct mq_err *err)
{
	struct elim e = { .problem = p, .arena = arena, .result = result };
	uint32_t n = p->n_vars;

	*result = (struct mq_elim_result){ .choice = mq_arena_array(arena, n, uint32_t) };
	e.order = mq_arena_array(arena, n, uint32_t);
	e.position = mq_arena_array(arena, n, uint32_t);
	e.scope = mq_arena_array(arena, n, uint32_t *);
	e.scope_size = mq_arena_array(arena, n, uint32_t);
	struct list *list = neighbours(p, arena);

	if (p->order == MQ_ELIM_BREADTH)
		order_breadth(&e, list);
	else
		order_least(&e, list);
	for (uint32_t i = 0; i < n; i++)
		e.position[e.order[i]] = i;
	MQ_TRY(check_bounds(&e, err));
	e.factor = mq_arena_array(arena, p->n_pairs + n, struct factor);
	add_pairs(&e);
	uint32_t *digit = mq_arena_array(arena, result->widest + 1, uint32_t);

	for (uint32_t step = 0; step < n; step++)
		if (!eliminate(&e, step, digit) || (step % 64 == 63 && !go_on(p)))
			return MQ_DONE;
	/* Tables without variables remain, one per connected component. */
	for (uint32_t i = p->n_pairs; i < e.n_factors; i++)
		if (e.factor[i].n_vars == 0 && !e.factor[i].used)
			result->optimum += e.factor[i].value[0];
	back_substitute(&e);
	return MQ_OK;
}

/* linkage.c - see linkage.h. SPDX-License-Identifier: Apache-2.0 */
#include "automap/linkage.h"

#include <stdlib.h>

static const enum mq_dim weight_dims[MQ_LINKAGE_DIMS] = { MQ_DIM_OUT, MQ_DIM_IN };

static bool is_gemm(enum mq_op_kind kind)
{
	return kind == MQ_OP_GEMM || kind == MQ_OP_CONV || kind == MQ_OP_RECURRENT;
}

static bool has_dim(const struct mq_op *op, enum mq_dim dim)
{
	return op->splits >> dim & 1;
}

static bool has_weight(const struct mq_op *op)
{
	return (is_gemm(op->kind) || op->kind == MQ_OP_EMBEDDING) && (op->param > 0 || op->tied != MQ_NONE) &&
	       (has_dim(op, MQ_DIM_OUT) || has_dim(op, MQ_DIM_IN));
}

/* Does a split along `dim` split the output's features? Partial sums of split inputs are reduced first. */
static bool splits_output(const struct mq_op *op, uint32_t dim)
{
	return (dim == MQ_DIM_OUT && op->kind != MQ_OP_LOSS) || (dim == MQ_DIM_HEAD && !is_gemm(op->kind));
}

/* Does it need the input's features split? An embedding table is looked up by whole ids. */
static bool splits_input(const struct mq_op *op, uint32_t dim)
{
	if (op->kind == MQ_OP_EMBEDDING)
		return false;
	if (is_gemm(op->kind))
		return dim == MQ_DIM_IN;
	return dim == MQ_DIM_HEAD || dim == MQ_DIM_OUT;
}

/* The split of an op that takes (or gives) split features; MQ_N_DIMS: none. */
static uint32_t matching_split(const struct mq_op *op, bool as_consumer)
{
	static const enum mq_dim order[] = { MQ_DIM_HEAD, MQ_DIM_OUT, MQ_DIM_IN };

	for (int i = 0; i < 3; i++)
		if (has_dim(op, order[i]) && (as_consumer ? splits_input(op, order[i]) : splits_output(op, order[i])))
			return order[i];
	return MQ_N_DIMS;
}

/* ---- propagation ---------------------------------------------------------------------------------------- */

struct spread {
	const struct mq_model *m;
	const uint32_t *first_tied, *next_tied; /* lists of the ops tied to each weight */
	uint32_t *dim;                          /* [n_ops] split of each op; MQ_NONE = not reached */
	struct mq_linkage_group *group;
	uint32_t done; /* ops of the group whose neighbours were visited */
};

static void reach(struct spread *s, uint32_t op, uint32_t dim)
{
	if (dim == MQ_N_DIMS)
		return;
	if (s->dim[op] != MQ_NONE) {
		s->group->possible = s->group->possible && s->dim[op] == dim;
		return;
	}
	s->dim[op] = dim;
	s->group->op[s->group->n] = op;
	s->group->dim[s->group->n++] = (uint8_t)dim;
}

/* Splits a tied op along the same table dimension: the vocabulary is an embedding's input and a head's output. */
static void reach_tied(struct spread *s, uint32_t from, uint32_t to)
{
	bool turned = (s->m->op[from].kind == MQ_OP_EMBEDDING) != (s->m->op[to].kind == MQ_OP_EMBEDDING);
	uint32_t dim = s->dim[from];

	if (dim == MQ_DIM_OUT || dim == MQ_DIM_IN)
		dim = turned == (dim == MQ_DIM_OUT) ? MQ_DIM_IN : MQ_DIM_OUT;
	if (has_dim(&s->m->op[to], dim))
		reach(s, to, dim);
	else
		s->group->possible = false;
}

static void visit_neighbours(struct spread *s, uint32_t op)
{
	const struct mq_model *m = s->m;

	for (uint32_t e = m->out_first[op]; splits_output(&m->op[op], s->dim[op]) && e < m->out_first[op + 1]; e++)
		reach(s, m->edge[e].dst, matching_split(&m->op[m->edge[e].dst], true));
	for (uint32_t i = m->in_first[op]; splits_input(&m->op[op], s->dim[op]) && i < m->in_first[op + 1]; i++) {
		uint32_t src = m->edge[m->in_edge[i]].src;

		if (m->op[src].kind != MQ_OP_INPUT)
			reach(s, src, matching_split(&m->op[src], false));
	}
	if (m->op[op].tied != MQ_NONE)
		reach_tied(s, op, m->op[op].tied);
	for (uint32_t k = s->first_tied[op]; k != MQ_NONE; k = s->next_tied[k])
		reach_tied(s, op, k);
}

static void propagate(struct spread *s, const struct mq_linkage_var *var, enum mq_dim dim)
{
	s->done = 0;
	s->group->possible = true;
	for (uint32_t i = 0; i < var->n && s->group->possible; i++) {
		s->group->possible = has_dim(&s->m->op[var->op[i]], dim);
		if (s->group->possible)
			reach(s, var->op[i], dim);
	}
	while (s->done < s->group->n && s->group->possible)
		visit_neighbours(s, s->group->op[s->done++]);
	for (uint32_t i = 0; i < s->group->n; i++)
		s->dim[s->group->op[i]] = MQ_NONE;
}

/* ---- variables -------------------------------------------------------------------------------------------- */

/* The name without its layer number: "layer7.qkv" and "layer8.qkv" have the same role. */
static const char *role_of(const struct mq_model *m, uint32_t op)
{
	const char *dot = strchr(m->op[op].name, '.');

	return m->op[op].layer != MQ_NONE && dot ? dot + 1 : m->op[op].name;
}

static void list_vars(const struct mq_model *m, bool tie, struct mq_arena *arena, struct mq_linkage *l)
{
	l->var = mq_arena_array(arena, m->n_ops, struct mq_linkage_var);
	l->weight = mq_arena_array(arena, m->n_ops, bool);
	for (uint32_t op = 0; op < m->n_ops; op++) {
		uint32_t v = 0;

		if (!has_weight(&m->op[op]))
			continue;
		l->weight[op] = m->op[op].param > 0;
		l->n_weights += l->weight[op];
		while (v < l->n && !(tie && m->op[l->var[v].op[0]].kind == m->op[op].kind &&
				     !strcmp(role_of(m, l->var[v].op[0]), role_of(m, op))))
			v++;
		if (v == l->n)
			l->var[l->n++].op = mq_arena_array(arena, tie ? m->n_ops : 1, uint32_t);
		l->var[v].op[l->var[v].n++] = op;
	}
}

static uint32_t size_of(const struct mq_linkage_var *v)
{
	uint32_t most = 0;

	for (uint32_t d = 0; d < MQ_LINKAGE_DIMS; d++)
		most = v->group[d].possible && v->group[d].n > most ? v->group[d].n : most;
	return most;
}

MQ_COMPARE(largest_first, struct mq_linkage_var, MQ_ORDER(size_of(b), size_of(a)) ?: MQ_ORDER(a->op[0], b->op[0]))

void mq_linkage_make(const struct mq_model *m, bool tie, struct mq_arena *arena, struct mq_linkage *l)
{
	uint32_t *first = mq_arena_array(arena, m->n_ops, uint32_t), *next = mq_arena_array(arena, m->n_ops, uint32_t);
	struct spread s = {
		.m = m, .first_tied = first, .next_tied = next, .dim = mq_arena_array(arena, m->n_ops, uint32_t)
	};
	struct mq_linkage_group scratch = { .op = mq_arena_array(arena, m->n_ops, uint32_t),
					    .dim = mq_arena_array(arena, m->n_ops, uint8_t) };

	*l = (struct mq_linkage){ 0 };
	list_vars(m, tie, arena, l);
	for (uint32_t op = 0; op < m->n_ops; op++)
		first[op] = s.dim[op] = MQ_NONE;
	for (uint32_t op = m->n_ops; op-- > 0;)
		if (m->op[op].tied != MQ_NONE) {
			next[op] = first[m->op[op].tied];
			first[m->op[op].tied] = op;
		}
	for (uint32_t v = 0; v < l->n; v++)
		for (uint32_t d = 0; d < MQ_LINKAGE_DIMS; d++) {
			struct mq_linkage_group *g = &l->var[v].group[d];

			scratch.n = 0;
			s.group = &scratch;
			propagate(&s, &l->var[v], weight_dims[d]);
			*g = (struct mq_linkage_group){ scratch.possible, scratch.n,
							mq_arena_array(arena, scratch.n, uint32_t),
							mq_arena_array(arena, scratch.n, uint8_t) };
			memcpy(g->op, scratch.op, scratch.n * sizeof(*g->op));
			memcpy(g->dim, scratch.dim, scratch.n);
		}
	qsort(l->var, l->n, sizeof(*l->var), largest_first);
}

/* ---- decisions -------------------------------------------------------------------------------------------- */

bool mq_linkage_agrees(const struct mq_linkage *l, uint32_t var, uint32_t dim, const uint32_t *split)
{
	const struct mq_linkage_var *v = &l->var[var];

	for (uint32_t i = 0; dim < MQ_LINKAGE_DIMS && i < v->group[dim].n; i++)
		if (split[v->group[dim].op[i]] != MQ_NONE && split[v->group[dim].op[i]] != v->group[dim].dim[i])
			return false;
	return dim == MQ_LINKAGE_DIMS || v->group[dim].possible;
}

bool mq_linkage_decide(const struct mq_linkage *l, uint32_t var, uint32_t dim, uint32_t *split)
{
	const struct mq_linkage_var *v = &l->var[var];

	if (!mq_linkage_agrees(l, var, dim, split))
		return false;
	for (uint32_t i = 0; dim == MQ_LINKAGE_DIMS && i < v->n; i++)
		split[v->op[i]] = split[v->op[i]] == MQ_NONE ? MQ_N_DIMS : split[v->op[i]];
	for (uint32_t i = 0; dim < MQ_LINKAGE_DIMS && i < v->group[dim].n; i++)
		split[v->group[dim].op[i]] = v->group[dim].dim[i];
	return true;
}

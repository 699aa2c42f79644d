/* pase_model.c - see pase_model.h. Equal ops and edges (repeated layers) share their tables.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lib/pase_model.h"
#include "lib/plans.h"

#include <math.h>

#include "lib/classes.h"

/* ---- configurations ----------------------------------------------------------------------------- */

struct splits {
	uint32_t n, room;
	uint32_t *list; /* [n * MQ_N_DIMS] */
};

struct builder {
	const struct mq_problem *problem;
	struct mq_arena *arena;
	struct mq_pase_model *out;
	uint32_t *n_choices;
	uint32_t n_types, *type; /* first rank of each device class */
	struct splits now;
	uint32_t *edge_twin; /* [n_edges] the first edge between equal ops */
	const double **edge_cost;
	uint32_t *member; /* [devices] scratch: ranks of a group */
};

static bool may_split(const struct mq_op *op, int dim, uint32_t parts, double samples)
{
	if (parts == 1)
		return true;
	if (!(op->splits & 1u << dim))
		return false;
	return dim == MQ_DIM_BATCH ? parts <= samples : parts <= op->extent[dim];
}

static void enumerate(struct builder *b, const struct mq_op *op, int dim, uint32_t left, uint32_t split[MQ_N_DIMS])
{
	if (dim == MQ_N_DIMS && !mq_split_allowed(b->problem->limits, op, b->out->samples, split))
		return;
	if (dim == MQ_N_DIMS) {
		for (int d = 0; d < MQ_N_DIMS; d++)
			MQ_PUSH(b->arena, b->now.list, b->now.n, b->now.room, split[d]);
		return;
	}
	for (uint32_t parts = 1; parts <= left; parts++) {
		if (left % parts || !may_split(op, dim, parts, b->out->samples))
			continue;
		split[dim] = parts;
		enumerate(b, op, dim + 1, left / parts, split);
	}
}

/* Seconds to all-reduce the gradients of a config over its batch, sequence and spatial splits; plain replicas compute
 * the same gradients. */
static bool gradient_time(const struct builder *b, const struct mq_op *op, const uint32_t split[MQ_N_DIMS],
			  double *seconds)
{
	uint32_t n = b->out->devices.n, inner = 1, outer = 1;
	double share[MQ_N_DIMS];

	*seconds = 0;
	if (b->problem->q->train->infer || !mq_op_trained(op))
		return true;
	for (int d = 0; d < MQ_N_DIMS; d++) {
		share[d] = split[d];
		/* In the mesh, batch, sequence and spatial splits are outermost. */
		if (d == MQ_DIM_BATCH || d == MQ_DIM_SEQ || d == MQ_DIM_SPATIAL)
			outer *= split[d];
		else
			inner *= split[d];
	}
	uint32_t replicas = n / (inner * outer);

	if (outer == 1)
		return true; /* replicas alone need no reduction */
	for (uint32_t i = 0; i < outer; i++)
		b->member[i] = b->out->devices.rank[i * inner * replicas];
	/* no rewind here: the collective may cache routes in the same arena */
	return mq_collective_s(b->problem, MQ_COLL_ALL_REDUCE, b->member, outer, mq_op_param_shard(op, share),
			       b->problem->q->train->dtype, seconds);
}

static bool price_choice(struct builder *b, uint32_t id, const uint32_t split[MQ_N_DIMS], double *seconds,
			 double *bytes)
{
	const struct mq_costs *costs = b->problem->costs;
	double samples = b->out->samples / split[MQ_DIM_BATCH], slowest = 0, sync;
	struct mq_op_memory memory;

	for (uint32_t t = 0; t < b->n_types; t++)
		slowest = fmax(slowest, mq_passes_s(b->problem, id, b->type[t], split, samples));
	if (!gradient_time(b, &b->problem->q->model->op[id], split, &sync))
		return false;
	costs->op_memory(costs->context, id, split, samples, MQ_SYNC_ALLREDUCE, 1, MQ_RECOMPUTE_NONE, &memory);
	*seconds = slowest * b->out->micro_batches + sync;
	*bytes = mq_op_static_B(&memory) + memory.kept_B;
	return true;
}

/* ---- repeated layers ---------------------------------------------------------------------------- */

static void find_twins(struct builder *b)
{
	const struct mq_model *m = b->problem->q->model;

	b->edge_twin = mq_arena_array(b->arena, m->n_edges, uint32_t);
	for (uint32_t e = 0; e < m->n_edges; e++) {
		b->edge_twin[e] = e;
		for (uint32_t f = 0; f < e && b->edge_twin[e] == e; f++)
			if (b->edge_twin[f] == f && m->like[m->edge[e].src] == m->like[m->edge[f].src] &&
			    m->like[m->edge[e].dst] == m->like[m->edge[f].dst] &&
			    m->edge[e].elems == m->edge[f].elems && m->edge[e].no_grad == m->edge[f].no_grad)
				b->edge_twin[e] = f;
	}
}

/* ---- tables ------------------------------------------------------------------------------------- */

static enum mq_status no_route(const struct builder *b, struct mq_err *err)
{
	return mq_bad(err, "engine 'pase': not all of the %u devices of '%s' are joined by routes: use --max devices=N",
		      b->out->devices.n, b->problem->q->cluster->name);
}

static enum mq_status fill_ops(struct builder *b, struct mq_err *err)
{
	const struct mq_model *m = b->problem->q->model;
	struct mq_pase_model *out = b->out;

	out->split = mq_arena_array(b->arena, m->n_ops, uint32_t *);
	out->memory = mq_arena_array(b->arena, m->n_ops, double *);
	out->cost = mq_arena_array(b->arena, m->n_ops, double *);
	b->n_choices = mq_arena_array(b->arena, m->n_ops, uint32_t);
	for (uint32_t v = 0; v < m->n_ops; v++) {
		uint32_t twin = m->like[v], split[MQ_N_DIMS];

		if (twin != v) {
			out->split[v] = out->split[twin];
			out->memory[v] = out->memory[twin];
			out->cost[v] = out->cost[twin];
			b->n_choices[v] = b->n_choices[twin];
			continue;
		}
		b->now = (struct splits){ 0 };
		enumerate(b, &m->op[v], 0, out->devices.n, split);
		b->n_choices[v] = b->now.n / MQ_N_DIMS;
		if (!b->n_choices[v])
			return mq_bad(err, "engine 'pase': no split of op '%s' over %u devices keeps --fix and --max",
				      m->op[v].name, out->devices.n);
		out->split[v] = b->now.list;
		out->memory[v] = mq_arena_array(b->arena, b->n_choices[v], double);
		out->cost[v] = mq_arena_array(b->arena, b->n_choices[v], double);
		for (uint32_t c = 0; c < b->n_choices[v]; c++)
			if (!price_choice(b, v, out->split[v] + c * MQ_N_DIMS, &out->cost[v][c], &out->memory[v][c]))
				return no_route(b, err);
	}
	return MQ_OK;
}

static void price_edge(struct builder *b, uint32_t e)
{
	const struct mq_edge *edge = &b->problem->q->model->edge[e];
	struct mq_pase_model *out = b->out;
	uint32_t na = b->n_choices[edge->src], nb = b->n_choices[edge->dst];
	double *cost = mq_arena_array(b->arena, (size_t)na * nb, double);
	struct mq_config from = { .n_devices = out->devices.n, .device = out->devices.rank };
	struct mq_config to = from;

	for (uint32_t a = 0; a < na; a++) {
		memcpy(from.split, out->split[edge->src] + a * MQ_N_DIMS, sizeof(from.split));
		for (uint32_t c = 0; c < nb; c++) {
			double forward, backward;

			memcpy(to.split, out->split[edge->dst] + c * MQ_N_DIMS, sizeof(to.split));
			if (b->problem->costs->reshard(b->problem->costs->context, e, &from, &to, out->samples,
						       &forward, &backward))
				cost[(size_t)a * nb + c] = (forward + backward) * out->micro_batches;
			else
				cost[(size_t)a * nb + c] = INFINITY; /* no such resharding */
		}
	}
	b->edge_cost[e] = cost;
}

static void find_classes(struct builder *b)
{
	struct mq_classes classes;

	mq_classes_make(b->problem->q->cluster, b->arena, &classes);
	bool *seen = mq_arena_array(b->arena, classes.n, bool);

	b->type = mq_arena_array(b->arena, b->out->devices.n, uint32_t);
	for (uint32_t i = 0; i < b->out->devices.n; i++) {
		uint32_t rank = b->out->devices.rank[i];

		if (!seen[classes.of[rank]])
			b->type[b->n_types++] = rank;
		seen[classes.of[rank]] = true;
	}
}

enum mq_status mq_pase_from_problem(const struct mq_problem *problem, const struct mq_devices *devices,
				    uint32_t micro_batches, struct mq_arena *arena, struct mq_pase_model *out,
				    struct mq_err *err)
{
	const struct mq_model *m = problem->q->model;
	struct builder b = { .problem = problem, .arena = arena, .out = out };
	struct mq_elim_pair *pair = mq_arena_array(arena, m->n_edges, struct mq_elim_pair);

	*out = (struct mq_pase_model){ .devices = *devices,
				       .micro_batches = micro_batches,
				       .samples = problem->q->train->batch / micro_batches,
				       .limit_B = INFINITY };
	for (uint32_t i = 0; i < devices->n; i++)
		out->limit_B = fmin(out->limit_B, mq_room_B(problem, devices->rank[i]));
	b.member = mq_arena_array(arena, devices->n, uint32_t);
	find_classes(&b);
	find_twins(&b);
	MQ_TRY(fill_ops(&b, err));
	b.edge_cost = mq_arena_array(arena, m->n_edges, const double *);
	for (uint32_t e = 0; e < m->n_edges; e++) {
		if (!mq_tick(problem, (double)NAN, "pricing splits"))
			return MQ_DONE;
		if (b.edge_twin[e] == e)
			price_edge(&b, e);
		pair[e] = (struct mq_elim_pair){ m->edge[e].src, m->edge[e].dst, b.edge_cost[b.edge_twin[e]] };
	}
	const double **cost = mq_arena_array(arena, m->n_ops, const double *);

	for (uint32_t v = 0; v < m->n_ops; v++)
		cost[v] = out->cost[v];
	out->problem = (struct mq_elim_problem){
		.n_vars = m->n_ops, .n_pairs = m->n_edges, .n_choices = b.n_choices, .cost = cost, .pair = pair
	};
	return MQ_OK;
}

double mq_pase_memory(const struct mq_pase_model *model, const uint32_t *choice)
{
	double sum = 0;

	for (uint32_t v = 0; v < model->problem.n_vars; v++)
		sum += model->memory[v][choice[v]];
	return sum;
}

void mq_pase_plan(const struct mq_pase_model *model, const uint32_t *choice, const struct mq_problem *problem,
		  struct mq_arena *arena, struct mq_plan *plan)
{
	mq_plan_init(plan, arena, problem->q->model->n_ops);
	plan->micro_batches = model->micro_batches;
	for (uint32_t v = 0; v < problem->q->model->n_ops; v++) {
		struct mq_config c = { .n_devices = model->devices.n, .device = model->devices.rank };

		memcpy(c.split, model->split[v] + choice[v] * MQ_N_DIMS, sizeof(c.split));
		plan->config_of[v] = mq_plan_intern(plan, &c, arena);
	}
}

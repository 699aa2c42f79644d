/* sfb_model.c - see sfb_model.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/sfb_model.h"
#include "lib/plans.h"

#include <math.h>

enum { OUTPUT, OUTPUT_GRADIENT, WEIGHT_GRADIENT, NODES };

struct builder {
	const struct mq_problem *problem;
	const struct mq_sfb_group *group;
	double *cost;
	bool *forbidden;
	struct mq_sfb_edge *edge;
	uint32_t n_edges;
};

static bool add_gather(struct builder *b, uint32_t src, uint32_t dst, double elems)
{
	const struct mq_train *train = b->problem->q->train;
	double seconds;

	if (!mq_collective_s(b->problem, MQ_COLL_ALL_GATHER, b->group->rank, b->group->n, elems * train->batch,
			     train->dtype, &seconds))
		return false;
	b->edge[b->n_edges++] = (struct mq_sfb_edge){ src, dst, seconds * 1e6 };
	return true;
}

/* Backward seconds of one replica's samples on the slowest device. */
static double slowest_share(const struct builder *b, uint32_t op)
{
	const struct mq_costs *costs = b->problem->costs;
	uint32_t split[MQ_N_DIMS] = MQ_UNSPLIT;
	double slowest = 0;

	split[MQ_DIM_BATCH] = b->group->n;
	for (uint32_t i = 0; i < b->group->n; i++)
		slowest = fmax(slowest, costs->op_time(costs->context, op, MQ_BACKWARD, b->group->rank[i], split,
						       b->problem->q->train->batch / b->group->n));
	return slowest;
}

static bool add_op(struct builder *b, uint32_t op)
{
	const struct mq_model *model = b->problem->q->model;
	const struct mq_op *o = &model->op[op];
	double reduce_s;

	for (uint32_t node = 0; node < NODES; node++)
		b->forbidden[NODES * op + node] = true;
	if (o->param <= 0 || !(o->splits & 1u << MQ_DIM_BATCH) || o->kind != MQ_OP_GEMM)
		return true;
	if (!mq_collective_s(b->problem, MQ_COLL_ALL_REDUCE, b->group->rank, b->group->n, o->param,
			     b->problem->q->train->grad_dtype, &reduce_s))
		return false;
	/* the weight gradient is half of a layer's backward pass */
	b->cost[NODES * op + WEIGHT_GRADIENT] =
		((b->group->n - 1) * slowest_share(b, op) / 2 - reduce_s) * 1e6 + b->group->alpha_us;
	b->forbidden[NODES * op + WEIGHT_GRADIENT] = false;
	for (uint32_t e = model->in_first[op]; e < model->in_first[op + 1]; e++) {
		const struct mq_edge *edge = &model->edge[model->in_edge[e]];

		if (!add_gather(b, NODES * edge->src + OUTPUT, NODES * op + WEIGHT_GRADIENT, edge->elems))
			return false;
	}
	return add_gather(b, NODES * op + OUTPUT_GRADIENT, NODES * op + WEIGHT_GRADIENT, o->output);
}

enum mq_status mq_sfb_of_group(const struct mq_problem *problem, const struct mq_sfb_group *group,
			       struct mq_arena *arena, struct mq_sfb_result *result, struct mq_err *err)
{
	const struct mq_model *m = problem->q->model;
	struct builder b = { .problem = problem,
			     .group = group,
			     .cost = mq_arena_array(arena, NODES * m->n_ops, double),
			     .forbidden = mq_arena_array(arena, NODES * m->n_ops, bool),
			     .edge = mq_arena_array(arena, m->n_edges + m->n_ops, struct mq_sfb_edge) };
	struct mq_sfb_result cut;

	for (uint32_t op = 0; op < m->n_ops; op++)
		if (!add_op(&b, op))
			return mq_bad(
				err,
				"sufficient factors: no route joins the %u devices of op '%s': name connected ones "
				"with --max devices=N",
				group->n, m->op[op].name);
	struct mq_sfb_problem problem_of_cut = { NODES * m->n_ops, b.n_edges, b.cost, b.forbidden, b.edge };

	MQ_TRY(mq_sfb_solve(&problem_of_cut, arena, &cut, err));
	*result = (struct mq_sfb_result){ cut.optimum, mq_arena_array(arena, m->n_ops, bool) };
	for (uint32_t op = 0; op < m->n_ops; op++)
		result->duplicate[op] = cut.duplicate[NODES * op + WEIGHT_GRADIENT];
	return MQ_OK;
}

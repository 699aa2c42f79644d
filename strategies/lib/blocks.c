/* blocks.c - see blocks.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/blocks.h"
#include "lib/plans.h"

#include <math.h>
#include <stdlib.h>

MQ_COMPARE(compare_edges, struct mq_block_edge, MQ_ORDER(a->src, b->src) ?: MQ_ORDER(a->dst, b->dst))

static uint32_t *number_blocks(const struct mq_model *model, struct mq_arena *arena, uint32_t *n)
{
	uint32_t *of_op = mq_arena_array(arena, model->n_ops, uint32_t);
	uint32_t *of_layer = mq_arena_none(arena, model->n_layers);

	for (uint32_t op = 0; op < model->n_ops; op++) {
		const struct mq_op *o = &model->op[op];

		if (o->phase == MQ_BACKWARD && o->mate != MQ_NONE && o->mate < op)
			of_op[op] = of_op[o->mate];
		else if (o->layer == MQ_NONE || o->layer >= model->n_layers)
			of_op[op] = (*n)++;
		else {
			if (of_layer[o->layer] == MQ_NONE)
				of_layer[o->layer] = (*n)++;
			of_op[op] = of_layer[o->layer];
		}
	}
	return of_op;
}

/* Do two blocks hold equal ops (mq_model.like) in the same order? */
static bool blocks_alike(const struct mq_model *m, const struct mq_blocks *b, uint32_t one, uint32_t other)
{
	uint32_t n = b->first[one + 1] - b->first[one];
	bool alike = b->first[other + 1] - b->first[other] == n;

	for (uint32_t i = 0; i < n && alike; i++)
		alike = m->like[b->op[b->first[other] + i]] == b->op[b->first[one] + i];
	return alike;
}

void mq_blocks_make(const struct mq_model *model, struct mq_arena *arena, struct mq_blocks *b)
{
	uint32_t kept = 0;

	*b = (struct mq_blocks){ 0 };
	b->of_op = number_blocks(model, arena, &b->n);
	mq_csr_make(arena, b->n, model->n_ops, b->of_op, NULL, sizeof(*b->of_op), &b->first, &b->op);
	b->like = mq_arena_array(arena, b->n, uint32_t);
	for (uint32_t i = 0; i < b->n; i++) {
		uint32_t one = b->of_op[model->like[b->op[b->first[i]]]];

		b->like[i] = blocks_alike(model, b, one, i) ? one : i;
	}
	b->edge = mq_arena_array(arena, model->n_edges, struct mq_block_edge);
	for (uint32_t e = 0; e < model->n_edges; e++) {
		const struct mq_edge *edge = &model->edge[e];
		uint32_t src = b->of_op[edge->src], dst = b->of_op[edge->dst];
		bool again = false;

		if (src == dst || model->op[edge->src].phase == MQ_BACKWARD ||
		    model->op[edge->dst].phase == MQ_BACKWARD)
			continue;
		for (uint32_t f = model->out_first[edge->src]; f < e; f++)
			again = again || b->of_op[model->edge[f].dst] == dst;
		b->edge[b->n_edges++] = (struct mq_block_edge){ src, dst, again ? 0 : edge->elems };
	}
	qsort(b->edge, b->n_edges, sizeof(*b->edge), compare_edges);
	for (uint32_t e = 0; e < b->n_edges; e++) {
		if (kept && compare_edges(&b->edge[kept - 1], &b->edge[e]) == 0)
			b->edge[kept - 1].elems += b->edge[e].elems;
		else
			b->edge[kept++] = b->edge[e];
	}
	b->n_edges = kept;
}

/* A row-parallel op leaves partial sums, all-reduced in the forward pass; its column-parallel counterpart needs the
 * same all-reduce in the backward pass, counted here with it. */
static double reduce_time(const struct mq_problem *problem, const struct mq_op *op, const uint32_t split[MQ_N_DIMS],
			  const uint32_t *group, uint32_t tp, double samples)
{
	double seconds = 0;

	if (tp > 1 && split[MQ_DIM_IN] > 1 &&
	    !mq_collective_s(problem, MQ_COLL_ALL_REDUCE, group, tp, op->output * samples, problem->q->train->dtype,
			     &seconds))
		return INFINITY;
	return seconds;
}

void mq_block_times(const struct mq_problem *problem, const struct mq_blocks *b, uint32_t block, const uint32_t *group,
		    uint32_t tp, double samples, double seconds[2])
{
	const struct mq_costs *costs = problem->costs;

	seconds[0] = seconds[1] = 0;
	for (uint32_t i = b->first[block]; i < b->first[block + 1]; i++) {
		uint32_t op = b->op[i], split[MQ_N_DIMS];
		const struct mq_op *o = &problem->q->model->op[op];
		bool explicit = o->phase == MQ_BACKWARD;

		mq_tensor_split(problem->q->model, op, tp, false, true, split);
		double reduce_s = reduce_time(problem, o, split, group, tp, samples);
		double s = costs->op_time(costs->context, op, explicit ? MQ_BACKWARD : MQ_FORWARD, group[0], split,
					  samples);

		seconds[explicit] += s + reduce_s;
		if (problem->q->train->infer || explicit)
			continue;
		if (o->mate == MQ_NONE)
			seconds[1] += costs->op_time(costs->context, op, MQ_BACKWARD, group[0], split, samples);
		seconds[1] += reduce_s;
	}
}

double mq_block_time(const struct mq_problem *problem, const struct mq_blocks *b, uint32_t block, const uint32_t *group,
		     uint32_t tp, double samples)
{
	double seconds[2];

	mq_block_times(problem, b, block, group, tp, samples, seconds);
	return seconds[0] + seconds[1];
}

void mq_block_memory(const struct mq_problem *problem, const struct mq_blocks *b, uint32_t block, uint32_t tp,
		     double samples, enum mq_recompute recompute, double *static_B, double *activation_B)
{
	*static_B = *activation_B = 0;
	for (uint32_t i = b->first[block]; i < b->first[block + 1]; i++) {
		uint32_t split[MQ_N_DIMS];
		struct mq_op_memory memory;

		mq_tensor_split(problem->q->model, b->op[i], tp, false, true, split);
		problem->costs->op_memory(problem->costs->context, b->op[i], split, samples, MQ_SYNC_ALLREDUCE, 1,
					  recompute, &memory);
		*static_B += mq_op_static_B(&memory);
		*activation_B += memory.kept_B;
	}
}

double mq_block_gradient_B(const struct mq_problem *problem, const struct mq_blocks *b, uint32_t block, uint32_t tp)
{
	double sum = 0;

	for (uint32_t i = b->first[block]; i < b->first[block + 1]; i++) {
		uint32_t split[MQ_N_DIMS];
		double share[MQ_N_DIMS];

		mq_tensor_split(problem->q->model, b->op[i], tp, false, true, split);
		for (int d = 0; d < MQ_N_DIMS; d++)
			share[d] = split[d];
		if (mq_op_trained(&problem->q->model->op[b->op[i]]))
			sum += mq_op_param_shard(&problem->q->model->op[b->op[i]], share);
	}
	return sum * mq_dtype_size(problem->q->train->dtype);
}

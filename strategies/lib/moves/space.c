/* space.c - the tables of a question that moves use: see moves.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/moves/moves.h"

#include <math.h>

#include "lib/plans.h"

/* Most ops in `heavy`; FEW: in a layered model, for its embedding and head */
enum { HEAVY = 16, FEW = 2 };

/* The ops with most parameters, largest first; in a layered model only ops outside of layers. */
static void find_heavy(const struct mq_model *m, struct mq_arena *arena, struct mq_move_space *space)
{
	space->heavy = mq_arena_array(arena, HEAVY, uint32_t);
	while (space->n_heavy < (m->n_layers ? FEW : HEAVY)) {
		uint32_t best = MQ_NONE;

		for (uint32_t op = 0; op < m->n_ops; op++) {
			bool taken = m->op[op].param <= 0 || m->op[op].phase == MQ_BACKWARD ||
				     (m->n_layers && m->op[op].layer != MQ_NONE);

			for (uint32_t i = 0; i < space->n_heavy && !taken; i++)
				taken = space->heavy[i] == op;
			if (!taken && (best == MQ_NONE || m->op[op].param > m->op[best].param))
				best = op;
		}
		if (best == MQ_NONE)
			return;
		space->heavy[space->n_heavy++] = best;
	}
}

/* The layer of each op. Ops between two layers, such as the norm after an encoder, move with the next one: left behind,
 * they would be on a later stage than their readers. */
static uint32_t *layers_of(const struct mq_model *m, struct mq_arena *arena)
{
	uint32_t *layer = mq_arena_array(arena, m->n_ops, uint32_t), next = MQ_NONE, first = 0;

	while (first < m->n_ops && m->op[first].layer == MQ_NONE)
		first++;
	for (uint32_t op = m->n_ops; op-- > 0;) {
		next = m->op[op].layer != MQ_NONE ? m->op[op].layer : next;
		layer[op] = op < first ? MQ_NONE : next;
	}
	return layer;
}

void mq_move_space_make(const struct mq_problem *problem, struct mq_move_space *space)
{
	const struct mq_model *m = problem->q->model;

	*space = (struct mq_move_space){ .problem = problem };
	mq_classes_make(problem->q->cluster, problem->arena, &space->classes);
	mq_symmetry_make(problem->q->cluster, &space->classes, problem->arena, &space->symmetry);
	space->speed = mq_arena_array(problem->arena, space->classes.n, double);
	for (uint32_t c = 0; c < space->classes.n; c++) {
		double sum = mq_model_s(problem, space->classes.first[c]);

		space->speed[c] = sum > 0 && isfinite(sum) ? 1 / sum : 1;
	}
	mq_layers_measure(problem, space->classes.first[0], &space->layers);
	mq_csr_make(problem->arena, m->n_layers, m->n_ops, layers_of(m, problem->arena), NULL, sizeof(uint32_t),
		    &space->layer_first, &space->layer_op);
	space->both_ways = mq_model_explicit_backward(m);
	space->selective = mq_selective_saves(problem);
	find_heavy(m, problem->arena, space);
}

/* layers.c - see layers.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/layers.h"

#include "lib/plans.h"

static const uint32_t whole[MQ_N_DIMS] = MQ_UNSPLIT;

void mq_layers_measure(const struct mq_problem *problem, uint32_t device, struct mq_layers *layers)
{
	const struct mq_model *m = problem->q->model;
	bool inside = false;

	*layers = (struct mq_layers){ .n = m->n_layers,
				      .layer_s = mq_arena_array(problem->arena, m->n_layers + 1, double) };
	for (uint32_t op = 0; op < m->n_ops; op++) {
		double t = mq_passes_s(problem, op, device, whole, 1);

		if (m->op[op].layer != MQ_NONE) {
			inside = true;
			layers->layer_s[m->op[op].layer] += t;
		} else if (inside) {
			layers->tail_s += t;
		} else {
			layers->head_s += t;
		}
	}
}

void mq_layers_cut(const struct mq_layers *l, const double *speed, uint32_t chunks, uint32_t *count)
{
	uint32_t layer = 0;
	double total = l->head_s + l->tail_s, speeds = 0, target = 0, done = l->head_s;

	for (uint32_t i = 0; i < l->n; i++)
		total += l->layer_s[i];
	for (uint32_t c = 0; c < chunks; c++)
		speeds += speed[c];
	for (uint32_t c = 0; c < chunks; c++) {
		uint32_t left = chunks - 1 - c; /* each needs a layer too */

		left -= left && l->tail_s > 0;
		target += total * speed[c] / speeds;
		while (l->n - layer > left && (!count[c] || c + 1 == chunks || done + l->layer_s[layer] / 2 < target)) {
			done += l->layer_s[layer++];
			count[c]++;
		}
	}
}

/* pool_order.c - see pool_order.h. SPDX-License-Identifier: Apache-2.0 */
#include "judge/pool_order.h"

#include <stdlib.h>

struct weighed {
	double weight;
	uint32_t plan;
};

MQ_COMPARE(heavier_first, struct weighed, MQ_ORDER(b->weight, a->weight) ?: MQ_ORDER(a->plan, b->plan))

uint32_t *mq_pool_order(const struct mq_plan *const *plan, uint32_t n, struct mq_arena *arena)
{
	struct weighed *w = mq_arena_array(arena, n, struct weighed);
	uint32_t *order = mq_arena_array(arena, n, uint32_t);

	/* Estimated number of simulated tasks: each op once per micro-batch, and once per device too where uneven
	 * shares prevent folding. */
	for (uint32_t i = 0; i < n; i++) {
		double tasks = 0;

		for (uint32_t op = 0; op < plan[i]->n_ops; op++) {
			const struct mq_config *c = &plan[i]->config[plan[i]->config_of[op]];
			tasks += c->share ? c->n_devices : 1;
		}
		w[i] = (struct weighed){ tasks * plan[i]->micro_batches, i };
	}
	qsort(w, n, sizeof(*w), heavier_first);
	for (uint32_t i = 0; i < n; i++)
		order[i] = w[i].plan;
	return order;
}

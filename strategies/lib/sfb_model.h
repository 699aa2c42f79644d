/* sfb_model.h - the sufficient-factor cut (sfb.h) of a question: which GEMMs of a data-parallel group compute their
 * whole weight gradient on every device.
 *
 * Three nodes per op: its output, its output's gradient, its weight gradient. Only the last may be duplicated, as a
 * plan chooses per layer how its gradient is made. Edges from each input and from the output's gradient cost their
 * all-gather; duplicating costs the weight gradient of all other replicas' samples on the slowest device plus a price
 * per op, and saves the all-reduce. Only GEMMs are lowered this way. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_SFB_MODEL_H
#define MQ_STRATEGIES_LIB_SFB_MODEL_H

#include "maquette/engine.h"
#include "lib/sfb.h"

struct mq_sfb_group {
	uint32_t n;
	const uint32_t *rank; /* [n] data-parallel devices */
	double alpha_us;      /* price of duplicating one op */
};

/* Fills one entry per op of the model; the optimum in us. MQ_EINPUT: no route joins the devices. */
enum mq_status mq_sfb_of_group(const struct mq_problem *problem, const struct mq_sfb_group *group,
			       struct mq_arena *arena, struct mq_sfb_result *result, struct mq_err *err);

#endif

/* sfb_model.h - the sufficient-factor cut (sfb.h) of a question: which GEMMs of a data-parallel set of devices compute
 * their whole weight gradient on each of them.
 *
 * Per op three nodes: its output, the gradient of its output, its weight gradient, which alone may be duplicated, for a
 * plan says per layer how its gradient is made. An edge from each input and from the output's gradient costs their
 * all-gather over the devices; duplicating costs the GEMM of all other replicas' samples on the slowest device and a
 * price per op, and saves the all-reduce. Only GEMMs are lowered so. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_SFB_MODEL_H
#define MQ_STRATEGIES_LIB_SFB_MODEL_H

#include "maquette/engine.h"
#include "lib/sfb.h"

struct mq_sfb_group {
	uint32_t n;
	const uint32_t *rank; /* [n] devices with a share of the batch each */
	double alpha_us;      /* price of duplicating one op */
};

/* `result`: one entry per op of the model; the optimum in us. MQ_EINPUT: devices that no route joins. */
enum mq_status mq_sfb_of_group(const struct mq_problem *problem, const struct mq_sfb_group *group,
			       struct mq_arena *arena, struct mq_sfb_result *result, struct mq_err *err);

#endif

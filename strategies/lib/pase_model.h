/* pase_model.h - the PaSE problem of a model on a cluster, from the cost queries.
 *
 * Every op runs on all devices; its configurations are the degrees along its dimensions whose product divides the
 * number of devices (the rest is replication). Cost of a configuration: forward and backward time on the slowest device
 * class times the micro-batches, plus the all-reduce of its gradients; cost of an edge: resharding between the two
 * layouts, forward and backward, with the reduction of partial sums. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_PASE_MODEL_H
#define MQ_STRATEGIES_LIB_PASE_MODEL_H

#include "maquette/engine.h"
#include "lib/elim.h"
#include "lib/plans.h"

struct mq_pase_model {
	struct mq_elim_problem problem;
	struct mq_devices devices;
	uint32_t micro_batches;
	double samples;   /* of a micro-batch */
	uint32_t **split; /* [n_ops][n_choices * MQ_N_DIMS] */
	double **memory;  /* [n_ops][n_choices] bytes on one device */
	double **cost;    /* [n_ops][n_choices] seconds; also problem.cost */
	double limit_B;   /* of the smallest device, see mq_room_B */
};

/* MQ_EINPUT: devices that no route joins. MQ_DONE: tick said stop. */
enum mq_status mq_pase_from_problem(const struct mq_problem *problem, const struct mq_devices *devices,
				    uint32_t micro_batches, struct mq_arena *arena, struct mq_pase_model *out,
				    struct mq_err *err);

/* Bytes on one device of a full assignment. */
double mq_pase_memory(const struct mq_pase_model *model, const uint32_t *choice);
void mq_pase_plan(const struct mq_pase_model *model, const uint32_t *choice, const struct mq_problem *problem,
		  struct mq_arena *arena, struct mq_plan *plan);

#endif

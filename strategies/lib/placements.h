/* placements.h - one device per op: the groups of ops placed together, and the devices.
 *
 * Ops of one colour share a device, and so do a forward op and its explicit backward op.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STRATEGIES_LIB_PLACEMENTS_H
#define STRATEGIES_LIB_PLACEMENTS_H

#include "maquette/engine.h"

struct placements {
	uint32_t n_groups;
	uint32_t *group_of; /* [n_ops], groups numbered in order of first op */
	uint32_t n_devices;
	uint32_t *device;       /* [n_devices] ranks that can run some op, at most --max devices */
	uint32_t micro_batches; /* of all plans; 1 unless changed */
};

void placements_init(struct placements *space, const struct mq_problem *problem);
/* For engines that place whole ops. MQ_EINPUT: the software runs no such plan, or no device can run the model. */
enum mq_status placements_open(struct placements *space, const struct mq_problem *problem, const char *engine,
			       struct mq_err *err);
/* The plan that puts group g on space->device[choice[g]]. */
void placements_plan(const struct placements *space, const uint32_t *choice, const struct mq_problem *problem,
		     struct mq_arena *arena, struct mq_plan *plan);
/* Is placement the natural question: does the graph bring a profile or its own devices? */
bool placements_natural(const struct mq_problem *problem);

#endif

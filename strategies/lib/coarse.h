/* coarse.h - coarsening: placement tasks merged into at most `limit` groups.
 *
 * The lightest group joins the neighbour with which it exchanges most bytes, until `limit` are left: chains end up on
 * one device, and parallel branches stay apart. With limit 0, or at least the number of tasks, each task is a group.
 *
 * If the groups, spread over the devices in proportion to their memory, do not fit with the micro-batches of the tasks,
 * all plans get the gradient accumulation and recomputation of lib/fit.h. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_COARSE_H
#define MQ_STRATEGIES_LIB_COARSE_H

#include "lib/fit.h"
#include "lib/tasks.h"

struct mq_coarse {
	struct mq_tasks tasks;
	uint32_t n, n_devices;
	uint32_t *group_of; /* [tasks.n] */
	bool *possible;     /* [n * n_devices] the device can run all members */
	uint32_t *even; /* [n] device of each group, consecutive groups filling devices in proportion to their memory */
	struct mq_fit fit; /* makes `even` fit; mq_coarse_plan applies it */
};

/* Baselines of learned placements: all groups on one device, for each device that can, then `even`. Fills choice[n];
 * false after the last. `next` begins at 0. */
bool mq_coarse_baseline(const struct mq_coarse *coarse, uint32_t *next, uint32_t *choice);

#define MQ_COARSE_EVEN "a placement with memory shared evenly" /* for mq_fit_say */

enum mq_status mq_coarse_make(const struct mq_problem *problem, const char *engine, uint32_t limit,
			      struct mq_coarse *coarse, struct mq_err *err);
/* The same with the caller's groups: `tasks` and `group_of` (any numbers) are set, the rest is filled. */
enum mq_status mq_coarse_finish(const struct mq_problem *problem, const char *engine, struct mq_coarse *coarse,
				struct mq_err *err);
/* The plan that puts group g on device choice[g] (an index into tasks.space.device). */
void mq_coarse_plan(const struct mq_coarse *coarse, const uint32_t *choice, const struct mq_problem *problem,
		    struct mq_arena *arena, struct mq_plan *plan);

#endif

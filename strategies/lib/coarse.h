/* coarse.h - few groups out of many: placement tasks merged until at most `limit` are left.
 *
 * The lightest group joins the neighbour that it exchanges most with, until `limit` are left: what is chained shares a
 * device, and branches that could run side by side stay apart. With limit 0, or at least as many as there are tasks, each
 * task is a group.
 *
 * Where the groups, spread over the devices in proportion to their memory, do not fit with the micro-batches of the
 * tasks, all plans get the accumulation and recomputation of lib/fit.h. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_COARSE_H
#define MQ_STRATEGIES_LIB_COARSE_H

#include "lib/fit.h"
#include "lib/tasks.h"

struct mq_coarse {
	struct mq_tasks tasks;
	uint32_t n, n_devices;
	uint32_t *group_of; /* [tasks.n] */
	bool *possible;     /* [n * n_devices] all members can run there */
	uint32_t *even;     /* [n] device of each group where neighbours fill devices in proportion to their memory */
	struct mq_fit fit;  /* of `even`: what mq_coarse_plan applies */
};

/* What every learnt placement is held against: all groups on one device, for each that can, then the even spread.
 * Fills choice[n]; false after the last. `next` begins at 0. */
bool mq_coarse_baseline(const struct mq_coarse *coarse, uint32_t *next, uint32_t *choice);

#define MQ_COARSE_EVEN "a placement with memory shared evenly" /* for mq_fit_say */

enum mq_status mq_coarse_make(const struct mq_problem *problem, const char *engine, uint32_t limit,
			      struct mq_coarse *coarse, struct mq_err *err);
/* The same for groups from elsewhere: `tasks` and `group_of` (any numbers) are set, the rest is filled. */
enum mq_status mq_coarse_finish(const struct mq_problem *problem, const char *engine, struct mq_coarse *coarse,
				struct mq_err *err);
/* The plan that puts group g on device choice[g] (an index into tasks.space.device). */
void mq_coarse_plan(const struct mq_coarse *coarse, const uint32_t *choice, const struct mq_problem *problem,
		    struct mq_arena *arena, struct mq_plan *plan);

#endif

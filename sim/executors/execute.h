/* execute.h - something that runs a view of a schedule and fills a timeline (the simulating ones; those on real
 * hardware are plug-ins of maquette-replay, see validator/). SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_EXECUTORS_EXECUTE_H
#define MQ_EXECUTORS_EXECUTE_H

#include "maquette/calib.h"
#include "maquette/cluster.h"
#include "schedule/jitter.h"
#include "maquette/plan.h"
#include "maquette/question.h"
#include "maquette/result.h"
#include "schedule/timeline.h"
#include "folding/view.h"

struct mq_exec_request {
	struct mq_view view;              /* of a checked schedule */
	const struct mq_cluster *cluster; /* bound to calib */
	const struct mq_calib *calib;
	double timeout_s;               /* simulated seconds after which the verdict is TIMEOUT */
	double simulation_s;            /* clock seconds that it may take, as far as its size tells; 0 = no limit */
	bool interference;              /* communication and compute slow each other */
	bool times_only;                /* nobody asks what links carry */
	bool all_flows;                 /* simulate every flow, met or not: the same, but slower */
	const struct mq_jitter *jitter; /* draws > 0: tasks vary, nothing is folded; NULL = they do not */
};

/* Sets *verdict to OK, DEADLOCK, TIMEOUT, INVALID (a device cannot run a task) or REFUSED (too dear): err->text says
 * of these two why, the status is MQ_OK all the same; the timeline lives in the arena and is whole only where OK.
 * Errors: no route, ... */
typedef enum mq_status mq_execute_fn(const struct mq_exec_request *request, struct mq_arena *arena,
				     struct mq_timeline *timeline, enum mq_verdict *verdict, struct mq_err *err);

/* One pass over the tasks, no contention: a lower bound of the simulation. */
mq_execute_fn mq_execute_analytic;
/* Discrete-event simulation; only callable from inside an actor of a loaded SimGrid platform (the
 * worker's conductor, see pool.h). */
mq_execute_fn mq_execute_simgrid;
/* Has the clock come so far that the next schedule might be rounded in another way than in a new process?
 * Results are the same to the last bit in all processes that are asked this before every schedule. */
bool mq_simgrid_is_worn(void);

#endif

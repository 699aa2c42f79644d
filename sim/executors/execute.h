/* execute.h - executors that simulate a view of a schedule and fill a timeline. Executors on real hardware are plug-ins
 * of maquette-replay, see validator/. SPDX-License-Identifier: Apache-2.0 */
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
	double simulation_s;            /* limit on the estimated clock time of the simulation; 0 = none */
	bool interference;              /* communication and compute slow each other */
	bool times_only;                /* the timeline needs no bytes of links */
	bool all_flows;                 /* simulate also flows that share no link: same result, slower */
	const struct mq_jitter *jitter; /* draws > 0; the view must not be folded. NULL = durations do not vary */
};

/* Sets *verdict to OK, DEADLOCK, TIMEOUT, INVALID (a device cannot run a task) or REFUSED (over simulation_s); for the
 * last two err->text gives the reason, though the status is MQ_OK. The timeline lives in the arena and is complete only
 * for OK. Errors: no route, ... */
typedef enum mq_status mq_execute_fn(const struct mq_exec_request *request, struct mq_arena *arena,
				     struct mq_timeline *timeline, enum mq_verdict *verdict, struct mq_err *err);

/* One pass over the tasks, no contention: a lower bound of the simulation. */
mq_execute_fn mq_execute_analytic;
/* Discrete-event simulation; only callable from inside an actor of a loaded SimGrid platform (the
 * worker's conductor, see pool.h). */
mq_execute_fn mq_execute_simgrid;
/* Is SimGrid's clock so late that the next schedule might be rounded differently than in a new process? If processes
 * that answer yes are replaced before the next schedule, results are equal to the last bit. */
bool mq_simgrid_is_worn(void);

#endif

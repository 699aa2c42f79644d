/* steps.h - how much a simulation has to do, counted: the same on every machine. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_EXECUTORS_SIMGRID_STEPS_H
#define MQ_EXECUTORS_SIMGRID_STEPS_H

#include "executors/execute.h"

/* Times that lanes wait, in all rounds of a run: as known before each began, and as it was. */
struct mq_sim_steps {
	double expected, taken;
};
/* mq_execute_simgrid, which tells its steps. */
enum mq_status mq_execute_simgrid_counted(const struct mq_exec_request *request, struct mq_arena *arena,
					  struct mq_timeline *timeline, enum mq_verdict *verdict,
					  struct mq_sim_steps *steps, struct mq_err *err);

#endif

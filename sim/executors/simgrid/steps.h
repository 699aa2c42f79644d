/* steps.h - counts the work of a simulation: equal on every machine. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_EXECUTORS_SIMGRID_STEPS_H
#define MQ_EXECUTORS_SIMGRID_STEPS_H

#include "executors/execute.h"

/* Waits of lanes in all rounds of a run: as estimated before each round, and as counted. */
struct mq_sim_steps {
	double expected, taken;
};
/* mq_execute_simgrid that also counts its steps. */
enum mq_status mq_execute_simgrid_counted(const struct mq_exec_request *request, struct mq_arena *arena,
					  struct mq_timeline *timeline, enum mq_verdict *verdict,
					  struct mq_sim_steps *steps, struct mq_err *err);

#endif

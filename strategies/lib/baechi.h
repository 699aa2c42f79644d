/* baechi.h - Baechi's memory-constrained list schedules (Jeon et al., SoCC 2020): m-TOPO, m-ETF, m-SCT.
 *
 * m-TOPO fills the devices one after another, in topological order, up to total memory / n + largest op. m-ETF
 * repeatedly takes, of all ready tasks and devices with enough memory, the pair with the earliest start. m-SCT is m-ETF
 * with favourite children: x_ij of a linear program says whether j should follow i on its device; a device waits for
 * the favourite child of its last task unless another task is urgent (its inputs are on every device before the device
 * is free). A transfer occupies the one channel of both devices; a tensor is sent to a device once.
 *
 * Differs: ops that must share a device are one task, memory is not freed during the step.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_BAECHI_H
#define MQ_STRATEGIES_LIB_BAECHI_H

#include "lib/tasks.h"

/* Each fills state->device_of; MQ_ENOPLAN: memory is exhausted, the message counts the tasks left over. */
enum mq_status mq_baechi_topo(const struct mq_tasks *tasks, struct mq_arena *arena, struct mq_schedule_state *state,
			      struct mq_err *err);
/* favourite: [n] the child that should follow a task on its device, MQ_NONE = none; NULL = m-ETF. */
enum mq_status mq_baechi_etf(const struct mq_tasks *tasks, const uint32_t *favourite, struct mq_arena *arena,
			     struct mq_schedule_state *state, struct mq_err *err);

#endif

/* clocks.h - the clock of each device of a plan, from the power that its templates draw.
 *
 * Power depends on times, which lowering does not know: like the hosts' calls (launch_overhead.h), this step runs
 * between lowering's templates and the schedule made of them. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_COSTING_CLOCKS_H
#define MQ_COSTING_CLOCKS_H

#include "maquette/cost.h"
#include "lowering/program.h"

/* Fills the schedule's `clock`; call it once after each mq_launch_overhead_apply. A device's clock follows from the
 * mean power of its step (mq_power_clock) and from the slowest device of the job (mq_link_calib.fleet). */
void mq_clocks_apply(struct mq_low *low);

/* The clock of a device that repeats the work of `draw`, in a job of n_devices. */
double mq_clocks_of(const struct mq_question *q, uint32_t device, uint32_t n_devices, const struct mq_draw *draw);

#endif

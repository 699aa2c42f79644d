/* clocks.h - at which clock the devices of a plan compute, from what their templates draw.
 *
 * What a device draws is a matter of seconds, so it is not lowering's: as with the hosts' calls (launch_overhead.h),
 * this step comes between its templates and the schedule that they make. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_COSTING_CLOCKS_H
#define MQ_COSTING_CLOCKS_H

#include "maquette/cost.h"
#include "lowering/program.h"

/* Fills the schedule's `clock`, once after each mq_launch_overhead_apply: that of a device follows from the mean draw
 * of its step (mq_power_clock) and from the slowest of those that train together (mq_link_calib.fleet). */
void mq_clocks_apply(struct mq_low *low);

/* The clock of a device of a question that goes on with what this draw is of, beside n_devices - 1 others. */
double mq_clocks_of(const struct mq_question *q, uint32_t device, uint32_t n_devices, const struct mq_draw *draw);

#endif

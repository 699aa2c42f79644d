/* launch_overhead.h - the host time that launching a pass adds to its compute tasks.
 *
 * How much host time overlaps the kernels and collectives of a pass depends on their times, which lowering does not
 * know: this step runs between lowering's templates and the schedule made of them (lowering/program.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_COSTING_LAUNCH_OVERHEAD_H
#define MQ_COSTING_LAUNCH_OVERHEAD_H

#include "lowering/program.h"

/* Adds exposed host time (MQ_KERNEL_CALL, seconds) to the works of the compute tasks of all templates; call it once
 * after each mq_low_templates. */
void mq_launch_overhead_apply(struct mq_low *low);

#endif

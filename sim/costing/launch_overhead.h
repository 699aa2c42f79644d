/* launch_overhead.h - what hosts that launch a pass add to the works of its compute tasks.
 *
 * How much of a host's calls hides behind the kernels and collectives of a pass is a matter of seconds, so it is not
 * lowering's: this step comes between its templates and the schedule that they make (lowering/program.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_COSTING_LAUNCH_OVERHEAD_H
#define MQ_COSTING_LAUNCH_OVERHEAD_H

#include "lowering/program.h"

/* Gives the compute tasks of all templates works that say what time their hosts cost (MQ_KERNEL_CALL, seconds), once
 * after each mq_low_templates. */
void mq_launch_overhead_apply(struct mq_low *low);

#endif

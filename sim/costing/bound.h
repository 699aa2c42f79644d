/* bound.h - lower bounds on the step time of any plan of a model on a cluster: a search stops at them, a report says
 * how far a plan is from them. Seconds per step; without communication, launches and bubbles.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_COSTING_BOUND_H
#define MQ_COSTING_BOUND_H

#include "maquette/question.h"

/* Total model FLOPs over the sum of all peaks; profiled ops take at least their least measured time. */
double mq_peak_bound(const struct mq_question *q);

/* From calibrated speeds: some device must run every op for the whole batch, and no device runs it faster per sample
 * than its kernels at any size and split. `busy` is op_busy of engine.h. 0 in inference.
 * O(ops x device classes x batch sizes). */
double mq_busy_bound(const struct mq_question *q,
		     double (*busy)(void *context, uint32_t op, enum mq_phase phase, uint32_t device,
				    const uint32_t split[MQ_N_DIMS], double samples),
		     void *context);

#endif

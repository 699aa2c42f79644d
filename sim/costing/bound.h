/* bound.h - step times that no plan of a model on a cluster can beat: with them a search knows when to stop, and a
 * report how far a plan is from the best there can be. Seconds per step; communication, launches and bubbles are left
 * out. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_COSTING_BOUND_H
#define MQ_COSTING_BOUND_H

#include "maquette/question.h"

/* Total model FLOPs over the sum of all peaks; profiled ops take at least their least measured time. */
double mq_peak_bound(const struct mq_question *q);

/* From the speeds of the calibration: every op has to be run for the whole batch by someone, and nobody runs it
 * faster per sample than its kernels are at any size and split. `busy` is op_busy of engine.h. 0 in inference.
 * O(ops x device classes x batch sizes). */
double mq_busy_bound(const struct mq_question *q,
		     double (*busy)(void *context, uint32_t op, enum mq_phase phase, uint32_t device,
				    const uint32_t split[MQ_N_DIMS], double samples),
		     void *context);

#endif

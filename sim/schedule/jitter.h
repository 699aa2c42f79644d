/* jitter.h - variation of devices and kernels: step times as a distribution.
 *
 * A sample (draw) is one step on a machine whose variation is drawn anew. Each device gets a factor on the time of all
 * its kernels, and each kernel of each task one more:
 *
 *   device      standard deviation of the logarithm of the device's factor (clocks, cooling, binning)
 *   kernel      the same of a kernel's factor, independent for each kernel; a task of n equal kernels, which run in
 *               sequence, varies by 1/sqrt(n) of it
 *   stragglers  share of the devices whose times are `slowdown` times as long on top
 *
 * The first two are lognormal with mean 1, since calibrations hold means. Equal ranks wait for a different slowest one
 * in every sample, so the mean of the samples is more than the step without jitter. Every rank is simulated, none
 * folded. The n-th sample of a seed does not depend on which others are drawn.
 *
 * Not modelled: jitter of networks and hosts, devices whose speed changes during a step, neighbouring devices that are
 * slow together. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCHEDULE_JITTER_H
#define MQ_SCHEDULE_JITTER_H

#include <stdint.h>

#include "maquette/model.h"
#include "maquette/opt.h"
#include "maquette/schedule.h"

struct mq_jitter {
	double device, kernel, stragglers, slowdown;
	uint32_t draws; /* number of samples; 0 = nothing varies */
	uint32_t draw;  /* the current sample, 0 .. draws - 1 */
	uint64_t seed;
};
/* device, kernel, stragglers, slowdown, draws. */
MQ_API extern const struct mq_opt mq_jitter_opts[];

/* The factor on all kernels of a cluster rank in the current sample. */
MQ_API double mq_jitter_device(const struct mq_jitter *jitter, uint32_t rank);
/* The further factor on one task; `spread`: sqrt(sum t^2) / sum t over the times of its kernels. */
MQ_API double mq_jitter_task(const struct mq_jitter *jitter, uint32_t rank, uint32_t task, double spread);

/* The p-quantile of n sorted values: the ceil(p n)-th. */
MQ_API double mq_jitter_quantile(const double *sorted, uint32_t n, double p);

#endif

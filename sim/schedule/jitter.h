/* jitter.h - devices and kernels that are not all alike: step times as a distribution.
 *
 * A draw is one step on a machine drawn anew. Each device gets a factor of its own on the time of all its kernels, and
 * each kernel of each task one on top:
 *
 *   device      standard deviation of the logarithm of a device's factor (clocks, cooling, binning)
 *   kernel      of that of a kernel, independent from one to the next; a task of n equal kernels varies by
 *               1/sqrt(n) of it, since they follow one another
 *   stragglers  share of the devices that are `slowdown` times as slow beside
 *
 * The first two are lognormal with mean 1: what is calibrated is a mean. Ranks that are alike without it wait for
 * different ones of them in every draw, so that the mean of the draws is more than the step without jitter. Nothing is
 * folded: every rank is simulated. The n-th draw of a seed is the same whatever other draws are asked for.
 *
 * Not modelled: jitter of networks and hosts, devices whose speed changes during a step, devices near each other that
 * are slow together. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCHEDULE_JITTER_H
#define MQ_SCHEDULE_JITTER_H

#include <stdint.h>

#include "maquette/model.h"
#include "maquette/opt.h"
#include "maquette/schedule.h"

struct mq_jitter {
	double device, kernel, stragglers, slowdown;
	uint32_t draws; /* how many are asked for; 0 = none: nothing varies */
	uint32_t draw;  /* the one at hand, 0 .. draws - 1 */
	uint64_t seed;
};
/* device, kernel, stragglers, slowdown, draws. */
MQ_API extern const struct mq_opt mq_jitter_opts[];

/* Factor on the time of all kernels of a cluster rank. */
MQ_API double mq_jitter_device(const struct mq_jitter *jitter, uint32_t rank);
/* Factor on a task's own: `spread` is that of its kernels, sqrt(sum t^2) / sum t of their times. */
MQ_API double mq_jitter_task(const struct mq_jitter *jitter, uint32_t rank, uint32_t task, double spread);

/* The value that a share p of n sorted ones does not exceed: the ceil(p n)-th. */
MQ_API double mq_jitter_quantile(const double *sorted, uint32_t n, double p);

#endif

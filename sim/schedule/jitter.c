/* jitter.c - see jitter.h. SPDX-License-Identifier: Apache-2.0 */
#include "schedule/jitter.h"

#include <math.h>

#include "maquette/rng.h"

const struct mq_opt mq_jitter_opts[] = {
	MQ_F64(struct mq_jitter, device, 0, 0, 1, "standard deviation of the logarithm of a device's factor on time"),
	MQ_F64(struct mq_jitter, kernel, 0, 0, 2, "the same of each kernel"),
	MQ_F64(struct mq_jitter, stragglers, 0, 0, 1, "share of the devices that are slow beside"),
	MQ_F64(struct mq_jitter, slowdown, 1.5, 1, 1000, "their time / that of the others"),
	MQ_U32(struct mq_jitter, draws, 100, 2, 100000, "steps that are drawn"),
	MQ_END
};

/* The generator of one device in the current sample; its tasks' generators are split from it. */
static struct mq_rng generator(const struct mq_jitter *j, uint32_t rank)
{
	struct mq_rng all, draw;

	mq_rng_seed(&all, j->seed);
	draw = mq_rng_split(&all, j->draw);
	return mq_rng_split(&draw, rank);
}

/* Lognormal with mean 1. */
static double factor(struct mq_rng *rng, double deviation)
{
	return deviation > 0 ? exp(deviation * mq_rng_normal(rng) - deviation * deviation / 2) : 1;
}

double mq_jitter_device(const struct mq_jitter *j, uint32_t rank)
{
	struct mq_rng rng = generator(j, rank);
	double slow = mq_rng_unit(&rng) < j->stragglers ? j->slowdown : 1;

	return slow * factor(&rng, j->device);
}

double mq_jitter_task(const struct mq_jitter *j, uint32_t rank, uint32_t task, double spread)
{
	if (!(j->kernel > 0))
		return 1;
	struct mq_rng device = generator(j, rank), rng = mq_rng_split(&device, 1 + (uint64_t)task);

	return factor(&rng, j->kernel * spread);
}

double mq_jitter_quantile(const double *sorted, uint32_t n, double p)
{
	double place = ceil(p * n - 1e-9);

	return sorted[place < 1 ? 0 : place > n ? n - 1 : (uint32_t)place - 1];
}

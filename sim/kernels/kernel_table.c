/* kernel_table.c - see kernel_table.h. Costs of lists of kernels; platforms/kernels/parts.csv has the lists.
 *
 * A kernel takes a launch and the longer of its memory traffic at the reachable bandwidth and its instructions at the
 * device's integer rate. Memory limits most kernels; the others compute an address for every element.
 *
 * Not modelled: data that stays in the L2 between kernels; the choice of block sizes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/kernel_table.h"

#include <math.h>

const struct mq_part_kernels *mq_part_kernels(const struct mq_libraries *libraries, enum mq_part part,
					      enum mq_make make)
{
	return libraries->part[part][make];
}

double mq_device_int_rate(const struct mq_device_calib *d)
{
	bool wide = d->compute_capability > 80; /* 128 lanes for fp32, 64 for integers */
	/* Pascal multiplies by three XMAD and shifts and compares at half its rate: the address of a strided operand takes
	 * 72 slots of a lane, 36 since Volta (counted in machine code) */
	bool emulated = d->compute_capability > 0 && d->compute_capability < 70;

	if (!(d->peak_flops[MQ_FP32] > 0)) /* abstract devices: memory alone limits them */
		return (double)INFINITY;
	return d->peak_flops[MQ_FP32] / (wide || emulated ? 4 : 2);
}

/* A kernel's second read of a row hits the L2, at a third of the cost, while the rows in flight (two per SM, or one
 * alone) fit in half of an L2 of 40 to 50 MB. */
static double again_share(const struct mq_part_pass *p, const struct mq_part_call *call, double size_B)
{
	return call->width * size_B >= (p->alone ? 192e3 : 96e3) ? 1 : 1. / 3;
}

static bool does_nothing(const struct mq_part_pass *p)
{
	return !(p->moved > 0 || p->moved_B > 0 || p->serial_s > 0);
}

static bool not_cast(const struct mq_part_pass *p, enum mq_dtype dtype)
{
	return p->cast && (mq_dtype_size(dtype) >= 4 || (p->cast == MQ_CAST_BF16 && dtype != MQ_BF16));
}

static double count_of(const struct mq_part_pass *p, const struct mq_part_call *call)
{
	switch ((enum mq_per)p->per) {
	case MQ_PER_WEIGHT:
		return call->weights;
	case MQ_PER_ROW:
		return call->elements / call->width;
	case MQ_PER_LOOKED:
		return fmin(call->elements, call->weights);
	case MQ_PER_ELEMENT:
		break;
	}
	return call->elements;
}

struct mq_part_sum mq_part_sum(const struct mq_part_pass *pass, enum mq_dtype dtype)
{
	double size_B = mq_dtype_size(dtype);
	struct mq_part_sum sum = { 0 };

	for (int i = 0; i < MQ_PASSES && !does_nothing(&pass[i]); i++) {
		const struct mq_part_pass *p = &pass[i];

		if (not_cast(p, dtype))
			continue;
		struct mq_part_bytes *part = p->blocked ? &sum.blocked : p->work > 0 ? &sum.worked : &sum.streamed;
		part->launches += p->calls ? p->calls : 1;
		if (p->per != MQ_PER_ELEMENT)
			continue;
		part->work += p->work;
		part->bytes += p->moved * size_B + p->moved_B;
	}
	return sum;
}

double mq_part_work(const struct mq_libraries *libraries, enum mq_part part, enum mq_make make, bool backward)
{
	const struct mq_part_kernels *kernels = mq_part_kernels(libraries, part, make);
	struct mq_part_sum sum = mq_part_sum(backward ? kernels->backward : kernels->forward, MQ_FP32);

	return sum.worked.work;
}

struct mq_part_cost mq_part_cost(const struct mq_device_calib *d, const struct mq_part_pass *pass,
				 const struct mq_part_call *call)
{
	double size_B = mq_dtype_size(call->dtype);
	struct mq_part_cost sum = { 0 };

	for (int i = 0; i < MQ_PASSES && !does_nothing(&pass[i]); i++) {
		const struct mq_part_pass *p = &pass[i];
		double n = count_of(p, call);
		double again = p->again > 0 ? p->again * again_share(p, call, size_B) : 0;
		double bytes = n * ((p->moved + again) * size_B + p->moved_B);
		bytes += fmin(n, call->weights) * p->looked * size_B;
		double calls = p->calls ? p->calls : 1;

		if (not_cast(p, call->dtype))
			continue;
		sum.bytes += bytes;
		sum.launches += calls;
		sum.held += p->held;
		sum.time_s +=
			fmax(bytes / (d->mem_bw_Bps * d->elementwise_bw_share), n * p->work / mq_device_int_rate(d)) +
			calls * d->launch_s + n * p->serial_s;
		sum.left_B += n * (p->made * size_B + p->made_B);
		sum.peak_B = fmax(sum.peak_B, sum.left_B);
		sum.left_B -= n * (p->freed * size_B + p->freed_B);
		if (p->done && call->owns_gradient)
			sum.left_B -= n * size_B;
	}
	return sum;
}

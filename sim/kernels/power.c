/* power.c - the power a device draws, and the clock at which that is its board limit; see cost.h.
 *
 * A device draws power_idle of its limit when idle and memory_J per byte (memory-bound kernels as if they filled the
 * bandwidth, even if they reach less: their SMs are busy). Tensor-core kernels draw by flop_J, the energy of a 16-bit
 * GEMM operation: a share BUSY by the operations that the busy SMs could do, the rest by those that they do. Types of
 * other widths draw as much at their full rate as 16 bits at theirs, except fp8 and fp4, whose energy was measured.
 * Attention draws ATTENTION times as much, for its exponentials.
 *
 * No board draws more than PEAK times its limit even briefly: a faster regulator lowers the clock within the first
 * calls of a short loop. fp8 GEMMs draw 1,000 W on a H200 of 700 W; a L40S, with Ampere's kernels at 1.8 times the
 * clock, would exceed PEAK and takes 1.1 times as long from the first call on. Timings at full speed include that
 * clock. Long loops take 1.19 to 1.22 times as long on a H200, 1.15 to 1.18 on a H100, for every type and shape.
 * Bursts of 5 to 10 ms with pauses on a H200 (results/kernels_h200) drew, beyond the idle 120 W, 816 W in bf16 GEMMs,
 * 880 in fp8, 770 in small ones, 850 and 806 in cuDNN's attention forward and backward, 410 in memory-bound sums; long
 * runs of casts, norms and sums 480 to 545.
 *
 * If the mean draw would exceed the limit, the clock x falls until it does not. Power goes with x^2.2: bursts below the
 * limit and loops at it give 2.0 on a H200 and 2.45 on a H100 (results/kernels_h200, kernels_h100). The clock of memory
 * stays.
 *
 * Not modelled: temperature, differences between boards, operands of few bits set (zeros draw 40 % less).
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/cost.h"

#define BUSY        .5
#define ATTENTION   1.2
#define PEAK        1.4
#define LEAST_CLOCK .1
#define PROBE_CLOCK .8
enum { HALVINGS = 40 };

static double flop_J(const struct mq_device_calib *d, enum mq_dtype dtype)
{
	if (dtype == MQ_FP8)
		return d->flop_J * d->flop_fp8;
	if (dtype == MQ_FP4)
		return d->flop_J * d->flop_fp4;
	double peak_16 = fmax(d->peak_flops[MQ_FP16], d->peak_flops[MQ_BF16]); /* Volta and Turing have no bf16 */

	return d->peak_flops[dtype] > 0 ? d->flop_J * peak_16 / d->peak_flops[dtype] : 0;
}

double mq_power_sweep_W(const struct mq_device_calib *device)
{
	return device->memory_J * device->mem_bw_Bps * device->elementwise_bw_share;
}

/* Adds one kernel that takes `seconds` at full clock and `slow_s` at PROBE_CLOCK. */
static void add_kernel(const struct mq_device_calib *d, const struct mq_kernel *k, double seconds, double slow_s,
		       struct mq_draw *sum)
{
	double clocked_s = fmin(fmax(slow_s - seconds, 0) / (1 / PROBE_CLOCK - 1), seconds);
	double memory = d->memory_J * k->bytes, share = 0;

	switch ((enum mq_kernel_kind)k->kind) {
	case MQ_KERNEL_GEMM:
	case MQ_KERNEL_CONV:
	case MQ_KERNEL_RECURRENT:
		share = 1;
		break;
	case MQ_KERNEL_ATTENTION:
		share = ATTENTION;
		break;
	case MQ_KERNEL_MEMORY:
	case MQ_KERNEL_OPTIMIZER:
	case MQ_KERNEL_EMBEDDING:
	case MQ_KERNEL_SCAN:
		memory = mq_power_sweep_W(d) * seconds;
		break;
	default:
		break;
	}
	double flops = (1 - BUSY) * k->flop + BUSY * d->peak_flops[k->dtype] * d->gemm_eff * clocked_s;
	sum->clocked_s += clocked_s;
	sum->other_s += seconds - clocked_s;
	sum->other_J += memory;
	if (share > 0)
		sum->clocked_J += share * flop_J(d, k->dtype) * flops;
}

void mq_draw_add(struct mq_draw *sum, const struct mq_draw *one, double times)
{
	sum->clocked_s += times * one->clocked_s;
	sum->other_s += times * one->other_s;
	sum->clocked_J += times * one->clocked_J;
	sum->other_J += times * one->other_J;
	sum->wait_s += times * one->wait_s;
	sum->waiting_s += times * one->waiting_s;
}

void mq_power_add(const struct mq_device_calib *device, const struct mq_work *work, double times, struct mq_draw *sum)
{
	struct mq_device_calib slow = *device;
	struct mq_draw one = { 0 };

	slow.clock = PROBE_CLOCK;
	for (uint32_t i = 0; i < work->n_kernels; i++) {
		const struct mq_kernel *k = &work->kernel[i];

		add_kernel(device, k, mq_cost_kernel(device, k), mq_cost_kernel(&slow, k), &one);
	}
	double idle_s = fmax(mq_cost_work(device, work) - one.clocked_s - one.other_s, 0);
	if (work->waits) { /* the host waits for each kernel: this time does not depend on the clock */
		one.other_s += idle_s;
	} else if (idle_s > 0) {
		one.wait_s = idle_s;
		one.waiting_s = one.clocked_s;
	}
	mq_draw_add(sum, &one, times);
}

/* Mean draw at a share of the full clock, beyond that of the idle device, W. */
static double drawn_W(const struct mq_draw *p, double clock)
{
	double wait_s = fmax(p->wait_s - p->waiting_s * (1 / clock - 1), 0);

	return (p->clocked_J * pow(clock, MQ_ENERGY_OF_HZ) + p->other_J) / (p->clocked_s / clock + p->other_s + wait_s);
}

double mq_power_clock(const struct mq_device_calib *device, double limit_W, const struct mq_draw *draw)
{
	double limit = isnan(limit_W) ? device->power_W : limit_W, low = LEAST_CLOCK, high = 1;
	double room_W = limit - device->power_idle * (isnan(device->power_W) ? limit : device->power_W);

	if (!(limit > 0) || !(device->flop_J > 0) || !(draw->clocked_s > 0) || !isfinite(draw->clocked_s) ||
	    drawn_W(draw, 1) <= room_W)
		return 1;
	for (int i = 0; i < HALVINGS; i++) {
		double middle = (low + high) / 2;

		*(drawn_W(draw, middle) > room_W ? &high : &low) = middle;
	}
	return low;
}

double mq_power_loop_s(const struct mq_device_calib *device, const struct mq_kernel *kernel,
		       const struct mq_draw *beside, double from, double to)
{
	struct mq_kernel k = *kernel;
	const struct mq_work work = { .n_kernels = 1, .kernel = &k };
	struct mq_device_calib peak = *device, slow = *device;
	struct mq_draw draw = *beside;
	double room_W = device->power_W * (1 - device->power_idle);

	mq_power_add(device, &work, 1, &draw);
	slow.clock = mq_power_clock(device, NAN, &draw);
	peak.clock = mq_power_clock(device, PEAK * device->power_W, &draw);
	double call_s = mq_cost_kernel(&peak, &k), slow_s = mq_cost_kernel(&slow, &k), W = drawn_W(&draw, peak.clock);
	if (slow.clock >= 1)
		return call_s;
	double full_calls = device->power_s * log(W / fmax(W - room_W, 1e-9 * W)) / (call_s + beside->other_s);
	if (isinf(to))
		return slow_s;
	return slow_s - (slow_s - call_s) * (fmin(to, full_calls) - fmin(from, full_calls)) / (to - from);
}

/* power.c - what a device draws, and the clock at which that is its board limit; see cost.h.
 *
 * A device draws power_idle of its limit whatever it does, memory_J for each byte and flop_J for each 16-bit operation
 * of a GEMM. Types of other widths take as much power at their own full rate as 16 bits at theirs, but for fp8 and fp4,
 * whose energy was timed. Kernels of attention do fewer operations in a second than GEMMs and draw no less in
 * proportion: BUSY of a GEMM's power at full rate is drawn by multiprocessors that are busy at all. On a H100 a GEMM
 * draws 870 W beyond idle at full clock, cuDNN's attention (half of its rate) 690, FlashAttention 2 (a quarter) 580
 * (results/limits_h100).
 *
 * Where the mean draw would pass the limit, the clock x falls until it does not. Dynamic power goes with f V^2 and the
 * voltage follows the clock: energy with x^1.5, power with x^2.5. Bursts of products with rests between them on a H100
 * gave 2.5 (same place), limits of other boards of one chip 2 to 3. Memory has a clock of its own.
 *
 * Not modelled: temperature, differences between boards, operands of few bits set (zeros draw 40 % less).
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/cost.h"

#define BUSY         .5
#define ENERGY_OF_HZ 1.5
#define LEAST_CLOCK  .1
#define PROBE_CLOCK  .8
enum { HALVINGS = 40 };

static double flop_J(const struct mq_device_calib *d, enum mq_dtype dtype)
{
	double peak = fmax(d->peak_flops[MQ_FP16], d->peak_flops[MQ_BF16]);

	if (dtype == MQ_FP8)
		return d->flop_J * d->flop_fp8;
	if (dtype == MQ_FP4)
		return d->flop_J * d->flop_fp4;
	return d->peak_flops[dtype] > 0 ? d->flop_J * peak / d->peak_flops[dtype] : 0;
}

/* Adds one kernel that takes `seconds` at full clock and `slow_s` at PROBE_CLOCK. */
static void add_kernel(const struct mq_device_calib *d, const struct mq_kernel *k, double seconds, double slow_s,
		       struct mq_draw *sum)
{
	double clocked_s = fmax(slow_s - seconds, 0) / (1 / PROBE_CLOCK - 1), each = flop_J(d, k->dtype);

	sum->clocked_s += fmin(clocked_s, seconds);
	sum->other_s += fmax(seconds - clocked_s, 0);
	sum->other_J += d->memory_J * k->bytes;
	switch ((enum mq_kernel_kind)k->kind) {
	case MQ_KERNEL_GEMM:
	case MQ_KERNEL_CONV:
	case MQ_KERNEL_RECURRENT:
		sum->clocked_J += each * k->flop;
		break;
	case MQ_KERNEL_ATTENTION:
		sum->clocked_J += each * ((1 - BUSY) * k->flop +
					  BUSY * d->peak_flops[k->dtype] * d->gemm_eff * fmin(clocked_s, seconds));
		break;
	default:
		break;
	}
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
	one.other_s += fmax(mq_cost_work(device, work) - one.clocked_s - one.other_s, 0);
	sum->clocked_s += times * one.clocked_s;
	sum->other_s += times * one.other_s;
	sum->clocked_J += times * one.clocked_J;
	sum->other_J += times * one.other_J;
}

/* Mean draw beyond the idle device's at a share of the full clock, W. */
static double drawn_W(const struct mq_draw *p, double clock)
{
	return (p->clocked_J * pow(clock, ENERGY_OF_HZ) + p->other_J) / (p->clocked_s / clock + p->other_s);
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

/* Seconds until so many calls are done: at full clock until full_s have passed. */
static double done_s(double calls, double call_s, double slow_s, double full_s)
{
	double first = fmin(calls, full_s / call_s);

	return first * call_s + (calls - first) * slow_s;
}

double mq_power_loop_s(const struct mq_device_calib *device, const struct mq_kernel *kernel, double from, double to)
{
	struct mq_kernel k = *kernel;
	const struct mq_work work = { .n_kernels = 1, .kernel = &k };
	struct mq_device_calib slow = *device;
	struct mq_draw draw = { 0 };
	double call_s = mq_cost_kernel(device, &k), room_W = device->power_W * (1 - device->power_idle);

	mq_power_add(device, &work, 1, &draw);
	slow.clock = mq_power_clock(device, NAN, &draw);
	if (slow.clock >= 1)
		return call_s;
	double W = drawn_W(&draw, 1), full_s = device->power_s * log(W / fmax(W - room_W, 1e-9 * W));
	double slow_s = mq_cost_kernel(&slow, &k);
	if (isinf(to))
		return slow_s;
	return (done_s(to, call_s, slow_s, full_s) - done_s(from, call_s, slow_s, full_s)) / (to - from);
}

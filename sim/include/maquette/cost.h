/* cost.h - time of one kernel on one device type (roofline with shape effects).
 *
 * Cost of a kernel: launch + max(flop / (peak * efficiency(shape)), bytes / (bandwidth * share)), with the formulas of
 * calib.h. Each formula is derived next to its code. Contention and queueing are the executors'.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_COST_H
#define MAQUETTE_COST_H

#include "maquette/calib.h"
#include "maquette/model.h"

/* Multiplications of Winograd's F(2x2, 3x3) / of the convolution: 16 / 36, and a sixth of it more for the
 * transforms. */
#define MQ_WINOGRAD_FUSED (19 / 36.)

/* Device time of one kernel, seconds, >= 0; kernels of kind TIMED last their time_s. +inf where the
 * device cannot run it (dtype without peak). */
MQ_API double mq_cost_kernel(const struct mq_device_calib *device, const struct mq_kernel *kernel);

/* Has the device kernels for operands of the layers' GEMMs as they are trained? */
MQ_API bool mq_cost_multiplies(const struct mq_device_calib *device, const struct mq_train *train);
/* One GEMM count x [m x k][k x n], seconds. */
MQ_API double mq_cost_gemm(const struct mq_device_calib *device, enum mq_dtype dtype, double m, double n, double k,
			   double count);

/* Are the rows that a GEMM of [m x k][k x n] reads and writes, of elements of `size_B`, multiples of `bytes`? Rows have
 * k and n elements; m and n in a weight gradient, whose first operand is transposed. */
MQ_API bool mq_cost_rows_at(const double mnk[3], bool of_weights, double size_B, double bytes);

/* Seconds of kernels queued back to back that take busy_s on the device and host_s on the host: the larger, since the
 * host runs ahead (it bounds small models); the sum if the host waits for each kernel (CUDA_LAUNCH_BLOCKING=1). */
MQ_API double mq_cost_issued(double busy_s, double host_s, bool waits);

/* Seconds of all kernels of a compute task, issued so. */
MQ_API double mq_cost_work(const struct mq_device_calib *device, const struct mq_work *work);

/* The same time by its bounds, on a device without other work. */
struct mq_cost_parts {
	double products_s;   /* GEMMs */
	double arithmetic_s; /* convolutions, attention: use all multiprocessors */
	double memory_s;     /* kernels that stream memory */
	double host_s;       /* launches, and other work of the host */
	bool waits;          /* see mq_cost_issued */
};
MQ_API struct mq_cost_parts mq_cost_parts(const struct mq_device_calib *device, const struct mq_work *work);
MQ_API double mq_cost_busy(const struct mq_cost_parts *parts); /* without the host */

/* Shares, 0 .. 1, of a device that overlapping communication holds. */
struct mq_cost_taken {
	double products;        /* of the multiprocessors, weighted as GEMMs lose them (overlap_gemms) */
	double multiprocessors; /* of the multiprocessors */
	double memory;          /* of the memory bandwidth that kernels reach */
};
/* Seconds of a task of these parts while `taken` is held: arithmetic-bound parts have fewer multiprocessors,
 * memory-bound ones less bandwidth (few multiprocessors saturate it); time in which the device waits for the host
 * absorbs the loss. */
MQ_API double mq_cost_beside(const struct mq_cost_parts *parts, struct mq_cost_taken taken);

/* Peak of a device in training, flop/s: the larger of its peaks in the training type and in the type of the layers'
 * GEMMs (fp8 if operands are cast to it); 0: it has neither. */
MQ_API double mq_cost_train_peak(const struct mq_device_calib *device, const struct mq_train *train);

/* ---- power: kernels/power.c ------------------------------------------------------------------------- */

/* Seconds, and joules above idle, that some work takes at full clock: `clocked` scales with the clock, `other` does not
 * (memory has its own). For wait_s the device waits for a slow host; at a lower clock the kernels of works that wait,
 * waiting_s of clocked_s, use up that time first. */
struct mq_draw {
	double clocked_s, other_s;
	double clocked_J, other_J;
	double wait_s, waiting_s;
};

MQ_API void mq_draw_add(struct mq_draw *sum, const struct mq_draw *one, double times);

/* Adds `times` repetitions of a work's kernels. `device` is at full clock. */
MQ_API void mq_power_add(const struct mq_device_calib *device, const struct mq_work *work, double times,
			 struct mq_draw *sum);

/* Power of memory-bound kernels above idle, W. */
MQ_API double mq_power_sweep_W(const struct mq_device_calib *device);

/* The share of the full clock, at most 1, at which a device that repeats this work draws limit_W on average (NaN: the
 * board limit, power_W); 1 if the limit or flop_J is unknown. */
MQ_API double mq_power_clock(const struct mq_device_calib *device, double limit_W, const struct mq_draw *draw);

/* Mean seconds per call, over calls `from` .. `to` of a loop that begins on an idle device: it runs at full clock until
 * the average power over power_s reaches the limit. Each call comes with other work `beside`, whose seconds are not in
 * the result. */
MQ_API double mq_power_loop_s(const struct mq_device_calib *device, const struct mq_kernel *kernel,
			      const struct mq_draw *beside, double from, double to);

/* Host <-> device copy of `bytes`, seconds. */
MQ_API double mq_cost_copy(const struct mq_device_calib *device, double bytes);

#endif

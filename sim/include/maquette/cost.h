/* cost.h - how long one kernel takes on one device type (roofline with shape effects).
 *
 * Cost of a kernel: launch + max(flop / (peak * efficiency(shape)), bytes / (bandwidth * share)), with the formulas of
 * calib.h. Each formula is derived next to its code. No contention, no queueing: those belong to the executors.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_COST_H
#define MAQUETTE_COST_H

#include "maquette/calib.h"
#include "maquette/model.h"

/* Multiplications of Winograd's F(2x2, 3x3) with its transforms / those of the convolution: 16 of 36, and a sixth more. */
#define MQ_WINOGRAD_FUSED (19 / 36.)

/* Device time of one kernel, seconds, >= 0; kernels of kind TIMED last their time_s. +inf where the
 * device cannot run it (dtype without peak). */
MQ_API double mq_cost_kernel(const struct mq_device_calib *device, const struct mq_kernel *kernel);

/* Has the device kernels for operands of the layers' GEMMs as they are trained? */
MQ_API bool mq_cost_multiplies(const struct mq_device_calib *device, const struct mq_train *train);
/* One GEMM count x [m x k][k x n], seconds. */
MQ_API double mq_cost_gemm(const struct mq_device_calib *device, enum mq_dtype dtype, double m, double n, double k,
			   double count);

/* Are the rows that a GEMM of [m x k][k x n] reads and writes, of elements of `size_B`, whole multiples of `bytes`?
 * Rows are of k and n elements; of m and n in a weights' gradient, whose first operand lies transposed. */
MQ_API bool mq_cost_rows_at(const double mnk[3], bool of_weights, double size_B, double bytes);

/* Kernels queued back to back that keep the device for busy_s and the host for host_s, seconds: the host
 * runs ahead, so the larger (a small model is bound by the host); where it waits for each kernel (as
 * CUDA_LAUNCH_BLOCKING=1 makes it do) the sum. */
MQ_API double mq_cost_issued(double busy_s, double host_s, bool waits);

/* All kernels of a compute task, issued so. */
MQ_API double mq_cost_work(const struct mq_device_calib *device, const struct mq_work *work);

/* The same by what bounds it, seconds of a device that does nothing else. */
struct mq_cost_parts {
	double products_s;   /* GEMMs */
	double arithmetic_s; /* convolutions, attention: as many multiprocessors as there are */
	double memory_s;     /* kernels that stream memory */
	double host_s;       /* launching all, and what the host does between */
	bool waits;          /* see mq_cost_issued */
};
MQ_API struct mq_cost_parts mq_cost_parts(const struct mq_device_calib *device, const struct mq_work *work);
MQ_API double mq_cost_busy(const struct mq_cost_parts *parts); /* without the host */

/* What others hold of a device, shares 0 .. 1. */
struct mq_cost_taken {
	double products;        /* of the multiprocessors, as far as GEMMs lose them (overlap_gemms) */
	double multiprocessors; /* of the multiprocessors */
	double memory;          /* of the bandwidth that kernels get of its memory */
};
/* A task of these parts beside others: what is bound by arithmetic has fewer multiprocessors, what is bound by
 * memory less of it (few multiprocessors fill it), and time that was the host's is not lost twice. */
MQ_API double mq_cost_beside(const struct mq_cost_parts *parts, struct mq_cost_taken taken);

/* The fastest that a device can train, flop/s: the greater of its peaks in the type of training and in that
 * of the layers' GEMMs (fp8 where their operands are cast to it); 0 where it has neither. */
MQ_API double mq_cost_train_peak(const struct mq_device_calib *device, const struct mq_train *train);

/* ---- power: kernels/power.c ------------------------------------------------------------------------- */

/* What some work takes of a device at full clock, seconds and joules beyond the idle device's: `clocked` goes with the
 * clock, `other` does not (memory keeps its own). For wait_s it waits for a host that is too slow: kernels at a lower
 * clock take of that, those of works that wait so, waiting_s of clocked_s. */
struct mq_draw {
	double clocked_s, other_s;
	double clocked_J, other_J;
	double wait_s, waiting_s;
};

MQ_API void mq_draw_add(struct mq_draw *sum, const struct mq_draw *one, double times);

/* Adds `times` repetitions of a work's kernels. `device` is at full clock. */
MQ_API void mq_power_add(const struct mq_device_calib *device, const struct mq_work *work, double times,
			 struct mq_draw *sum);

/* What kernels that sweep through memory draw beyond the idle device, W. */
MQ_API double mq_power_sweep_W(const struct mq_device_calib *device);

/* The share of its full clock at which a device that goes on so draws limit_W in the mean, at most 1; 1 where its
 * limit (NaN: the board's, power_W) or flop_J is not known. */
MQ_API double mq_power_clock(const struct mq_device_calib *device, double limit_W, const struct mq_draw *draw);

/* Mean seconds of a call from call `from` to call `to` of a loop of such calls that begins on an idle device: it runs
 * at full clock until the mean draw of power_s reaches the limit. With each call the device does what draws `beside`
 * (seconds that are not in the result). */
MQ_API double mq_power_loop_s(const struct mq_device_calib *device, const struct mq_kernel *kernel,
			      const struct mq_draw *beside, double from, double to);

/* Host <-> device copy of `bytes`, seconds. */
MQ_API double mq_cost_copy(const struct mq_device_calib *device, double bytes);

#endif

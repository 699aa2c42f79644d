/* fit_gemm.h - the GEMM parameters of device types from measured kernel times. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_FIT_GEMM_H
#define MQ_FIT_GEMM_H

#include "maquette/calib.h"

struct mq_gemm_sample {
	enum mq_dtype dtype;
	double m, n, k;
	double time_s;
	uint8_t scaling; /* enum mq_scaling, of fp8 and fp4 */
	double from, to; /* calls of a loop in a CUDA graph whose mean this is; 0, 0: it was not timed so */
	uint32_t fold;   /* samples of one shape share a fold: what is held out together */
	uint32_t device; /* index of the device that ran it */
};

/* What one turn of a loop of such GEMMs takes, in seconds: its kernel, or where that is shorter the host's time
 * to launch the next one (host_launch_s; kernel timings are far above it). In a graph the host launches none, and the
 * loop gets as slow as the board's limit makes it. */
double mq_gemm_loop_s(const struct mq_device_calib *device, const struct mq_gemm_sample *sample);

/* Estimates gemm_eff, gemm_bw_share and gemm_t0_s of each of `device` [n_devices] and what belongs to the libraries'
 * tiles and not to a device, one value for all: gemm_kt, gemm_a0, gemm_q and gemm_corner. In place, starting from
 * their values (those shared: the first one's), on all samples but those of fold `held_out` (MQ_NONE = all).
 * Deterministic. MQ_EINPUT: a device of fewer than 30 samples, or one without a positive time. */
enum mq_status mq_fit_gemm(const struct mq_gemm_sample *sample, uint32_t n, uint32_t held_out,
			   struct mq_device_calib *device, uint32_t n_devices, struct mq_err *err) MQ_MUST_CHECK;

/* A fold for a weight shape, spread evenly and the same on every machine. */
uint32_t mq_gemm_fold(double n, double k, uint32_t folds);

#endif

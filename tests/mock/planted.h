/*
 * planted.h - how long the mocks' products and convolutions last: the cost model on planted parameters, see mock.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_PLANTED_H
#define MQ_TESTS_PLANTED_H

#include <string.h>

#include "maquette/cost.h"
#include "mock.h"

/* The truth that a calibration has to find. */
static inline struct mq_device_calib planted(void)
{
	struct mq_device_calib d = { .kind = MQ_GPU,
				     .mem_bw_Bps = MOCK_MEM_BPS,
				     .sm_count = MOCK_SMS,
				     .compute_capability = 80,
				     .gemm_eff = MOCK_EFF,
				     .gemm_fp32 = 1,
				     .gemm_tf32 = 1,
				     .gemm_nv = 1,
				     .gemm_mx = 1,
				     .gemm_block = 1,
				     .gemm_token = 1,
				     .gemm_fp8 = 1,
				     .gemm_kt = MOCK_KT,
				     .gemm_a0 = MOCK_A0,
				     .gemm_q = MOCK_Q,
				     .gemm_bw_share = MOCK_BW_SHARE,
				     .gemm_t0_s = MOCK_T0_S,
				     .gemm_misaligned = 1,
				     .gemm_odd = 1,
				     .bmm_misaligned = 1,
				     .elementwise_bw_share = MOCK_SWEEP_SHARE,
				     .conv_eff = MOCK_CONV_EFF,
				     .conv_eff_simt = MOCK_CONV_EFF,
				     .conv_volume = 1 };
	const struct mq_calib_field *f = mq_calib_device_fields();

	for (; f->name; f++)
		if (!strcmp(f->name, "gemm_corner"))
			*(double *)(void *)((char *)&d + f->offset) = f->initial;
	for (int i = 0; i < MQ_N_DTYPES; i++)
		d.peak_flops[i] = MOCK_PEAK;
	d.peak_flops[MQ_TF32] = MOCK_PEAK / 2;
	d.peak_flops[MQ_FP32] = MOCK_PEAK / 10;
	d.peak_flops[MQ_FP64] = MOCK_PEAK / 20;
	return d;
}

#endif

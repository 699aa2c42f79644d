/* mamba.h - the Mamba-2 mixer (Dao and Gu, "Transformers are SSMs", 2024) as ops of a network.
 *
 * in_proj (GEMM) -> conv (depthwise, over time, with its SiLU) -> scan (the chunked state-space product)
 * -> gate (RMS norm of the output times SiLU(z)) -> out_proj (GEMM). Tensor parallelism divides the heads.
 *
 * The scan's amounts are those of its five kernels, between which everything passes through memory because chunks meet
 * in a state: per token and chunk of Q, with G groups, state N and width D = heads * head_dim
 *   FLOP   2 Q (G N + D) in the chunk, 4 N D for the states
 *   moved  3 D + 4 G N, the GEMMs C B' (2 Q G twice) and the fp32 states (2 N D / Q, four times)
 * The backward pass makes states and convolution again and moves twice as much besides. How much slower the kernels run
 * than memory would let them is a device's scan_share.
 *
 * Mamba-1 (Gu and Dao 2023): in_proj -> conv -> x_proj (to step sizes of a low rank, B and C) -> dt_proj -> scan, one
 * kernel (selective_scan_fwd) that reads and writes only activations: 9 N D FLOP and 4 D + 2 N moved per token -> gated
 * inside it -> out_proj. Its backward kernel makes the states again, three times the FLOP and twice the traffic.
 * Not modelled: sequence splits (Megatron trades heads for
 * tokens). SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_BUILDERS_LIB_MAMBA_H
#define MQ_MODEL_BUILDERS_LIB_MAMBA_H

#include "model/builders/lib/layers.h"

struct mq_mamba {
	uint32_t heads, head_dim, groups, state;
	uint32_t kernel; /* taps of the convolution */
	uint32_t chunk;  /* tokens */
	uint32_t rank;   /* Mamba-1: of the step sizes, with one head of all channels; 0 = Mamba-2 */
	bool norms;      /* Mamba-1: of step sizes, B and C (Jamba, Falcon Mamba) */
	bool ungated;    /* Mamba-2: no norm before out_proj (Falcon-H1) */
};

/* Appends the mixer to `input` of width `hidden`; returns out_proj. */
uint32_t mq_net_mamba(struct mq_net *net, uint32_t input, double hidden, const struct mq_mamba *m);

#endif

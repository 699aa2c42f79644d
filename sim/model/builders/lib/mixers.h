/* mixers.h - token mixers of linear cost in place of attention: state-space models, linear attention, convolutions.
 *
 * Mamba-2 (Dao and Gu, "Transformers are SSMs", 2024): in_proj (GEMM) -> conv (depthwise, over time, with SiLU) -> scan
 * (chunked state-space product) -> gate (RMS norm of the output times SiLU(z)) -> out_proj (GEMM). Tensor parallelism
 * divides the heads.
 *
 * The scan counts its five kernels, which exchange everything through memory because chunks share a state: per token
 * and chunk of Q, with G groups, state N and width D = heads * head_dim
 *   FLOP   2 Q (G N + D) in the chunk, 4 N D for the states
 *   moved  3 D + 4 G N, the GEMMs C B' (2 Q G twice) and the fp32 states (2 N D / Q, four times)
 * The backward pass recomputes states and convolution and moves twice as much in addition. The kernels reach a device's
 * scan_share of the speed of memory-bound kernels.
 *
 * Mamba-1 (Gu and Dao 2023): in_proj -> conv -> x_proj (to step sizes of a low rank, B and C) -> dt_proj -> scan, one
 * kernel (selective_scan_fwd) that reads and writes only activations: 9 N D FLOP and 4 D + 2 N moved per token -> gated
 * inside it -> out_proj. Its backward kernel recomputes the states: three times the FLOPs and twice the traffic.
 * Not modelled: sequence splits (Megatron exchanges heads for tokens).
 *
 * Delta-net (Yang et al., "Gated delta networks", 2024; Qwen3-Next): in (GEMM to Q, K, V, gate, beta and decay) -> conv
 * (depthwise, with its SiLU) -> scan -> gate (RMS norm of each head times SiLU) -> out (GEMM). With `rank`, Kimi delta
 * attention (2025): decay and gate per channel by low-rank GEMMs. The scan counts flash-linear-attention's kernels
 * chunk_local_cumsum, chunk_scaled_dot_kkt, solve_tril, recompute_w_u, chunk_fwd_h and chunk_fwd_o, which exchange
 * everything through memory. Per token and head with chunks of C = 64, keys of width K and values of width V (K'K, its
 * triangular inverse, W and U; two products with the state and its update; scores, output):
 *   FLOP   6 C K + 4 C V + 6 K V + 2/3 C^2
 *   moved  7 K + 6 V + 6 C + 2 K V / C
 * The backward pass recomputes W, U and the states: three times the FLOPs and the traffic.
 *
 * Lightning attention (Qin et al. 2024; MiniMax-01): Q, K, V and gate (GEMM), blocks of B = 256 tokens with
 *   FLOP   2 B (K + V) + 4 K V        moved  3 K + 3 V + 2 K V / B
 * Short convolution (LFM2): in (GEMM to B, C, x) -> conv between two gates -> out (GEMM). These scans have the same
 * scan_share, which was measured on Mamba-2 alone. Tensor parallelism divides the heads.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_BUILDERS_LIB_MIXERS_H
#define MQ_MODEL_BUILDERS_LIB_MIXERS_H

#include "model/builders/lib/layers.h"

struct mq_mamba {
	uint32_t heads, head_dim, groups, state;
	uint32_t kernel; /* taps of the convolution */
	uint32_t chunk;  /* tokens */
	uint32_t rank;   /* Mamba-1: rank of the step sizes, one head of all channels; 0 = Mamba-2 */
	bool norms;      /* Mamba-1: norms of step sizes, B and C (Jamba, Falcon Mamba) */
	bool ungated;    /* Mamba-2: no norm before out_proj (Falcon-H1) */
};

/* Appends the mixer to `input` of width `hidden`; returns out_proj. */
uint32_t mq_net_mamba(struct mq_net *net, uint32_t input, double hidden, const struct mq_mamba *m);

struct mq_linear {
	uint32_t key_heads, key_dim, value_heads, value_dim;
	uint32_t kernel; /* taps of the convolution; a short convolution reads this field alone */
	uint32_t rank;   /* rank of Kimi's gates; 0 = one number per head */
};

/* Each appends a mixer to `input` of width `hidden` and returns its last op. */
uint32_t mq_net_delta(struct mq_net *net, uint32_t input, double hidden, const struct mq_linear *l);
uint32_t mq_net_lightning(struct mq_net *net, uint32_t input, double hidden, const struct mq_linear *l);
uint32_t mq_net_short_conv(struct mq_net *net, uint32_t input, double hidden, const struct mq_linear *l);

#endif

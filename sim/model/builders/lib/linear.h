/* linear.h - mixers of tokens whose work grows with the sequence, not with its square, as ops of a network.
 *
 * Delta-net (Yang et al., "Gated delta networks", 2024; Qwen3-Next): in (GEMM to Q, K, V, gate, beta and decay) -> conv
 * (depthwise, with its SiLU) -> scan -> gate (RMS norm of each head times SiLU) -> out (GEMM). With `rank`, Kimi delta
 * attention (2025): decay and gate for each channel through two narrow GEMMs. The scan's amounts are those of
 * flash-linear-attention's kernels chunk_local_cumsum, chunk_scaled_dot_kkt, solve_tril, recompute_w_u, chunk_fwd_h and
 * chunk_fwd_o, between which everything passes through memory. Per token and head with chunks of C = 64, K wide keys
 * and V wide values (K'K, its triangular inverse, W and U; two products with the state and its update; scores, output):
 *   FLOP   6 C K + 4 C V + 6 K V + 2/3 C^2
 *   moved  7 K + 6 V + 6 C + 2 K V / C
 * The backward pass makes W, U and the states again: three times the FLOP and three times as much moved.
 *
 * Lightning attention (Qin et al. 2024; MiniMax-01): Q, K, V and gate (GEMM), blocks of B = 256 tokens with
 *   FLOP   2 B (K + V) + 4 K V        moved  3 K + 3 V + 2 K V / B
 * Short convolution (LFM2): in (GEMM to B, C, x) -> conv between two gates -> out (GEMM).
 * How much slower a scan's kernels run than memory would let them is a device's scan_share, which was measured on
 * Mamba-2 alone. Tensor parallelism divides the heads. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_BUILDERS_LIB_LINEAR_H
#define MQ_MODEL_BUILDERS_LIB_LINEAR_H

#include "model/builders/lib/layers.h"

struct mq_linear {
	uint32_t key_heads, key_dim, value_heads, value_dim;
	uint32_t kernel; /* taps of the convolution; short convolution: all that it has */
	uint32_t rank;   /* of Kimi's gates; 0 = one number a head */
};

/* Each appends a mixer to `input` of width `hidden` and returns its last op. */
uint32_t mq_net_delta(struct mq_net *net, uint32_t input, double hidden, const struct mq_linear *l);
uint32_t mq_net_lightning(struct mq_net *net, uint32_t input, double hidden, const struct mq_linear *l);
uint32_t mq_net_short_conv(struct mq_net *net, uint32_t input, double hidden, const struct mq_linear *l);

#endif

/* attention_unfused.c - attention as batched GEMMs with kernels between them, see attention.h: the sum of what the cost
 * model gives for each kernel. SPDX-License-Identifier: Apache-2.0 */
#include "kernels/attention.h"
#include "maquette/cost.h"
#include "kernels/kernel_table.h"

/* Batched GEMMs write the scores; a mask reads and writes them; softmax reads them twice and writes them, and in the
 * backward pass reads its output and their gradient twice. Each GEMM needs the elements of a head contiguous, hence
 * copies of Q, K and V; in the backward pass of dO, dQ, dK and dV, and a concatenation of the last three.
 * (attention_pytorch in FlashAttention's benchmarks: the scale is a factor of the GEMM.) */
double mq_attention_unfused(const struct mq_device_calib *d, const struct mq_attention_call *c)
{
	double m = c->queries, n = c->keys, k = c->width, count = c->batch * c->heads, bytes;
	double size_B = mq_dtype_size(c->dtype), scores = count * m * n;
	double products = mq_cost_gemm(d, c->dtype, m, n, k, count), mask = 0, q = count * m * k;
	double kv = c->batch * c->kv_heads * n * k, copied, launches;

	if (c->causal)
		mask = scores * 46 / mq_device_int_rate(d) + d->launch_s;
	if (c->backward) {
		products += 2 * mq_cost_gemm(d, c->dtype, n, k, m, count) + mq_cost_gemm(d, c->dtype, m, k, n, count);
		bytes = (2 + 2 + 1) * size_B;
		copied = 2 * (3 * q + 4 * kv) * size_B;
		launches = 6;
	} else {
		products += mq_cost_gemm(d, c->dtype, m, k, n, count);
		bytes = (2 + 1) * size_B;
		copied = 2 * (q + 2 * kv) * size_B;
		launches = 4;
	}
	return products + mask + (scores * bytes + copied) / (d->mem_bw_Bps * d->elementwise_bw_share) +
	       launches * d->launch_s;
}

/* attention.c - see attention.h. The tile model of fused attention.
 *
 * A thread block computes a tile of 128 queries of one head against the keys that they see, 128 keys at a time. A tile
 * costs the keys it sees, rounded up to whole blocks, plus `start`: prologue, epilogue and pipeline fill. With a causal
 * mask, tile i sees the keys up to its last query. The cost of a query-key pair follows from the share of the peak that
 * long sequences reach at that head width: GEMMs grow with the width, exponentials do not, so narrow heads reach a
 * smaller share; wide ones may run out of registers. Backward tiles hold keys and loop over the queries.
 *
 * The tiles run in waves over the SMs. If all tiles cost the same, the last wave is as long as the others; causal tiles
 * differ, and at the end SMs idle for a share `tail` of the longest tile: for most of it in FlashAttention 2, which
 * starts with the shortest.
 *
 * Beside the tiles a backward pass reads O and dO for their row sums, and clears and converts the fp32 sum of dQ: 14
 * bytes per element of Q. A pass takes at least the time to move its tensors at the bandwidth of memory-bound kernels.
 *
 * platforms/kernels/attention.csv lists the shares of the peak and the start-up costs with their sources. Its Blackwell
 * timings cover 2k to 73k tokens and heads of 128, 192 with values of 128, 256 (forward) and 64 (with windows only).
 *
 * With windows or packed documents a tile sees its part of the keys, and a window ends inside a block. In fp8, cuDNN's
 * backward pass also computes what a window hides: its timings grow with the square of the tokens. In 32 bits only
 * xFormers' kernels run, each GEMM as three in TF32 (from Ampere on; timed in PyTorch 2.11 on a H100: 18 to 21 TFLOP/s
 * with TF32 and without, heads of 64, 128 and 197 keys), backward as fast as forward. Not modelled: padding of head
 * widths between the listed ones, dropout, split keys (decoding).
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/attention.h"

#include <math.h>
#include <stddef.h>

enum { TILE = 128 };

enum mq_attention_library mq_attention_library(enum mq_attention_kernel asked)
{
	switch (asked) {
	case MQ_ATTENTION_FLASH1:
		return MQ_LIBRARY_FLASH1;
	case MQ_ATTENTION_TRITON1:
		return MQ_LIBRARY_TRITON1;
	case MQ_ATTENTION_FLASH3:
		return MQ_LIBRARY_FLASH3;
	case MQ_ATTENTION_TE:
		return MQ_LIBRARY_CUDNN;
	default:
		return MQ_LIBRARY_FLASH2;
	}
}

/* The rates of a library on this GPU generation; else those on the newest older one, scaled by older_kernels; else
 * FlashAttention 2's. GPUs before Ampere run xFormers' kernels in place of newer libraries'. */
static struct mq_attention_rates rates_of(const struct mq_device_calib *d, enum mq_attention_library library)
{
	const struct mq_attention_rates *rates = d->libraries->attention[MQ_ATTENTION_16_BIT][library];
	uint32_t own = mq_generation_of(d->libraries, d->compute_capability);
	struct mq_attention_rates r = rates[own];

	if (d->compute_capability < 80 && library > MQ_LIBRARY_CUTLASS)
		return d->libraries->attention[MQ_ATTENTION_16_BIT][MQ_LIBRARY_CUTLASS][0];
	for (uint32_t g = own; g-- > 0 && !(r.start[0] > 0);) {
		double slower = d->libraries->generation[own].older_kernels / d->libraries->generation[g].older_kernels;

		r = rates[g];
		for (int w = 0; w < MQ_ATTENTION_WIDTHS; w++) {
			r.forward[w] *= slower;
			r.backward[w] *= slower;
		}
	}
	return r.start[0] > 0 ? r : rates_of(d, MQ_LIBRARY_FLASH2);
}

/* The row of this GPU generation, else of the newest older one. NULL: fp8 has no row, so the 16-bit kernels stand in,
 * at the device's attention_fp8. */
static const struct mq_attention_rates *fp8_rates(const struct mq_device_calib *d, enum mq_attention_library library,
						  const struct mq_attention_call *c)
{
	enum mq_attention_type type = c->mx ? MQ_ATTENTION_MXFP8 : MQ_ATTENTION_FP8;
	const struct mq_attention_rates *rates = d->libraries->attention[type][library];

	if (c->dtype != MQ_FP8)
		return NULL;
	for (uint32_t g = mq_generation_of(d->libraries, d->compute_capability) + 1; g-- > 0;)
		if (rates[g].start[c->backward] > 0)
			return &rates[g];
	return NULL;
}

/* Time of one query-key pair in units of work at the peak: linear in the head width between listed widths; below the
 * first, its time with the GEMMs scaled down. */
static double pair_work(const double share[MQ_ATTENTION_WIDTHS], double width)
{
	double w64 = 64 / share[0], w128 = 128 / share[1], w256 = 256 / share[2];

	if (width <= 64)
		return w64 - fmin(64 - width, 64) * (w128 - w64) / 64;
	if (width <= 128)
		return w64 + (width - 64) * (w128 - w64) / 64;
	return w128 + (width - 128) * (w256 - w128) / 128;
}

/* Tiles of one head: their number, their total cost and the cost of the longest, in keys. */
struct tiles {
	double n, keys, longest;
};

/* all: tiles also compute what a window hides. */
static struct tiles tiles_of(const struct mq_attention_call *c, double start, bool all)
{
	double rows = c->backward ? c->keys : c->queries, across = c->backward ? c->queries : c->keys;
	double part = c->seen > 0 && !all ? c->seen : 1, blocks = ceil(across / TILE);
	struct tiles t = { .n = ceil(rows / TILE) };

	t.longest = part * blocks * TILE + start;
	t.keys = t.n * t.longest;
	if (c->causal) { /* the last tile sees all keys, each earlier one a tile fewer, down to none */
		double seen = fmin(t.n, blocks), whole = TILE * (seen * blocks - seen * (seen - 1) / 2);

		t.keys = part * whole + t.n * ((1 - part) * TILE + start); /* a window ends inside a block */
	}
	return t;
}

static double tensors_B(const struct mq_attention_call *c, double size_B)
{
	double q = c->batch * c->heads * c->queries * c->width;
	double kv = 2 * c->batch * c->kv_heads * c->keys * c->width;

	return c->backward ? (4 * q + 2 * kv) * size_B : (2 * q + kv) * size_B;
}

/* In 32 bits, where tensor cores run three GEMMs in place of one. */
static bool in_32_bits(const struct mq_device_calib *d, const struct mq_attention_call *c)
{
	return mq_dtype_size(c->dtype) == 4 && d->peak_flops[MQ_TF32] > d->peak_flops[MQ_FP32];
}

static double peak_of(const struct mq_device_calib *d, const struct mq_attention_call *c, bool as_16_bits)
{
	if (in_32_bits(d, c))
		return d->peak_flops[MQ_TF32] / 3;
	return d->peak_flops[c->dtype] * (c->dtype == MQ_FP8 && as_16_bits ? d->attention_fp8 : 1);
}

double mq_attention_time(const struct mq_device_calib *d, enum mq_attention_library library,
			 const struct mq_attention_call *c)
{
	const struct mq_attention_rates *fp8 = fp8_rates(d, library, c);
	bool wide = in_32_bits(d, c);
	struct mq_attention_rates n = fp8 ? *fp8 : rates_of(d, wide ? MQ_LIBRARY_CUTLASS : library);
	struct tiles t = tiles_of(c, n.start[c->backward], fp8 && c->backward);
	double bw = d->mem_bw_Bps * d->elementwise_bw_share, size_B = mq_dtype_size(c->dtype);
	double heads = c->batch * c->heads, sm = d->sm_count;
	double peak = peak_of(d, c, !fp8) * mq_cost_clock(d);
	const double *share = c->backward && !wide ? n.backward : n.forward;
	double key = TILE * (c->backward ? 10 : 4) * pair_work(share, c->width) / (peak / sm);
	double busy, beside = 0;

	if (!(n.start[c->backward] > 0))
		return NAN;
	if (c->causal)
		busy = fmax(heads * t.keys / sm + n.tail * t.longest * (1 - 1 / fmax(heads * t.n / sm, 1)), t.longest);
	else
		busy = ceil(heads * t.n / sm) * t.longest;
	if (c->backward)
		beside = 14 * heads * c->queries * c->width / bw;
	return fmax(busy * key, tensors_B(c, size_B) / bw) + beside + mq_attention_launches(c->backward) * d->launch_s;
}

double mq_attention_launches(bool backward)
{
	return backward ? 3 : 1;
}

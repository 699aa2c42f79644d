/*
 * attention.c - see attention.h. The tile model of fused attention.
 *
 * A thread block takes a tile of 128 queries of a head through the keys that they see, 128 at a time. A tile
 * costs the keys it sees, rounded up to whole blocks, and `start` more: prologue, epilogue, the pipeline that
 * fills. Causal: tile i sees the keys up to its last query. What a pair of a query and a key costs follows
 * from the share of the peak that long sequences reach at that width of a head: products grow with the
 * width, exponentials do not, so narrow heads reach less; wide ones may run out of registers. Backward tiles
 * are of keys and go through the queries.
 *
 * The tiles run in waves over the SMs. Where all cost the same the last wave is as long as the others; causal
 * tiles differ, and the SMs are idle for a part `tail` of the longest at the end: most of it in FlashAttention
 * 2, which begins with the shortest.
 *
 * Beside the tiles a backward pass reads O and dO for their row sums, clears and converts the fp32 sum of dQ:
 * 14 bytes an element of Q. No pass takes less than its tensors at the bandwidth of memory-bound kernels.
 *
 * Shares: chart labels of Shah et al., "FlashAttention-3" (2024), H100 SXM; published timings of
 * xFormers and FlashAttention on A100 (see platforms/calib/README.md). FlashAttention 2 on Ampere: .73 and .63
 * of the peak at best, and 1.3 to 1.5 and 2 times as fast as the kernels of 2022 in Triton, as Dao (2023)
 * says; those at a width of 64 backward by what MPT's runs take. Blackwell: the timings of cuDNN 9.22 in the
 * repository of its front end, of 470 calls on GB200 and GB300 in 16 bits, fp8 and MXFP8: 2k to 73k tokens,
 * heads of 128, 192 beside 128, 256 (forward only) and 64 (behind windows only); mean error 4 %.
 *
 * Windows and packed documents: a tile sees its part of the keys, and a window ends inside a block. In fp8
 * cuDNN's backward pass goes through what a window hides: in those timings it grows with the square of the
 * tokens. In 32 bits only xFormers' kernels run, each product three in TF32 (Ampere on; timed in PyTorch 2.11 on a
 * H100, with TF32 and without: 18 to 21 TFLOP/s either way, heads of 64, 128 and 197 keys), backward as fast as
 * forward. Not modelled: head widths between the tabled ones that are padded, dropout, split keys (decoding).
 */
#include "kernels/attention.h"

#include <math.h>
#include <stddef.h>

#include "kernels/kernel_table.h"

enum { TILE = 128, WIDTHS = 3 };
enum generation { AMPERE, ADA, HOPPER, BLACKWELL, BLACKWELL_ULTRA, N_GENERATIONS };

struct numbers {
	double forward[WIDTHS], backward[WIDTHS]; /* share of peak at widths of 64, 128, 256; 0 = no kernels */
	double start[2];                          /* keys that a tile costs beside those it sees: forward, backward */
	double tail;
};

static const struct numbers table[MQ_N_LIBRARIES][N_GENERATIONS] = {
	[MQ_LIBRARY_FLASH1] = {
		[AMPERE] = { { .38, .36, .2 }, { .31, .28, .15 }, { 30, 30 }, .5 },
	},
	[MQ_LIBRARY_CUTLASS] = {
		[AMPERE] = { { .33, .35, .2 }, { .20, .24, .12 }, { 50, 50 }, .5 },
	},
	[MQ_LIBRARY_TRITON1] = {
		[AMPERE] = { { .45, .48, .4 }, { .31, .31, .24 }, { 30, 30 }, .5 },
	},
	[MQ_LIBRARY_FLASH2] = {
		[AMPERE] = { { .58, .72, .6 }, { .50, .62, .48 }, { 90, 90 }, .8 },
		[ADA] = { { .80, .88, .7 }, { .65, .70, .5 }, { 90, 90 }, .8 },
		[HOPPER] = { { .33, .377, .332 }, { .30, .332, .28 }, { 90, 90 }, .8 },
	},
	[MQ_LIBRARY_FLASH3] = {
		[HOPPER] = { { .51, .66, .77 }, { .49, .58, .5 }, { 190, 190 }, .25 },
	},
	[MQ_LIBRARY_CUDNN] = {
		[HOPPER] = { { .422, .62, .595 }, { .45, .535, .45 }, { 110, 110 }, .5 },
		[BLACKWELL] = { { .355, .696, .78 }, { .275, .56, .365 }, { 430, 70 }, .5 },
		[BLACKWELL_ULTRA] = { { .37, .814, .92 }, { .295, .615, .425 }, { 430, 70 }, .5 },
	},
	[MQ_LIBRARY_TRITON] = {
		[AMPERE] = { { .50, .52, .3 }, { .35, .40, .2 }, { 110, 110 }, .5 },
		[HOPPER] = { { .41, .40, .3 }, { .45, .54, .3 }, { 110, 110 }, .5 },
	},
};

/* cuDNN in fp8 and MXFP8, of the peak of fp8. */
static const struct numbers fp8_table[N_GENERATIONS][2] = {
	[BLACKWELL] = {
		{ { .203, .465, .66 }, { .20, .343, .67 }, { 470, 190 }, .5 },
		{ { .187, .433, .62 }, { .169, .301, .45 }, { 470, 310 }, .5 },
	},
	[BLACKWELL_ULTRA] = {
		{ { .239, .657, .85 }, { .24, .416, .89 }, { 470, 190 }, .5 },
		{ { .229, .591, .78 }, { .19, .332, .65 }, { 470, 310 }, .5 },
	},
};

const char *mq_attention_library_name(enum mq_attention_library library)
{
	static const char *const names[] = { "flash1", "cutlass", "triton1", "flash2", "flash3", "cudnn", "triton" };

	_Static_assert(sizeof(names) / sizeof(*names) == MQ_N_LIBRARIES, "one name per library");
	return (unsigned)library < MQ_N_LIBRARIES ? names[library] : "?";
}

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

/* Blackwell's cards for workstations (12.x) have Ada's tensor cores, not those of its data centres (10.x). */
static enum generation generation_of(const struct mq_device_calib *d)
{
	if (d->compute_capability >= 120)
		return ADA;
	if (d->compute_capability >= 103)
		return BLACKWELL_ULTRA;
	if (d->compute_capability >= 90)
		return d->compute_capability >= 100 ? BLACKWELL : HOPPER;
	return d->compute_capability > 80 ? ADA : AMPERE;
}

/* Kernels of an older generation use Ampere's instructions, which reach .63 of Hopper's peak (Luo et al.,
 * "Benchmarking and dissecting the Nvidia Hopper GPU architecture", 2024: mma against wgmma), and on
 * Blackwell, with twice the peak per SM, half of that. A newer library than the device can run is the last
 * that it can. */
static struct numbers numbers_of(const struct mq_device_calib *d, enum mq_attention_library library)
{
	static const double reach[N_GENERATIONS] = {
		[AMPERE] = 1, [ADA] = 1, [HOPPER] = .63, [BLACKWELL] = .315, [BLACKWELL_ULTRA] = .315,
	};
	enum generation own = generation_of(d);
	struct numbers n = table[library][own];

	if (d->compute_capability < 80 && library > MQ_LIBRARY_CUTLASS)
		return table[MQ_LIBRARY_CUTLASS][AMPERE];
	for (int g = own; g-- > 0 && !(n.start[0] > 0);) {
		double slower = reach[own] / reach[g];

		n = table[library][g];
		for (int w = 0; w < WIDTHS; w++) {
			n.forward[w] *= slower;
			n.backward[w] *= slower;
		}
	}
	return n.start[0] > 0 ? n : numbers_of(d, MQ_LIBRARY_FLASH2);
}

/* NULL = kernels in fp8 are those in 16 bits, at the device's attention_fp8. */
static const struct numbers *fp8_numbers(const struct mq_device_calib *d, enum mq_attention_library library,
					 const struct mq_attention_call *c)
{
	const struct numbers *n = &fp8_table[generation_of(d)][c->mx];

	return library == MQ_LIBRARY_CUDNN && c->dtype == MQ_FP8 && n->start[0] > 0 ? n : NULL;
}

/* Time of a pair of query and key in units of work at the peak: linear in the width between the tabled
 * ones, and the first one's below them but for its products. */
static double pair_work(const double share[WIDTHS], double width)
{
	double w64 = 64 / share[0], w128 = 128 / share[1], w256 = 256 / share[2];

	if (width <= 64)
		return w64 - fmin(64 - width, 64) * (w128 - w64) / 64;
	if (width <= 128)
		return w64 + (width - 64) * (w128 - w64) / 64;
	return w128 + (width - 128) * (w256 - w128) / 128;
}

/* Tiles of one head, and what they cost together and the longest alone, in keys. */
struct tiles {
	double n, keys, longest;
};

/* With `all` tiles go through what a window hides, too. */
static struct tiles tiles_of(const struct mq_attention_call *c, double start, bool all)
{
	double rows = c->backward ? c->keys : c->queries, across = c->backward ? c->queries : c->keys;
	double part = c->seen > 0 && !all ? c->seen : 1, blocks = ceil(across / TILE);
	struct tiles t = { .n = ceil(rows / TILE) };

	t.longest = part * blocks * TILE + start;
	t.keys = t.n * t.longest;
	if (c->causal) { /* the last tile sees all, each before it a tile less, as long as there are any */
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

/* In 32 bits, where tensor cores take three products for one. */
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
	const struct numbers *fp8 = fp8_numbers(d, library, c);
	bool wide = in_32_bits(d, c);
	struct numbers n = fp8 ? *fp8 : numbers_of(d, wide ? MQ_LIBRARY_CUTLASS : library);
	struct tiles t = tiles_of(c, n.start[c->backward], fp8 && c->backward);
	double bw = d->mem_bw_Bps * d->elementwise_bw_share, size_B = mq_dtype_size(c->dtype);
	double heads = c->batch * c->heads, sm = d->sm_count;
	double peak = peak_of(d, c, !fp8) * d->sustained;
	const double *share = c->backward && !wide ? n.backward : n.forward;
	double key = TILE * (c->backward ? 10 : 4) * pair_work(share, c->width) / (peak / sm);
	double busy, beside = 0;

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

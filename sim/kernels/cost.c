/* cost.c - see cost.h. How long one kernel takes: roofline with shape effects.
 *
 * GEMM: a grid of tiles tm x tn runs in waves over the SMs; we assume that the library chooses the best of a few tiles
 * and splits of k (as cuBLAS heuristics try to). One tile of a full wave takes
 *     2 tm tn (k/sk + kt) SM / (peak eff) * (1 + a0/ai) / (1 + a0/ai_max),   ai = tm tn / (tm + tn)
 * where kt is the prologue and epilogue in steps of k, and a0/ai the operand traffic per FLOP: small tiles fetch more;
 * eff is the share of the peak of the largest tile. A last wave of which a fraction f is full costs q + (1 - q) f of a
 * full one (fewer tiles share caches and memory, so they run faster). Splitting k in sk parts writes sk partial results
 * of 4 bytes per element and reads them back from cache. Memory traffic overlaps the arithmetic, but less near the
 * corner of the roofline, where both are about as long: t = (math^p + memory^p)^(1/p). CUDA-core kernels (fp32;
 * batched GEMMs whose rows are not multiples of 16 bytes, as in unfused attention with odd heads or windows) are slower
 * per step of k, but not in prologue and epilogue, and have smaller tiles. Form and values are a fit to published GEMM
 * timings, held out by shape, see platforms/calib/README.md.
 *
 * All functions are closed forms and allocate nothing: search loops call them for every operator.
 *
 * Not modelled: which library version picks which kernel; caches, apart from what the fitted shares absorb and what
 * kernels of image networks read again. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/cost.h"

#include <math.h>

#include "kernels/attention.h"
#include "kernels/kernel_table.h"

#define MOST_TAKEN .9 /* share of a device that concurrent kernels take at most */
#define CACHED     .8 /* share of the L2: tensors that fit in it are read from there */

struct tile {
	double m, n;
};

/* Thread-block tiles of the tensor-core kernels of cuBLAS and CUTLASS, large ones first; only CUDA-core kernels have
 * the last two (cuBLAS's sgemm_128x32, sgemm_32x32_sliced). */
static const struct tile tiles[] = {
	{ 256, 128 }, { 128, 256 }, { 128, 128 }, { 256, 64 }, { 64, 256 }, { 128, 64 }, { 64, 128 },
	{ 64, 64 },   { 32, 128 },  { 32, 64 },   { 16, 128 }, { 128, 32 }, { 32, 32 },
};
enum { LARGE = 128 };
enum { N_TILES = sizeof(tiles) / sizeof(tiles[0]), TENSOR_TILES = N_TILES - 2 };

struct gemm {
	double m, n, k, count;
	double peak; /* flop/s at the device's clock, alignment applied */
	double eff;
	double bytes;
	double size_B; /* of an element */
	double t0_s;   /* fixed time */
	double kt, a0; /* gemm_kt, gemm_a0 of the device, or those of CUDA cores */
	bool plain;    /* runs on CUDA cores, not on tensor cores */
	bool of_weights;
	bool rules; /* only large tiles */
};

/* A roofline without tile effects, for calibrations that lack them (abstract devices). */
static bool has_tiles(const struct mq_device_calib *d)
{
	return d->kind != MQ_CPU && (d->gemm_kt > 0 || d->gemm_a0 > 0);
}

/* A CPU's GEMM packs blocks of its operands and then runs one inner loop (Goto and van de Geijn,
 * "Anatomy of high-performance matrix multiplication", 2008), so its time is linear in mnk (arithmetic),
 * mn (writing C) and mk, nk (packing), as Cornebize and Legrand found for HPL:
 *     2 (mnk + kt mn + a0 mk + b0 nk) / (peak eff)
 * where kt, a0 and b0 are the costs of an element of C and of the operands, in multiply-adds. The second operand, a
 * layer's weights, has the longer rows: it is read from more pages at once and takes about twice as long. */
static double packed_time(const struct mq_device_calib *d, const struct gemm *g)
{
	double b0 = d->gemm_b0 > 0 ? d->gemm_b0 : g->a0;
	double terms = g->m * g->n * (g->k + g->kt) + g->k * (g->a0 * g->m + b0 * g->n);

	return 2 * g->count * terms / (g->peak * g->eff);
}

/* Time with one choice of tile and split of k, traffic of partial results included. */
static double split_time(const struct mq_device_calib *d, const struct gemm *g, double grid, double step, double sk)
{
	double waves = grid * sk / d->sm_count;
	double full = floor(waves), part = waves - full;
	double partial_B = sk > 1 ? 4 * sk * g->m * g->n * g->count : 0;

	if (part > 0)
		full += d->gemm_q + (1 - d->gemm_q) * part;
	return full * step * (g->k / sk + g->kt) + partial_B / (d->mem_bw_Bps * d->gemm_bw_share);
}

/* Least time over all tiles and splits of k, without memory bound and fixed time. */
static double tile_time(const struct mq_device_calib *d, const struct gemm *g)
{
	double unit = 2 * d->sm_count / (g->peak * g->eff);
	double best = INFINITY;

	unit /= 1 + g->a0 * (tiles[0].m + tiles[0].n) / (tiles[0].m * tiles[0].n);
	for (unsigned i = 0; i < (g->plain ? N_TILES : TENSOR_TILES); i++) {
		double tm = tiles[i].m, tn = tiles[i].n;
		double grid = g->count * ceil(g->m / tm) * ceil(g->n / tn);
		double step = unit * (tm * tn + g->a0 * (tm + tn));

		if (g->rules && (tm < fmin(LARGE, 2 * g->m) || tn < fmin(LARGE, 2 * g->n)))
			continue;
		if (grid * step * (g->k + g->kt) > best * d->sm_count * (1 + 1e-9))
			continue; /* slower even if all waves were full */
		for (double sk = 1; sk <= 32; sk *= 2) {
			double time = split_time(d, g, grid, step, sk);

			best = time < best ? time : best;
			if (grid * sk > 2 * d->sm_count || g->k / sk < 128)
				break;
		}
	}
	return best;
}

static double math_time(const struct mq_device_calib *d, const struct gemm *g)
{
	if (d->kind == MQ_CPU)
		return packed_time(d, g);
	if (has_tiles(d))
		return tile_time(d, g);
	return 2 * g->m * g->n * g->k * g->count / (g->peak * g->eff);
}

/* The corner of the roofline; the maximum of both if the exponent is 0. */
static double both(double math, double memory, double sharpness)
{
	double most = fmax(math, memory), least = fmin(math, memory);

	if (!(sharpness > 0) || !isfinite(most))
		return most;
	return most * pow(1 + pow(least / most, sharpness), 1 / sharpness);
}

static double gemm_time(const struct mq_device_calib *d, const struct gemm *g)
{
	double flop = 2 * g->m * g->n * g->k * g->count;
	double math, memory;

	if (!(flop > 0))
		return 0;
	if (!(g->peak > 0))
		return INFINITY;
	math = math_time(d, g);
	memory = g->bytes / (d->mem_bw_Bps * d->gemm_bw_share);
	return both(math, memory, d->gemm_corner) + g->t0_s;
}

static bool has_tensor_cores(const struct mq_device_calib *d)
{
	return d->kind != MQ_CPU &&
	       !(d->compute_capability > 0 && d->compute_capability < 70); /* Volta's were the first tensor cores */
}

/* Does the GPU multiply the type on CUDA cores, since its tensor cores lack the type or it has none? */
static bool by_plain_cores(const struct mq_device_calib *d, enum mq_dtype dtype)
{
	return d->kind != MQ_CPU &&
	       (!has_tensor_cores(d) || (dtype == MQ_FP32 && d->peak_flops[MQ_FP16] > 2 * d->peak_flops[MQ_FP32]));
}

/* CUDA cores are far slower than tensor cores: a tile's prologue and epilogue take the same time, hence fewer steps of
 * k, and operands of twice the size are needed that much later. GPUs without tensor cores take V100's times (125
 * Tflop/s on 80 SMs), in steps of which gemm_kt and gemm_a0 are given. */
static void on_plain_cores(const struct mq_device_calib *d, struct gemm *g)
{
	double tensor = has_tensor_cores(d) ? d->peak_flops[MQ_FP16] : 125e12 / 80 * d->sm_count;

	g->plain = true;
	if (by_plain_cores(d, MQ_FP32) && tensor > 0) {
		g->kt *= d->peak_flops[MQ_FP32] / tensor;
		g->a0 *= 2 * d->peak_flops[MQ_FP32] / tensor;
	}
}

bool mq_cost_rows_at(const double mnk[3], bool of_weights, double size_B, double bytes)
{
	double unit = fmax(1, bytes / size_B);

	return fmod(mnk[1], unit) == 0 && fmod(mnk[of_weights ? 0 : 2], unit) == 0;
}

static bool rows_at(const struct gemm *g, double bytes)
{
	return mq_cost_rows_at((double[]){ g->m, g->n, g->k }, g->of_weights, g->size_B, bytes);
}

static struct gemm gemm_of(const struct mq_device_calib *d, enum mq_dtype dtype, double m, double n, double k)
{
	struct gemm g = { .m = m, .n = n, .k = k, .count = 1, .eff = d->gemm_eff, .t0_s = d->gemm_t0_s };

	g.kt = d->gemm_kt;
	g.a0 = d->gemm_a0;
	g.peak = d->peak_flops[dtype] * mq_cost_clock(d);
	g.size_B = mq_dtype_size(dtype);
	return g;
}

/* MX scales (one per 32 values) need tensor cores that multiply 4 bits: Blackwell's and CDNA 4's. */
static bool applies_scales(const struct mq_device_calib *d)
{
	return d->compute_capability >= 100 || d->peak_flops[MQ_FP4] > 0;
}

bool mq_cost_multiplies(const struct mq_device_calib *device, const struct mq_train *train)
{
	return device->peak_flops[mq_train_gemm_dtype(train)] > 0 &&
	       (train->gemm_dtype != MQ_GEMM_MXFP8 || applies_scales(device));
}

/* One GEMM. In a CUDA graph the launch of the next kernel overlaps it. */
static double product_time(const struct mq_device_calib *device, const struct mq_kernel *p)
{
	if (p->scaling == MQ_SCALING_MX && !applies_scales(device))
		return INFINITY;
	enum mq_dtype dtype = p->dtype;
	double m = p->m, n = p->n, k = p->k, calls = p->apart ? p->count : 1, count = p->count / calls;
	const double fp8[MQ_N_SCALINGS] = { device->gemm_fp8, device->gemm_token, device->gemm_block, device->gemm_mx,
					    device->gemm_nv };
	struct gemm g = gemm_of(device, dtype, m, n, k);

	g.count = count;
	g.of_weights = p->of_weights;
	g.eff *= dtype == MQ_FP8  ? fp8[p->scaling] :
		 dtype == MQ_FP4  ? device->gemm_nv :
		 dtype == MQ_TF32 ? device->gemm_tf32 :
				    1;
	g.t0_s = p->graphed ? fmin(device->launch_s, device->gemm_t0_s) : device->gemm_t0_s;
	/* a GEMM of fp8 operands has a 16-bit result */
	g.bytes = ((m * k + k * n) * g.size_B + m * n * fmax(g.size_B, 2)) * count;
	bool fp32 = device->kind != MQ_CPU && dtype == MQ_FP32;

	if (fp32 || by_plain_cores(device, dtype)) {
		g.eff *= fp32 ? device->gemm_fp32 : 1;
		on_plain_cores(device, &g);
	} else if (!rows_at(&g, 16) && count > 1) {
		double share = device->bmm_misaligned; /* speed of the CUDA cores: fitted, else by their peak */

		if (!(share > 0))
			share = fmin(1, device->peak_flops[MQ_FP32] / device->peak_flops[dtype]);
		g.eff *= share;
		g.kt *= share;
		g.a0 *= share;
		g.plain = true;
	} else if (!rows_at(&g, 16)) { /* loads of 16 bytes need rows of 8 elements; other rows take smaller loads */
		g.eff *= device->gemm_misaligned * (rows_at(&g, 4) ? 1 : device->gemm_odd);
	}
	return calls * gemm_time(device, &g);
}

double mq_cost_gemm(const struct mq_device_calib *device, enum mq_dtype dtype, double m, double n, double k,
		    double count)
{
	const struct mq_kernel one = { .dtype = dtype, .m = m, .n = n, .k = k, .count = count };

	return product_time(device, &one);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* The choice of cuDNN's heuristics for 1x1 filters (DeepBench's timings on Maxwell to Turing, cuDNN 5 to 7.6). With
 * strides the input's gradient is also computed for rows of pixels that no filter reaches. The weights' gradient has
 * tiles of 128 x 128, or of twice the channels if these are few, and adds five partial sums. */
static void chosen_by_rules(const struct mq_device_calib *d, const struct mq_kernel *k, struct gemm *g)
{
	enum { SUMS = 5 };

	if (k->of_input)
		g->k *= k->image.stride_h;
	if (k->of_weights) {
		g->rules = true;
		g->t0_s += SUMS * 2 * g->size_B * k->m * k->n * k->count / (d->mem_bw_Bps * d->gemm_bw_share);
	}
}

/* The bytes of a kernel that take time at `share` of the memory bandwidth: those read from the L2 count less, by
 * the ratio of the two speeds. A kernel that reads one tensor and writes another, launched many times in a row,
 * runs at the L2's speed up to the size where both take .65 to .92 of the L2, and at the memory's beyond
 * (gpu-benches: A100, H200, L40). */
static double from_memory(const struct mq_device_calib *d, const struct mq_kernel *k, double share)
{
	double room_B = CACHED * d->l2_B, cached_B = 0;

	if (k->reuse_B <= room_B)
		cached_B += k->reread_B;
	if (2 * k->reuse_B <= room_B)
		cached_B += k->handed_B;
	return k->bytes - fmin(cached_B, k->bytes) * fmax(0, 1 - d->mem_bw_Bps * share / d->l2_Bps);
}

/* Input channels of a group, of images. */
static double channels_of(const struct mq_kernel *k)
{
	return k->of_input ? k->n : (k->of_weights ? k->m : k->k) / fmax(1, k->image.kh * k->image.kw);
}

/* Before Ampere cuDNN has no tensor-core kernels for few input channels, so CUDA cores run an image network's first
 * layer: DeepBench times one and three channels in fp16 on T4 and V100. No grouped or 3D convolutions were timed. */
static bool conv_on_plain_cores(const struct mq_device_calib *d, const struct mq_kernel *k)
{
	enum { FEW = 8 };

	return by_plain_cores(d, k->dtype) ||
	       (has_tensor_cores(d) && d->compute_capability > 0 && d->compute_capability < 80 && !k->volume &&
		k->count == 1 && channels_of(k) < FEW);
}

/* Common to all of cuDNN's kernels. 3D convolutions have separate kernels, which reach a share of the efficiency of
 * the 2D ones. */
static struct gemm conv_gemm(const struct mq_device_calib *d, const struct mq_kernel *k)
{
	struct gemm g = gemm_of(d, k->dtype, k->m, k->n, k->k);

	g.count = k->count;
	g.bytes = from_memory(d, k, d->gemm_bw_share);
	g.eff = d->conv_eff;
	if (conv_on_plain_cores(d, k)) {
		if (!by_plain_cores(d, k->dtype))
			g.peak = d->peak_flops[MQ_FP32] * mq_cost_clock(d);
		g.eff = d->conv_eff_simt;
		on_plain_cores(d, &g);
	}
	if (k->untimed && k->image.kh * k->image.kw == 1 && d->compute_capability > 0 && d->compute_capability < 80)
		chosen_by_rules(d, k, &g);
	if (k->volume)
		g.eff *= d->conv_volume;
	return g;
}

/* Winograd's F(4x4, 3x3) (Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016) as three kernels:
 * 36 multiplications give 16 outputs that take 144 directly, a quarter of the work, on tensors that the transforms
 * enlarge by 36/16. Each of the two large tensors moves once untransformed and twice transformed: 1 + 2 * 2.25 times
 * its bytes. There are 36 GEMMs of [tiles x channels] [channels x filters], in the weights' gradient [channels x tiles]
 * [tiles x filters]; GEMMs and transforms run one after the other. Not modelled: 5x5 filters, weights' transform. */
static double winograd_time(const struct mq_device_calib *d, const struct mq_kernel *k)
{
	struct gemm g = conv_gemm(d, k);
	double moved = (1 + 2 * 36.0 / 16) * k->winograd * k->bytes;

	g.count = 36 * k->count;
	g.bytes = 0;
	if (k->of_weights) {
		g.m /= 9;
		g.k *= k->winograd / 16;
	} else {
		g.k /= 9;
		g.m *= k->winograd / 16;
	}
	return gemm_time(d, &g) + moved / (d->mem_bw_Bps * d->gemm_bw_share) + 2 * d->gemm_t0_s;
}

/* F(2x2, 3x3) in one kernel, whose transforms cost a sixth of its multiplications. cuDNN has none for the weights'
 * gradient, and no timing on Hopper or later is known. */
static double fused_winograd_time(const struct mq_device_calib *d, const struct mq_kernel *k)
{
	struct gemm g = conv_gemm(d, k);

	if (k->of_weights || d->kind == MQ_CPU || d->compute_capability >= 90)
		return INFINITY;
	g.k *= MQ_WINOGRAD_FUSED;
	return gemm_time(d, &g);
}

/* Tensor cores need channels last; if the software stores channels first, cuDNN converts the tensors before and after
 * its kernels. Its kernels go by tiles of 32 channels: images of three take ten times their bytes (timed on a H100 in
 * AlexNet: .7 ms a pass, .06 by bytes). */
static double layout_time(const struct mq_device_calib *d, const struct mq_kernel *k)
{
	enum { TILE = 32 };
	const struct mq_conv_image *i = &k->image;
	double outputs = k->of_weights ? k->k : k->m, channels = channels_of(k), idle = 0;

	if (conv_on_plain_cores(d, k) || d->kind == MQ_CPU)
		return 0;
	if (k->count == 1 && channels < TILE && i->out_h > 0 && !k->volume)
		idle = (TILE - channels) * outputs * i->h * i->w / (i->out_h * i->out_w) * mq_dtype_size(k->dtype);
	return k->layout * (k->bytes + idle) / (d->mem_bw_Bps * d->elementwise_bw_share);
}

/* An implicit GEMM, which moves the tensors, not the unfolded matrix; in fp32 Winograd's algorithm if that is faster,
 * as libraries choose when they benchmark both. With tensor cores they use GEMMs, for speed and accuracy. */
static double conv_time(const struct mq_device_calib *d, const struct mq_kernel *k)
{
	struct gemm g = conv_gemm(d, k);

	if (k->work > 0 && d->kind != MQ_CPU) /* depthwise: no GEMM, hence no tensor cores */
		return fmax(k->work / (mq_device_int_rate(d) * mq_cost_clock(d)),
			    k->bytes / (d->mem_bw_Bps * d->gemm_bw_share)) +
		       d->gemm_t0_s;
	double direct = gemm_time(d, &g);
	if (!(direct > 0) || !isfinite(direct))
		return direct;
	if (k->dtype == MQ_FP32 && k->winograd > 0)
		direct = fmin(direct, fmin(fused_winograd_time(d, k), winograd_time(d, k)));
	return direct + layout_time(d, k);
}

static double memory_time(const struct mq_device_calib *d, double bytes, double launches)
{
	return bytes / (d->mem_bw_Bps * d->elementwise_bw_share) + fmax(launches, 1) * d->launch_s;
}

/* Kernels that compute an address for every element, see kernel_table.c, or have few thread blocks. */
static double worked_time(const struct mq_device_calib *d, const struct mq_kernel *k)
{
	enum { BLOCKS = 4 }; /* of an SM, of 512 threads each */
	double moving = k->bytes / (d->mem_bw_Bps * d->elementwise_bw_share);
	double share = k->blocks > 0 && d->sm_count > 0 ? fmin(1, k->blocks / (BLOCKS * d->sm_count)) : 1;
	double issuing = d->kind == MQ_CPU ? 0 : k->work / (mq_device_int_rate(d) * mq_cost_clock(d));

	return fmax(moving, issuing) / share + fmax(k->launches, 1) * d->launch_s;
}

/* Attention of a CPU, or of an abstract device without tiles: its GEMMs. A CPU multiplies head by head and skips
 * nothing that a causal mask hides. Exponentials and sums of the scores are added; they weigh more for narrow heads. */
static double plain_attention(const struct mq_device_calib *d, const struct mq_kernel *k)
{
	double peak = d->peak_flops[k->dtype] * mq_cost_clock(d);
	double flop = k->flop + d->attention_score * k->m * k->n * k->count;

	if (k->causal && d->kind != MQ_CPU)
		flop /= 2;
	return flop / (peak * d->gemm_eff);
}

/* Ring attention's steps with the keys of other ranks. With balanced causal work a step has half of a block's pairs: on
 * some ranks all queries with half of the keys, on the others half of the queries with all keys. The slower case
 * counts, since each step waits for the exchange. */
static double later_steps(const struct mq_device_calib *d, enum mq_attention_library library,
			  struct mq_attention_call call, double steps)
{
	call.keys /= steps;
	if (!call.causal)
		return steps * mq_attention_time(d, library, &call);
	call.causal = false;
	struct mq_attention_call other = call;
	call.keys /= 2;
	other.queries /= 2;
	return steps * fmax(mq_attention_time(d, library, &call), mq_attention_time(d, library, &other));
}

/* Fused (flash) attention on a GPU, see attention.c. The bytes of its tensors say how many heads the keys have. */
static double tiled_attention(const struct mq_device_calib *d, const struct mq_kernel *k)
{
	bool backward = k->phase == MQ_BACKWARD;
	double q = k->m * k->k * k->count, pairs = (backward ? 8 : 4) * k->m * k->n * k->k * k->count;
	double tensors = k->bytes / mq_dtype_size(k->dtype), key = 2 * k->n * k->k * (backward ? 2 : 1);
	struct mq_attention_call call = {
		.batch = 1,
		.heads = k->count,
		.kv_heads = fmax(tensors - (backward ? 4 : 2) * q, 0) / fmax(key, 1),
		.queries = k->m,
		.keys = k->n,
		.width = k->k,
		.causal = k->causal,
		.backward = backward,
		.dtype = k->dtype,
		.mx = k->mx,
		.seen = pairs > 0 ? k->flop / pairs : 0,
	};
	enum mq_attention_library library = mq_attention_library(k->attention);
	double calls = fmax(k->steps, 1) * mq_attention_launches(backward);
	double time = k->steps > 0 ? later_steps(d, library, call, k->steps) : mq_attention_time(d, library, &call);

	return time + fmax(k->launches - calls, 0) * d->launch_s;
}

static double attention_time(const struct mq_device_calib *d, const struct mq_kernel *k)
{
	double scale = d->attention_scale * (k->phase == MQ_BACKWARD ? d->attention_bwd : 1);

	if (!(k->flop > 0))
		return 0;
	if (!(d->peak_flops[k->dtype] > 0))
		return INFINITY;
	if (d->kind != MQ_CPU && has_tiles(d))
		return tiled_attention(d, k) / scale;
	return fmax(plain_attention(d, k) / scale, k->bytes / (d->mem_bw_Bps * d->elementwise_bw_share)) +
	       fmax(k->launches, 1) * d->launch_s;
}

/* m serial steps, each a GEMM whose rows are the samples: rows = flop / (2 m n k). */
static double recurrent_time(const struct mq_device_calib *d, const struct mq_kernel *k)
{
	double steps = fmax(k->m, 1);
	double rows = k->n > 0 && k->k > 0 ? k->flop / (2 * steps * k->n * k->k) : 0;

	return steps * mq_cost_gemm(d, k->dtype, rows, k->n, k->k, 1);
}

static double update_time(const struct mq_device_calib *d, const struct mq_kernel *k)
{
	double bytes = k->bytes / d->optimizer_share;

	return k->listed ? bytes / (d->mem_bw_Bps * d->elementwise_bw_share) : memory_time(d, bytes, k->launches);
}

double mq_cost_kernel(const struct mq_device_calib *device, const struct mq_kernel *kernel)
{
	double extra = fmax(kernel->launches - 1, 0) * device->launch_s;

	switch ((enum mq_kernel_kind)kernel->kind) {
	case MQ_KERNEL_GEMM:
		return product_time(device, kernel) + extra;
	case MQ_KERNEL_CONV:
		return conv_time(device, kernel) + extra;
	case MQ_KERNEL_ATTENTION:
		return attention_time(device, kernel);
	case MQ_KERNEL_MEMORY:
		if (kernel->work > 0 || kernel->blocks > 0)
			return worked_time(device, kernel);
		return memory_time(device, from_memory(device, kernel, device->elementwise_bw_share), kernel->launches);
	case MQ_KERNEL_EMBEDDING:
	case MQ_KERNEL_COPY:
		return memory_time(device, kernel->bytes, kernel->launches);
	case MQ_KERNEL_OPTIMIZER:
		return update_time(device, kernel);
	case MQ_KERNEL_SCAN:
		return memory_time(device, kernel->bytes / device->scan_share, kernel->launches);
	case MQ_KERNEL_RECURRENT:
		return recurrent_time(device, kernel) + extra;
	case MQ_KERNEL_TIMED:
	case MQ_KERNEL_WAIT:
		return kernel->time_s;
	case MQ_KERNEL_CALL:
		return 0;
	case MQ_KERNEL_HOST_UPDATE: /* CPU-Adam reads and writes its states in host memory */
		return kernel->bytes / device->host_bw_Bps;
	case MQ_N_KERNEL_KINDS:
		break;
	}
	mq_assert(!"a kernel kind that the cost model knows");
	return INFINITY;
}

static double *part_of(struct mq_cost_parts *p, enum mq_kernel_kind kind)
{
	bool streams = kind == MQ_KERNEL_MEMORY || kind == MQ_KERNEL_EMBEDDING || kind == MQ_KERNEL_OPTIMIZER ||
		       kind == MQ_KERNEL_COPY || kind == MQ_KERNEL_SCAN;

	return kind == MQ_KERNEL_GEMM ? &p->products_s : streams ? &p->memory_s : &p->arithmetic_s;
}

/* Half of the launches are for weights, with the long kernels, half for biases: after a wait, neither hides the
 * launches of the other. */
static double awaited_s(double busy_s, double host_s)
{
	return host_s / 2 + fmax(busy_s, host_s / 2);
}

struct mq_cost_parts mq_cost_parts(const struct mq_device_calib *device, const struct mq_work *work)
{
	struct mq_cost_parts p = { .waits = work->waits && device->kind != MQ_CPU };
	double slower = work->host > 0 && device->kind != MQ_CPU ? work->host : 1;

	for (uint32_t i = 0; i < work->n_kernels; i++) {
		const struct mq_kernel *k = &work->kernel[i];
		double busy_s = mq_cost_kernel(device, k);
		double looped = work->host > 1 ? k->looped * (1 - 1 / work->host) : 0;
		double host_s = k->graphed ? 0 : (k->launches - looped) * device->host_launch_s * slower;

		*part_of(&p, (enum mq_kernel_kind)k->kind) +=
			k->awaited && !p.waits ? awaited_s(busy_s, host_s) : busy_s;
		p.host_s += host_s + (k->kind == MQ_KERNEL_CALL ? k->time_s : 0);
	}
	return p;
}

double mq_cost_busy(const struct mq_cost_parts *p)
{
	return p->products_s + p->arithmetic_s + p->memory_s;
}

static double with_less(double alone_s, double taken)
{
	return alone_s / (1 - fmin(taken, MOST_TAKEN));
}

double mq_cost_beside(const struct mq_cost_parts *p, struct mq_cost_taken taken)
{
	double busy_s = with_less(p->products_s, taken.products) + with_less(p->arithmetic_s, taken.multiprocessors) +
			with_less(p->memory_s, taken.memory);

	return mq_cost_issued(busy_s, p->host_s, p->waits);
}

double mq_cost_work(const struct mq_device_calib *device, const struct mq_work *work)
{
	struct mq_cost_parts parts = mq_cost_parts(device, work);

	return mq_cost_beside(&parts, (struct mq_cost_taken){ 0 });
}

double mq_cost_issued(double busy_s, double host_s, bool waits)
{
	return waits ? busy_s + host_s : fmax(busy_s, host_s);
}

double mq_cost_train_peak(const struct mq_device_calib *device, const struct mq_train *train)
{
	return fmax(device->peak_flops[train->dtype], device->peak_flops[mq_train_gemm_dtype(train)]);
}

double mq_cost_copy(const struct mq_device_calib *device, double bytes)
{
	return bytes / device->copy_bw_Bps + device->launch_s;
}

/* expert_layer.c - see expert_layer.h.
 *
 * A grouped GEMM runs tiles of `tile` tokens by 128 features; an expert's last tile is padded. A tile computes at
 * `share` of one SM's peak, tiles run in waves, and the weights of every expert with a token are read at `bw_share` of
 * the memory bandwidth. The longer of both hides most of the other: time is the root of the sum of squares. Added are
 * `fixed` for routing and launches, and `passes` reads and writes of the copies for permutation, activation and sum.
 * Triton's kernels in SGLang also compute copies for remote experts if the token is here (`remote`).
 *
 * platforms/kernels/experts.csv has the timings. Not modelled: tile sizes by the number of tokens, shared experts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/expert_layer.h"

#include <math.h>

enum { FEATURES = 128, WAVES = 8 };

/* The type that multiplies, and the bytes of a weight with its scales. */
static const struct {
	enum mq_dtype dtype;
	double weight_B;
} types[MQ_N_EXPERTS_TYPES] = {
	[MQ_EXPERTS_16_BIT] = { MQ_BF16, 2 },          [MQ_EXPERTS_FP8] = { MQ_FP8, 1 },
	[MQ_EXPERTS_FP8_BLOCK] = { MQ_FP8, 1 },        [MQ_EXPERTS_MXFP4] = { MQ_FP8, .5 + 1. / 32 },
	[MQ_EXPERTS_NVFP4] = { MQ_FP4, .5 + 1. / 16 },
};

/* Experts with at least one token, and the number of their tiles. */
struct grouped {
	double experts, tiles;
};

/* Loads are quantiles of a power law between one token and .8 of all, as benchmarks draw them. */
static struct grouped group(const struct mq_expert_layer *c, double tile)
{
	struct grouped g = { fmin(c->experts, c->copies), 0 };
	double each = c->copies / c->experts, power = 1 - c->skew, most = pow(fmax(2, .8 * c->tokens), power), sum = 0;
	uint32_t n = (uint32_t)c->experts;

	g.tiles = g.experts * ceil(fmax(each, 1) / tile - 1e-9);
	if (!(c->skew > 0))
		return g;
	g = (struct grouped){ 0, 0 };
	for (uint32_t i = 0; i < n; i++)
		sum += pow((most - 1) * (i + .5) / n + 1, 1 / power);
	for (uint32_t i = 0; i < n; i++) {
		double load = pow((most - 1) * (i + .5) / n + 1, 1 / power) / sum * c->copies;

		g.experts += load >= .5;
		g.tiles += load >= .5 ? ceil(load / tile - 1e-9) : 0;
	}
	return (struct grouped){ fmax(g.experts, 1), fmax(g.tiles, 1) };
}

/* Copies, for other ranks' experts, of the tokens on this rank. */
static double remote_copies(const struct mq_expert_layer *c)
{
	double all = c->tokens * c->top_k, part = fmin(1, c->copies / all), here;

	here = c->skew > 0 ? c->tokens * (1 - pow(1 - part, c->top_k)) : fmin(c->tokens, c->copies);
	return fmax(0, here * c->top_k - c->copies);
}

static double tiles_s(const struct mq_device_calib *d, const struct mq_experts_kernels *k, double peak, double tiles,
		      double features, double inner)
{
	double waves = tiles * fmax(1, features / FEATURES) / d->sm_count;

	return (waves > WAVES ? waves : ceil(waves)) * 2 * k->tile * FEATURES * inner / (peak / d->sm_count * k->share);
}

double mq_expert_layer_time(const struct mq_device_calib *d, const char *implementation,
			    const struct mq_expert_layer *c)
{
	const struct mq_library_row *row =
		mq_library_row(d->libraries, MQ_ROWS_EXPERTS, implementation, (int)c->type, d->compute_capability);
	double peak = d->peak_flops[types[c->type].dtype] * mq_cost_clock(d), matrices = c->gated ? 3 : 2, remote,
	       gemms, read;
	struct grouped g;

	if (!row || !(peak > 0))
		return NAN;
	const struct mq_experts_kernels *k = &row->experts;
	g = group(c, k->tile);
	remote = k->remote > 0 ? remote_copies(c) : 0;
	g.tiles += ceil(remote / k->tile);
	gemms = tiles_s(d, k, peak, g.tiles, c->width * (matrices - 1), c->hidden) +
		tiles_s(d, k, peak, g.tiles, c->hidden, c->width);
	read = g.experts * matrices * c->hidden * c->width * types[c->type].weight_B / (d->mem_bw_Bps * k->bw_share);
	return k->fixed_s + hypot(gemms, read) +
	       k->passes * (2 * c->hidden + 3 * c->width) * (c->copies + remote) * 2 /
		       (d->mem_bw_Bps * d->elementwise_bw_share);
}

/* ---- token exchange -----------------------------------------------------------------------------------
 *
 * A token goes once to each rank that has one of its experts, with balanced routing to R (1 - (1 - 1/R)^k) of R
 * ranks, and once over the network to each other machine. Low-latency kernels (`each`) send a copy to each of its
 * experts, one SM per expert. In other kernels, warps of all SMs inspect every token, whatever its destination. This
 * and the bytes copied add as the root of the sum of squares; between machines a copy passes two SMs, for NVLink and
 * for the network. The NVLink port and the network port bound the rate. Added is `fixed` for layout and handshakes,
 * more across machines.
 *
 * platforms/kernels/exchange.csv has the timings. Not modelled: uneven routing, ranks that start late. */

#define USUAL_MULTIPROCESSORS 24

/* The number of `places` that a token with k experts visits. */
static double visited(double places, double k)
{
	return places * (1 - pow(1 - 1 / places, k));
}

double mq_token_exchange_time(const struct mq_device_calib *d, const char *library, const struct mq_token_exchange *x)
{
	const struct mq_library_row *row =
		mq_library_row(d->libraries, MQ_ROWS_EXCHANGE, library, x->combine, d->compute_capability);
	double held = x->multiprocessors > 0 ? x->multiprocessors : USUAL_MULTIPROCESSORS, copies, away, time, net = 0;

	if (!row || row->generation > mq_generation_of(d->libraries, d->compute_capability) || !(d->nvlink_Bps > 0) ||
	    (x->nodes > 1 && !(d->nic_Bps > 0)))
		return NAN;
	const struct mq_exchange_kernels *k = &row->exchange;
	copies = x->tokens * (k->each > 0 ? x->top_k : visited(x->ranks, x->top_k));
	away = x->tokens * (x->nodes - 1) *
	       (k->each > 0 ? x->top_k / x->nodes : visited(x->nodes, x->top_k) / x->nodes);
	double handled = k->each > 0 ? copies / x->experts : x->tokens / held;
	double sent = k->each > 0 ? 0 : copies * x->token_B * (x->nodes > 1 ? 2 : 1) / (k->multiprocessor_Bps * held);
	time = fmax(hypot(handled * k->token_s, sent), copies * x->token_B / (d->nvlink_Bps * k->link_share));
	if (x->nodes > 1)
		net = away * x->token_B /
		      fmin(d->nic_Bps * k->net_share,
			   k->each > 0 ? (double)INFINITY : k->net_multiprocessor_Bps * held);
	return k->fixed_s * (1 + k->fixed_nodes * log2(x->nodes)) + fmax(time, net);
}

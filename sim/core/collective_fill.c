/*
 * collective_fill.c - what NCCL's estimate leaves out at small and medium sizes.
 *
 * 1. Few channels. A small vector runs on few of the channels, so it gets that part of the bandwidth; a
 *    lone LL channel is LONE_LL times as fast as its part, since the cap on LL is one of all together.
 * 2. Rounds of a ring (Simple). In each round a rank sends 2(n-1) chunks (all-reduce) or n-1 and then
 *    only receives: that last receive overlaps with the next round but for `fill` of a step. So the
 *    bandwidth is that of steps / (steps + fill).
 *    Between nodes each piece of a rank's part (at most a step of 512 kB) is stored and forwarded on
 *    its way between GPU, host and NIC: `fill` of its time on the wire is added at each crossing.
 * 3. Rounds of NVLS. Every channel works on one chunk of every head; of k rounds the first has to go
 *    through before anything arrives: 1 - 1/k round more, for a tree of nodes that for each of its
 *    2 log2(N) levels.
 * 4. Chunks. Each chunk costs chunk_B bytes' worth of time beside its own bytes (synchronisation). NVLS
 *    takes smaller chunks for smaller vectors, so that its bandwidth grows in steps up to 1 GB; NCCL's
 *    figures hold for the largest chunk.
 *
 * Not modelled: the fill of LL and LL128, whose pieces are small.
 */
#include <math.h>

#include "core/collective_impl.h"

#define LONE_LL 1.5
#define LL_CHANNEL_BPS 6e9 /* one LL channel of Volta and Ampere; half as much again from Hopper on */
#define LL_PIECE_B 4096.0
#define NET_PIECE_B 524288.0 /* one of the 8 steps of a channel's buffer */
#define NVLS_CHUNK_B 131072.0
#define NVLS_CHANNELS 16.0

/* NVLS(Tree): the chunk that NCCL takes for this size. */
static double nvls_chunk(const struct mq_tune *t, enum mq_algo algo, double concurrent)
{
	double chunk = NVLS_CHUNK_B;

	if (algo == MQ_ALGO_NVLS_TREE) {
		if (t->n_nodes >= 4)
			chunk = 65536;
		if (t->bytes < 4 * concurrent * chunk && chunk > 65536)
			chunk = 65536;
		if (t->bytes < concurrent * chunk && chunk > 32768)
			chunk = 32768;
		return chunk;
	}
	if (t->bytes < 64 * concurrent * chunk)
		chunk = 65536;
	if (t->bytes < 8 * concurrent * chunk && chunk > 32768)
		chunk = 32768;
	if (t->bytes < 2 * concurrent * chunk && chunk > 16384)
		chunk = 16384;
	return chunk;
}

static void nvls_fill(const struct mq_tune *t, enum mq_algo algo, struct mq_coll_cost *cost)
{
	const struct mq_link_calib *link = t->topo->intra_calib;
	double concurrent = NVLS_CHANNELS * t->topo->nvls_graph.channels;
	double chunk = nvls_chunk(t, algo, concurrent);
	double full = algo == MQ_ALGO_NVLS_TREE && t->n_nodes >= 4 ? 65536 : NVLS_CHUNK_B;
	double rounds = algo == MQ_ALGO_NVLS_TREE ? 2 * floor(log2(t->n_nodes)) : 1;
	double round = concurrent * chunk;

	cost->bw_Bps *= (1 + link->chunk_B / full) / (1 + link->chunk_B / chunk);
	if (link->chunk_B > 0 && t->bytes > round)
		cost->latency_s += rounds * round * (1 - round / t->bytes) / cost->bw_Bps;
}

static void ring_fill(const struct mq_tune *t, struct mq_coll_cost *cost)
{
	double all = t->kind == MQ_COLL_ALL_REDUCE ? 2 : 1, steps = all * (t->n - 1), piece, net;

	if (t->n_nodes == 1) {
		cost->bw_Bps *= steps / (steps + t->topo->intra_calib->fill);
		return;
	}
	piece = fmin(t->bytes / t->n, NET_PIECE_B);
	net = t->topo->nic_Bps * t->topo->rails * t->topo->net_calib->bw_share;
	cost->latency_s += t->topo->net_calib->fill * all * (t->n_nodes - (t->n == t->n_nodes)) *
			   piece / net;
}

/* A tree by LL: each channel's piece is stored and forwarded at every hop. */
static void tree_ll_fill(const struct mq_tune *t, struct mq_coll_cost *cost)
{
	double hops = 2 * ((double)t->n / t->n_nodes - 1 + floor(log2(t->n_nodes)));
	double channel_Bps = LL_CHANNEL_BPS * (t->topo->arch >= MQ_ARCH_HOPPER ? 1.5 : 1);

	cost->latency_s += hops * fmin(t->bytes / cost->channels, LL_PIECE_B) / channel_Bps;
}

void mq_fill_cost(const struct mq_tune *t, enum mq_algo algo, enum mq_proto proto,
		  struct mq_coll_cost *cost)
{
	bool chain = t->kind == MQ_COLL_BROADCAST || t->kind == MQ_COLL_REDUCE;

	if (algo == MQ_ALGO_NVLS || algo == MQ_ALGO_NVLS_TREE) {
		nvls_fill(t, algo, cost);
	} else if (algo == MQ_ALGO_TREE && proto == MQ_PROTO_LL) {
		tree_ll_fill(t, cost);
	} else {
		cost->bw_Bps *= fmin(1, (proto == MQ_PROTO_LL ? LONE_LL : 1.0) * cost->channels /
				     cost->most);
		if (algo == MQ_ALGO_RING && proto == MQ_PROTO_SIMPLE && !chain)
			ring_fill(t, cost);
	}
}

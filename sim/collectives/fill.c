/* fill.c - losses at small and medium sizes that NCCL's estimate leaves out.
 *
 * 1. Few channels. A small vector uses a share of the channels and gets that share of the bandwidth; a single LL
 *    channel gets LONE_LL times its share, since NCCL's cap on LL holds for all channels together.
 * 2. Rounds of a ring (Simple). In each round a rank sends 2(n-1) chunks (all-reduce) or n-1 and then only receives,
 *    for `fill` of a step: the bandwidth is multiplied by steps / (steps + fill). Over an NVSwitch before Blackwell half of
 *    that overlaps the next round, which the first of a chunk's two slices begins; over PCIe, bridges between cards and
 *    on Blackwell nothing does (timed). Between nodes each piece of a rank's part (at most a step of 512 kB) is stored
 *    and forwarded between GPU, host and NIC: each crossing adds `fill` of its time on the wire.
 * 3. Trees. A piece of each channel (Simple: a step of its buffer) is stored and forwarded at each of the 2(ppn-1) +
 *    2 log2(N) hops: the first piece arrives after that many times its own time.
 * 4. Rounds of NVLS. Every channel works on one chunk of every head; of k rounds the first has to pass before anything
 *    arrives: 1 - 1/k round more, in a tree of nodes for each of its 2 log2(N) levels.
 * 5. Chunks of NVLS. Each chunk takes the time of chunk_B more bytes (synchronisation). Smaller vectors use smaller
 *    chunks, so the bandwidth grows in steps up to 1 GB; NCCL's figures hold for the largest chunk.
 *
 * Not modelled: the fill of LL128, and of LL but for trees. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "collectives/impl.h"

#define LONE_LL        1.5
#define LL_CHANNEL_BPS 6e9 /* one LL channel of Volta and Ampere; 1.5 times that from Hopper on */
#define LL_PIECE_B     4096.0
#define CHUNK_STEPS    4.0 /* a ring's chunk, in steps of the buffer */
#define NVLS_CHUNK_B   131072.0
#define NVLS_CHANNELS  16.0 /* of Hopper; twice that from Blackwell on */

struct nvls {
	double concurrent; /* chunks in flight: channels x heads */
	double chunk_B, full, rounds, bw_Bps;
};

/* The vector size from which NCCL uses a larger chunk than this. */
static double nvls_edge(double chunk, bool tree, const struct nvls *v)
{
	double larger = 2 * chunk;

	if (chunk >= v->full)
		return INFINITY;
	if (tree)
		return (chunk >= 65536 ? 4 : 1) * v->concurrent * larger;
	return (chunk >= 65536 ? 64 : chunk >= 32768 ? 8 : 2) * v->concurrent * larger;
}

static double least_chunk(bool tree)
{
	return tree ? 32768 : 16384;
}

/* Time of a vector with a given chunk size, as extra latency and bandwidth. */
static double nvls_time(const struct nvls *v, double bytes, double chunk, double *extra_s, double *bw_Bps)
{
	double round = v->concurrent * chunk;

	*bw_Bps = v->bw_Bps * (1 + v->chunk_B / v->full) / (1 + v->chunk_B / chunk);
	*extra_s = v->chunk_B > 0 && bytes > round ? v->rounds * round * (1 - round / bytes) / *bw_Bps : 0;
	return *extra_s + bytes / *bw_Bps;
}

static void nvls_fill(const struct mq_tune *t, enum mq_algo algo, struct mq_coll_cost *cost)
{
	bool tree = algo == MQ_ALGO_NVLS_TREE;
	struct nvls v = {
		.concurrent =
			NVLS_CHANNELS * (t->topo->arch >= MQ_ARCH_BLACKWELL ? 2 : 1) * t->topo->nvls_graph.channels,
		.chunk_B = t->topo->intra_calib->chunk_B,
		.bw_Bps = cost->bw_Bps,
		.full = tree && t->n_nodes >= 4 ? 65536 : NVLS_CHUNK_B,
		.rounds = tree ? 2 * floor(log2(t->n_nodes)) : 1,
	};
	double chunk = least_chunk(tree), extra_s, bw_Bps, floor_s = 0;

	while (t->bytes >= nvls_edge(chunk, tree, &v)) /* NCCL's chunk for this size */
		chunk *= 2;
	double time = nvls_time(&v, t->bytes, chunk, &extra_s, &bw_Bps);

	/* A vector takes at least the time of the largest one that uses a smaller chunk. */
	for (double smaller = least_chunk(tree); smaller < chunk; smaller *= 2) {
		double e, b;

		floor_s = fmax(floor_s, nvls_time(&v, nvls_edge(smaller, tree, &v), smaller, &e, &b));
	}
	cost->bw_Bps = bw_Bps;
	cost->latency_s += extra_s + fmax(0, floor_s - time);
}

/* The part of a round's fill that does not overlap the next round. */
static double exposed_fill(const struct mq_tune *t, double channels)
{
	const struct mq_topo *topo = t->topo;
	double round_B = t->n * channels * CHUNK_STEPS * topo->intra_calib->step_B;

	if (topo->intra > MQ_INTRA_SWITCH || topo->arch >= MQ_ARCH_BLACKWELL || t->bytes <= round_B)
		return topo->intra_calib->fill;
	return topo->intra_calib->fill * (1 + round_B / t->bytes) / 2;
}

static void ring_fill(const struct mq_tune *t, struct mq_coll_cost *cost)
{
	double all = t->kind == MQ_COLL_ALL_REDUCE ? 2 : 1, steps = all * (t->n - 1), piece, net;

	if (t->n_nodes == 1) {
		cost->bw_Bps *= steps / (steps + exposed_fill(t, cost->most));
		return;
	}
	piece = fmin(t->bytes / t->n, t->topo->net_calib->step_B);
	net = t->topo->rails * mq_topo_port_Bps(t->topo);
	cost->latency_s += t->topo->net_calib->fill * all * (t->n_nodes - (t->n == t->n_nodes)) * piece / net;
}

static double tree_hops(const struct mq_tune *t)
{
	return 2 * ((double)t->n / t->n_nodes - 1 + floor(log2(t->n_nodes)));
}

/* A chunk moves at its channel's share of the bus bandwidth, which is twice the algorithm bandwidth. */
static void tree_simple_fill(const struct mq_tune *t, struct mq_coll_cost *cost)
{
	double step_B = (t->n_nodes > 1 ? t->topo->net_calib : t->topo->intra_calib)->step_B;

	cost->latency_s += tree_hops(t) * fmin(t->bytes, cost->busy * step_B) / (2 * cost->bw_Bps);
}

/* Tree with LL: each hop stores and forwards a piece of each channel. */
static void tree_ll_fill(const struct mq_tune *t, struct mq_coll_cost *cost)
{
	double channel_Bps = LL_CHANNEL_BPS * (t->topo->arch >= MQ_ARCH_HOPPER ? 1.5 : 1);

	cost->latency_s += tree_hops(t) * fmin(t->bytes / cost->busy, LL_PIECE_B) / channel_Bps;
}

void mq_fill_cost(const struct mq_tune *t, enum mq_algo algo, enum mq_proto proto, struct mq_coll_cost *cost)
{
	bool chain = mq_coll_has_root(t->kind);

	if (algo == MQ_ALGO_NVLS || algo == MQ_ALGO_NVLS_TREE) {
		nvls_fill(t, algo, cost);
	} else if (algo == MQ_ALGO_TREE && proto == MQ_PROTO_LL) {
		tree_ll_fill(t, cost);
	} else {
		cost->bw_Bps *= fmin(1, (proto == MQ_PROTO_LL ? LONE_LL : 1.0) * cost->busy / cost->most);
		if (algo == MQ_ALGO_RING && proto == MQ_PROTO_SIMPLE && !chain)
			ring_fill(t, cost);
		if (algo == MQ_ALGO_TREE && proto == MQ_PROTO_SIMPLE)
			tree_simple_fill(t, cost);
	}
}

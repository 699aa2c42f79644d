/*
 * test_collective.c - what NCCL would choose and move: channels, trees, bytes per edge, printed
 * peaks.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "nccl_machines.h"

/* Bytes out of and into every rank. */
static void sums(const struct mq_coll_flows *f, uint32_t n, double *out, double *in)
{
	memset(out, 0, n * sizeof(double));
	memset(in, 0, n * sizeof(double));
	for (uint32_t i = 0; i < f->n_flows; i++) {
		assert_true(f->flow[i].src < n && f->flow[i].dst < n && f->flow[i].rate_Bps > 0);
		out[f->flow[i].src] += f->flow[i].bytes;
		in[f->flow[i].dst] += f->flow[i].bytes;
	}
}

static void test_channels(void **state)
{
	struct setup s;

	set_up(&s, v100, 70, 1, 0); /* 3 cycles, each in both directions, at one NVLink's speed */
	assert_int_equal(s.topo.ring_graph.channels, 6);
	near(s.topo.ring_graph.intra_Bps, 20 * GB, 1e-12);
	assert_int_equal(s.topo.n_rings, 6);
	mq_arena_fini(&s.arena);
	set_up(&s, a100, 80, 1, 0);
	assert_int_equal(s.topo.ring_graph.channels, 12);
	near(s.topo.ring_graph.intra_Bps, 20 * GB, 1e-12);
	mq_arena_fini(&s.arena);
	set_up(&s, h100, 90, 1, 0);
	assert_int_equal(s.topo.ring_graph.channels, 12);
	near(s.topo.ring_graph.intra_Bps, 30 * GB, 1e-12);
	assert_int_equal(s.topo.nvls_graph.channels, 8);
	near(s.topo.nvls_graph.intra_Bps, 40 * GB, 1e-12);
	mq_arena_fini(&s.arena);
	set_up(&s, h100, 90, 2, 0);
	assert_int_equal(s.topo.ring_graph.channels, 8);
	near(s.topo.ring_graph.inter_Bps, 45 * GB, 1e-12);
	near(s.topo.nvls_graph.intra_Bps, 45 * GB, 1e-12);
	near(s.topo.nvls_graph.inter_Bps, 48 * GB, 1e-12);
	assert_int_equal(s.topo.rails, 8);
	mq_arena_fini(&s.arena);
}

/* Every ring of a mesh visits all ranks, over NVLinks, and no link is used more than it is wide: three cycles over the
 * links of a DGX-1, and over half links of four GPUs, all three cycles of these. */
static void test_mesh_rings(void **state)
{
	struct mq_fabric_spec quad = h100;

	quad.inside = MQ_INSIDE_QUAD;
	quad.per_node = 4;
	quad.nvls = false;
	for (int k = 0; k < 2; k++) {
		struct setup s;
		double used[8][8] = { { 0 } };

		set_up(&s, k ? quad : v100, k ? 90 : 70, 1, 0);
		assert_int_equal(s.topo.n_rings, 6);
		near(s.topo.ring_graph.intra_Bps, (k ? 60 : 20) * GB, 1e-12);
		for (uint32_t r = 0; r < s.topo.n_rings; r++) {
			uint32_t seen = 0;

			for (uint32_t i = 0; i < s.n; i++) {
				uint32_t a = s.topo.ring[r][i], b = s.topo.ring[r][(i + 1) % s.n];

				seen |= 1U << a;
				used[a][b] += s.topo.ring_graph.intra_Bps;
			}
			assert_int_equal(seen, (1U << s.n) - 1);
		}
		for (uint32_t a = 0; a < s.n; a++)
			for (uint32_t b = 0; b < s.n; b++)
				assert_true(used[a][b] <= s.topo.width_Bps[a][b] * (1 + 1e-12));
		mq_arena_fini(&s.arena);
	}
}

/* Between machines each port of a mesh takes one ring, whose ends lie by it; two ports of four GPUs, one ring each. */
static void test_mesh_rails(void **state)
{
	static const struct {
		enum mq_inside inside;
		uint32_t per_node, rails;
		bool own; /* a ring comes in and leaves by the same port */
	} shape[] = { { MQ_INSIDE_CUBE, 8, 4, true },
		      { MQ_INSIDE_QUAD, 4, 4, false },
		      { MQ_INSIDE_QUAD, 4, 2, true },
		      { MQ_INSIDE_CUBE, 8, 8, false } };
	struct setup s;

	for (uint32_t k = 0; k < sizeof(shape) / sizeof(*shape); k++) {
		struct mq_fabric_spec spec = v100;
		uint32_t in = 0, out = 0, m = shape[k].per_node;

		spec.inside = shape[k].inside;
		spec.per_node = m;
		spec.rails = shape[k].rails;
		spec.nic_Bps = 12.5 * GB;
		spec.fabric = MQ_FABRIC_IB;
		set_up(&s, spec, 70, 2, 0);
		assert_int_equal(s.topo.n_rings, spec.rails);
		for (uint32_t r = 0; r < s.topo.n_rings; r++) {
			const uint8_t *ring = s.topo.ring[r];

			in |= 1U << s.topo.rail_of[ring[0]];
			out |= 1U << s.topo.rail_of[ring[m - 1]];
			assert_int_equal(s.topo.rail_of[ring[0]], r);
			assert_int_equal(s.topo.rail_of[ring[m - 1]] == r, shape[k].own);
			for (uint32_t i = 0; i + 1 < m; i++)
				assert_true(s.topo.width_Bps[ring[i]][ring[i + 1]] > 0);
		}
		assert_int_equal(in, (1U << spec.rails) - 1);
		assert_int_equal(out, in);
		mq_arena_fini(&s.arena);
	}
}

static double bus_GBps(struct setup *s, enum mq_algo algo)
{
	const struct mq_tune tune = {
		.topo = &s->topo, .kind = MQ_COLL_ALL_REDUCE, .n = s->n, .n_nodes = s->group.n_nodes, .bytes = 8e9
	};

	return mq_tune_cost(&tune, algo, MQ_PROTO_SIMPLE, false).bw_Bps * 2 * (s->n - 1) / s->n / GB;
}

/* Bus bandwidths that NCCL's tables lead to on machines whose logs are known: 8 H100 476 GB/s, 2
 * nodes 462, 4 nodes 364; 120 on a V100 mesh, 240 on A100. */
static void test_printed_peaks(void **state)
{
	struct setup s;

	set_up(&s, h100, 90, 1, 0);
	near(bus_GBps(&s, MQ_ALGO_NVLS), 476, 1e-3);
	mq_arena_fini(&s.arena);
	set_up(&s, h100, 90, 2, 0);
	near(bus_GBps(&s, MQ_ALGO_NVLS_TREE), 462, 2e-3);
	mq_arena_fini(&s.arena);
	set_up(&s, h100, 90, 4, 0);
	near(bus_GBps(&s, MQ_ALGO_NVLS_TREE), 364, 2e-3);
	mq_arena_fini(&s.arena);
	set_up(&s, v100, 70, 1, 0);
	near(bus_GBps(&s, MQ_ALGO_RING), 120, 1e-9);
	mq_arena_fini(&s.arena);
	set_up(&s, a100, 80, 1, 0);
	near(bus_GBps(&s, MQ_ALGO_RING), 240, 1e-9);
	mq_arena_fini(&s.arena);
}

/* SHARP on 8 x 200G: the node's NVLinks bound it, 8 channels at 30 GB/s; half of that per vector
 * byte. */
static void test_sharp(void **state)
{
	struct mq_fabric_spec spec = a100;
	struct setup s;
	struct mq_coll_flows f;
	double out[32], in[32];

	spec.rails = 8;
	spec.nic_Bps = 25 * GB;
	spec.fabric = MQ_FABRIC_IB;
	set_up(&s, spec, 80, 4, 0);
	assert_int_equal(mq_tune_refusal(&(struct mq_tune){ .topo = &s.topo, .n_nodes = 4, .n = 32 },
					 MQ_ALGO_COLLNET_DIRECT, MQ_PROTO_SIMPLE) != NULL,
			 1);
	mq_arena_fini(&s.arena);
	spec.sharp = true;
	set_up(&s, spec, 80, 4, 0);
	near(s.topo.collnet_graph.channels * s.topo.collnet_graph.intra_Bps, 240 * GB, 1e-12);
	near(bus_GBps(&s, MQ_ALGO_COLLNET_DIRECT), 120 * 2 * 31 / 32.0, 1e-9);
	f = expand(&s, MQ_COLL_ALL_REDUCE, 8e8, MQ_ALGO_COLLNET_DIRECT, MQ_PROTO_AUTO);
	sums(&f, 32, out, in);
	for (uint32_t i = 0; i < 32; i++) /* scatter and gather 2 x 7/8 S in the node, S/8 up */
		near(out[i], 8e8 * (2 * 7 / 8.0 + 1 / 8.0), 1e-12);
	mq_arena_fini(&s.arena);
}

static void test_choices(void **state)
{
	struct setup s;
	struct mq_coll_flows f;

	set_up(&s, h100, 90, 1, 0);
	f = expand(&s, MQ_COLL_ALL_REDUCE, 1e9, MQ_ALGO_AUTO, MQ_PROTO_AUTO);
	assert_int_equal(f.algo, MQ_ALGO_NVLS);
	f = expand(&s, MQ_COLL_ALL_REDUCE, 64, MQ_ALGO_AUTO, MQ_PROTO_AUTO);
	assert_int_equal(f.proto, MQ_PROTO_LL);
	f = expand(&s, MQ_COLL_BROADCAST, 1e9, MQ_ALGO_AUTO, MQ_PROTO_AUTO);
	assert_int_equal(f.algo, MQ_ALGO_RING);
	mq_arena_fini(&s.arena);
	set_up(&s, h100, 90, 4, 0);
	f = expand(&s, MQ_COLL_ALL_REDUCE, 64, MQ_ALGO_AUTO, MQ_PROTO_AUTO);
	assert_int_equal(f.algo, MQ_ALGO_TREE);
	assert_int_equal(f.proto, MQ_PROTO_LL);
	/* base 6.8 + 2 (7 x 0.6 + 2 x 5.0) us, and a little for the bytes */
	near(f.alone_s, 35.2e-6, .01);
	f = expand(&s, MQ_COLL_ALL_REDUCE, 1e9, MQ_ALGO_AUTO, MQ_PROTO_AUTO);
	assert_int_equal(f.algo, MQ_ALGO_NVLS_TREE);
	mq_arena_fini(&s.arena);
}

static void test_refusals(void **state)
{
	struct setup s;
	struct mq_coll_flows f;
	struct mq_coll_request request = { .kind = MQ_COLL_ALL_REDUCE, .bytes = 1e6, .algo = MQ_ALGO_NVLS };
	const uint32_t twice[] = { 0, 1, 1 }, outside[] = { 0, 99 };

	set_up(&s, a100, 80, 1, 0);
	request.n = s.n;
	request.rank = s.rank;
	assert_int_equal(mq_collective_expand(s.cluster, s.calib, &request, &s.arena, &f, &s.err), MQ_EINPUT);
	assert_non_null(strstr(s.err.text, "NVSwitch"));
	request.algo = MQ_ALGO_TREE;
	request.kind = MQ_COLL_BROADCAST;
	assert_int_equal(mq_collective_expand(s.cluster, s.calib, &request, &s.arena, &f, &s.err), MQ_EINPUT);
	request.algo = MQ_ALGO_AUTO;
	request.root = 8;
	assert_int_equal(mq_collective_expand(s.cluster, s.calib, &request, &s.arena, &f, &s.err), MQ_EINPUT);
	request.root = MQ_NONE; /* none is left out: any will do */
	request.closed = true;
	assert_int_equal(mq_collective_expand(s.cluster, s.calib, &request, &s.arena, &f, &s.err), MQ_OK);
	request.closed = false;
	request.root = 0;
	request.bytes = NAN;
	assert_int_equal(mq_collective_expand(s.cluster, s.calib, &request, &s.arena, &f, &s.err), MQ_EINPUT);
	request.bytes = 1;
	request.n = 3;
	request.rank = twice;
	assert_int_equal(mq_collective_expand(s.cluster, s.calib, &request, &s.arena, &f, &s.err), MQ_EINPUT);
	request.n = 2;
	request.rank = outside;
	assert_int_equal(mq_collective_expand(s.cluster, s.calib, &request, &s.arena, &f, &s.err), MQ_EINPUT);
	request.n = 1;
	request.rank = s.rank;
	assert_int_equal(mq_collective_expand(s.cluster, s.calib, &request, &s.arena, &f, &s.err), MQ_OK);
	assert_true(f.n_flows == 0 && f.alone_s <= 0);
	mq_arena_fini(&s.arena);
}

/* Double binary tree: one root, no cycles, at most two children, a leaf in at least one tree. */
static void test_tree_degrees(void **state)
{
	for (uint32_t n = 2; n <= 33; n++) {
		uint32_t children[2][33] = { { 0 } };

		for (uint32_t tree = 0; tree < 2; tree++) {
			uint32_t roots = 0;

			for (uint32_t k = 0; k < n; k++) {
				uint32_t up = mq_tree_parent(tree, n, k), hops = 0;

				roots += up == MQ_NONE;
				if (up != MQ_NONE)
					children[tree][up]++;
				for (; up != MQ_NONE; hops++)
					up = mq_tree_parent(tree, n, up);
				assert_true(hops <= 1 + (uint32_t)ceil(log2(n)));
			}
			assert_int_equal(roots, 1);
		}
		for (uint32_t k = 0; k < n; k++)
			assert_true(children[0][k] <= 2 && children[1][k] <= 2 &&
				    (!children[0][k] || !children[1][k] || n % 2));
	}
}

static void test_ring_bytes(void **state)
{
	static const struct {
		enum mq_coll_kind kind;
		double share;
	} kinds[] = {
		{ MQ_COLL_ALL_REDUCE, 2 * 23 / 24.0 },
		{ MQ_COLL_ALL_GATHER, 23 / 24.0 },
		{ MQ_COLL_REDUCE_SCATTER, 23 / 24.0 },
	};
	struct setup s;
	double out[24], in[24];

	set_up(&s, h100, 90, 3, 0);
	for (int k = 0; k < 3; k++) {
		struct mq_coll_flows f = expand(&s, kinds[k].kind, 1e8, MQ_ALGO_RING, MQ_PROTO_SIMPLE);
		double between = 0;

		sums(&f, 24, out, in);
		for (uint32_t i = 0; i < 24; i++) {
			near(out[i], kinds[k].share * 1e8, 1e-12);
			near(in[i], kinds[k].share * 1e8, 1e-12);
		}
		for (uint32_t i = 0; i < f.n_flows; i++) {
			uint32_t a = f.flow[i].src, b = f.flow[i].dst;

			if (a / 8 == b / 8)
				continue;
			assert_int_equal(a % 8, b % 8); /* stays on its rail */
			between += f.flow[i].bytes;
		}
		near(between, 3 * kinds[k].share * 1e8, 1e-12);
	}
	mq_arena_fini(&s.arena);
}

static void test_chain_bytes(void **state)
{
	struct setup s;
	struct mq_coll_flows f;
	double out[8], in[8];

	set_up(&s, a100, 80, 1, 0);
	f = expand(&s, MQ_COLL_BROADCAST, 1e8, MQ_ALGO_RING, MQ_PROTO_SIMPLE);
	sums(&f, 8, out, in);
	assert_int_equal(f.n_flows, 7);
	assert_true(in[0] <= 0 && out[7] <= 0);
	for (uint32_t i = 1; i < 8; i++)
		near(in[i], 1e8, 1e-12);
	f = expand(&s, MQ_COLL_REDUCE, 1e8, MQ_ALGO_RING, MQ_PROTO_SIMPLE);
	sums(&f, 8, out, in);
	assert_true(out[0] <= 0 && in[1] <= 0);
	f = expand(&s, MQ_COLL_ALL_TO_ALL, 1e8, MQ_ALGO_AUTO, MQ_PROTO_AUTO);
	sums(&f, 8, out, in);
	assert_int_equal(f.n_flows, 56);
	for (uint32_t i = 0; i < 8; i++)
		near(out[i] + in[i], 2 * 7 / 8.0 * 1e8, 1e-12);
	mq_arena_fini(&s.arena);
}

static void test_nvls_shares(void **state)
{
	struct setup s;
	struct mq_coll_flows f;
	double out[32], in[32], between = 0;

	set_up(&s, h100, 90, 1, 0);
	f = expand(&s, MQ_COLL_ALL_REDUCE, 8e8, MQ_ALGO_NVLS, MQ_PROTO_AUTO);
	sums(&f, 8, out, in);
	for (uint32_t i = 0; i < 8; i++) {
		near(out[i], 9e8, 1e-12); /* S (1 + 1/8) */
		near(in[i], 9e8, 1e-12);
	}
	mq_arena_fini(&s.arena);
	set_up(&s, h100, 90, 4, 0);
	f = expand(&s, MQ_COLL_ALL_REDUCE, 8e8, MQ_ALGO_NVLS_TREE, MQ_PROTO_AUTO);
	for (uint32_t i = 0; i < f.n_flows; i++)
		if (f.flow[i].src / 8 != f.flow[i].dst / 8) {
			near(f.flow[i].bytes, 8e8 / 16, 1e-12); /* S / (2 h) */
			between += f.flow[i].bytes;
		}
	/* 2 trees of 3 edges, both ways, on 8 rails */
	near(between, 2 * 3 * 2 * 8 * 8e8 / 16, 1e-12);
	mq_arena_fini(&s.arena);
}

static void check_monotonic(struct setup *s, enum mq_coll_kind kind, enum mq_algo algo, enum mq_proto proto)
{
	double before = 0;

	for (double bytes = 8; bytes < 4e9; bytes *= 1.37) {
		double now = expand(s, kind, bytes, algo, proto).alone_s;

		if (now < before * (1 - 1e-12))
			fail_msg("%s/%s: %g bytes take %g s, fewer took %g", mq_algo_name(algo), mq_proto_name(proto),
				 bytes, now, before);
		before = now;
	}
}

/* More bytes never take less time under a fixed algorithm and protocol. */
static void test_monotonic(void **state)
{
	struct setup s;
	struct mq_link_calib link = { .name = "nvlink",
				      .bw_share = .8,
				      .latency_scale = 1,
				      .step_B = 524288,
				      .nvls_share = 1,
				      .fill = .45,
				      .chunk_B = 1e4,
				      .p2p_latency_s = 6e-6,
				      .simple_s = 5e-6,
				      .ll_Bps = 8e9 };

	set_up(&s, h100, 90, 2, 0);
	s.calib->link = &link;
	s.calib->n_links = 1;
	for (int proto = MQ_PROTO_LL; proto < MQ_N_PROTOS; proto++)
		for (int algo = MQ_ALGO_RING; algo <= MQ_ALGO_TREE; algo++)
			check_monotonic(&s, MQ_COLL_ALL_REDUCE, (enum mq_algo)algo, (enum mq_proto)proto);
	check_monotonic(&s, MQ_COLL_ALL_REDUCE, MQ_ALGO_NVLS_TREE, MQ_PROTO_SIMPLE);
	s.n = 8; /* one node */
	check_monotonic(&s, MQ_COLL_ALL_REDUCE, MQ_ALGO_NVLS, MQ_PROTO_SIMPLE);
	check_monotonic(&s, MQ_COLL_ALL_GATHER, MQ_ALGO_NVLS, MQ_PROTO_SIMPLE);
	check_monotonic(&s, MQ_COLL_ALL_TO_ALL, MQ_ALGO_AUTO, MQ_PROTO_AUTO);
	mq_arena_fini(&s.arena);
}

/* Small calls take what was timed of their class: the start of a ring, its steps, the peers of an all-to-all; a large
 * all-to-all cannot take less than its channels need to copy the vector. */
static void test_small_calls(void **state)
{
	struct setup s;
	struct mq_coll_flows f;
	struct mq_link_calib link = { .name = "nvlink",
				      .bw_share = .8,
				      .latency_scale = 1,
				      .step_B = 524288,
				      .route_s = 3e-6,
				      .nvls_share = 1,
				      .start_ll_s = 5e-6,
				      .hop_ll_s = 1e-6,
				      .p2p_latency_s = 6e-6,
				      .ll_Bps = 5e9,
				      .simple_s = 20e-6,
				      .peer_s = .2e-6,
				      .channel_Bps = 4e9 };

	set_up(&s, h100, 90, 1, 0);
	s.calib->link = &link;
	s.calib->n_links = 1;
	f = expand(&s, MQ_COLL_ALL_REDUCE, 64, MQ_ALGO_RING, MQ_PROTO_LL);
	near(f.latency_s, 5e-6 + 14 * 1e-6, 1e-12);
	f = expand(&s, MQ_COLL_ALL_GATHER, 64, MQ_ALGO_RING, MQ_PROTO_LL);
	near(f.latency_s, 5e-6 + 7 * 1e-6, 1e-12);
	f = expand(&s, MQ_COLL_ALL_TO_ALL, 8192, MQ_ALGO_AUTO, MQ_PROTO_AUTO);
	near(f.alone_s, 6e-6 + 7 * .2e-6 + 1024 / 5e9, 1e-9);
	f = expand(&s, MQ_COLL_ALL_TO_ALL, 1e9, MQ_ALGO_AUTO, MQ_PROTO_AUTO);
	near(f.alone_s, 6e-6 + 20e-6 + 1e9 / (32 * 4e9), 1e-9);
	s.calib->nccl_version = 21805; /* work came from the host's memory, for each peer */
	f = expand(&s, MQ_COLL_ALL_REDUCE, 64, MQ_ALGO_RING, MQ_PROTO_LL);
	near(f.latency_s, 5e-6 + 14 * 1e-6 + 1.2e-6, 1e-12);
	f = expand(&s, MQ_COLL_ALL_TO_ALL, 8192, MQ_ALGO_AUTO, MQ_PROTO_AUTO);
	near(f.alone_s, 6e-6 + 7 * (.2e-6 + 1.2e-6) + 1024 / 5e9, 1e-9);
	mq_arena_fini(&s.arena);
}

/* 16,384 ranks: O(n) flows and well under a second. */
static void test_large(void **state)
{
	struct setup s;
	struct mq_coll_flows f;
	clock_t start;

	set_up(&s, h100, 90, 2048, 0);
	start = clock();
	f = expand(&s, MQ_COLL_ALL_REDUCE, 1e9, MQ_ALGO_AUTO, MQ_PROTO_AUTO);
	assert_true(f.n_flows <= 8 * s.n);
	f = expand(&s, MQ_COLL_ALL_GATHER, 1e9, MQ_ALGO_RING, MQ_PROTO_AUTO);
	assert_true(f.n_flows <= 2 * s.n);
	f = expand(&s, MQ_COLL_ALL_TO_ALL, 1e9, MQ_ALGO_AUTO, MQ_PROTO_AUTO);
	assert_true(f.n_flows <= 16 * s.n);
	assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 2);
	mq_arena_fini(&s.arena);
}
/* Parts off 16 bytes go element by element: 24 channels of 1.5e9 bf16 elements carry 72 GB/s. */
static void test_misaligned(void **state)
{
	struct setup s;
	struct mq_coll_request request = { .kind = MQ_COLL_ALL_GATHER,
					   .bytes = 8e10,
					   .dtype = MQ_BF16,
					   .proto = MQ_PROTO_SIMPLE,
					   .misaligned = true };
	struct mq_coll_flows f;
	(void)state;

	set_up(&s, a100, 80, 1, 0);
	request.n = s.n;
	request.rank = s.rank;
	assert_int_equal(mq_collective_expand(s.cluster, s.calib, &request, &s.arena, &f, &s.err), MQ_OK);
	assert_int_equal(f.channels, 24);
	near(f.alone_s - f.latency_s, 8e10 * 7 / 8 / 72e9, 1e-9);
	request.kind = MQ_COLL_ALL_REDUCE; /* its chunks are NCCL's own */
	assert_int_equal(mq_collective_expand(s.cluster, s.calib, &request, &s.arena, &f, &s.err), MQ_OK);
	assert_true(f.alone_s < 8e10 * 2 * 7 / 8 / 200e9);
	mq_arena_fini(&s.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_channels),    cmocka_unit_test(test_mesh_rings),
		cmocka_unit_test(test_mesh_rails),  cmocka_unit_test(test_printed_peaks),
		cmocka_unit_test(test_choices),     cmocka_unit_test(test_sharp),
		cmocka_unit_test(test_refusals),    cmocka_unit_test(test_tree_degrees),
		cmocka_unit_test(test_ring_bytes),  cmocka_unit_test(test_chain_bytes),
		cmocka_unit_test(test_nvls_shares), cmocka_unit_test(test_monotonic),
		cmocka_unit_test(test_small_calls), cmocka_unit_test(test_large),
		cmocka_unit_test(test_misaligned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

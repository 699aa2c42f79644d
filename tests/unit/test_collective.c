/*
 * test_collective.c - what NCCL would choose and move: channels, trees, bytes per edge, printed
 * peaks.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "cmd/score/fabrics.h"
#include "core/collective/impl.h"

#define GB 1e9

static struct mq_calib *calib_of(struct mq_arena *arena, const char *type, double capability)
{
	struct mq_calib *calib = mq_calib_new(arena);

	mq_calib_add_ideal(calib, type, 1e14, 1e12, 1e11)->compute_capability = capability;
	return calib;
}

static const struct mq_fabric_spec v100 = {
	.type = "V100",
	.nodes = 1,
	.per_node = 8,
	.inside = MQ_INSIDE_CUBE,
	.nvlink_Bps = 150 * GB,
	.pcie_Bps = 15.75 * GB,
};
static const struct mq_fabric_spec a100 = {
	.type = "A100",
	.nodes = 1,
	.per_node = 8,
	.inside = MQ_INSIDE_SWITCH,
	.nvlink_Bps = 300 * GB,
	.pcie_Bps = 31.5 * GB,
};
static const struct mq_fabric_spec h100 = {
	.type = "H100",
	.nodes = 1,
	.per_node = 8,
	.inside = MQ_INSIDE_SWITCH,
	.nvlink_Bps = 450 * GB,
	.pcie_Bps = 63 * GB,
	.rails = 8,
	.nic_Bps = 50 * GB,
	.fabric = MQ_FABRIC_IB,
	.nvls = true,
};

struct setup {
	struct mq_arena arena;
	struct mq_calib *calib;
	struct mq_cluster *cluster;
	struct mq_group group;
	struct mq_topo topo;
	uint32_t n, *rank;
	struct mq_err err;
};

/* A cluster of `nodes` such nodes, whose ports take nic_s, and its first n ranks (0: all). */
static void set_up_long(struct setup *s, struct mq_fabric_spec spec, double capability, uint32_t nodes, uint32_t n,
			double nic_s)
{
	struct mq_fabric_spec *kept;

	memset(s, 0, sizeof(*s));
	kept = mq_arena_array(&s->arena, 1, struct mq_fabric_spec);
	*kept = spec;
	kept->nodes = nodes;
	s->calib = calib_of(&s->arena, spec.type, capability);
	assert_int_equal(mq_fabric_build(kept, s->calib, &s->arena, &s->cluster, &s->err), MQ_OK);
	for (uint32_t i = 0; i < s->cluster->n_links; i++)
		if (s->cluster->link[i].class == MQ_LINK_NIC)
			s->cluster->link[i].lat_s = nic_s;
	s->n = n ? n : s->cluster->n_devices;
	s->rank = mq_arena_array(&s->arena, s->n, uint32_t);
	for (uint32_t i = 0; i < s->n; i++)
		s->rank[i] = i;
	assert_int_equal(mq_group_build(s->cluster, s->rank, s->n, &s->arena, &s->group, &s->err), MQ_OK);
	assert_int_equal(mq_topo_find(s->cluster, s->calib, &s->group, &s->topo, &s->err), MQ_OK);
	assert_int_equal(mq_topo_search(s->cluster, &s->topo, s->group.n_nodes, &s->err), MQ_OK);
}

static void set_up(struct setup *s, struct mq_fabric_spec spec, double capability, uint32_t nodes, uint32_t n)
{
	set_up_long(s, spec, capability, nodes, n, 0);
}

static struct mq_coll_flows expand(struct setup *s, enum mq_coll_kind kind, double bytes, enum mq_algo algo,
				   enum mq_proto proto)
{
	const struct mq_coll_request request = {
		.kind = kind,
		.n = s->n,
		.rank = s->rank,
		.bytes = bytes,
		.dtype = MQ_FP16,
		.algo = algo,
		.proto = proto,
	};
	struct mq_coll_flows flows;

	if (mq_collective_expand(s->cluster, s->calib, &request, &s->arena, &flows, &s->err) != MQ_OK)
		fail_msg("%s", s->err.text);
	return flows;
}

static void near(double got, double expected, double relative)
{
	if (!(fabs(got - expected) <= relative * fabs(expected)))
		fail_msg("got %.12g, expected %.12g", got, expected);
}

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

/* Every ring of the mesh visits all ranks, over NVLinks, and no link is used more than it is wide.
 */
static void test_mesh_rings(void **state)
{
	struct setup s;
	double used[8][8] = { { 0 } };

	set_up(&s, v100, 70, 1, 0);
	for (uint32_t r = 0; r < s.topo.n_rings; r++) {
		uint32_t seen = 0;

		for (uint32_t i = 0; i < 8; i++) {
			uint32_t a = s.topo.ring[r][i], b = s.topo.ring[r][(i + 1) % 8];

			seen |= 1U << a;
			used[a][b] += 20 * GB;
		}
		assert_int_equal(seen, 0xff);
	}
	for (uint32_t a = 0; a < 8; a++)
		for (uint32_t b = 0; b < 8; b++)
			assert_true(used[a][b] <= s.topo.width_Bps[a][b] * (1 + 1e-12));
	mq_arena_fini(&s.arena);
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

/* How often data crosses between nodes as it goes round a ring: once in ppn steps, the first one included. */
static void test_ring_crossings(void **state)
{
	static const struct {
		uint32_t per_node;
		double us;
	} want[] = {
		{ 2, 6.6 + 3 * 1 + 3 * 2.7 },  /* 6 steps on 2 x 2 */
		{ 4, 6.6 + 10 * 1 + 4 * 2.7 }, /* 14 steps on 2 x 4 */
	};
	struct setup s;
	(void)state;

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct mq_fabric_spec spec = h100;

		spec.per_node = spec.rails = want[i].per_node;
		spec.nvls = false;
		set_up(&s, spec, 90, 2, 0);
		near(expand(&s, MQ_COLL_ALL_REDUCE, 64, MQ_ALGO_RING, MQ_PROTO_LL).alone_s, want[i].us * 1e-6, .01);
		mq_arena_fini(&s.arena);
	}
}

/* Ports of 2 us make ways of 4 us; 1000 times that adds 3.996 ms to each step that crosses. */
static void test_link_latency(void **state)
{
	static const struct {
		enum mq_coll_kind kind;
		enum mq_algo algo;
		uint32_t nodes;
		double crossings;
	} cases[] = {
		{ MQ_COLL_ALL_REDUCE, MQ_ALGO_RING, 2, 30 * 2 / 16.0 }, /* 30 steps, 2 of 16 edges */
		{ MQ_COLL_ALL_GATHER, MQ_ALGO_RING, 2, 15 * 2 / 16.0 },
		{ MQ_COLL_BROADCAST, MQ_ALGO_RING, 4, 31 * 4 / 32.0 },
		{ MQ_COLL_ALL_REDUCE, MQ_ALGO_TREE, 2, 2 },
		{ MQ_COLL_ALL_REDUCE, MQ_ALGO_TREE, 4, 4 }, /* 1 -> 2 -> 0 and back */
		{ MQ_COLL_ALL_REDUCE, MQ_ALGO_NVLS_TREE, 4, 4 },
		{ MQ_COLL_ALL_TO_ALL, MQ_ALGO_AUTO, 4, 1 },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		for (double bytes = 0; bytes <= 1e6; bytes += 1e6) {
			struct setup near_by, far;
			double more;

			set_up_long(&near_by, h100, 90, cases[i].nodes, 0, 2e-6);
			set_up_long(&far, h100, 90, cases[i].nodes, 0, 2e-3);
			more = expand(&far, cases[i].kind, bytes, cases[i].algo, MQ_PROTO_AUTO).alone_s -
			       expand(&near_by, cases[i].kind, bytes, cases[i].algo, MQ_PROTO_AUTO).alone_s;
			near(more, cases[i].crossings * 3.996e-3, 1e-9);
			mq_arena_fini(&near_by.arena);
			mq_arena_fini(&far.arena);
		}
}

/* Whether a link carries bytes of the collective. */
static bool crosses(const struct setup *s, const struct mq_coll_flows *f, uint32_t link)
{
	for (uint32_t i = 0; i < f->n_flows; i++) {
		const struct mq_route *route;
		struct mq_err err;

		assert_int_equal(mq_cluster_route(s->cluster, f->flow[i].src, f->flow[i].dst, &route, &err), MQ_OK);
		for (uint32_t k = 0; k < route->n_links; k++)
			if (route->link[k] == link)
				return true;
	}
	return false;
}

/* One long link among all that a collective uses, on whatever rail or machine: its steps wait for it. */
static void test_every_link(void **state)
{
	static const struct {
		const struct mq_fabric_spec *spec;
		double capability;
		enum mq_coll_kind kind;
		enum mq_algo algo;
		uint32_t nodes;
	} cases[] = {
		{ &v100, 70, MQ_COLL_ALL_REDUCE, MQ_ALGO_RING, 1 },
		{ &h100, 90, MQ_COLL_ALL_REDUCE, MQ_ALGO_RING, 4 },
		{ &h100, 90, MQ_COLL_ALL_REDUCE, MQ_ALGO_TREE, 4 },
		{ &h100, 90, MQ_COLL_ALL_REDUCE, MQ_ALGO_NVLS, 1 },
		{ &h100, 90, MQ_COLL_ALL_REDUCE, MQ_ALGO_NVLS_TREE, 4 },
		{ &h100, 90, MQ_COLL_ALL_REDUCE, MQ_ALGO_COLLNET_DIRECT, 4 },
		{ &h100, 90, MQ_COLL_ALL_REDUCE, MQ_ALGO_COLLNET_CHAIN, 4 },
		{ &h100, 90, MQ_COLL_ALL_TO_ALL, MQ_ALGO_AUTO, 4 },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct setup s;
		struct mq_coll_flows before;
		uint32_t reached = 0;

		set_up(&s, *cases[i].spec, cases[i].capability, cases[i].nodes, 0);
		s.cluster->sharp = true;
		before = expand(&s, cases[i].kind, 1e6, cases[i].algo, MQ_PROTO_AUTO);
		for (uint32_t l = 0; l < s.cluster->n_links; l++) {
			double usual = s.cluster->link[l].lat_s, after;

			if (!crosses(&s, &before, l))
				continue;
			s.cluster->link[l].lat_s = usual + 1e-3;
			s.cluster->cache = mq_cluster_new(&s.arena)->cache; /* ways were asked for already */
			after = expand(&s, cases[i].kind, 1e6, cases[i].algo, MQ_PROTO_AUTO).alone_s;
			if (after - before.alone_s < .9e-3)
				fail_msg("case %zu: 1 ms on link %s adds %g s", i, s.cluster->link[l].name,
					 after - before.alone_s);
			s.cluster->link[l].lat_s = usual;
			reached++;
		}
		assert_true(reached >= 8);
		mq_arena_fini(&s.arena);
	}
}

/* One node far from seven others: a ring passes its way twice in a round, whoever is next to whom. */
static void test_one_long_way(void **state)
{
	struct setup s;
	double before, after;
	(void)state;

	set_up(&s, h100, 90, 8, 0);
	before = expand(&s, MQ_COLL_ALL_REDUCE, 0, MQ_ALGO_RING, MQ_PROTO_LL).alone_s;
	mq_arena_fini(&s.arena);
	set_up(&s, h100, 90, 8, 0);
	for (uint32_t i = 0; i < s.cluster->n_links; i++)
		/* 64 GPUs' ports come first, then 8 NICs of each node, up and down */
		if (i >= 128 + 7 * 16 && i < 128 + 8 * 16)
			s.cluster->link[i].lat_s = 1.003e-3;
	s.cluster->cache = mq_cluster_new(&s.arena)->cache; /* ways were asked for already */
	after = expand(&s, MQ_COLL_ALL_REDUCE, 0, MQ_ALGO_RING, MQ_PROTO_LL).alone_s;
	near(after - before, 2 * 1e-3 * 126 / 64, 1e-9); /* 126 steps; the two edges are 2 of 64 */
	mq_arena_fini(&s.arena);
}

/* Two nodes' trees cross the network once each way: 8 x 25 GB/s give 200 GB/s, a ring's 30/16 bytes 107.
 * A tree's pipeline has 2 (7 + 1) hops of 16 channels' 512 kB at twice that. */
static void test_two_nodes_tree(void **state)
{
	struct mq_fabric_spec spec = h100;
	struct setup s;
	struct mq_coll_flows f;
	double between = 0;
	(void)state;

	spec.nic_Bps = 25 * GB;
	spec.nvls = false;
	set_up(&s, spec, 90, 2, 0);
	near(s.topo.ring_graph.inter_Bps, 24 * GB, 1e-12);
	near(s.topo.tree_graph.intra_Bps, 45 * GB, 1e-12); /* up to 48, of 370.8 / 8 */
	f = expand(&s, MQ_COLL_ALL_REDUCE, 8e9, MQ_ALGO_AUTO, MQ_PROTO_AUTO);
	assert_true(f.algo == MQ_ALGO_TREE && f.proto == MQ_PROTO_SIMPLE && f.channels == 16);
	for (uint32_t i = 0; i < f.n_flows; i++)
		between += f.flow[i].src < 8 && f.flow[i].dst >= 8 ? f.flow[i].bytes : 0;
	near(between, 8e9, 1e-12);
	near(f.latency_s, (8.4 + 2 * (7 * 4 + 14)) * 1e-6 + 16 * 16 * 524288 / 400e9, 1e-9);
	near(f.alone_s - f.latency_s, 8e9 / 200e9, 1e-9);
	mq_arena_fini(&s.arena);
}

/* NVLSTree of two nodes: what the ports give, once each way, and not NCCL's own caps. */
static void test_two_nodes_nvls(void **state)
{
	struct mq_fabric_spec spec = h100;
	struct setup s;
	(void)state;

	spec.nic_Bps = 25 * GB;
	set_up(&s, spec, 90, 2, 0);
	near(s.topo.nvls_node_Bps, 40 * GB, 1e-12);
	near(8e12 / expand(&s, MQ_COLL_ALL_REDUCE, 8e12, MQ_ALGO_NVLS_TREE, MQ_PROTO_AUTO).alone_s, 200 * GB, 1e-3);
	mq_arena_fini(&s.arena);
}

/* A plug-in that allows Simple alone. */
static void test_simple_only(void **state)
{
	struct mq_link_calib link = {
		.name = "ib", .bw_share = 1, .latency_scale = 1, .step_B = 524288, .nvls_share = 1, .simple_only = 1
	};
	struct mq_coll_request request = {
		.kind = MQ_COLL_ALL_REDUCE, .bytes = 8, .algo = MQ_ALGO_RING, .proto = MQ_PROTO_LL
	};
	struct mq_coll_flows f;
	struct setup s;
	(void)state;

	set_up(&s, h100, 90, 2, 0);
	assert_int_equal(expand(&s, MQ_COLL_ALL_REDUCE, 8, MQ_ALGO_AUTO, MQ_PROTO_AUTO).proto, MQ_PROTO_LL);
	s.calib->link = &link;
	s.calib->n_links = 1;
	assert_int_equal(expand(&s, MQ_COLL_ALL_REDUCE, 8, MQ_ALGO_AUTO, MQ_PROTO_AUTO).proto, MQ_PROTO_SIMPLE);
	request.n = s.n;
	request.rank = s.rank;
	assert_int_equal(mq_collective_expand(s.cluster, s.calib, &request, &s.arena, &f, &s.err), MQ_EINPUT);
	assert_non_null(strstr(s.err.text, "simple_only"));
	mq_arena_fini(&s.arena);
}

/* A network whose messages take longest with Simple: of the 15 steps of a gathering ring two cross it. */
static void test_hops(void **state)
{
	struct mq_link_calib link = { .name = "ib",
				      .bw_share = 1,
				      .latency_scale = 1,
				      .step_B = 524288,
				      .nvls_share = 1,
				      .hop_s = 180e-6,
				      .hop_ll128_s = 60e-6 };
	static const struct {
		enum mq_proto proto;
		double ll_s, latency_us;
	} cases[] = {
		{ MQ_PROTO_SIMPLE, 27e-6, 14 + 13 * 3 + 2 * 180 },
		{ MQ_PROTO_LL128, 27e-6, 14 + 13 * 1.9 + 2 * 60 },
		{ MQ_PROTO_LL, 27e-6, 6.6 + 13 + 2 * 27 },
		{ MQ_PROTO_LL, 0, 6.6 + 13 + 2 * 180 },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct setup s;

		set_up(&s, h100, 90, 2, 0);
		link.hop_ll_s = cases[i].ll_s;
		s.calib->link = &link;
		s.calib->n_links = 1;
		near(expand(&s, MQ_COLL_ALL_GATHER, 8e6, MQ_ALGO_RING, cases[i].proto).latency_s,
		     cases[i].latency_us * 1e-6, 1e-9);
		mq_arena_fini(&s.arena);
	}
}

/* What a plug-in tells NCCL of its network changes the choice, not the time of what is chosen: with 75 us a step
 * LL128, which NCCL charges for it once, wins over Simple, which it charges twice. */
static void test_reported(void **state)
{
	struct mq_link_calib link = {
		.name = "ib", .bw_share = 1, .latency_scale = 1, .step_B = 524288, .nvls_share = 1
	};
	double ring_s[2];
	(void)state;

	for (int k = 0; k < 2; k++) {
		struct setup s;

		set_up(&s, h100, 90, 2, 0);
		link.reported_s = k * 75e-6;
		s.calib->link = &link;
		s.calib->n_links = 1;
		assert_int_equal(expand(&s, MQ_COLL_ALL_GATHER, 1.2e8, MQ_ALGO_AUTO, MQ_PROTO_AUTO).proto,
				 k ? MQ_PROTO_LL128 : MQ_PROTO_SIMPLE);
		ring_s[k] = expand(&s, MQ_COLL_ALL_GATHER, 1.2e8, MQ_ALGO_RING, MQ_PROTO_SIMPLE).alone_s;
		mq_arena_fini(&s.arena);
	}
	near(ring_s[1], ring_s[0], 0);
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
		cmocka_unit_test(test_channels),       cmocka_unit_test(test_mesh_rings),
		cmocka_unit_test(test_printed_peaks),  cmocka_unit_test(test_choices),
		cmocka_unit_test(test_sharp),          cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_tree_degrees),   cmocka_unit_test(test_ring_bytes),
		cmocka_unit_test(test_chain_bytes),    cmocka_unit_test(test_nvls_shares),
		cmocka_unit_test(test_monotonic),      cmocka_unit_test(test_large),
		cmocka_unit_test(test_ring_crossings), cmocka_unit_test(test_link_latency),
		cmocka_unit_test(test_every_link),     cmocka_unit_test(test_one_long_way),
		cmocka_unit_test(test_two_nodes_tree), cmocka_unit_test(test_two_nodes_nvls),
		cmocka_unit_test(test_simple_only),    cmocka_unit_test(test_hops),
		cmocka_unit_test(test_reported),       cmocka_unit_test(test_misaligned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

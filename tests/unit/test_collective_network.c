/*
 * test_collective_network.c - what the network between machines adds to a collective: the latency of links, each
 * crossing, protocols that it allows, and what its plug-in says to NCCL.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "nccl_machines.h"

/* NCCL's own figures; tests say in what theirs differs. */
static const struct mq_link_calib plain_network = { .name = "ib",
						    .bw_share = 1,
						    .latency_scale = 1,
						    .step_B = 524288,
						    .nvls_share = 1,
						    .sharp_share = 1,
						    .route_s = 3e-6 };

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
	struct mq_link_calib link = plain_network;
	struct mq_coll_request request = {
		.kind = MQ_COLL_ALL_REDUCE, .bytes = 8, .algo = MQ_ALGO_RING, .proto = MQ_PROTO_LL
	};
	struct mq_coll_flows f;
	struct setup s;
	(void)state;

	link.simple_only = 1;
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
	struct mq_link_calib link = plain_network;
	static const struct {
		enum mq_proto proto;
		double ll_s, latency_us;
	} cases[] = {
		{ MQ_PROTO_SIMPLE, 27e-6, 8.4 + 13 * 3.4 + 2 * 180 },
		{ MQ_PROTO_LL128, 27e-6, 14 + 13 * 1.9 + 2 * 60 },
		{ MQ_PROTO_LL, 27e-6, 6.6 + 13 + 2 * 27 },
		{ MQ_PROTO_LL, 0, 6.6 + 13 + 2 * 180 },
	};
	(void)state;

	link.hop_s = 180e-6;
	link.hop_ll128_s = 60e-6;
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
	struct mq_link_calib link = plain_network;
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

/* Where switches reduce each byte goes up a port and back once, at that network's share of the port: 4 GB through four
 * ports of 25 GB/s at .8 take 50 ms, beside which NVLinks (120 GB/s of the vector) are idle. */
static void test_reducing_switches(void **state)
{
	struct mq_link_calib link = plain_network;
	struct mq_fabric_spec spec = a100;
	struct mq_coll_flows f;
	struct setup s;
	(void)state;

	link.sharp_share = .8;
	spec.rails = 4;
	spec.nic_Bps = 25 * GB;
	spec.fabric = MQ_FABRIC_IB;
	spec.sharp = true;
	set_up(&s, spec, 80, 4, 0);
	s.calib->link = &link;
	s.calib->n_links = 1;
	f = expand(&s, MQ_COLL_ALL_REDUCE, 4 * GB, MQ_ALGO_COLLNET_CHAIN, MQ_PROTO_AUTO);
	near(f.alone_s - f.latency_s, 50e-3, .01); /* the rest: chunks of its pipeline */
	mq_arena_fini(&s.arena);
	spec = h100; /* NVLS in the machines, all eight ports: 8 GB at 160 GB/s */
	spec.nic_Bps = 25 * GB;
	spec.sharp = true;
	set_up(&s, spec, 90, 4, 0);
	s.calib->link = &link;
	s.calib->n_links = 1;
	f = expand(&s, MQ_COLL_ALL_REDUCE, 8 * GB, MQ_ALGO_NVLS, MQ_PROTO_AUTO);
	near(f.alone_s - f.latency_s, 50e-3, .01);
	mq_arena_fini(&s.arena);
}

/* The ways of a machine without direct access, with a switch for each half of its GPUs above their lanes. */
struct switched {
	enum mq_status (*plain)(void *, uint32_t, uint32_t, struct mq_route *, struct mq_err *);
	void *context;
	struct mq_cluster *cluster;
	uint32_t first; /* link of the first switch: up, down, up, down */
};

static enum mq_status by_switches(void *context, uint32_t src, uint32_t dst, struct mq_route *route, struct mq_err *err)
{
	const struct switched *w = context;
	uint32_t half = w->cluster->n_devices / 2, *link = mq_arena_array(w->cluster->arena, 5, uint32_t);

	if (w->plain(w->context, src, dst, route, err) != MQ_OK)
		return MQ_EINPUT;
	memcpy(link, route->link, route->n_links * sizeof(*link));
	link[route->n_links++] = w->first + 2 * (src / half);
	link[route->n_links++] = w->first + 2 * (dst / half) + 1;
	route->link = link;
	return MQ_OK;
}

static void put_switches(struct setup *s, struct switched *w, double bw_Bps)
{
	struct mq_link *link = mq_arena_array(&s->arena, s->cluster->n_links + 4, struct mq_link);

	memcpy(link, s->cluster->link, s->cluster->n_links * sizeof(*link));
	*w = (struct switched){ s->cluster->resolve, s->cluster->context, s->cluster, s->cluster->n_links };
	for (uint32_t i = 0; i < 4; i++)
		link[s->cluster->n_links++] =
			(struct mq_link){ .name = "switch", .class = MQ_LINK_PCIE_SWITCH, .bw_Bps = bw_Bps };
	s->cluster->link = link;
	s->cluster->resolve = by_switches;
	s->cluster->context = w;
	s->cluster->cache = mq_cluster_new(&s->arena)->cache;
}

/* Through the host's memory a GPU gets a part of its own lanes' rate. That part is neither one of the memory nor of
 * a switch that several share: these give what they give. */
static void test_through_the_host(void **state)
{
	static const struct mq_link_calib link[] = {
		{ .name = "host", .bw_share = .3, .latency_scale = 1, .step_B = 524288 },
		{ .name = "pcie", .bw_share = .8, .latency_scale = 1, .step_B = 524288 },
	};
	static const struct {
		double switch_GBps, bus_GBps;
	} cases[] = {
		{ 0, 9 },  /* .3 x 30 */
		{ 60, 9 }, /* .8 x 60 / 4 = 12 each */
		{ 30, 6 }, /* .8 x 30 / 4 */
		{ 15, 3 },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct mq_fabric_spec spec = { .type = "X", .nodes = 1, .per_node = 8, .inside = MQ_INSIDE_HOST };
		struct switched w;
		struct mq_coll_flows f;
		struct setup s;

		spec.pcie_Bps = 30 * GB;
		set_up(&s, spec, 89, 1, 0);
		s.calib->link = mq_arena_array(&s.arena, 2, struct mq_link_calib);
		memcpy(s.calib->link, link, sizeof(link));
		s.calib->n_links = 2;
		if (cases[i].switch_GBps > 0)
			put_switches(&s, &w, cases[i].switch_GBps * GB);
		assert_int_equal(mq_calib_bind(s.calib, s.cluster, &s.err), MQ_OK);
		f = expand(&s, MQ_COLL_ALL_REDUCE, 8 * GB, MQ_ALGO_RING, MQ_PROTO_SIMPLE);
		near(1.75 * 8 / (f.alone_s - f.latency_s), cases[i].bus_GBps, 1e-3);
		double latency_s, rate_Bps, alone_s; /* a send, alone on the switch, goes the same way */

		assert_int_equal(
			mq_p2p_expand(s.cluster, s.calib, 0, 1, 8 * GB, &latency_s, &rate_Bps, &alone_s, &s.err),
			MQ_OK);
		near(8 / (alone_s - latency_s), 9, 1e-3);
		mq_arena_fini(&s.arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ring_crossings),   cmocka_unit_test(test_link_latency),
		cmocka_unit_test(test_every_link),       cmocka_unit_test(test_one_long_way),
		cmocka_unit_test(test_two_nodes_tree),   cmocka_unit_test(test_two_nodes_nvls),
		cmocka_unit_test(test_simple_only),      cmocka_unit_test(test_hops),
		cmocka_unit_test(test_reported),         cmocka_unit_test(test_reducing_switches),
		cmocka_unit_test(test_through_the_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

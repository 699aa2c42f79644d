/*
 * nccl_machines.h - machines of eight V100, A100 or H100 as NCCL sees them, for the tests of collectives.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_NCCL_MACHINES_H
#define MQ_TESTS_NCCL_MACHINES_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "score/fabrics.h"
#include "collectives/impl.h"
#include "libraries.h"

#define GB 1e9

static inline struct mq_calib *calib_of(struct mq_arena *arena, const char *type, double capability)
{
	struct mq_calib *calib = bare_calib(arena);

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
static inline void set_up_long(struct setup *s, struct mq_fabric_spec spec, double capability, uint32_t nodes,
			       uint32_t n, double nic_s)
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

static inline void set_up(struct setup *s, struct mq_fabric_spec spec, double capability, uint32_t nodes, uint32_t n)
{
	set_up_long(s, spec, capability, nodes, n, 0);
}

static inline struct mq_coll_flows expand(struct setup *s, enum mq_coll_kind kind, double bytes, enum mq_algo algo,
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

static inline void near(double got, double expected, double relative)
{
	if (!(fabs(got - expected) <= relative * fabs(expected)))
		fail_msg("got %.12g, expected %.12g", got, expected);
}

#endif

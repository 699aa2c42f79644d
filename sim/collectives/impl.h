/* impl.h - what the files of the collective model share; nobody else includes it.
 *
 *   collective.c         the entry points: expand a collective, a send
 *   group.c   a communicator's ranks by node
 *   topo.c    what links join them: NVLink mesh, NVSwitch, PCIe, rails, fabric
 *   search.c  channels, their speeds and their orders inside a node
 *   tune.c    NCCL's cost formula and choice
 *   fill.c    what pipelines lose at small and medium sizes
 *   latency.c what links longer than usual add at every step
 *   p2p.c     sends, receives, all-to-all
 *   generic.c the same question for clusters without NCCL (CPU nodes, ideal links)
 *   expand.c  algorithms to flows
 *   fluid.c   time of flows SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_COLLECTIVES_IMPL_H
#define MQ_COLLECTIVES_IMPL_H

#include "maquette/collective.h"
#include "hardware/libraries.h"

#define MQ_MAX_LOCAL 72 /* ranks of one communicator in a node: an NVL72 rack is one "node" */
#define MQ_MAX_RINGS 64 /* channels, as in NCCL */

/* A communicator's positions grouped by node: nodes in order of their first rank, positions in
 * communicator order within each. */
struct mq_group {
	uint32_t n, n_nodes;
	uint32_t ppn_max, ppn_min;
	uint32_t widest;      /* a node with ppn_max ranks: the first */
	const uint32_t *rank; /* [n] cluster ranks, borrowed */
	uint32_t *order;      /* [n] positions */
	uint32_t *first;      /* [n_nodes + 1] where each node's positions start in order */
	uint32_t *node_of;    /* [n] node (0 .. n_nodes-1) of each position */
};

/* MQ_EINPUT: no such rank, or a rank twice. */
enum mq_status mq_group_build(const struct mq_cluster *cluster, const uint32_t *rank, uint32_t n,
			      struct mq_arena *arena, struct mq_group *group, struct mq_err *err);

enum mq_intra {
	MQ_INTRA_NONE,   /* one rank per node */
	MQ_INTRA_SWITCH, /* every GPU has a port of its own to an NVSwitch */
	MQ_INTRA_MESH,   /* NVLinks from GPU to GPU */
	MQ_INTRA_MIXED,  /* NVLinks between some, PCIe between others: no ring on NVLink alone */
	MQ_INTRA_PCIE,
	MQ_INTRA_HOST, /* through shared memory of the host */
};

/* One pattern's channels: NCCL's "graph". Speeds in B/s per channel. */
struct mq_graph {
	uint32_t channels;
	double intra_Bps, inter_Bps;
};

struct mq_topo {
	bool nccl;        /* GPUs on links that NCCL knows; else the generic model */
	uint32_t version; /* of NCCL: 22809 = 2.28.9; 0 = that of its table */
	const struct mq_nccl *nccl_table;
	double compute_capability; /* of the oldest GPU */
	enum mq_arch arch;
	enum mq_intra intra;
	uint32_t local[MQ_MAX_LOCAL]; /* cluster ranks of the widest node */
	uint32_t n_local;
	double port_nominal_Bps;                      /* NVLink bandwidth of a GPU, or of its PCIe lanes */
	double nccl_share;                            /* of nominal bandwidth, as NCCL counts it */
	double pcie_share;                            /* the same for PCIe or the way through the host */
	double port_nccl_Bps;                         /* port_nominal_Bps x nccl_share, as far as channels can use it */
	double width_Bps[MQ_MAX_LOCAL][MQ_MAX_LOCAL]; /* NVLinks between two GPUs, NCCL's count */
	uint32_t rails;                               /* NICs that the communicator's ranks of a node reach */
	uint32_t rail_of[MQ_MAX_LOCAL];
	double nic_Bps; /* nominal, of one NIC */
	enum mq_fabric fabric;
	bool gpu_direct; /* NIC reads GPU memory: LL128 across the network */
	bool nvls, sharp;
	const struct mq_link_calib *intra_calib, *net_calib, *pcie_calib; /* never NULL */
	/* Orders inside a node: indices into local, each used by ring_share of the traffic. */
	uint32_t n_rings;
	uint8_t ring[MQ_MAX_RINGS][MQ_MAX_LOCAL];
	struct mq_graph ring_graph, tree_graph, nvls_graph, collnet_graph;
	double nvls_node_Bps;    /* what the NVLS search finds for a node alone, per channel */
	double step_s, slow_Bps; /* generic model: latency of one step, least bandwidth of a route */
};

/* Probes a few routes: all pairs of one node, and one per NIC. */
enum mq_status mq_topo_find(const struct mq_cluster *cluster, const struct mq_calib *calib,
			    const struct mq_group *group, struct mq_topo *topo, struct mq_err *err);
/* Fills rings and graphs. */
enum mq_status mq_topo_search(const struct mq_cluster *cluster, struct mq_topo *topo, uint32_t n_nodes,
			      struct mq_err *err);
/* What one NIC of a node gives to large transfers. */
double mq_topo_port_Bps(const struct mq_topo *topo);
const struct mq_link_calib *mq_link_calib_of(const struct mq_calib *calib, const char *name, double compute_capability);

/* Time of one (algorithm, protocol): latency_s + bytes / bw_Bps. */
struct mq_coll_cost {
	double latency_s;
	double bw_Bps;     /* algorithm bandwidth: vector bytes per second */
	uint32_t channels; /* that carry this size */
	uint32_t most;     /* channels of a large vector */
	double busy;       /* channels of this size without rounding to whole ones, 1 .. most */
};

struct mq_tune {
	const struct mq_topo *topo;
	enum mq_coll_kind kind;
	uint32_t n, n_nodes;
	double bytes;
};
/* NULL if NCCL would allow the pair, else why not. */
const char *mq_tune_refusal(const struct mq_tune *tune, enum mq_algo algo, enum mq_proto proto);
/* What a call of this version waits in a node for the work of each peer that it serves. */
double mq_tune_work_s(const struct mq_topo *topo);
/* What NCCL's tuning believes; `actual`: the same with calibrated bandwidths and latencies. */
struct mq_coll_cost mq_tune_cost(const struct mq_tune *tune, enum mq_algo algo, enum mq_proto proto, bool actual);
/* Adds to an actual cost what pipelines lose: few channels for small vectors, filling, chunks. */
void mq_fill_cost(const struct mq_tune *tune, enum mq_algo algo, enum mq_proto proto, struct mq_coll_cost *cost);
/* The pair with the least predicted time among those allowed (AUTO: any). */
enum mq_status mq_tune_choose(const struct mq_tune *tune, enum mq_algo *algo, enum mq_proto *proto, struct mq_err *err);

/* All-to-all and send/recv, for which NCCL has no formula: see p2p.c. */
struct mq_coll_cost mq_all_to_all_cost(const struct mq_tune *tune);

struct mq_coll_cost mq_generic_cost(const struct mq_tune *tune, enum mq_algo algo);
enum mq_status mq_generic_choose(const struct mq_tune *tune, enum mq_algo *algo, struct mq_err *err);

/* Append flows; rates are filled in by the caller. */
struct mq_flow_list {
	struct mq_arena *arena;
	struct mq_flow *flow;
	uint32_t n, room;
};
/* The flows of one collective under one algorithm, without rates. */
void mq_expand_flows(const struct mq_coll_request *request, const struct mq_group *group, const struct mq_topo *topo,
		     enum mq_algo algo, struct mq_flow_list *list);
/* Position of a node's rank with this index; indices beyond a smaller node wrap. */
uint32_t mq_node_rank(const struct mq_group *group, uint32_t node, uint32_t index);
/* A ring's order of the ranks that a node has, as indices into it: out[MQ_MAX_LOCAL]; returns their number. */
uint32_t mq_ring_order(const struct mq_group *group, const struct mq_topo *topo, uint32_t ring, uint32_t node,
		       bool backwards, uint8_t *out);
/* Parent of `node` in NCCL's double binary tree number `tree` (0, 1) over n nodes; MQ_NONE: root. */
uint32_t mq_tree_parent(uint32_t tree, uint32_t n, uint32_t node);

/* Where a communicator's steps go. */
struct mq_way {
	const struct mq_cluster *cluster;
	const struct mq_group *group;
	const struct mq_topo *topo;
	const struct mq_flow_list *flows; /* of the algorithm, bytes or none */
	struct mq_arena *arena;           /* scratch */
};
/* Link latency that a collective's steps add up to, beyond what their own latencies contain: every link that
 * its flows cross counts. */
enum mq_status mq_latency_beyond(const struct mq_way *way, enum mq_coll_kind kind, enum mq_algo algo, double *extra_s,
				 struct mq_err *err);

#endif

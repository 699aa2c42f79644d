/* impl.h - shared by the files of the collective model alone.
 *
 *   collective.c entry points: expand a collective, a send
 *   group.c      a communicator's ranks by node
 *   topo.c       links that join them: NVLink mesh, NVSwitch, PCIe, rails, fabric
 *   search.c     channels, their speeds and their orders inside a node
 *   tune.c       NCCL's cost formula and choice
 *   fill.c       losses of pipelines at small and medium sizes
 *   latency.c    latency of links that are longer than usual
 *   p2p.c        sends, receives, all-to-all
 *   measured.c   calls measured on the machine itself
 *   generic.c    the same for clusters without NCCL (CPU nodes, ideal links)
 *   expand.c     algorithms to flows
 *   fluid.c      time of flows
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_COLLECTIVES_IMPL_H
#define MQ_COLLECTIVES_IMPL_H

#include "maquette/collective.h"
#include "hardware/libraries.h"

#define MQ_MAX_LOCAL 72 /* ranks of one communicator in a node: an NVL72 rack is one "node" */
#define MQ_MAX_RINGS 64 /* channels, as in NCCL */

/* A communicator's positions (indices into its ranks) grouped by node: nodes in order of their first rank, positions in
 * communicator order within each. */
struct mq_group {
	uint32_t n, n_nodes;
	uint32_t ppn_max, ppn_min;
	uint32_t widest;      /* the first node with ppn_max ranks */
	const uint32_t *rank; /* [n] cluster ranks, borrowed */
	uint32_t *order;      /* [n] positions */
	uint32_t *first;      /* [n_nodes + 1] start of each node's positions in order[] */
	uint32_t *node_of;    /* [n] node (0 .. n_nodes-1) of each position */
};

/* MQ_EINPUT: no such rank, or a rank twice. */
enum mq_status mq_group_build(const struct mq_cluster *cluster, const uint32_t *rank, uint32_t n,
			      struct mq_arena *arena, struct mq_group *group, struct mq_err *err);

enum mq_intra {
	MQ_INTRA_NONE,   /* one rank per node */
	MQ_INTRA_SWITCH, /* every GPU has its own port to an NVSwitch */
	MQ_INTRA_MESH,   /* NVLinks from GPU to GPU */
	MQ_INTRA_MIXED,  /* NVLinks between some pairs, PCIe between others: no ring over NVLink alone */
	MQ_INTRA_PCIE,
	MQ_INTRA_HOST, /* through host memory */
};

/* Channels of an algorithm, NCCL's "graph"; speeds per channel. */
struct mq_graph {
	uint32_t channels;
	double intra_Bps, inter_Bps;
};

struct mq_topo {
	bool nccl;        /* GPUs on links that NCCL knows; false: generic model */
	uint32_t version; /* of NCCL: 22809 = 2.28.9; 0 = newest of its table */
	const struct mq_nccl *nccl_table;
	double compute_capability; /* of the oldest GPU */
	enum mq_arch arch;
	enum mq_intra intra;
	uint32_t local[MQ_MAX_LOCAL]; /* cluster ranks of the widest node */
	uint32_t n_local;
	double port_nominal_Bps;                      /* a GPU's NVLink bandwidth, or its PCIe lanes' */
	double nccl_share;                            /* NCCL's count / nominal bandwidth */
	double pcie_share;                            /* the same for PCIe, or through the host */
	double port_nccl_Bps;                         /* port_nominal_Bps x nccl_share that channels can use */
	double width_Bps[MQ_MAX_LOCAL][MQ_MAX_LOCAL]; /* NVLink bandwidth between two GPUs, NCCL's count */
	uint32_t rails;                               /* NICs that the ranks of a node use */
	uint32_t rail_of[MQ_MAX_LOCAL];
	double nic_Bps; /* nominal bandwidth of one NIC */
	enum mq_fabric fabric;
	bool gpu_direct; /* NICs read GPU memory: allows LL128 across the network */
	bool nvls, sharp;
	const struct mq_link_calib *intra_calib, *net_calib, *pcie_calib; /* never NULL */
	/* Orders of the ranks inside a node: indices into local[]. All carry equal shares of the traffic. */
	uint32_t n_rings;
	uint8_t ring[MQ_MAX_RINGS][MQ_MAX_LOCAL];
	struct mq_graph ring_graph, tree_graph, nvls_graph, collnet_graph;
	double nvls_node_Bps;    /* per channel of NVLS on one node alone */
	double step_s, slow_Bps; /* generic model: latency of one step, least bandwidth of a route */
};

/* Finds the links from a few routes: all pairs of one node, and one route per rank to the next node. */
enum mq_status mq_topo_find(const struct mq_cluster *cluster, const struct mq_calib *calib,
			    const struct mq_group *group, struct mq_topo *topo, struct mq_err *err);
/* Fills the rings and graphs of *topo. */
enum mq_status mq_topo_search(const struct mq_cluster *cluster, struct mq_topo *topo, uint32_t n_nodes,
			      struct mq_err *err);
/* Bandwidth of one NIC for large transfers. */
double mq_topo_port_Bps(const struct mq_topo *topo);
const struct mq_link_calib *mq_link_calib_of(const struct mq_calib *calib, const char *name, double compute_capability);

/* Time of one (algorithm, protocol): latency_s + bytes / bw_Bps. */
struct mq_coll_cost {
	double latency_s;
	double bw_Bps;     /* algorithm bandwidth: vector bytes per second */
	uint32_t channels; /* channels that a call of this size uses */
	uint32_t most;     /* channels of a large call */
	double busy;       /* `channels` before rounding, 1 .. most */
};

struct mq_tune {
	const struct mq_topo *topo;
	enum mq_coll_kind kind;
	uint32_t n, n_nodes;
	double bytes;
};
/* The reason why NCCL would not run the pair; NULL: it would. */
const char *mq_tune_refusal(const struct mq_tune *tune, enum mq_algo algo, enum mq_proto proto);
/* Seconds that a call of this NCCL version waits per peer in the node that it serves. */
double mq_tune_work_s(const struct mq_topo *topo);
/* NCCL's estimate; `actual`: ours, with calibrated bandwidths and latencies. */
struct mq_coll_cost mq_tune_cost(const struct mq_tune *tune, enum mq_algo algo, enum mq_proto proto, bool actual);
/* Adds to an actual cost the losses of pipelines: few channels for small vectors, fill, chunks. */
void mq_fill_cost(const struct mq_tune *tune, enum mq_algo algo, enum mq_proto proto, struct mq_coll_cost *cost);
/* Chooses the pair of least estimated time; *algo, *proto: the allowed ones on entry (AUTO: any), the choice on
 * return. */
enum mq_status mq_tune_choose(const struct mq_tune *tune, enum mq_algo *algo, enum mq_proto *proto, struct mq_err *err);

/* The cost of an all-to-all, for which NCCL has no formula: see p2p.c. */
struct mq_coll_cost mq_all_to_all_cost(const struct mq_tune *tune);

struct mq_coll_cost mq_generic_cost(const struct mq_tune *tune, enum mq_algo algo);
enum mq_status mq_generic_choose(const struct mq_tune *tune, enum mq_algo *algo, struct mq_err *err);

/* Flows being appended; the caller fills in their rates. */
struct mq_flow_list {
	struct mq_arena *arena;
	struct mq_flow *flow;
	uint32_t n, room;
};
/* Appends the flows of a collective under an algorithm, without rates. */
void mq_expand_flows(const struct mq_coll_request *request, const struct mq_group *group, const struct mq_topo *topo,
		     enum mq_algo algo, struct mq_flow_list *list);
/* The position of a node's index-th rank; an index beyond a smaller node wraps. */
uint32_t mq_node_rank(const struct mq_group *group, uint32_t node, uint32_t index);
/* Fills out[MQ_MAX_LOCAL] with a ring's order of a node's ranks, as indices into the node; returns their number. */
uint32_t mq_ring_order(const struct mq_group *group, const struct mq_topo *topo, uint32_t ring, uint32_t node,
		       bool backwards, uint8_t *out);
/* Parent of `node` in NCCL's double binary tree number `tree` (0, 1) over n nodes; MQ_NONE: root. */
uint32_t mq_tree_parent(uint32_t tree, uint32_t n, uint32_t node);

/* A communicator's routes, for the latency of its steps. */
struct mq_way {
	const struct mq_cluster *cluster;
	const struct mq_group *group;
	const struct mq_topo *topo;
	const struct mq_flow_list *flows; /* of the algorithm; their bytes may be 0 */
	struct mq_arena *arena;           /* scratch */
};
/* Latency of all links that a collective's steps cross, beyond the latency that NCCL's step times contain. */
enum mq_status mq_latency_beyond(const struct mq_way *way, enum mq_coll_kind kind, enum mq_algo algo, double *extra_s,
				 struct mq_err *err);

#endif

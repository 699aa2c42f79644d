/* collective.h - turns a collective or a send into a latency and rate-capped flows on the platform.
 *
 * The only place that knows NCCL's algorithms; both executors and the cost queries use it. In the simulation flows of
 * concurrent collectives contend on shared links; the latency is a delay before the flows.
 *
 * The links decide the library. GPUs (compute_capability in their calibration) on links of class nvlink, pcie, host,
 * nic, ... run NCCL: its choice by its tuning constants (of version mq_calib.nccl_version), its channels, its
 * algorithms, its step latencies. These contain usual links: a route's latency beyond route_s of its class is added to
 * every step. All else (CPU nodes, links of class "other") runs the textbook ring or tree: a step costs the slowest
 * route's latency plus its class's p2p_latency_s, and flows are not capped. So on links of class "other" without
 * calibration a forced ring all-reduce of S bytes on n ranks takes 2(n-1)(S/n/bw + lat), lat = the latency of a route.
 *
 * Bandwidths: a flow's cap is a calibrated share of nominal bandwidth, and flows share mq_link_usable_Bps of each link.
 *
 * Results depend on the arguments alone. Expanding takes O(n) (n log n for PAT, n^2 up to 128 ranks for all-to-all) and
 * asks for O(n) routes; callers cache results. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_COLLECTIVE_H
#define MAQUETTE_COLLECTIVE_H

#include "maquette/calib.h"
#include "maquette/cluster.h"
#include "maquette/types.h"

struct mq_flow {
	uint32_t src, dst; /* positions inside the communicator (0 .. n-1) */
	double bytes;      /* all steps and channels of this edge */
	double rate_Bps;   /* cap: channels x speed x protocol efficiency; +inf = none */
};

struct mq_coll_request {
	enum mq_coll_kind kind;
	uint32_t n;
	const uint32_t *rank; /* [n] cluster ranks */
	double bytes;         /* as nccl-tests counts: see mq_task.bytes */
	enum mq_dtype dtype;
	enum mq_algo algo; /* AUTO: chosen as NCCL does */
	enum mq_proto proto;
	uint32_t root;
	bool closed;     /* broadcast, reduce: as a closed ring, with the root's edges, for any root */
	bool misaligned; /* ranks' parts are not aligned to 16 bytes (frameworks pad them) */
};

static inline bool mq_coll_has_root(enum mq_coll_kind kind)
{
	return kind == MQ_COLL_BROADCAST || kind == MQ_COLL_REDUCE;
}

/* Does a broadcast (reduce) skip the ring's edge src -> dst, which leads into (out of) its root? */
static inline bool mq_coll_skips(enum mq_coll_kind kind, uint32_t root, uint32_t src, uint32_t dst)
{
	return (kind == MQ_COLL_BROADCAST && dst == root) || (kind == MQ_COLL_REDUCE && src == root);
}

/* The request of a collective task whose members are these cluster ranks. */
struct mq_task;
struct mq_coll_request mq_coll_request_of(const struct mq_task *task, uint32_t n, const uint32_t *rank);

struct mq_coll_flows {
	double latency_s; /* delay before the flows: launch, steps, protocol, pipeline fill */
	uint32_t n_flows;
	struct mq_flow *flow;
	enum mq_algo algo; /* chosen */
	enum mq_proto proto;
	uint32_t channels;
	double alone_s; /* latency + time of these flows alone on their links */
};

/* Everything lives in the arena. n = 1 gives no flows and zero latency. bytes = 0: latency only. MQ_EINPUT: no route,
 * or a forced algorithm that this platform cannot run. */
MQ_API enum mq_status mq_collective_expand(const struct mq_cluster *cluster, const struct mq_calib *calib,
					   const struct mq_coll_request *request, struct mq_arena *arena,
					   struct mq_coll_flows *flows, struct mq_err *err);

/* A send/recv pair: one flow 0 -> 1. */
MQ_API enum mq_status mq_p2p_expand(const struct mq_cluster *cluster, const struct mq_calib *calib, uint32_t src,
				    uint32_t dst, double bytes, double *latency_s, double *rate_Bps, double *alone_s,
				    struct mq_err *err);

/* Max-min fair completion time of flows that start together on an otherwise idle cluster, seconds: equal to the
 * simulator's. */
MQ_API enum mq_status mq_flows_time(const struct mq_cluster *cluster, const uint32_t *rank, const struct mq_flow *flow,
				    uint32_t n_flows, struct mq_arena *scratch, double *seconds, struct mq_err *err);

/* Lower bound of the same: the slowest single flow and the most loaded link. */
MQ_API enum mq_status mq_flows_bound(const struct mq_cluster *cluster, const uint32_t *rank, const struct mq_flow *flow,
				     uint32_t n_flows, struct mq_arena *scratch, double *seconds, struct mq_err *err);

#endif

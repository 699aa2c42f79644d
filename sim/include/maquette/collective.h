/* collective.h - how a collective or a send becomes latency and rate-capped flows on the platform.
 *
 * The one place that knows NCCL's algorithms: used by the simgrid and analytic executors and by the cost queries alike.
 * Flows of concurrent collectives then contend on shared links in the simulator; the latency is paid once, as a delay.
 *
 * Which library runs is read from the links: GPUs (compute_capability in their calibration) on links of class nvlink,
 * pcie, host, nic, ... run NCCL: its choice by its own tuning constants (of version mq_calib.nccl_version), its
 * channels, its algorithms; step latencies are the library's, which contain usual links: what a route takes beyond
 * route_s of its class is added at every step. All else (CPU nodes, links of class "other") runs the textbook ring or
 * tree: a step costs the slowest route's latency plus its class's p2p_latency_s, flows are not capped. So on links of
 * class "other" and no calibration for that class, a forced ring all-reduce of S bytes on n ranks takes 2(n-1)(S/n/bw +
 * lat), lat = the latency of a route.
 *
 * Bandwidths: a flow's cap is in true link terms (calibrated share of the nominal bandwidth), and flows share
 * mq_link_usable_Bps of each link.
 *
 * Results depend on nothing but the arguments. Expanding costs O(n) (n log n for PAT, n^2 up to 128 ranks for
 * all-to-all) and asks O(n) routes; callers keep what they will need again. SPDX-License-Identifier: Apache-2.0 */
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
	bool closed;     /* broadcast, reduce: with the edges into (out of) the root, whichever it is */
	bool misaligned; /* ranks' parts do not begin at multiples of 16 bytes (frameworks pad) */
};

static inline bool mq_coll_has_root(enum mq_coll_kind kind)
{
	return kind == MQ_COLL_BROADCAST || kind == MQ_COLL_REDUCE;
}

/* These go along a ring, without the edges that would bring the root its own bytes, or take the result from it. */
static inline bool mq_coll_skips(enum mq_coll_kind kind, uint32_t root, uint32_t src, uint32_t dst)
{
	return (kind == MQ_COLL_BROADCAST && dst == root) || (kind == MQ_COLL_REDUCE && src == root);
}

/* The request of a collective task whose members are these cluster ranks. */
struct mq_task;
struct mq_coll_request mq_coll_request_of(const struct mq_task *task, uint32_t n, const uint32_t *rank);

struct mq_coll_flows {
	double latency_s; /* paid before the flows end: launch, steps, protocol, pipeline fill */
	uint32_t n_flows;
	struct mq_flow *flow;
	enum mq_algo algo; /* chosen */
	enum mq_proto proto;
	uint32_t channels;
	double alone_s; /* latency + the time of these flows with nobody else on their links */
};

/* Everything lives in the arena. n = 1 gives no flows and zero latency. bytes = 0: latency only.
 * MQ_EINPUT: no route, or a forced algorithm that this platform cannot run (says why). */
MQ_API enum mq_status mq_collective_expand(const struct mq_cluster *cluster, const struct mq_calib *calib,
					   const struct mq_coll_request *request, struct mq_arena *arena,
					   struct mq_coll_flows *flows, struct mq_err *err);

/* A send/recv pair: one flow 0 -> 1. */
MQ_API enum mq_status mq_p2p_expand(const struct mq_cluster *cluster, const struct mq_calib *calib, uint32_t src,
				    uint32_t dst, double bytes, double *latency_s, double *rate_Bps, double *alone_s,
				    struct mq_err *err);

/* Max-min fair completion time of flows that start together on an otherwise idle cluster, seconds:
 * exactly what the simulator gives them. */
MQ_API enum mq_status mq_flows_time(const struct mq_cluster *cluster, const uint32_t *rank, const struct mq_flow *flow,
				    uint32_t n_flows, struct mq_arena *scratch, double *seconds, struct mq_err *err);

/* Lower bound of the same: the slowest single flow and the most loaded link. */
MQ_API enum mq_status mq_flows_bound(const struct mq_cluster *cluster, const uint32_t *rank, const struct mq_flow *flow,
				     uint32_t n_flows, struct mq_arena *scratch, double *seconds, struct mq_err *err);

#endif

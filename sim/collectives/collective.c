/* collective.c - the entry points: a collective or a send as a latency and rate-capped flows.
 *
 * Finds the links that join the ranks, chooses algorithm and protocol as NCCL does (or takes forced ones), lists the
 * flows, and caps their rates so that they take bytes / bandwidth of that choice when alone. So a collective alone
 * takes the estimated time, and one that shares links takes longer.
 *
 * Not modelled: contention in the choice (NCCL ignores it, too). SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "collectives/impl.h"
#include "maquette/schedule.h"
#include "collectives/measured.h"

#define ELEMENT_COPIES 1.5e9 /* elements per second a channel copies one by one (12 V100, fp32 all-gather: 72 GB/s) */

struct mq_coll_request mq_coll_request_of(const struct mq_task *t, uint32_t n, const uint32_t *rank)
{
	return (struct mq_coll_request){ .kind = t->coll,
					 .n = n,
					 .rank = rank,
					 .bytes = t->bytes,
					 .dtype = t->dtype,
					 .algo = t->algo,
					 .proto = t->proto,
					 .root = t->root };
}

static enum mq_status check(const struct mq_coll_request *request, struct mq_err *err)
{
	if (!request->n || !isfinite(request->bytes) || request->bytes < 0)
		return mq_bad(err, "%s of %g bytes over %u ranks: need finite bytes >= 0 and at least one rank",
			      mq_coll_name(request->kind), request->bytes, request->n);
	if (mq_coll_has_root(request->kind) && !request->closed && request->root >= request->n)
		return mq_bad(err, "%s from root %u of %u ranks: the root must be below %u",
			      mq_coll_name(request->kind), request->root, request->n, request->n);
	return MQ_OK;
}

static enum mq_status choose(const struct mq_tune *tune, const struct mq_coll_request *request,
			     struct mq_coll_flows *flows, struct mq_coll_cost *cost, struct mq_err *err)
{
	flows->algo = request->algo;
	flows->proto = request->proto;
	if (!tune->topo->nccl) {
		if (flows->proto == MQ_PROTO_LL || flows->proto == MQ_PROTO_LL128)
			return mq_bad(err,
				      "%s cannot use protocol %s: it is NCCL's, which "
				      "does not run on these devices and links; use auto or simple",
				      mq_coll_name(request->kind), mq_proto_name(flows->proto));
		flows->proto = MQ_PROTO_SIMPLE;
		MQ_TRY(mq_generic_choose(tune, &flows->algo, err));
		*cost = mq_generic_cost(tune, flows->algo);
		cost->bw_Bps = INFINITY;
		return MQ_OK;
	}
	if (request->kind == MQ_COLL_ALL_TO_ALL) {
		/* NCCL builds it from sends and receives, which have no choice of algorithm or protocol. */
		flows->algo = MQ_ALGO_RING;
		flows->proto = MQ_PROTO_SIMPLE;
		*cost = mq_all_to_all_cost(tune);
		return MQ_OK;
	}
	MQ_TRY(mq_tune_choose(tune, &flows->algo, &flows->proto, err));
	*cost = mq_tune_cost(tune, flows->algo, flows->proto, true);
	return MQ_OK;
}

/* If calls were measured on the machine itself, they replace the estimate, unless algorithm or protocol is forced. */
static bool take_measured(const struct mq_tune *tune, const struct mq_coll_request *request, struct mq_coll_cost *cost)
{
	const struct mq_link_calib *link = tune->n_nodes > 1 ? tune->topo->net_calib : tune->topo->intra_calib;
	double latency_s, busy_s;

	if (request->algo != MQ_ALGO_AUTO || request->proto != MQ_PROTO_AUTO ||
	    !mq_call_measured(link, request->kind, request->n, request->bytes, &latency_s, &busy_s))
		return false;
	cost->latency_s = latency_s;
	cost->bw_Bps = busy_s > 0 ? request->bytes / busy_s : (double)INFINITY;
	return true;
}

/* NCCL copies parts that are not aligned to 16 bytes element by element. */
static void slow_copies(const struct mq_coll_request *request, enum mq_proto proto, struct mq_coll_cost *cost)
{
	double bus_Bps = cost->most * ELEMENT_COPIES * mq_dtype_size(request->dtype);

	if (request->misaligned && proto == MQ_PROTO_SIMPLE &&
	    (request->kind == MQ_COLL_ALL_GATHER || request->kind == MQ_COLL_REDUCE_SCATTER))
		cost->bw_Bps = fmin(cost->bw_Bps, bus_Bps * request->n / (request->n - 1));
}

enum mq_status mq_collective_expand(const struct mq_cluster *cluster, const struct mq_calib *calib,
				    const struct mq_coll_request *request, struct mq_arena *arena,
				    struct mq_coll_flows *flows, struct mq_err *err)
{
	struct mq_flow_list list = { .arena = arena };
	struct mq_topo topo;
	struct mq_group group;
	struct mq_tune tune;
	struct mq_coll_cost cost = { .latency_s = 0 };
	double busy_s, extra_s = 0;

	*flows = (struct mq_coll_flows){ .algo = MQ_ALGO_RING, .proto = MQ_PROTO_SIMPLE };
	MQ_TRY(check(request, err));
	MQ_TRY(mq_group_build(cluster, request->rank, request->n, arena, &group, err));
	if (request->n == 1)
		return MQ_OK;
	MQ_TRY(mq_topo_find(cluster, calib, &group, &topo, err));
	MQ_TRY(mq_topo_search(cluster, &topo, group.n_nodes, err));
	tune = (struct mq_tune){
		.topo = &topo, .kind = request->kind, .n = request->n, .n_nodes = group.n_nodes, .bytes = request->bytes
	};
	MQ_TRY(choose(&tune, request, flows, &cost, err));
	slow_copies(request, flows->proto, &cost);
	mq_expand_flows(request, &group, &topo, flows->algo, &list);
	const struct mq_way way = {
		.cluster = cluster, .group = &group, .topo = &topo, .flows = &list, .arena = arena
	};
	if (!take_measured(&tune, request, &cost) && topo.nccl)
		MQ_TRY(mq_latency_beyond(&way, request->kind, flows->algo, &extra_s, err));
	flows->channels = cost.channels;
	flows->latency_s = flows->alone_s = cost.latency_s + extra_s;
	if (!(request->bytes > 0))
		return MQ_OK;
	for (uint32_t i = 0; i < list.n && isfinite(cost.bw_Bps); i++)
		list.flow[i].rate_Bps = list.flow[i].bytes / request->bytes * cost.bw_Bps;
	MQ_TRY(mq_flows_time(cluster, request->rank, list.flow, list.n, arena, &busy_s, err));
	flows->flow = list.flow;
	flows->n_flows = list.n;
	flows->alone_s += busy_s;
	return MQ_OK;
}

/*
 * collective.c - a collective or a send as a latency and rate-capped flows.
 *
 * Ring algorithm (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", 2009): each edge carries 2S(n-1)/n bytes for an all-reduce of S bytes, S(n-1)/n for
 * all-gather and reduce-scatter, S for broadcast and reduce, which are chains that start or end at
 * the root. An all-to-all is n-1 flows of S/n per rank.
 */
#include <math.h>

#include "core/collective_impl.h"

void mq_flow_add(struct mq_flow_list *list, uint32_t src, uint32_t dst, double bytes, double rate_Bps)
{
	struct mq_flow flow = { .src = src, .dst = dst, .bytes = bytes, .rate_Bps = rate_Bps };

	MQ_PUSH(list->arena, list->flow, list->n, list->room, flow);
}

static double ring_edge_bytes(const struct mq_coll_request *request)
{
	double n = request->n;

	switch (request->kind) {
	case MQ_COLL_ALL_REDUCE:
		return 2 * request->bytes * (n - 1) / n;
	case MQ_COLL_ALL_GATHER:
	case MQ_COLL_REDUCE_SCATTER:
		return request->bytes * (n - 1) / n;
	default:
		return request->bytes;
	}
}

static bool rooted(enum mq_coll_kind kind)
{
	return kind == MQ_COLL_BROADCAST || kind == MQ_COLL_REDUCE;
}

/* Edges of a ring over the nodes' positions; of a chain that starts (broadcast) or ends (reduce) at
 * the root where the kind has one. */
static void ring_flows(const struct mq_coll_request *request, const struct mq_group *group,
		       struct mq_flow_list *list)
{
	uint32_t n = group->n, start = 0, edges = rooted(request->kind) ? n - 1 : n;
	double bytes = ring_edge_bytes(request);

	if (rooted(request->kind)) {
		while (group->order[start] != request->root)
			start++;
		if (request->kind == MQ_COLL_REDUCE)
			start = (start + 1) % n;
	}
	for (uint32_t i = 0; i < edges; i++)
		mq_flow_add(list, group->order[(start + i) % n], group->order[(start + i + 1) % n],
			    bytes, INFINITY);
}

static void all_to_all_flows(const struct mq_coll_request *request, struct mq_flow_list *list)
{
	for (uint32_t i = 0; i < request->n; i++)
		for (uint32_t k = 1; k < request->n; k++)
			mq_flow_add(list, i, (i + k) % request->n, request->bytes / request->n,
				    INFINITY);
}

static double steps_of(const struct mq_coll_request *request)
{
	switch (request->kind) {
	case MQ_COLL_ALL_REDUCE:
		return 2.0 * (request->n - 1);
	case MQ_COLL_ALL_GATHER:
	case MQ_COLL_REDUCE_SCATTER:
	case MQ_COLL_ALL_TO_ALL:
		return request->n - 1;
	default:
		return 1;
	}
}

static enum mq_status slowest_step(const struct mq_cluster *cluster, const uint32_t *rank,
				   const struct mq_flow_list *list, double *step_s,
				   struct mq_err *err)
{
	*step_s = 0;
	for (uint32_t i = 0; i < list->n; i++) {
		const struct mq_route *route;

		MQ_TRY(mq_cluster_route(cluster, rank[list->flow[i].src], rank[list->flow[i].dst],
					&route, err));
		*step_s = fmax(*step_s, route->lat_s);
	}
	return MQ_OK;
}

static enum mq_status check(const struct mq_coll_request *request, struct mq_err *err)
{
	if (!request->n || !isfinite(request->bytes) || request->bytes < 0)
		return mq_fail(err, MQ_EINPUT, "%s of %g bytes over %u ranks: need finite bytes >= 0 and "
			       "at least one rank", mq_coll_name(request->kind), request->bytes,
			       request->n);
	if (rooted(request->kind) && request->root >= request->n)
		return mq_fail(err, MQ_EINPUT, "%s from root %u of %u ranks: the root must be below %u",
			       mq_coll_name(request->kind), request->root, request->n, request->n);
	return MQ_OK;
}

enum mq_status mq_collective_expand(const struct mq_cluster *cluster, const struct mq_calib *calib,
				    const struct mq_coll_request *request, struct mq_arena *arena,
				    struct mq_coll_flows *flows, struct mq_err *err)
{
	struct mq_flow_list list = { .arena = arena };
	struct mq_group group;
	double step_s, busy_s;

	*flows = (struct mq_coll_flows){ .algo = MQ_ALGO_RING, .proto = MQ_PROTO_SIMPLE };
	MQ_TRY(check(request, err));
	MQ_TRY(mq_group_build(cluster, request->rank, request->n, arena, &group, err));
	if (request->n == 1)
		return MQ_OK;
	if (request->kind == MQ_COLL_ALL_TO_ALL)
		all_to_all_flows(request, &list);
	else
		ring_flows(request, &group, &list);
	MQ_TRY(slowest_step(cluster, request->rank, &list, &step_s, err));
	MQ_TRY(mq_flows_time(cluster, request->rank, list.flow, list.n, arena, &busy_s, err));
	flows->channels = 1;
	flows->latency_s = steps_of(request) * step_s;
	flows->flow = list.flow;
	flows->n_flows = request->bytes > 0 ? list.n : 0;
	flows->alone_s = flows->latency_s + busy_s;
	return MQ_OK;
}

enum mq_status mq_p2p_expand(const struct mq_cluster *cluster, const struct mq_calib *calib,
			     uint32_t src, uint32_t dst, double bytes, double *latency_s,
			     double *rate_Bps, double *alone_s, struct mq_err *err)
{
	const struct mq_route *route;
	double bw = INFINITY;

	*latency_s = *alone_s = 0;
	*rate_Bps = INFINITY;
	if (src == dst)
		return MQ_OK;
	MQ_TRY(mq_cluster_route(cluster, src, dst, &route, err));
	for (uint32_t i = 0; i < route->n_links; i++)
		bw = fmin(bw, mq_link_usable_Bps(&cluster->link[route->link[i]]));
	*latency_s = route->lat_s;
	*alone_s = *latency_s + bytes / bw;
	return MQ_OK;
}

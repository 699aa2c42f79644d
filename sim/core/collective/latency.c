/*
 * latency.c - what long links add to a collective's latency.
 *
 * NCCL's step latencies contain the wires of the systems on which they were measured: route_s of a class
 * of links, two ports and two levels of switches unless its entry says otherwise. What a route takes
 * beyond that is paid at every step that goes over it, one step after another:
 *   ring, chain  the steps go round: each edge of the cycle is crossed by steps / n of them
 *   tree, NVLSTree  up and down the longest way from a node to the root, of both trees; in the node the
 *                chain, or to the switch and back
 *   CollNet, NVLS over nodes  to the network's switch and back: the longest way between neighbours
 *   PAT          one step to the rank 1, 2, 4, ... further, each as slow as its slowest pair
 *   all-to-all   all transfers start together: the longest way
 *
 * Not modelled: windows (8 steps of a channel's buffer under way) that bound the bandwidth of ways of many
 * milliseconds; nodes that differ in their inner links (the widest stands for all).
 */
#include <math.h>

#include "core/collective/impl.h"

/* Latency of a way between two positions beyond what the steps of its class contain. */
static enum mq_status beyond(const struct mq_way *way, uint32_t src, uint32_t dst, double *s, struct mq_err *err)
{
	bool local = way->group->node_of[src] == way->group->node_of[dst];
	const struct mq_link_calib *link = local ? way->topo->intra_calib : way->topo->net_calib;
	const struct mq_route *route;

	*s = 0;
	if (src == dst)
		return MQ_OK;
	MQ_TRY(mq_cluster_route(way->cluster, way->group->rank[src], way->group->rank[dst], &route, err));
	*s = fmax(0, route->lat_s - link->route_s);
	return MQ_OK;
}

static uint32_t head(const struct mq_group *group, uint32_t node)
{
	return group->order[group->first[node]];
}

/* Sum over the chain of the widest node's first ring, without the edge that closes it. */
static enum mq_status along_node(const struct mq_way *way, double *sum_s, struct mq_err *err)
{
	const struct mq_topo *topo = way->topo;
	uint32_t base = way->group->first[way->group->widest];

	*sum_s = 0;
	for (uint32_t i = 0; i + 1 < topo->n_local; i++) {
		double s;

		MQ_TRY(beyond(way, way->group->order[base + topo->ring[0][i]],
			      way->group->order[base + topo->ring[0][i + 1]], &s, err));
		*sum_s += s;
	}
	return MQ_OK;
}

/* Over the ways from each node to the next: their sum and the longest. */
static enum mq_status between_nodes(const struct mq_way *way, double *sum_s, double *most_s, struct mq_err *err)
{
	uint32_t nodes = way->group->n_nodes;

	*sum_s = *most_s = 0;
	for (uint32_t k = 0; nodes > 1 && k < nodes; k++) {
		double s;

		MQ_TRY(beyond(way, head(way->group, k), head(way->group, (k + 1) % nodes), &s, err));
		*sum_s += s;
		*most_s = fmax(*most_s, s);
	}
	return MQ_OK;
}

/* The longest way from a node up to the root, of both trees. */
static enum mq_status up_trees(const struct mq_way *way, double *most_s, struct mq_err *err)
{
	uint32_t nodes = way->group->n_nodes;

	*most_s = 0;
	for (uint32_t tree = 0; tree < 2; tree++)
		for (uint32_t k = 0; k < nodes; k++) {
			double sum_s = 0, s;

			for (uint32_t at = k, up; (up = mq_tree_parent(tree, nodes, at)) != MQ_NONE; at = up) {
				MQ_TRY(beyond(way, head(way->group, at), head(way->group, up), &s, err));
				sum_s += s;
			}
			*most_s = fmax(*most_s, sum_s);
		}
	return MQ_OK;
}

static enum mq_status pat_steps(const struct mq_way *way, double *sum_s, struct mq_err *err)
{
	const struct mq_group *group = way->group;

	*sum_s = 0;
	for (uint32_t d = 1; d < group->n; d *= 2) {
		double most_s = 0, s;

		for (uint32_t i = 0; i < group->n; i++) {
			MQ_TRY(beyond(way, group->order[i], group->order[(i + d) % group->n], &s, err));
			most_s = fmax(most_s, s);
		}
		*sum_s += most_s;
	}
	return MQ_OK;
}

/* From the first node to any other. */
static enum mq_status farthest(const struct mq_way *way, double *most_s, struct mq_err *err)
{
	*most_s = 0;
	for (uint32_t k = 1; k < way->group->n_nodes; k++) {
		double s;

		MQ_TRY(beyond(way, head(way->group, 0), head(way->group, k), &s, err));
		*most_s = fmax(*most_s, s);
	}
	return MQ_OK;
}

enum mq_status mq_latency_beyond(const struct mq_way *way, enum mq_coll_kind kind, enum mq_algo algo, double *extra_s,
				 struct mq_err *err)
{
	double n = way->group->n, nodes = way->group->n_nodes, node_s, sum_s, most_s, edge_s;

	*extra_s = 0;
	if (algo == MQ_ALGO_PAT)
		return pat_steps(way, extra_s, err);
	MQ_TRY(along_node(way, &node_s, err));
	edge_s = way->topo->n_local > 1 ? node_s / (way->topo->n_local - 1) : 0;
	if (kind == MQ_COLL_ALL_TO_ALL) {
		MQ_TRY(farthest(way, &most_s, err));
		*extra_s = fmax(edge_s, most_s);
		return MQ_OK;
	}
	switch (algo) {
	case MQ_ALGO_TREE:
	case MQ_ALGO_NVLS_TREE:
		MQ_TRY(up_trees(way, &most_s, err));
		*extra_s = 2 * ((algo == MQ_ALGO_TREE ? node_s : edge_s) + most_s);
		return MQ_OK;
	case MQ_ALGO_NVLS:
	case MQ_ALGO_COLLNET_DIRECT:
	case MQ_ALGO_COLLNET_CHAIN:
		MQ_TRY(between_nodes(way, &sum_s, &most_s, err));
		*extra_s = 2 * (algo == MQ_ALGO_COLLNET_CHAIN ? node_s : edge_s) + most_s;
		return MQ_OK;
	default:
		MQ_TRY(between_nodes(way, &sum_s, &most_s, err));
		sum_s += nodes * node_s + (nodes < 2 ? edge_s : 0);
		*extra_s = sum_s / n * (n - 1) * (kind == MQ_COLL_ALL_REDUCE ? 2 : 1);
		return MQ_OK;
	}
}

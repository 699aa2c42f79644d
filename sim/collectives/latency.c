/* latency.c - latency that long links add to a collective.
 *
 * NCCL's step latencies contain the wires of the systems on which they were measured: route_s of a link class, two
 * ports and two levels of switches unless its calibration says otherwise. A route's latency beyond that is added for
 * every step over it, since steps are sequential. A collective ends with the last of its rings, trees or heads, so
 * every route that carries bytes counts.
 *   ring, chain  the steps go round: each edge of the cycle is crossed by steps / n of them; the slowest ring
 *   tree         the slowest node's chain and its way up to the root, and back; of all rings and both trees
 *   NVLSTree     the same from each head, with the slowest pair of a node in place of the chain
 *   CollNet, NVLS over nodes  to the network's switch and back: the longest way between neighbours
 *   PAT          one step to the rank 1, 2, 4, ... further, each as slow as its slowest pair
 *   all-to-all   all transfers start together: the longest way
 *
 * Not modelled: the window (8 steps of a channel's buffer in flight), which limits the bandwidth of routes of many
 * milliseconds. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "collectives/impl.h"

/* Latency of the route between two positions beyond its class's route_s. */
static enum mq_status extra_latency(const struct mq_way *way, uint32_t src, uint32_t dst, double *s, struct mq_err *err)
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

/* Extra latency once around ring r. */
static enum mq_status around_ring(const struct mq_way *way, uint32_t r, double *sum_s, struct mq_err *err)
{
	const struct mq_group *group = way->group;
	uint32_t begin = MQ_NONE, last = MQ_NONE;
	uint8_t seq[MQ_MAX_LOCAL];
	double s;

	*sum_s = 0;
	for (uint32_t k = 0; k < group->n_nodes; k++) {
		uint32_t n = mq_ring_order(group, way->topo, r, k, k % 2, seq);

		for (uint32_t i = 0; i < n; i++) {
			uint32_t at = group->order[group->first[k] + seq[i]];

			if (last == MQ_NONE) {
				begin = at;
			} else {
				MQ_TRY(extra_latency(way, last, at, &s, err));
				*sum_s += s;
			}
			last = at;
		}
	}
	MQ_TRY(extra_latency(way, last, begin, &s, err));
	*sum_s += s;
	return MQ_OK;
}

/* Extra latency along node k's ranks in ring r's order, not closed to a cycle. */
static enum mq_status along_chain(const struct mq_way *way, uint32_t r, uint32_t k, double *sum_s, struct mq_err *err)
{
	const struct mq_group *group = way->group;
	uint8_t seq[MQ_MAX_LOCAL];
	uint32_t n = mq_ring_order(group, way->topo, r, k, false, seq), base = group->first[k];
	double s;

	*sum_s = 0;
	for (uint32_t i = 0; i + 1 < n; i++) {
		MQ_TRY(extra_latency(way, group->order[base + seq[i]], group->order[base + seq[i + 1]], &s, err));
		*sum_s += s;
	}
	return MQ_OK;
}

/* Raises *most_s to the longest path to a root of both trees over the nodes' ranks `index`, from leaf_s[node]. */
static enum mq_status up_trees(const struct mq_way *way, uint32_t index, const double *leaf_s, double *most_s,
			       struct mq_err *err)
{
	const struct mq_group *group = way->group;
	uint32_t nodes = group->n_nodes;
	double *up_s = mq_arena_array(way->arena, nodes, double);

	for (uint32_t tree = 0; tree < 2; tree++) {
		for (uint32_t k = 0; k < nodes; k++) {
			uint32_t up = mq_tree_parent(tree, nodes, k);

			if (up != MQ_NONE)
				MQ_TRY(extra_latency(way, mq_node_rank(group, k, index), mq_node_rank(group, up, index),
						     &up_s[k], err));
		}
		for (uint32_t k = 0; k < nodes; k++) {
			double sum_s = leaf_s[k];

			for (uint32_t at = k, up; (up = mq_tree_parent(tree, nodes, at)) != MQ_NONE; at = up)
				sum_s += up_s[at];
			*most_s = fmax(*most_s, sum_s);
		}
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
			MQ_TRY(extra_latency(way, group->order[i], group->order[(i + d) % group->n], &s, err));
			most_s = fmax(most_s, s);
		}
		*sum_s += most_s;
	}
	return MQ_OK;
}

/* The largest extra latency of the collective's flows, those inside nodes or those between them. */
static enum mq_status longest_route(const struct mq_way *way, bool inside, double *most_s, struct mq_err *err)
{
	const uint32_t *node = way->group->node_of;

	*most_s = 0;
	for (uint32_t i = 0; i < way->flows->n; i++) {
		const struct mq_flow *flow = &way->flows->flow[i];
		double s;

		if ((node[flow->src] == node[flow->dst]) != inside)
			continue;
		MQ_TRY(extra_latency(way, flow->src, flow->dst, &s, err));
		*most_s = fmax(*most_s, s);
	}
	return MQ_OK;
}

/* Chain and trees of every ring, up and down; `heads`: of every head, with a pair's latency for the chain. */
static enum mq_status up_and_down(const struct mq_way *way, bool heads, double *extra_s, struct mq_err *err)
{
	uint32_t nodes = way->group->n_nodes, ways = heads ? way->group->ppn_max : way->topo->n_rings;
	double *leaf_s = mq_arena_array(way->arena, nodes, double), pair_s = 0, most_s = 0;

	if (heads)
		MQ_TRY(longest_route(way, true, &pair_s, err));
	for (uint32_t r = 0; r < ways; r++) {
		for (uint32_t k = 0; k < nodes; k++) {
			leaf_s[k] = pair_s;
			if (!heads)
				MQ_TRY(along_chain(way, r, k, &leaf_s[k], err));
		}
		MQ_TRY(up_trees(way, heads ? r : way->topo->ring[r][0], leaf_s, &most_s, err));
	}
	*extra_s = 2 * most_s;
	return MQ_OK;
}

/* CollNet, NVLS over nodes: up a node's chain (or a pair), over the network's switch, and down. */
static enum mq_status through_switch(const struct mq_way *way, bool chain, double *extra_s, struct mq_err *err)
{
	double node_s = 0, net_s, s;

	if (chain)
		for (uint32_t r = 0; r < way->topo->n_rings; r++)
			for (uint32_t k = 0; k < way->group->n_nodes; k++) {
				MQ_TRY(along_chain(way, r, k, &s, err));
				node_s = fmax(node_s, s);
			}
	else
		MQ_TRY(longest_route(way, true, &node_s, err));
	MQ_TRY(longest_route(way, false, &net_s, err));
	*extra_s = 2 * node_s + net_s;
	return MQ_OK;
}

enum mq_status mq_latency_beyond(const struct mq_way *way, enum mq_coll_kind kind, enum mq_algo algo, double *extra_s,
				 struct mq_err *err)
{
	double n = way->group->n, inside_s, between_s, most_s = 0, s;

	*extra_s = 0;
	if (kind == MQ_COLL_ALL_TO_ALL) {
		MQ_TRY(longest_route(way, true, &inside_s, err));
		MQ_TRY(longest_route(way, false, &between_s, err));
		*extra_s = fmax(inside_s, between_s);
		return MQ_OK;
	}
	switch (algo) {
	case MQ_ALGO_PAT:
		return pat_steps(way, extra_s, err);
	case MQ_ALGO_TREE:
	case MQ_ALGO_NVLS_TREE:
		return up_and_down(way, algo == MQ_ALGO_NVLS_TREE, extra_s, err);
	case MQ_ALGO_NVLS:
	case MQ_ALGO_COLLNET_DIRECT:
	case MQ_ALGO_COLLNET_CHAIN:
		return through_switch(way, algo == MQ_ALGO_COLLNET_CHAIN, extra_s, err);
	default:
		for (uint32_t r = 0; r < way->topo->n_rings; r++) {
			MQ_TRY(around_ring(way, r, &s, err));
			most_s = fmax(most_s, s);
		}
		*extra_s = most_s / n * (n - 1) * (kind == MQ_COLL_ALL_REDUCE ? 2 : 1);
		return MQ_OK;
	}
}

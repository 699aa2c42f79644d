/* expand.c - the flows of an algorithm: bytes from rank to rank.
 *
 * One flow per edge carries the bytes of all steps and channels, so n ranks give O(n) flows. Inside a node flows follow
 * the orders found by search.c; between nodes every rail carries its share and stays on its rail (odd nodes run their
 * orders backwards, as NCCL's crossNic swap does).
 *
 *   ring      per edge 2S(n-1)/n (all-reduce), S(n-1)/n (all-gather, reduce-scatter), S (broadcast,
 *             reduce: a chain from or to the root)
 *   tree      a chain in the node, S up and S down; between nodes NCCL's double binary tree, S/2 up
 *             and S/2 down per tree edge (Sanders, Speck, Traeff, "Two-tree algorithms", 2009)
 *   NVLS      per GPU port S(1+1/h) out and in: drawn as a cycle over the node's GPUs, since a flow
 *             cannot end in a switch; NVLSTree adds the two trees per head, S/(2h) per edge
 *   CollNet   per head S/h to the next node and back, drawn as a cycle over the nodes
 *   PAT       log2(n) flows per rank, to the rank 1, 2, 4, ... further
 *   all-to-all  n-1 flows per rank; beyond 128 ranks the traffic to other nodes is drawn as flows
 * to a few evenly spaced nodes, which load every port and uplink as the full exchange does
 *
 * Not modelled: PXN (a detour over a neighbour's NIC), the balanced tree's second NIC.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "collectives/impl.h"

#define ALL_PAIRS 128 /* largest all-to-all of which every pair is a flow */
#define SHIFTS    8   /* beyond that: nodes that stand for all others */

struct expansion {
	const struct mq_coll_request *request;
	const struct mq_group *group;
	const struct mq_topo *topo;
	struct mq_flow_list *list;
	double *edge; /* [n_local^2] bytes between two ranks of the current node */
};

static void add_flow(struct mq_flow_list *list, uint32_t src, uint32_t dst, double bytes)
{
	struct mq_flow flow = { .src = src, .dst = dst, .bytes = bytes, .rate_Bps = INFINITY };

	MQ_PUSH(list->arena, list->flow, list->n, list->room, flow);
}

uint32_t mq_tree_parent(uint32_t tree, uint32_t n, uint32_t node)
{
	uint32_t bit, up;

	if (tree) {
		bool mirror = n % 2 == 0;

		up = mq_tree_parent(0, n, mirror ? n - 1 - node : (node + n - 1) % n);
		return up == MQ_NONE ? up : mirror ? n - 1 - up : (up + 1) % n;
	}
	if (node == 0)
		return MQ_NONE;
	bit = node & -node;
	up = (node ^ bit) | bit << 1;
	return up < n ? up : node ^ bit;
}

static uint32_t size_of(const struct mq_group *group, uint32_t node)
{
	return group->first[node + 1] - group->first[node];
}

uint32_t mq_node_rank(const struct mq_group *group, uint32_t node, uint32_t index)
{
	return group->order[group->first[node] + index % size_of(group, node)];
}

uint32_t mq_ring_order(const struct mq_group *group, const struct mq_topo *topo, uint32_t ring, uint32_t node,
		       bool backwards, uint8_t *out)
{
	uint32_t size = size_of(group, node), n = 0;

	for (uint32_t i = 0; i < topo->n_local; i++) {
		uint8_t at = topo->ring[ring][backwards ? topo->n_local - 1 - i : i];

		if (at < size)
			out[n++] = at;
	}
	return n;
}

static void add_local(struct expansion *x, uint8_t src, uint8_t dst, double bytes)
{
	x->edge[src * x->topo->n_local + dst] += bytes;
}

/* Turns edge[] into flows from a node's ranks to those of to_node, and clears it. */
static void emit_edges(struct expansion *x, uint32_t node, uint32_t to_node)
{
	uint32_t m = x->topo->n_local;

	for (uint32_t i = 0; i < m * m; i++) {
		uint32_t src, dst;

		if (!(x->edge[i] > 0))
			continue;
		src = mq_node_rank(x->group, node, i / m);
		dst = mq_node_rank(x->group, to_node, i % m);
		if (src != dst && (x->request->closed || !mq_coll_skips(x->request->kind, x->request->root, src, dst)))
			add_flow(x->list, src, dst, x->edge[i]);
		x->edge[i] = 0;
	}
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

static void ring(struct expansion *x)
{
	uint32_t nodes = x->group->n_nodes, rings = x->topo->n_rings;
	double share = ring_edge_bytes(x->request) / rings;
	uint8_t seq[MQ_MAX_LOCAL];

	for (uint32_t k = 0; k < nodes; k++) {
		for (uint32_t r = 0; r < rings; r++) {
			uint32_t n = mq_ring_order(x->group, x->topo, r, k, k % 2, seq);

			for (uint32_t i = 0; i + 1 < n; i++)
				add_local(x, seq[i], seq[i + 1], share);
			if (nodes == 1)
				add_local(x, seq[n - 1], seq[0], share);
		}
		emit_edges(x, k, k);
		for (uint32_t r = 0; nodes > 1 && r < rings; r++) {
			uint32_t n = mq_ring_order(x->group, x->topo, r, k, k % 2, seq);

			/* To the next node on the same rail. */
			add_local(x, seq[n - 1], seq[n - 1], share);
		}
		if (nodes > 1)
			emit_edges(x, k, (k + 1) % nodes);
	}
}

/* Flows of both trees between nodes: `share` of the vector through rank `index` of each node. */
static void trees(struct expansion *x, uint32_t index, double share)
{
	uint32_t nodes = x->group->n_nodes;

	for (uint32_t tree = 0; tree < 2; tree++)
		for (uint32_t k = 0; k < nodes; k++) {
			uint32_t up = mq_tree_parent(tree, nodes, k), child, parent;

			if (up == MQ_NONE)
				continue;
			child = mq_node_rank(x->group, k, index);
			parent = mq_node_rank(x->group, up, index);
			add_flow(x->list, child, parent, x->request->bytes * share / 2);
			add_flow(x->list, parent, child, x->request->bytes * share / 2);
		}
}

static void chains(struct expansion *x)
{
	double share = x->request->bytes / x->topo->n_rings;
	uint8_t seq[MQ_MAX_LOCAL];

	for (uint32_t k = 0; k < x->group->n_nodes; k++) {
		for (uint32_t r = 0; r < x->topo->n_rings; r++) {
			uint32_t n = mq_ring_order(x->group, x->topo, r, k, false, seq);

			for (uint32_t i = 0; i + 1 < n; i++) {
				add_local(x, seq[i], seq[i + 1], share);
				add_local(x, seq[i + 1], seq[i], share);
			}
		}
		emit_edges(x, k, k);
	}
}

static void tree(struct expansion *x)
{
	chains(x);
	if (x->group->n_nodes > 1)
		for (uint32_t r = 0; r < x->topo->n_rings; r++)
			trees(x, x->topo->ring[r][0], 1.0 / x->topo->n_rings);
}

/* A cycle of flows over the ranks of each node: `bytes` out of and into every rank. */
static void local_cycle(struct expansion *x, double bytes)
{
	for (uint32_t k = 0; k < x->group->n_nodes; k++) {
		uint32_t n = size_of(x->group, k);

		for (uint32_t i = 0; n > 1 && i < n; i++)
			add_flow(x->list, mq_node_rank(x->group, k, i), mq_node_rank(x->group, k, i + 1), bytes);
	}
}

static void node_cycle(struct expansion *x, double bytes)
{
	uint32_t nodes = x->group->n_nodes;

	for (uint32_t k = 0; nodes > 1 && k < nodes; k++)
		for (uint32_t i = 0; i < size_of(x->group, k); i++)
			add_flow(x->list, mq_node_rank(x->group, k, i), mq_node_rank(x->group, (k + 1) % nodes, i),
				 bytes);
}

static void nvls(struct expansion *x, enum mq_algo algo)
{
	double heads = x->group->ppn_max, s = x->request->bytes;

	local_cycle(x, x->request->kind == MQ_COLL_ALL_REDUCE ? s * (1 + 1 / heads) : s);
	if (algo == MQ_ALGO_NVLS)
		node_cycle(x, s / heads);
	for (uint32_t i = 0; algo == MQ_ALGO_NVLS_TREE && i < x->group->ppn_max; i++)
		trees(x, i, 1 / heads);
}

static void collnet(struct expansion *x, enum mq_algo algo)
{
	double heads = x->group->ppn_max, s = x->request->bytes;

	if (algo == MQ_ALGO_COLLNET_CHAIN)
		chains(x);
	else
		local_cycle(x, s * (heads - 1) / heads * (x->request->kind == MQ_COLL_ALL_REDUCE ? 2 : 1));
	node_cycle(x, s / heads);
}

static void pat(struct expansion *x)
{
	uint32_t n = x->request->n;
	double part = x->request->bytes / n;

	for (uint32_t d = 1; d < n; d *= 2)
		for (uint32_t i = 0; i < n; i++) {
			uint32_t near = x->group->order[i], far = x->group->order[(i + d) % n];
			bool gather = x->request->kind == MQ_COLL_ALL_GATHER;

			add_flow(x->list, gather ? near : far, gather ? far : near, part * (d < n - d ? d : n - d));
		}
}

/* Each rank's traffic to other nodes as flows to a few of them. */
static void sample_nodes(struct expansion *x, uint32_t node)
{
	uint32_t nodes = x->group->n_nodes, size = size_of(x->group, node);
	uint32_t shifts = nodes - 1 < SHIFTS ? nodes - 1 : SHIFTS;
	double part = x->request->bytes / x->request->n * (x->request->n - size) / shifts;

	for (uint32_t i = 0; i < size; i++)
		for (uint32_t s = 1; s <= shifts; s++)
			add_flow(x->list, mq_node_rank(x->group, node, i),
				 mq_node_rank(x->group, (node + s * (nodes - 1) / shifts) % nodes, i), part);
}

static void all_to_all(struct expansion *x)
{
	const struct mq_group *group = x->group;
	uint32_t n = x->request->n;
	double part = x->request->bytes / n;

	if (n <= ALL_PAIRS || group->n_nodes == 1) {
		for (uint32_t d = 1; d < n; d++)
			for (uint32_t i = 0; i < n; i++)
				add_flow(x->list, group->order[i], group->order[(i + d) % n], part);
		return;
	}
	for (uint32_t k = 0; k < group->n_nodes; k++) {
		uint32_t size = size_of(group, k);

		for (uint32_t i = 0; i < size; i++)
			for (uint32_t d = 1; d < size; d++)
				add_flow(x->list, mq_node_rank(group, k, i), mq_node_rank(group, k, i + d), part);
		sample_nodes(x, k);
	}
}

void mq_expand_flows(const struct mq_coll_request *request, const struct mq_group *group, const struct mq_topo *topo,
		     enum mq_algo algo, struct mq_flow_list *list)
{
	struct expansion x = {
		.request = request,
		.group = group,
		.topo = topo,
		.list = list,
		.edge = mq_arena_array(list->arena, (size_t)topo->n_local * topo->n_local, double),
	};

	if (request->kind == MQ_COLL_ALL_TO_ALL) {
		all_to_all(&x);
		return;
	}
	switch (algo) {
	case MQ_ALGO_TREE:
		tree(&x);
		break;
	case MQ_ALGO_NVLS:
	case MQ_ALGO_NVLS_TREE:
		nvls(&x, algo);
		break;
	case MQ_ALGO_COLLNET_DIRECT:
	case MQ_ALGO_COLLNET_CHAIN:
		collnet(&x, algo);
		break;
	case MQ_ALGO_PAT:
		pat(&x);
		break;
	default:
		ring(&x);
	}
}

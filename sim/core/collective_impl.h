/*
 * collective_impl.h - what the files of the collective model share; nobody else includes it.
 *
 *   collective.c         the entry points
 *   collective_group.c   a communicator's ranks by node
 *   collective_expand.c  algorithms to flows
 *   collective_fluid.c   time of flows
 */
#ifndef MQ_CORE_COLLECTIVE_IMPL_H
#define MQ_CORE_COLLECTIVE_IMPL_H

#include "core/collective.h"

/* A communicator's positions grouped by node: nodes in order of their first rank, positions in
 * communicator order within each. */
struct mq_group {
	uint32_t n, n_nodes;
	const uint32_t *rank; /* [n] cluster ranks, borrowed */
	uint32_t *order;      /* [n] positions */
	uint32_t *first;      /* [n_nodes + 1] where each node's positions start in order */
	uint32_t *node_of;    /* [n] node (0 .. n_nodes-1) of each position */
};

/* MQ_EINPUT: no such rank, or a rank twice. */
enum mq_status mq_group_build(const struct mq_cluster *cluster, const uint32_t *rank, uint32_t n,
			      struct mq_arena *arena, struct mq_group *group, struct mq_err *err);

/* Append flows. */
struct mq_flow_list {
	struct mq_arena *arena;
	struct mq_flow *flow;
	uint32_t n, room;
};
void mq_flow_add(struct mq_flow_list *list, uint32_t src, uint32_t dst, double bytes, double rate_Bps);

#endif

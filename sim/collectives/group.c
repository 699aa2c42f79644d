/* group.c - a communicator's ranks grouped by node, in O(n). SPDX-License-Identifier: Apache-2.0 */
#include "collectives/impl.h"

enum mq_status mq_group_build(const struct mq_cluster *cluster, const uint32_t *rank, uint32_t n,
			      struct mq_arena *arena, struct mq_group *group, struct mq_err *err)
{
	uint32_t *seen = mq_arena_array(arena, cluster->n_nodes, uint32_t); /* node + 1 */
	bool *used = mq_arena_array(arena, cluster->n_devices, bool);

	*group = (struct mq_group){ .n = n, .rank = rank };
	group->node_of = mq_arena_array(arena, n, uint32_t);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t node;

		if (rank[i] >= cluster->n_devices || used[rank[i]])
			return mq_bad(err,
				      "communicator: position %u is rank %u, which "
				      "%s; ranks must be distinct and below %u",
				      i, rank[i],
				      rank[i] < cluster->n_devices ? "is there twice" : "the platform does not have",
				      cluster->n_devices);
		used[rank[i]] = true;
		node = cluster->device[rank[i]].node;
		if (!seen[node])
			seen[node] = ++group->n_nodes;
		group->node_of[i] = seen[node] - 1;
	}
	mq_csr_make(arena, group->n_nodes, n, group->node_of, NULL, sizeof(*group->node_of), &group->first,
		    &group->order);
	group->ppn_min = n;
	for (uint32_t k = 0; k < group->n_nodes; k++) {
		uint32_t size = group->first[k + 1] - group->first[k];

		if (size > group->ppn_max) {
			group->ppn_max = size;
			group->widest = k;
		}
		group->ppn_min = size < group->ppn_min ? size : group->ppn_min;
	}
	return MQ_OK;
}

/* on_demand.h - hosts and links of SimGrid's that are made when first used, for a cluster that is known without it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_ON_DEMAND_H
#define MQ_HARDWARE_PLATFORM_ON_DEMAND_H

#include <stdint.h>

#include <simgrid/forward.h>

/* Who knows the cluster. */
struct mq_on_demand {
	void *context;
	/* The links of a route between two ranks, in its order; their number. The pointer is good until the next call. */
	uint32_t (*route)(void *context, uint32_t src, uint32_t dst, const uint32_t **link);
	/* A link's name, and what flows share of it, bytes per second. */
	const char *(*link)(void *context, uint32_t id, double *usable_Bps);
	sg_link_t *made; /* [links] NULL until a route first has it */
};

/* The network between all hosts that will be asked for, and SimGrid's outermost zone, of which there must be none yet.
 * `source` is borrowed for as long as the process lives. */
void *mq_on_demand_zone(const struct mq_on_demand *source);
/* A new host: each rank once; flop/s. */
sg_host_t mq_on_demand_host(void *zone, const char *name, double speed_flops, uint32_t rank);

#endif

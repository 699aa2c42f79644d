/* on_demand.h - creates SimGrid's hosts and links on first use, for a cluster built without SimGrid.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_ON_DEMAND_H
#define MQ_HARDWARE_PLATFORM_ON_DEMAND_H

#include <stdint.h>

#include <simgrid/forward.h>

/* The source of hosts and links: the built cluster. */
struct mq_on_demand {
	void *context;
	/* Returns the number of links of a route, and the links in order, valid until the next call. */
	uint32_t (*route)(void *context, uint32_t src, uint32_t dst, const uint32_t **link);
	/* A link's name and its bandwidth for flows, B/s. */
	const char *(*link)(void *context, uint32_t id, double *usable_Bps);
	sg_link_t *made; /* [links] NULL until a route first uses it */
};

/* Creates the zone of hosts on demand, and SimGrid's outermost zone, which must not exist yet. `source` is borrowed
 * until the process ends. */
void *mq_on_demand_zone(const struct mq_on_demand *source);
/* Creates a host, each rank once; flop/s. */
sg_host_t mq_on_demand_host(void *zone, const char *name, double speed_flops, uint32_t rank);

#endif

/* on_demand.cpp - see on_demand.h. SimGrid looks up each new name among all, and takes some 3 kB for a host and 1 kB
 * for a link. So only hosts with actors and links with flows are created: in a folded simulation a handful, for any
 * size of cluster.
 *
 * The zone is outside SimGrid's outermost one and never sealed, because it grows while the simulation runs.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string>
#include <vector>

#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u/Engine.hpp>
#include <simgrid/s4u/Host.hpp>
#include <simgrid/s4u/Link.hpp>
#include <simgrid/s4u/NetZone.hpp>

extern "C" {
#include "hardware/platform/on_demand.h"
}

namespace routing = simgrid::kernel::routing;

class Devices : public routing::NetZoneImpl
{
	const struct mq_on_demand *source;
	std::vector<uint32_t> rank; /* of each point of the zone */

	sg_link_t link(uint32_t id)
	{
		if (!source->made[id]) {
			double usable_Bps;
			const char *name = source->link(source->context, id, &usable_Bps);

			source->made[id] = create_link(name, { usable_Bps });
			source->made[id]->seal();
		}
		return source->made[id];
	}

	void get_local_route(const routing::NetPoint *src, const routing::NetPoint *dst, routing::Route *into,
			     double * /*latency*/) override
	{
		const uint32_t *id;
		uint32_t n = source->route(source->context, rank[src->id()], rank[dst->id()], &id);

		for (uint32_t i = 0; i < n; i++)
			into->link_list_.push_back(link(id[i])->get_impl());
	}

      public:
	explicit Devices(const struct mq_on_demand *from) : NetZoneImpl("devices"), source(from)
	{
		const auto *root = simgrid::s4u::Engine::get_instance()->get_netzone_root()->get_impl();

		set_network_model(root->get_network_model());
		set_cpu_vm_model(root->get_cpu_vm_model());
		set_cpu_pm_model(root->get_cpu_pm_model());
		set_disk_model(root->get_disk_model());
		set_host_model(root->get_host_model());
	}

	sg_host_t host(const char *name, double speed_flops, uint32_t of_rank)
	{
		sg_host_t host = create_host(name, { speed_flops });
		size_t at = host->get_netpoint()->id();

		if (rank.size() <= at)
			rank.resize(at + 1);
		rank[at] = of_rank;
		host->seal();
		return host;
	}
};

void *mq_on_demand_zone(const struct mq_on_demand *source)
{
	simgrid::s4u::create_empty_zone("platform"); /* the first zone is SimGrid's outermost */
	return new Devices(source);
}

sg_host_t mq_on_demand_host(void *zone, const char *name, double speed_flops, uint32_t rank)
{
	return static_cast<Devices *>(zone)->host(name, speed_flops, rank);
}

/* topo.c - finds the links that join the ranks of a communicator.
 *
 * It reads a few routes: all pairs of the fullest node (assumed typical), and from each of its ranks one to the next
 * node, whose first network port is the rank's NIC. So its time does not grow with the communicator. The platform
 * file's link classes stand for what NCCL reads from the system.
 *
 * Not modelled: nodes of one communicator whose inner links differ; PCIe path types beyond "shares a switch or not".
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "collectives/impl.h"

#define PCI_SHARE (12 / 15.754) /* NCCL's 12, 24, 48 GB/s, relative to the payload rate of x16 */

enum path { PATH_NVLINK, PATH_PCIE, PATH_HOST, PATH_NETWORK, PATH_OTHER };

static enum path path_of(const struct mq_cluster *cluster, const struct mq_route *route)
{
	static const enum path paths[MQ_N_LINK_CLASSES] = {
		[MQ_LINK_NVLINK] = PATH_NVLINK,  [MQ_LINK_XGMI] = PATH_NVLINK,      [MQ_LINK_NVSWITCH] = PATH_NVLINK,
		[MQ_LINK_PCIE] = PATH_PCIE,      [MQ_LINK_PCIE_SWITCH] = PATH_PCIE, [MQ_LINK_SOCKET] = PATH_PCIE,
		[MQ_LINK_HOST] = PATH_HOST,      [MQ_LINK_NIC] = PATH_NETWORK,      [MQ_LINK_FABRIC] = PATH_NETWORK,
		[MQ_LINK_LOOPBACK] = PATH_OTHER, [MQ_LINK_OTHER] = PATH_OTHER,
	};
	enum path path = PATH_NVLINK;

	for (uint32_t i = 0; i < route->n_links; i++) {
		enum path link = paths[cluster->link[route->link[i]].class];

		path = link > path ? link : path;
	}
	return path;
}

/* NVLink bandwidth as NCCL counts it, from one constant per NVLink of each generation. */
static double nccl_nvlink(const struct mq_nccl *nccl, double compute_capability, double nominal_Bps)
{
	int i = 0;

	while (i < MQ_NCCL_NVLINKS - 1 && compute_capability < nccl->nvlink[i][0])
		i++;
	return nominal_Bps * (nccl->nvlink[i][1] / nccl->nvlink[i][2]);
}

const struct mq_link_calib *mq_link_calib_of(const struct mq_calib *calib, const char *name, double compute_capability)
{
	/* Used without a calibration: NCCL's own constants, nominal bandwidths. */
	static const struct mq_link_calib neutral = { .name = "neutral",
						      .bw_share = 1,
						      .latency_scale = 1,
						      .step_B = 524288,
						      .nvls_share = 1,
						      .sharp_share = 1,
						      .route_s = 3e-6 };
	const struct mq_link_calib *found = mq_calib_link_for(calib, name, compute_capability);

	return found ? found : &neutral;
}

double mq_topo_port_Bps(const struct mq_topo *topo)
{
	return topo->nic_Bps * mq_calib_port_share(topo->net_calib, topo->nic_Bps);
}

/* Compute capability of the oldest GPU; 0 if a device has none or no calibration, since NCCL cannot use it. */
static double oldest(const struct mq_cluster *cluster, const struct mq_calib *calib, const struct mq_group *group)
{
	double least = INFINITY;
	const char *last = NULL;

	for (uint32_t i = 0; i < group->n; i++) {
		const struct mq_device *device = &cluster->device[group->rank[i]];
		const struct mq_device_calib *known;

		if (device->kind != MQ_GPU)
			return 0;
		if (last && !strcmp(last, device->type))
			continue;
		last = device->type;
		known = device->calib < calib->n_devices ? &calib->device[device->calib] :
							   mq_calib_device(calib, device->type);
		least = fmin(least, known ? known->compute_capability : 0);
	}
	return least;
}

struct seen { /* links of the routes inside the node */
	bool path[PATH_OTHER + 1];
	bool direct, port; /* one NVLink joins a pair; an NVSwitch or several NVLinks do */
	double port_Bps;   /* widest NVLink or PCIe route */
	double slow_Bps;   /* narrowest */
	double lat_s;
};

static enum mq_status probe_pair(const struct mq_cluster *cluster, struct mq_topo *topo, uint32_t i, uint32_t k,
				 struct seen *seen, struct mq_err *err)
{
	const struct mq_route *route;
	enum path path;

	MQ_TRY(mq_cluster_route(cluster, topo->local[i], topo->local[k], &route, err));
	path = path_of(cluster, route);
	seen->path[path] = true;
	seen->port_Bps = fmax(seen->port_Bps, route->bw_Bps);
	seen->slow_Bps = fmin(seen->slow_Bps, route->bw_Bps);
	seen->lat_s = fmax(seen->lat_s, route->lat_s);
	if (path != PATH_NVLINK)
		return MQ_OK;
	if (route->n_links > 1) {
		seen->port = true;
		return MQ_OK;
	}
	seen->direct = true;
	topo->width_Bps[i][k] = nccl_nvlink(topo->nccl_table, topo->compute_capability, route->bw_Bps);
	return MQ_OK;
}

static enum mq_status probe_node(const struct mq_cluster *cluster, const struct mq_calib *calib, struct mq_topo *topo,
				 struct mq_err *err)
{
	/* More than 16 ranks are always joined by a switch: routes to neighbours are enough. */
	uint32_t reach = topo->n_local <= 16 ? topo->n_local - 1 : 2;
	struct seen seen = { .slow_Bps = INFINITY };

	for (uint32_t i = 0; i < topo->n_local; i++)
		for (uint32_t d = 1; d <= reach; d++)
			MQ_TRY(probe_pair(cluster, topo, i, (i + d) % topo->n_local, &seen, err));
	topo->port_nominal_Bps = seen.port_Bps;
	topo->slow_Bps = seen.slow_Bps;
	if (seen.path[PATH_OTHER] || seen.path[PATH_NETWORK])
		topo->nccl = false;
	if (!topo->nccl) {
		/* A CPU among GPUs is reached over PCIe; CPUs share memory. */
		bool pcie = seen.path[PATH_PCIE] && !seen.path[PATH_HOST];
		topo->intra_calib = mq_link_calib_of(calib,
						     seen.path[PATH_OTHER] ? "other" :
						     pcie                  ? "pcie" :
									     "host",
						     0);
		topo->step_s = seen.lat_s + topo->intra_calib->p2p_latency_s;
		return MQ_OK;
	}
	/* A mesh may join some pairs by PCIe; search.c finds out whether its NVLinks form a ring. */
	if (seen.direct)
		topo->intra = MQ_INTRA_MESH;
	else if (seen.path[PATH_NVLINK] && !seen.path[PATH_PCIE] && !seen.path[PATH_HOST])
		topo->intra = MQ_INTRA_SWITCH;
	else
		topo->intra = seen.path[PATH_HOST] ? MQ_INTRA_HOST : MQ_INTRA_PCIE;
	topo->pcie_share = seen.path[PATH_HOST] ? 1 : PCI_SHARE;
	topo->pcie_calib = mq_link_calib_of(calib, seen.path[PATH_HOST] ? "host" : "pcie", topo->compute_capability);
	topo->nccl_share = nccl_nvlink(topo->nccl_table, topo->compute_capability, 1);
	topo->intra_calib = mq_link_calib_of(calib, "nvlink", topo->compute_capability);
	if (topo->intra >= MQ_INTRA_MIXED) {
		topo->nccl_share = topo->pcie_share;
		topo->intra_calib = topo->pcie_calib;
	}
	topo->port_nccl_Bps = seen.port_Bps * topo->nccl_share;
	return MQ_OK;
}

/* Generic model: a step has the latency of the slowest route from a node to the next. */
static enum mq_status slowest_step(const struct mq_cluster *cluster, const struct mq_group *group, struct mq_topo *topo,
				   struct mq_err *err)
{
	for (uint32_t k = 0; k < group->n_nodes; k++) {
		uint32_t next = (k + 1) % group->n_nodes;
		const struct mq_route *route;

		MQ_TRY(mq_cluster_route(cluster, group->rank[group->order[group->first[k]]],
					group->rank[group->order[group->first[next]]], &route, err));
		topo->slow_Bps = fmin(topo->slow_Bps, route->bw_Bps);
		topo->step_s = fmax(topo->step_s, route->lat_s + topo->net_calib->p2p_latency_s);
	}
	return MQ_OK;
}

/* Finds each rank's NIC: the first network link on its route to the next node. */
static enum mq_status probe_network(const struct mq_cluster *cluster, const struct mq_calib *calib,
				    const struct mq_group *group, struct mq_topo *topo, struct mq_err *err)
{
	uint32_t other = (group->widest + 1) % group->n_nodes, nic[MQ_MAX_LOCAL];
	uint32_t first = group->first[other], ppn = group->first[other + 1] - first;

	for (uint32_t i = 0; i < topo->n_local; i++) {
		uint32_t peer = group->rank[group->order[first + i % ppn]], k, r;
		const struct mq_route *route;

		MQ_TRY(mq_cluster_route(cluster, topo->local[i], peer, &route, err));
		for (k = 0; k < route->n_links; k++)
			if (cluster->link[route->link[k]].class == MQ_LINK_NIC)
				break;
		for (uint32_t f = 0; k == route->n_links && f < route->n_links; f++)
			if (cluster->link[route->link[f]].class == MQ_LINK_FABRIC)
				k = f;
		if (k == route->n_links) {
			topo->nccl = false;
			return slowest_step(cluster, group, topo, err);
		}
		for (r = 0; r < topo->rails && nic[r] != route->link[k]; r++)
			;
		if (r == topo->rails)
			nic[topo->rails++] = route->link[k];
		topo->rail_of[i] = r;
		topo->fabric = cluster->link[route->link[k]].fabric;
		topo->nic_Bps = cluster->link[route->link[k]].bw_Bps;
	}
	topo->gpu_direct =
		topo->fabric != MQ_FABRIC_ETHERNET && (topo->fabric != MQ_FABRIC_EFA || topo->compute_capability >= 80);
	topo->net_calib = mq_link_calib_of(calib, topo->fabric == MQ_FABRIC_NONE ? "ib" : mq_fabric_name(topo->fabric),
					   topo->compute_capability);
	return topo->nccl ? MQ_OK : slowest_step(cluster, group, topo, err);
}

enum mq_status mq_topo_find(const struct mq_cluster *cluster, const struct mq_calib *calib,
			    const struct mq_group *group, struct mq_topo *topo, struct mq_err *err)
{
	uint32_t first = group->first[group->widest];

	*topo = (struct mq_topo){ .n_local = group->ppn_max,
				  .nvls = cluster->nvls,
				  .sharp = cluster->sharp,
				  .version = calib->nccl_version,
				  .nccl_table = &calib->libraries->nccl };
	if (topo->n_local > MQ_MAX_LOCAL)
		return mq_bad(err, "communicator: %u ranks in one node, more than %d: split the node with mq_node",
			      topo->n_local, MQ_MAX_LOCAL);
	for (uint32_t i = 0; i < topo->n_local; i++)
		topo->local[i] = group->rank[group->order[first + i]];
	topo->compute_capability = oldest(cluster, calib, group);
	topo->arch = topo->compute_capability >= 100 ? MQ_ARCH_BLACKWELL :
		     topo->compute_capability >= 90  ? MQ_ARCH_HOPPER :
		     topo->compute_capability >= 80  ? MQ_ARCH_AMPERE :
						       MQ_ARCH_VOLTA;
	topo->nccl = topo->compute_capability > 0;
	topo->slow_Bps = INFINITY;
	topo->intra_calib = topo->net_calib = topo->pcie_calib = mq_link_calib_of(calib, "other", 0);
	if (topo->n_local > 1)
		MQ_TRY(probe_node(cluster, calib, topo, err));
	if (group->n_nodes > 1)
		MQ_TRY(probe_network(cluster, calib, group, topo, err));
	return MQ_OK;
}

/* p2p.c - sends, receives and the all-to-all that NCCL builds from them.
 *
 * NCCL's tuning has no formula for these, so each has a latency and the links' bandwidth. A send has two protocols: LL,
 * which starts fast and moves ll_Bps, and Simple, which takes simple_s longer to start and uses the links' bandwidth;
 * the faster one is taken. An all-to-all starts all its transfers at once: its latency grows with the number of peers
 * in the node and, far more, with the number of transfers that share a NIC, because one proxy thread serves them in
 * turn.
 *
 * Not modelled: the order of the rounds, the limit of 8 concurrent transfers per channel.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "collectives/impl.h"
#include "collectives/measured.h"

#define A2A_SHARE    .93      /* share of an NVLink port, relative to a single send */
#define OWN_COPY     .4       /* time to copy a rank's own part, relative to sending a part */
#define NET_PIECE_B  524288.0 /* a step of a channel's buffer, which has 8 */
#define NET_STEP     14e-6    /* NCCL's Simple step over the network */
#define NET_TRANSFER 4e-6     /* per transfer that a NIC's proxy thread serves */

/* The calibration of a route: of its network if it has one, else of its slowest class of link. */
static const struct mq_link_calib *route_calib(const struct mq_cluster *cluster, const struct mq_calib *calib,
					       const struct mq_route *route, double capability, bool *network)
{
	const char *name = "nvlink";

	*network = false;
	for (uint32_t i = 0; i < route->n_links; i++) {
		const struct mq_link *link = &cluster->link[route->link[i]];

		if (link->class == MQ_LINK_NIC || link->class == MQ_LINK_FABRIC) {
			*network = true;
			name = link->fabric == MQ_FABRIC_NONE ? "ib" : mq_fabric_name(link->fabric);
		} else if (!*network) {
			switch (link->class) {
			case MQ_LINK_NVLINK:
			case MQ_LINK_XGMI:
			case MQ_LINK_NVSWITCH:
				break;
			case MQ_LINK_PCIE:
			case MQ_LINK_PCIE_SWITCH:
			case MQ_LINK_SOCKET:
				if (strcmp(name, "host") != 0)
					name = "pcie";
				break;
			case MQ_LINK_HOST:
				name = "host";
				break;
			default:
				return mq_link_calib_of(calib, "other", 0);
			}
		}
	}
	return mq_link_calib_of(calib, name, capability);
}

static double capability_of(const struct mq_cluster *cluster, const struct mq_calib *calib, uint32_t d)
{
	const struct mq_device *device = &cluster->device[d];
	const struct mq_device_calib *known =
		device->calib < calib->n_devices ? &calib->device[device->calib] : mq_calib_device(calib, device->type);

	return known && device->kind == MQ_GPU ? known->compute_capability : 0;
}

enum mq_status mq_p2p_expand(const struct mq_cluster *cluster, const struct mq_calib *calib, uint32_t src, uint32_t dst,
			     double bytes, double *latency_s, double *rate_Bps, double *alone_s, struct mq_err *err)
{
	const struct mq_link_calib *entry;
	const struct mq_route *route;
	double usable = INFINITY, capability, busy_s, lanes = INFINITY;
	bool network, host = false;

	*latency_s = *alone_s = 0;
	*rate_Bps = INFINITY;
	if (!isfinite(bytes) || bytes < 0)
		return mq_bad(err, "send of %g bytes: need finite bytes >= 0", bytes);
	if (src == dst)
		return MQ_OK;
	MQ_TRY(mq_cluster_route(cluster, src, dst, &route, err));
	for (uint32_t i = 0; i < route->n_links; i++) {
		const struct mq_link *link = &cluster->link[route->link[i]];

		usable = fmin(usable, mq_link_usable_Bps(link));
		host |= link->class == MQ_LINK_HOST;
		if (link->class == MQ_LINK_PCIE)
			lanes = fmin(lanes, link->bw_Bps);
	}
	capability = fmin(capability_of(cluster, calib, src), capability_of(cluster, calib, dst));
	entry = route_calib(cluster, calib, route, capability, &network);
	if (mq_call_measured(entry, MQ_CALL_P2P, 2, bytes, latency_s, &busy_s)) {
		*rate_Bps = busy_s > 0 ? bytes / busy_s : (double)INFINITY;
		*alone_s = *latency_s + bytes / fmin(usable, *rate_Bps);
		return MQ_OK;
	}
	*latency_s = route->lat_s + entry->p2p_latency_s;
	if (host && !network && isfinite(lanes)) /* GPUs: a share of their own lanes, see loaded_ring */
		*rate_Bps = usable = fmin(usable, lanes * entry->bw_share);
	if (entry->ll_Bps > 0 && capability > 0 && !network) {
		if (bytes / entry->ll_Bps < entry->simple_s + bytes / usable)
			*rate_Bps = entry->ll_Bps;
		else
			*latency_s += entry->simple_s;
	}
	*alone_s = *latency_s + bytes / fmin(usable, *rate_Bps);
	return MQ_OK;
}

/* All-to-all in a node: small messages use LL, large ones Simple; copies for all peers share the SMs. */
static void local_cost(const struct mq_tune *t, struct mq_coll_cost *cost)
{
	const struct mq_topo *topo = t->topo;
	bool nvlink = topo->intra == MQ_INTRA_SWITCH || topo->intra == MQ_INTRA_MESH;
	double sent = t->bytes * (t->n - 1) / t->n;
	/* The same threads also copy the rank's own part. */
	double own = nvlink ? 1 + OWN_COPY / (t->n - 1) : 1;
	double port = topo->port_nominal_Bps * topo->intra_calib->bw_share * (nvlink ? A2A_SHARE : 1) / own;
	const struct mq_link_calib *link = topo->intra_calib;
	double peers = (link->peer_s + mq_tune_work_s(topo)) * (topo->n_local - 1), extra;
	double copied = link->channel_Bps * cost->channels; /* of the vector */
	/* Over NVLink each peer has its own channels; else all peers share the GPU's PCIe lanes. */
	double ll = link->ll_Bps * (nvlink ? t->n : t->n / (t->n - 1.0));

	/* The peers' sequential starts and the start of Simple overlap: the longer one counts. */
	cost->latency_s = link->p2p_latency_s + peers;
	extra = fmax(0, link->simple_s - peers);
	if (ll > 0 && t->bytes / ll < extra + sent / port) {
		cost->bw_Bps = ll;
		return;
	}
	cost->latency_s += extra;
	if (nvlink || topo->intra == MQ_INTRA_HOST)
		cost->bw_Bps = port * t->n / (t->n - 1);
	if (copied > 0)
		cost->bw_Bps = fmin(cost->bw_Bps, copied);
}

struct mq_coll_cost mq_all_to_all_cost(const struct mq_tune *t)
{
	const struct mq_topo *topo = t->topo;
	struct mq_coll_cost cost = { .bw_Bps = INFINITY, .channels = 1 };
	double transfers, piece;

	while (cost.channels < 2 * topo->ring_graph.channels && cost.channels < MQ_MAX_RINGS)
		cost.channels *= 2; /* sends use a power of two of channels */
	if (t->n_nodes == 1) {
		local_cost(t, &cost);
		return cost;
	}
	transfers = (double)topo->n_local / topo->rails * (t->n - topo->n_local);
	piece = fmin(t->bytes / t->n, NET_PIECE_B);
	cost.latency_s =
		fmax(topo->net_calib->latency_scale * (NET_STEP + NET_TRANSFER * transfers), topo->net_calib->hop_s) +
		topo->net_calib->fill * piece * topo->n_local / topo->rails / mq_topo_port_Bps(topo);
	return cost;
}

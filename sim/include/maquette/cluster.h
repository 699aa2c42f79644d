/* cluster.h - the machines: ranked devices, links, and the routes between them.
 *
 * Our own view, independent of SimGrid: it is filled from a platform XML file by the SimGrid side
 * (hardware/platform/platform.h) or by a test. Routes are resolved on demand and cached, because a cluster of 16,384
 * devices has too many pairs to list.
 *
 * Properties that a platform file gives (all optional but mq_type):
 *   on a host: mq_type (device type = name of a calibration file, "V100-SXM2-16GB"), mq_kind (gpu |
 *     cpu), mq_rank (order of the devices; default: natural order of the names), mq_node (name or
 *     number of the machine), mq_memory_B, mq_host_memory_B (of that machine, for what is offloaded), mq_mem_bw_Bps (of a type without calibration), mq_socket,
 *     mq_nics (NICs of its node), mq_price_per_h ($), mq_power_W. Hosts without mq_type or with
 *     mq_kind=switch are not devices.
 *   on a link: mq_class: nvlink | nvswitch | pcie | pcie-switch | socket | nic | ib | roce | eth |
 *     loopback | host | other (default: guessed from the name's prefix).
 *   on the platform (zone <prop>): mq_nvls (1: NVSwitch reduces), mq_sharp (1), mq_name.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_CLUSTER_H
#define MAQUETTE_CLUSTER_H

#include "maquette/arena.h"
#include "maquette/types.h"

enum mq_device_kind { MQ_GPU, MQ_CPU };

enum mq_link_class {
	MQ_LINK_NVLINK,
	MQ_LINK_XGMI, /* AMD's links between GPUs; calibrated as NVLink */
	MQ_LINK_NVSWITCH,
	MQ_LINK_PCIE,        /* a device's own lanes */
	MQ_LINK_PCIE_SWITCH, /* uplink of a PCIe switch, shared by the devices below */
	MQ_LINK_SOCKET,      /* between CPU sockets */
	MQ_LINK_NIC,         /* a node's network port */
	MQ_LINK_FABRIC,      /* switch to switch */
	MQ_LINK_HOST,        /* memory of a CPU node, shared-memory transport */
	MQ_LINK_LOOPBACK,
	MQ_LINK_OTHER,
	MQ_N_LINK_CLASSES
};
MQ_API const char *mq_link_class_name(enum mq_link_class c);

enum mq_fabric {
	MQ_FABRIC_NONE,
	MQ_FABRIC_IB,
	MQ_FABRIC_ROCE,
	MQ_FABRIC_ETHERNET,
	MQ_FABRIC_EFA,
	MQ_FABRIC_OMNIPATH,
	MQ_FABRIC_TCPXO,
	MQ_FABRIC_GIB,
	MQ_FABRIC_TCPX,
	MQ_N_FABRICS
};
MQ_API const char *mq_fabric_name(enum mq_fabric f);

struct mq_device {
	const char *name; /* SimGrid host */
	const char *type; /* device type: names the calibration */
	enum mq_device_kind kind;
	uint32_t node;  /* machine, numbered from 0 in rank order */
	uint32_t local; /* index among the devices of its node */
	uint32_t socket;
	uint32_t calib;     /* index into mq_calib's devices; MQ_NONE until bound */
	double memory_B;    /* 0 = take it from the calibration */
	double host_B;      /* host memory of its machine; 0 = not given */
	double mem_bw_Bps;  /* of a type without calibration; 0 = not given */
	double speed_flops; /* as in the platform file: the peak, flop/s */
	double price_per_h; /* $; NaN = not given */
	double power_W;     /* NaN = not given */
};

struct mq_link {
	const char *name;
	enum mq_link_class class;
	enum mq_fabric fabric; /* of NIC and FABRIC links */
	double bw_Bps;         /* nominal, one direction */
	double share;          /* of bw_Bps that transfers get (bw_share of the link calibration, port_Bps); set by
				* mq_calib_bind; 0 = not bound, counts as 1 */
	double lat_s;
	bool fatpipe; /* flows do not share it: each may have the whole bandwidth */
};

/* What the flows on a link share, bytes per second: simulated and analytic times use this alone. */
static inline double mq_link_usable_Bps(const struct mq_link *link)
{
	return link->share > 0 ? link->bw_Bps * link->share : link->bw_Bps;
}

struct mq_route {
	uint32_t n_links;
	const uint32_t *link; /* ids, owned by the cluster */
	double lat_s;         /* sum of the links' latencies */
	double bw_Bps;        /* least bandwidth on the way */
};

/* Where a machine hangs in a tree of switches. Two devices reach each other by links of their own machines and, between
 * leaves (pods), by the trunks of both leaves (pods); machines of one kind, and their links in order, are alike. */
struct mq_site {
	uint32_t kind, leaf, pod;
	uint32_t first_link, n_links; /* the machine's own */
	uint32_t leaf_link, pod_link; /* trunk of its leaf, of its pod: down, then up; MQ_NONE: there is but one */
};

struct mq_cluster {
	const char *name;
	struct mq_arena *arena; /* borrowed: everything below, and cached routes, live there */
	uint32_t n_devices, n_links, n_nodes;
	struct mq_device *device; /* [n_devices], in rank order */
	struct mq_link *link;     /* [n_links] */
	uint32_t nics_per_node;
	bool nvls, sharp;
	bool nvlink; /* joins some of its devices; set by mq_calib_bind */
	/* Asked once per pair; must fill n_links, link (ids, in the cluster's arena). May keep routes of further pairs
	 * (mq_cluster_keep_route), not of this one. */
	enum mq_status (*resolve)(void *context, uint32_t src, uint32_t dst, struct mq_route *route,
				  struct mq_err *err);
	void *context;
	const struct mq_site *site;   /* [n_nodes] of a tree of switches; NULL = routes are resolve's secret */
	struct mq_route_cache *cache; /* owned; made by mq_cluster_new */
	/* A part of another cluster (mq_cluster_part); NULL = all of it. */
	const struct mq_cluster *whole;
	const uint32_t *rank; /* [n_devices] ranks in `whole` */
};

/* An empty cluster with a route cache; the caller fills devices, links, counts and resolve. */
MQ_API struct mq_cluster *mq_cluster_new(struct mq_arena *arena);

/* The route between two devices (src != dst), cached. MQ_EINPUT: no route. */
MQ_API enum mq_status mq_cluster_route(const struct mq_cluster *cluster, uint32_t src, uint32_t dst,
				       const struct mq_route **route, struct mq_err *err);

/* A route that nobody has asked about yet; a pair that has one keeps it. The links are copied. */
void mq_cluster_keep_route(const struct mq_cluster *cluster, uint32_t src, uint32_t dst, const uint32_t *link,
			   uint32_t n_links);

/* Full invariants: finite positive speeds and bandwidths, unique names, at least one device. */
MQ_API enum mq_status mq_cluster_check(const struct mq_cluster *cluster, struct mq_err *err);

/* Some devices of a cluster as a cluster of their own: device i is rank[i] of the whole, machines are
 * numbered anew, links and routes are those of the whole, which must outlive the part. Bind and change the
 * whole before. MQ_EINPUT: a rank that is not there, or given twice, or none at all. */
MQ_API enum mq_status mq_cluster_part(const struct mq_cluster *whole, const uint32_t *rank, uint32_t n,
				      struct mq_arena *arena, struct mq_cluster **part, struct mq_err *err);

/* Ranks from text: "0-31", "0-3,8,10-12", in the order given. MQ_EINPUT: not such a list, a rank that the
 * cluster lacks. */
MQ_API enum mq_status mq_cluster_ranks(const struct mq_cluster *cluster, const char *text, struct mq_arena *arena,
				       uint32_t **rank, uint32_t *n, struct mq_err *err);

/* Two devices are at equivalent places if swapping them changes no answer: same type, same node. */
MQ_API uint32_t mq_cluster_find(const struct mq_cluster *cluster, const char *device_name);

/* A cluster without SimGrid, for tests and for models that bring their own devices: `n` devices in one node, joined
 * through private full-duplex links of bandwidth bw and latency lat to one ideal switch (a route has two links, 2i = up
 * of device i and 2j + 1 = down of device j: its latency is 2 lat). */
MQ_API struct mq_cluster *mq_cluster_flat(struct mq_arena *arena, uint32_t n, const char *type, double speed_flops,
					  double memory_B, double bw_Bps, double lat_s);

#endif

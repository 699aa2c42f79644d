/* cluster.h - the machines: ranked devices, links, and the routes between them.
 *
 * Independent of SimGrid: hardware/platform/platform.h fills it from a platform XML file, tests fill it directly.
 * Routes are resolved on demand and cached, because a cluster of 16,384 devices has too many pairs to list.
 *
 * Properties that a platform file gives (all optional but mq_type):
 *   on a host: mq_type (device type = name of a calibration file, "V100-SXM2-16GB"), mq_kind (gpu | cpu), mq_rank
 *     (order of the devices; default: natural order of the names), mq_node (name or number of the machine),
 *     mq_memory_B, mq_host_memory_B (of the machine, for offloading), mq_mem_bw_Bps (of a type without calibration),
 *     mq_socket, mq_nics (NICs of its node), mq_price_per_h ($), mq_power_W. Hosts without mq_type or with
 *     mq_kind=switch are not devices.
 *   on a link: mq_class: nvlink | nvswitch | pcie | pcie-switch | socket | nic | ib | roce | eth | loopback | host |
 *     other (default: guessed from the name's prefix).
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
	bool fatpipe; /* flows do not share it: each may use the whole bandwidth */
};

/* The bandwidth that flows on a link share: all simulated and analytic times use it. */
static inline double mq_link_usable_Bps(const struct mq_link *link)
{
	return link->share > 0 ? link->bw_Bps * link->share : link->bw_Bps;
}

struct mq_route {
	uint32_t n_links;
	const uint32_t *link; /* ids, owned by the cluster */
	double lat_s;         /* sum of the links' latencies */
	double bw_Bps;        /* least bandwidth of the links */
};

/* A machine's place in a tree of switches. A route uses links of both devices' machines and, between leaves (pods), the
 * trunks of both leaves (pods). Machines of one kind are equal, and so are their links in order. */
struct mq_site {
	uint32_t kind, leaf, pod;
	uint32_t first_link, n_links; /* the machine's own */
	uint32_t leaf_link, pod_link; /* trunk (down, then up) of its leaf, of its pod; MQ_NONE: only one exists */
};

struct mq_cluster {
	const char *name;
	struct mq_arena *arena; /* borrowed: everything below, and cached routes, live there */
	uint32_t n_devices, n_links, n_nodes;
	struct mq_device *device; /* [n_devices], in rank order */
	struct mq_link *link;     /* [n_links] */
	uint32_t nics_per_node;
	bool nvls, sharp;
	bool nvlink; /* NVLink joins some of its devices; set by mq_calib_bind */
	/* Called once per pair; must fill n_links and link (ids, in the cluster's arena). May keep routes of other
	 * pairs (mq_cluster_keep_route), not of this one. */
	enum mq_status (*resolve)(void *context, uint32_t src, uint32_t dst, struct mq_route *route,
				  struct mq_err *err);
	void *context;
	const struct mq_site *site;   /* [n_nodes] in a tree of switches; NULL = only `resolve` knows the routes */
	struct mq_route_cache *cache; /* owned; made by mq_cluster_new */
	/* The cluster of which this is a part (mq_cluster_part); NULL = it is whole. */
	const struct mq_cluster *whole;
	const uint32_t *rank; /* [n_devices] ranks in `whole` */
};

/* An empty cluster with a route cache; the caller fills devices, links, counts and resolve. */
MQ_API struct mq_cluster *mq_cluster_new(struct mq_arena *arena);

/* The route between two devices (src != dst), cached. MQ_EINPUT: no route. */
MQ_API enum mq_status mq_cluster_route(const struct mq_cluster *cluster, uint32_t src, uint32_t dst,
				       const struct mq_route **route, struct mq_err *err);

/* Adds a route to the cache before it is asked for; a cached one stays. The links are copied. */
void mq_cluster_keep_route(const struct mq_cluster *cluster, uint32_t src, uint32_t dst, const uint32_t *link,
			   uint32_t n_links);

/* Full invariants: finite positive speeds and bandwidths, unique names, at least one device. */
MQ_API enum mq_status mq_cluster_check(const struct mq_cluster *cluster, struct mq_err *err);

/* Makes a cluster of some devices of another: device i is rank[i] of the whole, machines are renumbered, links and
 * routes are the whole's, which must outlive the part. Bind and change the whole first. MQ_EINPUT: no such rank, a rank
 * given twice, or no ranks. */
MQ_API enum mq_status mq_cluster_part(const struct mq_cluster *whole, const uint32_t *rank, uint32_t n,
				      struct mq_arena *arena, struct mq_cluster **part, struct mq_err *err);

/* Ranks from text: "0-31", "0-3,8,10-12", in the order given. MQ_EINPUT: not such a list, or no such rank. */
MQ_API enum mq_status mq_cluster_ranks(const struct mq_cluster *cluster, const char *text, struct mq_arena *arena,
				       uint32_t **rank, uint32_t *n, struct mq_err *err);

/* Rank of the device of this name; MQ_NONE = none. */
MQ_API uint32_t mq_cluster_find(const struct mq_cluster *cluster, const char *device_name);

/* A cluster without SimGrid, for tests and for models that define their own devices: `n` devices in one node, each with
 * a private full-duplex link of bandwidth bw and latency lat to one ideal switch. A route has two links, 2i (up, of
 * device i) and 2j + 1 (down, of device j), and latency 2 lat. */
MQ_API struct mq_cluster *mq_cluster_flat(struct mq_arena *arena, uint32_t n, const char *type, double speed_flops,
					  double memory_B, double bw_Bps, double lat_s);

#endif

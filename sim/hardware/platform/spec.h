/* spec.h - values derived from the options of a generated platform, its fabric and its machines: private to the
 * generator. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_SPEC_H
#define MQ_HARDWARE_PLATFORM_SPEC_H

#include "maquette/cluster.h"
#include "hardware/platform/generate.h"

enum { MQ_GEN_MAX_GROUPS = 16, MQ_GEN_MAX_DEVICES = 1 << 20 };

/* Machines of one kind. */
struct mq_gen_group {
	bool port_given; /* the user gave nic_GBps */
	struct mq_arena *arena;
	const struct mq_device_calib *known; /* NULL: a type without calibration */
	const char *type;
	uint32_t first_node, nodes, gpus, nics, sockets, switches;
	uint32_t tray; /* GPUs that `nics` ports serve: of a machine, of which an nvl72 domain has several */
	uint32_t intra;
	double tflops, nvlink_GBps, pcie_GBps, nic_GBps;
	double memory_B, mem_bw_Bps; /* for a type without calibration; else 0 */
	bool p2p, cpu, nvls;
	bool cube_mesh; /* GPUs in a DGX-1's cube mesh: all eight, or a part (board) */
	bool flat;      /* may be in its leaf's Cluster zone, see generate.h */
};

struct mq_gen;

/* A device of the generator. */
struct mq_gen_host {
	const struct mq_gen_group *group;
	uint32_t node, local, socket;
};

/* The receiver of links, devices and routes: a file (generate.c) or a cluster (build.c). Bandwidths in GB/s one way,
 * latencies in us. A duplex link NAME is two links, NAME_UP and NAME_DOWN. */
struct mq_gen_sink {
	void (*link)(struct mq_gen *gen, const char *name, double GBps, double us, const char *class, bool duplex);
	void (*host)(struct mq_gen *gen, const struct mq_gen_host *host);
	void (*step)(struct mq_gen *gen, const char *link); /* the next link of the current route */
};

struct mq_gen {
	const struct mq_platform_spec *spec;
	const struct mq_calib *calib;
	struct mq_arena *arena;
	const struct mq_gen_sink *sink;
	FILE *file; /* of the XML sink */
	struct mq_gen_group group[MQ_GEN_MAX_GROUPS];
	uint32_t n_groups, n_nodes, n_leaves, n_pods;
	uint64_t n_devices;
	uint32_t leaf;               /* machines per leaf if all leaves are equal */
	uint32_t *first, *pod_first; /* [n_leaves + 1], [n_pods + 1] first machine of a leaf, first leaf of a pod */
	uint32_t *leaf_of, *pod_of;  /* [n_nodes], [n_leaves] */
	uint32_t rank;               /* of the next device */
	bool flat, nvls;
	enum mq_fabric network;
	double nic_us, switch_us;
};

/* Is it a name with blanks, as drivers print ("NVIDIA H100 80GB HBM3")? Other blanks separate the types of a mix. */
bool mq_gen_is_drivers(const char *gpu);

/* Appends to `text` the assumptions about a device type that neither options nor a calibration give, each with the
 * option that would. */
const char *mq_gen_assumed(const struct mq_platform_spec *spec, const struct mq_gen_group *group, const char *text,
			   struct mq_arena *arena);

/* Checks the options and derives all fields above except sink, file and rank. */
enum mq_status mq_gen_prepare(const struct mq_platform_spec *spec, const struct mq_calib *calib, struct mq_arena *arena,
			      struct mq_gen *gen, struct mq_err *err);

/* The same, with the further checks of the generator. */
enum mq_status mq_gen_open(const struct mq_platform_spec *spec, const struct mq_calib *calib, struct mq_arena *arena,
			   struct mq_gen *gen, struct mq_err *err);
/* The platform's name: as given, or made from its machines. */
const char *mq_gen_name(const struct mq_gen *gen);

/* ---- fabric.c: the network between the leaves ----------------------------------------------------- */

enum mq_status mq_gen_fabric_check(struct mq_gen *gen, struct mq_err *err);
/* Is the fabric leaves around a core, with or without pods? Its routes need no table. */
bool mq_gen_is_star(const struct mq_platform_spec *spec);
void mq_gen_star_links(struct mq_gen *gen);
void mq_gen_hub(struct mq_gen *gen, const char *name); /* zone "NAMEswitch" of router "NAMEgw" */
const char *mq_gen_root_routing(const struct mq_gen *gen);
void mq_gen_fabric(struct mq_gen *gen); /* links, leaves and routes of the outermost zone */

/* ---- node.c: machines and leaves --------------------------------------------------------------------- */

const struct mq_gen_group *mq_gen_group_of(const struct mq_gen *gen, uint32_t node);
double mq_gen_node_GBps(const struct mq_gen_group *group); /* all ports of a machine, one direction */
/* A duplex link, named as by printf. */
void mq_gen_link(struct mq_gen *gen, double GBps, double us, const char *class, const char *name, ...)
	__attribute__((format(printf, 5, 6)));
void mq_gen_node_links(struct mq_gen *gen, uint32_t node);
void mq_gen_node_hosts(struct mq_gen *gen, uint32_t node);
/* The routes between two devices of a machine; from a device to the network, port last; from the network to it. In
 * machines outside their leaf's zone, the widest link ("ports") belongs to the fabric. */
void mq_gen_path(struct mq_gen *gen, uint32_t node, uint32_t a, uint32_t b);
void mq_gen_path_out(struct mq_gen *gen, uint32_t node, uint32_t i);
void mq_gen_path_in(struct mq_gen *gen, uint32_t node, uint32_t i);
void mq_gen_leaf(struct mq_gen *gen, uint32_t leaf);        /* as a zone "leafN", gateway "leafNgw" */
void mq_gen_leaf_inside(struct mq_gen *gen, uint32_t leaf); /* its contents alone */

#endif

/* spec.h - what the options of a generated platform amount to: private to the generator.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_SPEC_H
#define MQ_HARDWARE_PLATFORM_SPEC_H

#include "maquette/cluster.h"
#include "hardware/platform/generate.h"

enum { MQ_GEN_MAX_GROUPS = 16, MQ_GEN_MAX_DEVICES = 1 << 20 };

/* Machines of one kind. */
struct mq_gen_group {
	bool port_given; /* nic_GBps is the user's */
	struct mq_arena *arena;
	const struct mq_device_calib *known; /* NULL: a type without calibration */
	const char *type;
	uint32_t first_node, nodes, gpus, nics, sockets, switches;
	uint32_t tray; /* GPUs of a machine that has the ports asked for: of nvl72, the domain is several */
	uint32_t intra;
	double tflops, nvlink_GBps, pcie_GBps, nic_GBps;
	double memory_B, mem_bw_Bps; /* of a type without calibration; 0 = has one */
	bool p2p, cpu, nvls;
	bool cube_mesh; /* GPUs of a DGX-1's mesh: all eight, or a part (board) */
	bool flat;      /* may lie in its leaf's Cluster zone, see generate.h */
};

struct mq_gen;

/* A device as the generator has it. */
struct mq_gen_host {
	const struct mq_gen_group *group;
	uint32_t node, local, socket;
};

/* Where links, devices and the links of a route go: into a file (generate.c) or a cluster (build.c). Bandwidths are
 * GB/s one way, latencies us. A duplex link NAME is two, NAME_UP and NAME_DOWN. */
struct mq_gen_sink {
	void (*link)(struct mq_gen *gen, const char *name, double GBps, double us, const char *class, bool duplex);
	void (*host)(struct mq_gen *gen, const struct mq_gen_host *host);
	void (*step)(struct mq_gen *gen, const char *link); /* the next of the route that is being written */
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
	uint32_t leaf;               /* machines per leaf where all have as many */
	uint32_t *first, *pod_first; /* [n_leaves + 1], [n_pods + 1] first machine of a leaf, first leaf of a pod */
	uint32_t *leaf_of, *pod_of;  /* [n_nodes], [n_leaves] */
	uint32_t rank;               /* next device's */
	bool flat, nvls;
	enum mq_fabric network;
	double nic_us, switch_us;
};

/* "NVIDIA H100 80GB HBM3": a name with blanks, as a driver prints it? Elsewhere blanks stand between types of a mix. */
bool mq_gen_is_drivers(const char *gpu);

/* `text`, and what else stands in for what neither the options nor a calibration say of a device type, with the option
 * that says it. */
const char *mq_gen_assumed(const struct mq_platform_spec *spec, const struct mq_gen_group *group, const char *text,
			   struct mq_arena *arena);

/* Check the options and derive everything above but sink, file and rank. */
enum mq_status mq_gen_prepare(const struct mq_platform_spec *spec, const struct mq_calib *calib, struct mq_arena *arena,
			      struct mq_gen *gen, struct mq_err *err);

/* The same, with what else the generator refuses. */
enum mq_status mq_gen_open(const struct mq_platform_spec *spec, const struct mq_calib *calib, struct mq_arena *arena,
			   struct mq_gen *gen, struct mq_err *err);
/* The platform's name: the one given, or made from its machines. */
const char *mq_gen_name(const struct mq_gen *gen);

#endif

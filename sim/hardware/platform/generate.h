/* generate.h - clusters that nobody has yet: node template x fabric x mix, as SimGrid XML.
 *
 * The XML is made so that SimGrid loads and routes it fast at 16,384 devices:
 * - A *flat* node (NVSwitch or NVLink mesh, up to 16 GPUs, one network port per GPU at most as fast as
 *   its PCIe lanes) puts its GPUs straight into its leaf's Cluster zone, where a host_link is the
 *   GPU's port and a bypassRoute is a path inside the node: constant time per route.
 * - Any other node (PCIe tree, NVLink domain of 72) is a Cluster zone of its own with a bypassRoute from
 *   each GPU to the node's gateway, over all the links on the way to its port.
 * - Leaves hang on a star (Floyd zone of few vertices); a leaf's uplinks are one trunk of summed bandwidth.
 * Not modelled: single spine switches, adaptive routing, and in a rail-optimised fabric the choice of rail: a unit's
 * rails share one trunk, so traffic between the rails of one unit sees no spine. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_GENERATE_H
#define MQ_HARDWARE_PLATFORM_GENERATE_H

#include <stdio.h>

#include "maquette/calib.h"
#include "maquette/opt.h"

enum mq_gen_intra { MQ_INTRA_AUTO, MQ_INTRA_NVSWITCH, MQ_INTRA_MESH, MQ_INTRA_PCIE };

enum mq_gen_fabric {
	MQ_GEN_SWITCH,
	MQ_GEN_RAIL,
	MQ_GEN_FAT_TREE,
	MQ_GEN_DRAGONFLY,
	MQ_GEN_TORUS,
	MQ_GEN_NVL72,
	MQ_GEN_ETHERNET
};

/* What `maquette platform generate` and the keys platform.* of a study say. */
struct mq_platform_spec {
	const char *name;     /* NULL = made from the rest */
	const char *gpu;      /* device type or alias; mix: TYPE[*NODES][xGPUS][@NIC_GBps]+... */
	uint32_t nodes, gpus; /* machines; devices per machine */
	uint32_t intra;       /* enum mq_gen_intra */
	uint32_t board;       /* GPUs of the mesh of NVLinks that a machine has a part of; 0 = its own */
	double nvlink_GBps;   /* per GPU, one direction; 0 = the device's own; the same below */
	double pcie_GBps;
	uint32_t pcie_switches; /* per node; 0 = one per socket */
	uint32_t nics;          /* network ports per node; 0 = one per GPU (PCIe: one) */
	double nic_GBps;
	uint32_t sockets;
	uint32_t fabric;    /* enum mq_gen_fabric */
	uint32_t network;   /* 0 = auto, 1 + enum mq_fabric otherwise: see the option table */
	uint32_t leaf;      /* nodes per leaf switch, rail unit or dragonfly router; 0 = usual */
	const char *leaves; /* replaces leaf and pod: nodes of each leaf, "16x4+8/16x3", / = next pod; NULL = equal */
	double oversub;     /* bandwidth into a leaf / bandwidth out of it */
	uint32_t pod;       /* leaves per pod of a three-level fat-tree; 0 = two levels */
	double pod_oversub;
	uint32_t routers;         /* dragonfly: routers per group */
	uint32_t global;          /* dragonfly: global links per router; 0 = as nodes per router */
	const char *dims;         /* torus: "4x4x4" nodes; NULL = nearest to a square */
	double link_GBps;         /* torus and dragonfly: one link between routers; 0 = node's ports */
	uint32_t domain;          /* nvl72: GPUs of a scale-up domain */
	double nic_us, switch_us; /* latencies; negative = usual for the network */
	bool sharp, nvls;         /* switches of the network reduce (CollNet); those of machines, if they can */
	double tflops;            /* peak in XML; 0 = the device's own (one without calibration must give it) */
	double host_memory_GB;    /* of a machine; 0 = not known */
	double memory_GB, bw_TBps, mem_GBps; /* of a type without calibration; 0 = assumed */
	double price_per_h, power_W;         /* per device; negative = the calibration's */
};

/* Rows for every field, with defaults; key = field name. */
extern const struct mq_opt mq_platform_opts[];

/* Fill `spec` with the defaults of the table. */
void mq_platform_spec_init(struct mq_platform_spec *spec);

/* Is this text such keys, and no file's name? It begins with KEY=. */
bool mq_platform_spec_is(const char *text);
/* The same text joined by blanks alone, in place: as one line of a job file, or one of a list. */
char *mq_platform_spec_plain(char *text);
/* The kind of network between its machines. */
enum mq_fabric mq_platform_spec_network(const struct mq_platform_spec *spec);
/* "KEY=VALUE KEY=VALUE ...", joined by blanks, commas or semicolons, over what `spec` holds. A key alone
 * turns a switch on ("sharp"); other words continue the mix of a `gpu=` before them.
 * MQ_EINPUT: an unknown key (with the nearest), a bad value, a word that belongs to no key. */
enum mq_status mq_platform_spec_parse(const char *text, struct mq_platform_spec *spec, struct mq_arena *arena,
				      struct mq_err *err);
/* The device types of a platform that these keys describe, each once, in rank order, NULL-terminated; none where the
 * keys describe no platform. */
const char *const *mq_platform_spec_types(const struct mq_platform_spec *spec, const struct mq_calib *calib,
					  struct mq_arena *arena);
/* Machines of one kind, as the keys list them in rank order. */
struct mq_platform_group {
	const char *type;
	uint32_t nodes, gpus; /* devices per machine */
};
/* Those of a platform that these keys describe, at most `most`. MQ_EINPUT: they describe none, or more kinds. */
enum mq_status mq_platform_spec_groups(const struct mq_platform_spec *spec, const struct mq_calib *calib, uint32_t most,
				       struct mq_platform_group *group, uint32_t *n, struct mq_arena *arena,
				       struct mq_err *err);
/* Device types are those of `calib`, by name or alias; any other needs `tflops`. What `tflops`, `memory_GB` and
 * the like say of a device becomes its calibration, a file beside the platform (mq_platform_calib_path).
 * MQ_EINPUT: unknown device type, impossible combination, disk full (the file is removed). */
enum mq_status mq_platform_generate(const struct mq_platform_spec *spec, const struct mq_calib *calib, const char *path,
				    struct mq_err *err);
/* The same to an open file. */
enum mq_status mq_platform_generate_to(const struct mq_platform_spec *spec, const struct mq_calib *calib, FILE *file,
				       struct mq_err *err);

/* The end of the name of a file of keys. */
#define MQ_PLATFORM_KEYS ".keys"
/* The keys themselves to a file named so, where the cluster is to be built of them (mq_platform_build_file), and the
 * calibrations beside it. Errors: as mq_platform_generate. */
enum mq_status mq_platform_keep_keys(const struct mq_platform_spec *spec, const struct mq_calib *calib,
				     const char *keys, const char *path, struct mq_err *err);

/* FILE.calib.json of FILE.xml or FILE.keys: calibrations that belong to the platform and are loaded with it, if it is there. */
const char *mq_platform_calib_path(const char *path, struct mq_arena *arena);

/* The device types that a platform file names (mq_type), each once, in its order, NULL-terminated; none where it
 * cannot be read. */
const char *const *mq_platform_types(const char *path, struct mq_arena *arena);

/* Remove a half-written platform file. */
void mq_platform_discard(const char *path);

#endif

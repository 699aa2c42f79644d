/* import.h - converts descriptions of a user's machine into a platform file: the output of `nvidia-smi topo -m`, the
 * XML of NCCL_TOPO_DUMP_FILE, or hwloc's XML (`lstopo x.xml`); or of a network, Slurm's topology.conf or the output of
 * ibnetdiscover, which become keys of a generated platform.
 *
 * The import reads the topology; bandwidths come from the file if it has them (NCCL and hwloc: PCIe, NCCL: network
 * ports), else from the device type's nominal values. Not read: latencies (usual values are written); in files of one
 * machine, anything beyond it (generate a cluster for that). SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_IMPORT_H
#define MQ_HARDWARE_PLATFORM_IMPORT_H

#include "hardware/platform/generate.h"

struct mq_import_options {
	const struct mq_calib *calib;       /* the known device types */
	const char *gpu;                    /* device type; NULL = from the file (hwloc) */
	const struct mq_device_calib *type; /* or a type that is not in calib; NULL = `gpu` */
	const char *name;                   /* of the platform; NULL = the file's name ("here") */
	/* CPU devices to put beside the GPUs: how many, which, and the memory of each. */
	uint32_t n_cpus;
	const struct mq_device_calib *cpu;
	double cpu_memory_B;
};

/* A summary of the import, for the user. */
struct mq_import_report {
	const char *format; /* "nvidia-smi topo -m", "rocm-smi topology", "NCCL topology", "hwloc"; "topology.conf",
			     * "ibnetdiscover", of which nothing else but n_machines and unused is set */
	const char *type;   /* device type of the first device, as written */
	uint32_t n_devices, n_nics, n_sockets, n_machines; /* n_machines: of a network; 0 = one machine */
	bool nvswitch, nvlink; /* nvlink: connects some pair, directly or through a switch */
	double nic_GBps;       /* 0 = not said */
	char unused[256];      /* names of unused parts of the file; "" = none */
};

/* `path` NULL: this machine, as hwloc finds it. MQ_EINPUT: a file of none of the formats or an invalid one, no device,
 * device type missing or unknown, output not writable. */
enum mq_status mq_platform_import(const char *path, const struct mq_import_options *options, const char *output,
				  struct mq_import_report *report, struct mq_err *err);

#endif

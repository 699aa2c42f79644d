/* import.h - a user's own machine, as its tools describe it, into a platform file: the output of `nvidia-smi topo -m`,
 * the XML that NCCL writes with NCCL_TOPO_DUMP_FILE, or hwloc's XML (`lstopo x.xml`); or the network of many, Slurm's
 * topology.conf or the output of ibnetdiscover, which are made into the keys of a generated platform.
 *
 * Read is who is joined to whom and by what; bandwidths come from the file where it has them (NCCL and hwloc:
 * PCIe, NCCL: network ports), otherwise from the device type's nominal figures. Not read: latencies (usual values are
 * written), anything beyond one machine (generate a cluster for that). SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_IMPORT_H
#define MQ_HARDWARE_PLATFORM_IMPORT_H

#include "hardware/platform/generate.h"

struct mq_import_options {
	const struct mq_calib *calib;       /* the device types there are */
	const char *gpu;                    /* device type; NULL = as the file says (hwloc) */
	const struct mq_device_calib *type; /* or a type that is not among them; NULL = `gpu` */
	const char *name;                   /* of the platform; NULL = from the file's name ("here") */
	/* CPU devices to put beside the GPUs: how many, which, and the memory of each. */
	uint32_t n_cpus;
	const struct mq_device_calib *cpu;
	double cpu_memory_B;
};

/* What was found, for the user. */
struct mq_import_report {
	const char *format; /* "nvidia-smi topo -m", "rocm-smi topology", "NCCL topology", "hwloc"; "topology.conf",
			     * "ibnetdiscover", of which nothing else but n_machines and unused is set */
	const char *type;   /* device type written, of the first device */
	uint32_t n_devices, n_nics, n_sockets, n_machines; /* n_machines: of a network; 0 = one machine */
	bool nvswitch, nvlink; /* nvlink: some pair is joined by it, through a switch or not */
	double nic_GBps;       /* 0 = not said */
	char unused[256];      /* what is in the file and says nothing here, by name; "" = nothing */
};

/* `path` NULL: this machine, as hwloc finds it. MQ_EINPUT: neither of the formats, broken, no device, device type needed or unknown, cannot write. */
enum mq_status mq_platform_import(const char *path, const struct mq_import_options *options, const char *output,
				  struct mq_import_report *report, struct mq_err *err);

#endif

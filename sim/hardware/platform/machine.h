/* machine.h - one imported machine, and its XML. Private to the importers.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_MACHINE_H
#define MQ_HARDWARE_PLATFORM_MACHINE_H

#include "hardware/platform/import.h"

enum { MQ_MACHINE_MAX = 64 }; /* devices, and network ports, of one machine */

struct mq_machine_device {
	const struct mq_device_calib *type;
	uint32_t pcie_switch; /* MQ_NONE = at the root */
	uint32_t socket;
	double pcie_GBps; /* 0 = the type's */
	bool indirect;    /* reaches other GPUs through host memory only, even if the type can do more */
	double memory_B;  /* of a CPU device beside GPUs; 0 = not known */
};

struct mq_machine {
	const struct mq_calib *calib; /* set by the caller: models are looked up there */
	const char *format;
	uint32_t n_devices, n_nics, n_sockets, n_switches;
	struct mq_machine_device device[MQ_MACHINE_MAX];
	/* NVLink between two devices, GB/s one way; 0 = none. With NVSwitch: per device, in [i][i]. */
	double nvlink_GBps[MQ_MACHINE_MAX][MQ_MACHINE_MAX];
	bool nvswitch;
	double nic_GBps;    /* of the first port; 0 = not known */
	double memory_B;    /* of a CPU core; 0 = not known */
	const char *unused; /* unused parts of the file: "a, b"; NULL = none */
};

/* Notes, once, an unused part of the file. */
void mq_machine_unused(struct mq_machine *machine, struct mq_arena *arena, const char *name);

/* Adds n CPU devices beside the GPUs, spread over the sockets; MQ_EINPUT: too many for a machine. */
enum mq_status mq_machine_add_cpus(struct mq_machine *machine, uint32_t n, const struct mq_device_calib *type,
				   double memory_B, struct mq_err *err);

/* Readers. text: the whole file (modified). MQ_DONE: not this format. hwloc reads the file itself, and without `path`
 * the machine it runs on. */
enum mq_status mq_machine_read_smi(char *text, const char *path, const struct mq_device_calib *type,
				   struct mq_machine *machine, struct mq_arena *arena, struct mq_err *err);
enum mq_status mq_machine_read_nccl(char *text, const char *path, const struct mq_device_calib *type,
				    struct mq_machine *machine, struct mq_arena *arena, struct mq_err *err);
enum mq_status mq_machine_read_hwloc(const char *path, const struct mq_device_calib *type, struct mq_machine *machine,
				     struct mq_err *err);

/* Is this a topology.conf or the output of ibnetdiscover? */
bool mq_network_probe(const char *text);
/* Converts a network of *machines into keys of mq_platform_spec_parse. text: the whole file (modified); gpu: the
 * devices of its machines, as the key `gpu`. Sets format and unused of `machine`. MQ_EINPUT: no `gpu`, an invalid line,
 * a network that is no tree of up to three levels. */
enum mq_status mq_network_read(char *text, const char *path, const char *gpu, struct mq_machine *machine,
			       const char **keys, uint32_t *machines, struct mq_arena *arena, struct mq_err *err);

/* Does NVLink connect any pair, directly or through a switch? */
bool mq_machine_has_nvlink(const struct mq_machine *machine);

/* Renumbers PCIe switches and sockets 0, 1, 2 ... in device order; drops switches with a single device. */
void mq_machine_number(struct mq_machine *machine);

void mq_machine_write(const struct mq_machine *machine, const char *name, const char *source, FILE *file);

#endif

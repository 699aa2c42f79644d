/* node_gpu.c - the platform file of a calibrated GPU node, see validate/dir.h.
 *
 * The replay reads the links between GPUs from NVML and CUDA and writes them beside its timelines, so that samples of
 * another node include them. Without them (or with NCCL's dump of an older replay) samples are read too; without any
 * topology the machine is a usual one for the type. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "session/session.h"
#include "cmd/validate/dir.h"
#include "hardware/platform/import.h"

/* Sets the links of the measured type: from its shipped calibration, else PCIe 4 and the NVLink speed of
 * a large message. */
static void join(const struct mq_calib *calib, struct mq_calibration *fit)
{
	const struct mq_device_calib *known = mq_calib_type(calib, fit->device.name);
	struct mq_device_calib *d = &fit->device;
	double message_s = fit->has_link ? fit->link.call_s[MQ_CALL_P2P][MQ_CALL_KNOTS - 1] : 0;

	if (!known) {
		if (message_s > 0)
			d->nvlink_Bps = (double)(1 << 27) / message_s; /* the last knot: 128 MiB */
		d->nvswitch = d->nvlink_Bps > 0;
		return;
	}
	d->nvlink_Bps = known->nvlink_Bps;
	d->bridge_Bps = known->bridge_Bps;
	d->nvlink_port_Bps = known->nvlink_port_Bps;
	d->pcie_Bps = known->pcie_Bps;
	d->nic_Bps = known->nic_Bps;
	d->gpus_per_nic = known->gpus_per_nic;
	d->nvswitch = known->nvswitch;
	d->cube_mesh = known->cube_mesh;
	d->nvls = known->nvls;
	d->p2p = known->p2p;
}

static enum mq_status usual_machine(const struct mq_device_calib *type, struct mq_calib *calib, uint32_t n_devices,
				    const char *path, struct mq_err *err)
{
	struct mq_platform_spec spec;

	mq_platform_spec_init(&spec);
	spec.gpu = type->name;
	spec.nodes = 1;
	spec.gpus = n_devices;
	mq_calib_put_device(calib, type);
	MQ_TRY(mq_platform_generate(&spec, calib, NULL, path, err));
	printf("%s: the platform of this node (%u devices; no topology was recorded: links as is "
	       "usual, `maquette platform import` reads yours)\n",
	       path, n_devices);
	return MQ_OK;
}

static enum mq_status import(const struct mq_node_gpus *node, const char *topology, const struct mq_device_calib *type,
			     const char *path, const char **link, struct mq_err *err)
{
	struct mq_device_calib cpu;
	struct mq_import_options options = { .type = type, .name = "this_node", .n_cpus = node->n_cpus };
	struct mq_import_report report;

	if (node->n_cpus) {
		cpu = node->cpu->device;
		cpu.pcie_Bps = cpu.mem_bw_Bps; /* its processes communicate through its memory */
		options.cpu = &cpu;
		options.cpu_memory_B = cpu.memory_B;
	}
	MQ_TRY(mq_platform_import(topology, &options, path, &report, err));
	printf("%s: the platform of this node (%u devices, from %s)\n", path, report.n_devices, report.format);
	if (report.nvlink || !strcmp(*link, "nvlink"))
		*link = report.nvlink ? "nvlink" : "pcie";
	return MQ_OK;
}

enum mq_status mq_node_gpu_save(const struct mq_node_gpus *node, const char *path, const char **link,
				struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	const char *folder = mq_arena_printf(&arena, "%s/launch-1", node->samples);
	const char *topology = mq_arena_printf(&arena, "%s/topology.xml", folder);
	const struct mq_device_calib *type = &node->fit->device;
	const struct mq_list none = { .n = 0 };
	struct mq_calib *calib;

	MQ_TRY(mq_calib_open(&none, NULL, &arena, &calib, err));
	join(calib, node->fit);
	*link = type->nvlink_Bps > 0 ? "nvlink" : type->p2p > 0 ? "pcie" : "host";
	if (access(topology, R_OK))
		topology = mq_arena_printf(&arena, "%s/nccl-topology.xml", folder);
	if (!access(topology, R_OK))
		MQ_TRY(import(node, topology, type, path, link, err));
	else if (node->n_cpus)
		return mq_fail(err, MQ_ENODEV,
			       "%s: no topology was recorded, so that CPU devices have no place "
			       "in it: measure again with this version of maquette-replay",
			       topology);
	else
		MQ_TRY(usual_machine(type, calib, node->n_devices, path, err));
	return MQ_OK;
}

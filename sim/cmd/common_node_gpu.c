/*
 * common_node_gpu.c - the platform file of a node of GPUs that was calibrated, see
 * validate_dir.h.
 *
 * Who is joined to whom the replay asks NVML and CUDA and writes beside its timelines, so that it
 * also comes back from a node that has nothing else. Samples without it (or with NCCL's own dump of
 * an older replay) are read too: without, the machine is one as is usual for the type.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/validate/validate_dir.h"
#include "platform/platform_import.h"

/* Nominal figures of a type that no table has: PCIe 4, and the NVLink that a large message saw. */
static struct mq_device_type described(const struct mq_calibration *fit)
{
	const struct mq_device_type *known = mq_device_type_find(fit->device.name);
	struct mq_device_type type = {
	        .aliases = "", .pcie_GBps = 31.5, .nic_GBps = 25, .p2p = true};
	double message_s = fit->has_link ? fit->link.call_s[MQ_CALL_P2P][MQ_CALL_KNOTS - 1] : 0;
	double peak = fit->device.peak_flops[MQ_BF16];

	if (known)
		type = *known;
	else if (message_s > 0)
		type.nvlink_GBps = (double)(1 << 27) / message_s / 1e9; /* the last knot: 128 MiB */
	type.name = fit->device.name;
	type.tflops = (peak > 0 ? peak : fit->device.peak_flops[MQ_FP32]) / 1e12;
	return type;
}

static enum mq_status usual_machine(const struct mq_device_type *type, uint32_t n_devices,
                                    const char *path, struct mq_err *err)
{
	struct mq_platform_spec spec;

	mq_platform_spec_init(&spec);
	spec.gpu = type->name;
	spec.tflops = type->tflops;
	spec.nodes = 1;
	spec.gpus = n_devices;
	MQ_TRY(mq_platform_generate(&spec, path, err));
	printf("%s: the platform of this node (%u devices; no topology was recorded: links as is "
	       "usual, `maquette platform import` reads yours)\n",
	       path, n_devices);
	return MQ_OK;
}

/* What the importer needs to know of CPU devices beside the GPUs. */
static struct mq_device_type cpu_type(const struct mq_calibration *cpu)
{
	return (struct mq_device_type){.name = cpu->device.name,
	                               .aliases = "",
	                               .tflops = cpu->device.peak_flops[MQ_FP32] / 1e12,
	                               .pcie_GBps = cpu->device.mem_bw_Bps / 1e9,
	                               .p2p = true,
	                               .cpu = true};
}

static enum mq_status import(const struct mq_node_gpus *node, const char *topology,
                             const struct mq_device_type *type, const char *path, const char **link,
                             struct mq_err *err)
{
	struct mq_device_type cpu;
	struct mq_import_options options = {
	        .type = type, .name = "this_node", .n_cpus = node->n_cpus};
	struct mq_import_report report;

	if (node->n_cpus) {
		cpu = cpu_type(node->cpu);
		options.cpu = &cpu;
		options.cpu_memory_B = node->cpu_memory_B;
	}
	MQ_TRY(mq_platform_import(topology, &options, path, &report, err));
	printf("%s: the platform of this node (%u devices, from %s)\n", path, report.n_devices,
	       report.format);
	if (report.nvlink || !strcmp(*link, "nvlink"))
		*link = report.nvlink ? "nvlink" : "pcie";
	return MQ_OK;
}

enum mq_status mq_node_gpu_save(const struct mq_node_gpus *node, const char *path,
                                const char **link, struct mq_err *err)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	const char *folder = mq_arena_printf(&arena, "%s/launch-1", node->samples);
	const char *topology = mq_arena_printf(&arena, "%s/topology.xml", folder);
	const struct mq_device_type type = described(node->fit);
	enum mq_status status;

	*link = type.nvlink_GBps > 0 ? "nvlink" : type.p2p ? "pcie" : "host";
	if (access(topology, R_OK))
		topology = mq_arena_printf(&arena, "%s/nccl-topology.xml", folder);
	if (!access(topology, R_OK))
		status = import(node, topology, &type, path, link, err);
	else if (node->n_cpus)
		status = mq_fail(err, MQ_ENODEV,
		                 "%s: no topology was recorded, so that CPU devices have no place "
		                 "in it: measure again with this version of maquette-replay",
		                 topology);
	else
		status = usual_machine(&type, node->n_devices, path, err);
	mq_arena_fini(&arena);
	return status;
}

/*
 * common_node_gpu.c - the platform file of a node of GPUs that was calibrated, see common_validate.h.
 *
 * Who is joined to whom comes from NCCL's own description, which the replay has it write beside its
 * timelines, so that it also comes back from a node that has nothing else. A single GPU makes no
 * communicator, so that there is none: then the machine is one as is usual for the type.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/common_validate.h"
#include "executors/platform_import.h"

/* Nominal figures of a type that no table has: PCIe 4, and the NVLink that a large message saw. */
static struct mq_device_type described(const struct mq_calibration *fit)
{
	const struct mq_device_type *known = mq_device_type_find(fit->device.name);
	struct mq_device_type type = {.aliases = "", .pcie_GBps = 31.5, .nic_GBps = 25, .p2p = true};
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

enum mq_status mq_node_gpu_save(const struct mq_calibration *fit, const char *samples,
                                uint32_t n_devices, const char *path, const char **link,
                                struct mq_err *err)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	const char *topology = mq_arena_printf(&arena, "%s/launch-1/topology.xml", samples);
	const struct mq_device_type type = described(fit);
	const struct mq_import_options options = {.type = &type, .name = "this_node"};
	struct mq_import_report report;
	enum mq_status status;

	*link = type.nvlink_GBps > 0 ? "nvlink" : type.p2p ? "pcie" : "host";
	if (access(topology, R_OK)) {
		status = usual_machine(&type, n_devices, path, err);
	} else {
		status = mq_platform_import(topology, &options, path, &report, err);
		if (status == MQ_OK)
			printf("%s: the platform of this node (%u devices, as NCCL found them)\n",
			       path, report.n_devices);
		if (status == MQ_OK && (report.nvlink || !strcmp(*link, "nvlink")))
			*link = report.nvlink ? "nvlink" : "pcie";
	}
	mq_arena_fini(&arena);
	return status;
}

/* import.c - see import.h: which format a file is in, and the platform file. SPDX-License-Identifier: Apache-2.0 */
#include "hardware/platform/import.h"

#include <string.h>

#include "base/text.h"
#include "hardware/platform/machine.h"

/* Files close to those that are read, by what stands in them, and what to give instead. */
static const struct {
	const char *has, *instead;
} others[] = {
	{ "<topology version=\"3", "version 3 of hwloc's XML, which hwloc 2 cannot read; write the older form with "
				   "`lstopo --export-xml-flags 2 FILE.xml`" },
	{ "_edges\"",
	  "an InfraGraph is not read; give its machines and network to `maquette platform generate gpu=TYPE "
	  "nodes=N leaf=MACHINES fabric=fat-tree` (pod=, oversub=, nics= for more)" },
	{ "NCCL INFO", "what NCCL_DEBUG prints does not say all of a machine; run with "
		       "NCCL_TOPO_DUMP_FILE=topology.xml and give that file" },
	{ "- topology:", "Slurm's topology.yaml is not read; give what `scontrol show topology` prints" },
};

static enum mq_status check_others(const char *path, const char *text, struct mq_err *err)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (strstr(text, others[i].has))
			return mq_bad(err, "%s: %s", path, others[i].instead);
	return MQ_OK;
}

static enum mq_status read_machine(const char *path, char *text, const struct mq_device_calib *type,
				   struct mq_machine *m, struct mq_arena *arena, struct mq_err *err)
{
	enum mq_status status = MQ_DONE;

	if (strstr(text, "<topology"))
		return mq_machine_read_hwloc(path, type, m, err);
	if (strstr(text, "<system"))
		status = mq_machine_read_nccl(text, path, type, m, arena, err);
	else if (strstr(text, "GPU0"))
		status = mq_machine_read_smi(text, path, type, m, arena, err);
	if (status == MQ_DONE)
		return mq_bad(err,
			      "%s: neither hwloc XML, nor an NCCL topology dump, nor the output of 'nvidia-smi topo "
			      "-m' or 'rocm-smi --showtopo', nor a topology.conf, nor the output of ibnetdiscover",
			      path);
	return status;
}

/* The file's name without folder and suffix, in characters that XML does not quote. */
static const char *plain_name(const char *path, struct mq_arena *arena)
{
	char *name = mq_arena_strdup(arena, mq_file_stem(path, arena));

	for (char *c = name; *c; c++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_", *c))
			*c = '_';
	return *name ? name : "imported";
}

static enum mq_status write_platform(const struct mq_machine *m, const char *name, const char *source,
				     const char *output, struct mq_err *err)
{
	FILE *file;

	MQ_TRY(mq_file_open(output, &file, err));
	mq_machine_write(m, name, source, file);
	enum mq_status status = mq_file_close(file, output, err);
	if (status != MQ_OK)
		mq_platform_discard(output);
	return status;
}

/* A network of machines: imports it as keys and generates their platform. */
static enum mq_status import_network(const char *path, char *text, const struct mq_import_options *options,
				     const char *output, struct mq_machine *m, struct mq_import_report *report,
				     struct mq_arena *arena, struct mq_err *err)
{
	struct mq_platform_spec spec;
	const char *keys;
	uint32_t machines;

	mq_platform_spec_init(&spec);
	MQ_TRY(mq_network_read(text, path, options->gpu, m, &keys, &machines, arena, err));
	MQ_TRY(mq_platform_spec_parse(keys, &spec, arena, err));
	spec.name = plain_name(options->name ? options->name : path, arena);
	MQ_TRY(mq_platform_generate(&spec, options->calib, NULL, output, err));
	*report = (struct mq_import_report){ .format = m->format, .n_machines = machines };
	snprintf(report->unused, sizeof(report->unused), "%s", m->unused ? m->unused : "");
	return MQ_OK;
}

enum mq_status mq_platform_import(const char *path, const struct mq_import_options *options, const char *output,
				  struct mq_import_report *report, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_arena *arena = &scratch;
	struct mq_machine *m = mq_arena_array(arena, 1, struct mq_machine);
	const struct mq_device_calib *type = options->type;
	char *text = NULL;
	size_t size;
	const char *source = plain_name(path ? path : "here", arena);

	m->calib = options->calib;
	if (path) {
		MQ_TRY(mq_text_read(path, 16, arena, &text, &size, err));
		if (!size)
			return mq_bad(err, "%s: is empty", path);
		if (mq_network_probe(text))
			return import_network(path, text, options, output, m, report, arena, err);
		MQ_TRY(check_others(path, text, err));
	}
	if (options->gpu && !type)
		MQ_TRY(mq_calib_type_get(options->calib, "gpu", options->gpu, &type, err));
	MQ_TRY(path ? read_machine(path, text, type, m, arena, err) : mq_machine_read_hwloc(NULL, type, m, err));
	mq_machine_number(m);
	if (options->n_cpus)
		MQ_TRY(mq_machine_add_cpus(m, options->n_cpus, options->cpu, options->cpu_memory_B, err));
	MQ_TRY(write_platform(m, options->name ? plain_name(options->name, arena) : source, source, output, err));
	*report = (struct mq_import_report){
		.format = m->format,
		.type = m->device[0].type->name,
		.n_devices = m->n_devices,
		.n_nics = m->n_nics,
		.n_sockets = m->n_sockets,
		.nvswitch = m->nvswitch,
		.nvlink = mq_machine_has_nvlink(m),
		.nic_GBps = m->nic_GBps,
	};
	snprintf(report->unused, sizeof(report->unused), "%s", m->unused ? m->unused : "");
	return MQ_OK;
}

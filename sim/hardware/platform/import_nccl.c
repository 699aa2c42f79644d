/* import_nccl.c - the XML that NCCL writes to NCCL_TOPO_DUMP_FILE, and that maquette-replay writes from NVML (marked by
 * <system from=...>): <system> of <cpu> (a NUMA node) of nested <pci> (bridges, GPUs, network cards), <gpu> with
 * <nvlink target= count=>, and <net speed=> in Mb/s.
 *
 * NVLinks whose target class is 0x068000 end in an NVSwitch. RCCL writes <xgmi target= count=> for AMD's links.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/quantity.h"
#include "hardware/platform/xml.h"
#include "hardware/platform/machine.h"

enum { MAX_DEPTH = 64, MAX_NVLINKS = 1024 };
static const double MOST_NIC_GBPS = 1000; /* ten times the fastest port */

struct nvlink {
	uint32_t device;
	double count;
	const char *target;
	bool to_switch;
};

struct open_tag {
	bool is_pci;
	const char *busid;
	double GBps;
	uint32_t bridge; /* number of a pci, in order */
};

struct reader {
	struct mq_arena *arena;
	const struct mq_device_calib *type;
	struct mq_machine *machine;
	struct open_tag open[MAX_DEPTH];
	uint32_t depth, n_bridges, n_links, socket;
	const char *busid[MQ_MACHINE_MAX];                                  /* of each device */
	uint32_t above[MQ_MACHINE_MAX][MAX_DEPTH], n_above[MQ_MACHINE_MAX]; /* bridges, innermost first */
	struct nvlink link[MAX_NVLINKS];
	bool is_system;
	const char *from; /* the writer; "" = NCCL */
};

/* "16.0 GT/s PCIe" and "16" lanes: GB/s one way, after line code (8b/10b up to 5 GT/s, then 128b/130b). */
static double pcie_GBps(const struct mq_xml_tag *tag)
{
	double rate = strtod(mq_xml_attribute(tag, "link_speed"), NULL);
	double lanes = strtod(mq_xml_attribute(tag, "link_width"), NULL);

	if (!(rate > 0 && rate < 1000 && lanes > 0 && lanes <= 64))
		return 0;
	return rate * lanes / 8 * (rate <= 5 ? 0.8 : 128.0 / 130);
}

static enum mq_status add_gpu(struct reader *r, const struct mq_xml_tag *tag, struct mq_err *err)
{
	struct mq_machine *m = r->machine;
	const struct open_tag *pci = r->depth ? &r->open[r->depth - 1] : NULL;

	if (!pci || !pci->is_pci)
		return mq_bad(err, "%s:%u: a <gpu> outside a <pci>", tag->path, tag->line);
	if (m->n_devices == MQ_MACHINE_MAX)
		return mq_bad(err, "%s: more than %d GPUs", tag->path, MQ_MACHINE_MAX);
	uint32_t d = m->n_devices++;
	m->device[d] = (struct mq_machine_device){
		.type = r->type,
		.pcie_switch = MQ_NONE,
		.socket = r->socket,
		.pcie_GBps = pci->GBps,
		.indirect = !strcmp(mq_xml_attribute(tag, "p2p"), "0"),
	};
	r->busid[d] = pci->busid;
	for (uint32_t i = r->depth - 1; i-- > 0;)
		if (r->open[i].is_pci)
			r->above[d][r->n_above[d]++] = r->open[i].bridge;
	return MQ_OK;
}

/* NVLinks, or AMD's xGMI links, of the last GPU read. */
static enum mq_status add_nvlink(struct reader *r, const struct mq_xml_tag *tag, struct mq_err *err)
{
	double count;

	if (!mq_parse_f64(mq_xml_attribute(tag, "count"), &count) || count < 1 || count > 64)
		return mq_bad(err, "%s:%u: <%s> with count='%s'", tag->path, tag->line, tag->name,
			      mq_xml_attribute(tag, "count"));
	if (!r->machine->n_devices || r->n_links == MAX_NVLINKS)
		return mq_bad(err, "%s:%u: an <%s> outside a <gpu>, or too many", tag->path, tag->line, tag->name);
	r->link[r->n_links++] = (struct nvlink){
		.device = r->machine->n_devices - 1,
		.count = count,
		.target = mq_arena_strdup(r->arena, mq_xml_attribute(tag, "target")),
		.to_switch = !strncmp(mq_xml_attribute(tag, "tclass"), "0x0680", 6),
	};
	return MQ_OK;
}

static enum mq_status add_port(struct reader *r, const struct mq_xml_tag *tag, struct mq_err *err)
{
	const char *text = mq_xml_attribute(tag, "speed");
	double speed;

	r->machine->n_nics++;
	if (!mq_parse_f64(text, &speed) || r->machine->nic_GBps > 0)
		return MQ_OK;
	if (!(speed >= 0 && speed <= MOST_NIC_GBPS * 8000))
		return mq_bad(err, "%s:%u: <net speed='%s'>, in Mb/s, is %g GB/s: no port is so fast", tag->path,
			      tag->line, text, speed / 8000);
	r->machine->nic_GBps = speed / 8000;
	return MQ_OK;
}

static enum mq_status take(struct reader *r, const struct mq_xml_tag *tag, struct mq_err *err)
{
	if (!strcmp(tag->name, "system") && !r->is_system) {
		r->is_system = true;
		r->from = mq_arena_strdup(r->arena, mq_xml_attribute(tag, "from"));
		return MQ_OK;
	}
	if (!r->is_system)
		return mq_bad(err, "%s:%u: <%s>: a topology of NCCL begins with <system>", tag->path, tag->line,
			      tag->name);
	if (!strcmp(tag->name, "cpu"))
		r->socket = (uint32_t)strtoul(mq_xml_attribute(tag, "numaid"), NULL, 10);
	else if (!strcmp(tag->name, "gpu"))
		return add_gpu(r, tag, err);
	else if (!strcmp(tag->name, "nvlink") || !strcmp(tag->name, "xgmi"))
		return add_nvlink(r, tag, err);
	else if (!strcmp(tag->name, "net"))
		return add_port(r, tag, err);
	else if (strcmp(tag->name, "pci") && strcmp(tag->name, "nic"))
		mq_machine_unused(r->machine, r->arena, mq_arena_printf(r->arena, "<%s>", tag->name));
	return MQ_OK;
}

static enum mq_status open_tag(void *context, const struct mq_xml_tag *tag, struct mq_err *err)
{
	struct reader *r = context;

	MQ_TRY(take(r, tag, err));
	if (r->depth == MAX_DEPTH)
		return mq_bad(err, "%s:%u: nested more than %d deep", tag->path, tag->line, MAX_DEPTH);
	r->open[r->depth++] = (struct open_tag){
		.is_pci = !strcmp(tag->name, "pci"),
		.busid = mq_arena_strdup(r->arena, mq_xml_attribute(tag, "busid")),
		.GBps = pcie_GBps(tag),
		.bridge = r->n_bridges++,
	};
	return MQ_OK;
}

static enum mq_status close_tag(void *context, const struct mq_xml_tag *tag, struct mq_err *err)
{
	((struct reader *)context)->depth--;
	return MQ_OK;
}

/* The innermost bridge with more than one GPU below. */
static void find_switches(struct reader *r)
{
	for (uint32_t d = 0; d < r->machine->n_devices; d++)
		for (uint32_t i = 0; i < r->n_above[d]; i++) {
			uint32_t below = 0;

			for (uint32_t e = 0; e < r->machine->n_devices; e++)
				for (uint32_t j = 0; j < r->n_above[e]; j++)
					below += r->above[e][j] == r->above[d][i];
			if (below > 1) {
				r->machine->device[d].pcie_switch = r->above[d][i];
				break;
			}
		}
}

static void find_nvlinks(struct reader *r)
{
	struct mq_machine *m = r->machine;

	for (uint32_t i = 0; i < r->n_links; i++)
		m->nvswitch = m->nvswitch || r->link[i].to_switch;
	for (uint32_t i = 0; i < r->n_links; i++) {
		const struct nvlink *l = &r->link[i];
		double GBps = l->count * m->device[l->device].type->nvlink_port_Bps / 1e9;

		if (m->nvswitch)
			m->nvlink_GBps[l->device][l->device] += l->to_switch ? GBps : 0;
		for (uint32_t d = 0; d < m->n_devices && !m->nvswitch; d++)
			if (!strcmp(r->busid[d], l->target) && d != l->device)
				m->nvlink_GBps[l->device][d] = m->nvlink_GBps[d][l->device] = GBps;
	}
}

enum mq_status mq_machine_read_nccl(char *text, const char *path, const struct mq_device_calib *type,
				    struct mq_machine *machine, struct mq_arena *arena, struct mq_err *err)
{
	struct reader *r = mq_arena_array(arena, 1, struct reader);
	const struct mq_xml_reader reader = { open_tag, close_tag, r };

	r->arena = arena;
	r->type = type;
	r->machine = machine;
	MQ_TRY(mq_xml_read(text, strlen(text), path, &reader, err));
	if (!machine->n_devices)
		return mq_bad(err,
			      "%s: the NCCL topology has no <gpu>, as files for NCCL_TOPO_FILE; run with "
			      "NCCL_TOPO_DUMP_FILE=topology.xml and give that file",
			      path);
	if (!type)
		return mq_bad(err, "%s: the dump does not say which GPUs these are; give --gpu TYPE", path);
	machine->format = *r->from ? "NVML and CUDA topology" : "NCCL topology";
	find_switches(r);
	find_nvlinks(r);
	return MQ_OK;
}

/* import_nccl.c - the XML that NCCL writes where NCCL_TOPO_DUMP_FILE is set, and that maquette-replay writes from NVML
 * (which then says so in <system from=...>): <system> of <cpu> (a NUMA node) of nested <pci> (bridges, GPUs, network
 * cards), <gpu> with <nvlink target= count=>, and <net speed=> in Mb/s.
 *
 * NVLinks whose target class is 0x068000 end in an NVSwitch. The XML that NCCL writes has neither text nor entities
 * that matter here, so a small reader of tags does; it nests at most MAX_DEPTH deep.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "maquette/cluster.h"
#include "maquette/opt.h"
#include "base/quantity.h"
#include "hardware/platform/machine.h"

enum { MAX_DEPTH = 64, MAX_ATTRIBUTES = 32, MAX_NVLINKS = 1024 };

struct tag {
	const char *name;
	uint32_t n;
	const char *key[MAX_ATTRIBUTES], *value[MAX_ATTRIBUTES];
	bool closing, empty; /* </x>, <x/> */
};

struct nvlink {
	uint32_t device;
	double count;
	const char *target;
	bool to_switch;
};

struct open_tag {
	const char *name;
	const char *busid; /* of a pci */
	double GBps;
	uint32_t bridge; /* number of a pci, in order */
};

struct reader {
	const char *path;
	const struct mq_device_calib *type;
	struct mq_machine *machine;
	struct open_tag open[MAX_DEPTH];
	uint32_t depth, n_bridges, n_links, socket;
	const char *busid[MQ_MACHINE_MAX];                                  /* of each device */
	uint32_t above[MQ_MACHINE_MAX][MAX_DEPTH], n_above[MQ_MACHINE_MAX]; /* bridges, innermost first */
	struct nvlink link[MAX_NVLINKS];
	bool is_system;
	const char *from; /* who wrote it; "" = NCCL */
};

static char *skip_space(char *at)
{
	return at + strspn(at, " \t\r\n");
}

/* The next tag at or after *at: 1, 0 at the end, -1 where it is broken. */
static int next_tag(char **at, struct tag *tag)
{
	char *c = strchr(*at, '<');

	while (c && (c[1] == '?' || c[1] == '!')) {
		c = strstr(c, !strncmp(c, "<!--", 4) ? "-->" : ">");
		c = c ? strchr(c, '<') : NULL;
	}
	if (!c)
		return 0;
	memset(tag, 0, sizeof(*tag));
	tag->closing = *++c == '/';
	c += tag->closing;
	tag->name = c;
	c += strcspn(c, " \t\r\n/>");
	while (*c && *c != '>') {
		if (*c == '/')
			tag->empty = true;
		*c++ = '\0';
		c = skip_space(c);
		if (*c == '/' || *c == '>' || !*c)
			continue;
		char *key = c, *equals = c + strcspn(c, "=<>");
		if (*equals != '=' || (equals[1] != '"' && equals[1] != '\'') || tag->n == MAX_ATTRIBUTES)
			return -1;
		char *end = strchr(equals + 2, equals[1]);
		if (!end)
			return -1;
		*equals = '\0';
		*end = ' ';
		tag->key[tag->n] = key;
		tag->value[tag->n++] = equals + 2;
		c = end;
	}
	if (!*c)
		return -1;
	*c = '\0';
	*at = c + 1;
	return 1;
}

static const char *attribute(const struct tag *tag, const char *key)
{
	for (uint32_t i = 0; i < tag->n; i++)
		if (!strcmp(tag->key[i], key))
			return tag->value[i];
	return "";
}

/* "16.0 GT/s PCIe" and "16" lanes: GB/s one way, after line code (8b/10b up to 5 GT/s, then 128b/130b). */
static double pcie_GBps(const struct tag *tag)
{
	double rate = strtod(attribute(tag, "link_speed"), NULL);
	double lanes = strtod(attribute(tag, "link_width"), NULL);

	if (!(rate > 0 && rate < 1000 && lanes > 0 && lanes <= 64))
		return 0;
	return rate * lanes / 8 * (rate <= 5 ? 0.8 : 128.0 / 130);
}

static enum mq_status add_gpu(struct reader *r, const struct tag *tag, struct mq_err *err)
{
	struct mq_machine *m = r->machine;
	const struct open_tag *pci = r->depth ? &r->open[r->depth - 1] : NULL;

	if (!pci || strcmp(pci->name, "pci") != 0)
		return mq_fail(err, MQ_EINPUT, "%s: a <gpu> outside a <pci>", r->path);
	if (m->n_devices == MQ_MACHINE_MAX)
		return mq_fail(err, MQ_EINPUT, "%s: more than %d GPUs", r->path, MQ_MACHINE_MAX);
	uint32_t d = m->n_devices++;
	m->device[d] = (struct mq_machine_device){
		.type = r->type,
		.pcie_switch = MQ_NONE,
		.socket = r->socket,
		.pcie_GBps = pci->GBps,
		.indirect = !strcmp(attribute(tag, "p2p"), "0"),
	};
	r->busid[d] = pci->busid;
	for (uint32_t i = r->depth - 1; i-- > 0;)
		if (!strcmp(r->open[i].name, "pci"))
			r->above[d][r->n_above[d]++] = r->open[i].bridge;
	return MQ_OK;
}

static enum mq_status add_nvlink(struct reader *r, const struct tag *tag, struct mq_err *err)
{
	double count;

	if (!mq_parse_f64(attribute(tag, "count"), &count) || count < 1 || count > 64)
		return mq_fail(err, MQ_EINPUT, "%s: <nvlink> with count='%s'", r->path, attribute(tag, "count"));
	if (!r->machine->n_devices || r->n_links == MAX_NVLINKS)
		return mq_fail(err, MQ_EINPUT, "%s: an <nvlink> outside a <gpu>, or too many", r->path);
	r->link[r->n_links++] = (struct nvlink){
		.device = r->machine->n_devices - 1,
		.count = count,
		.target = attribute(tag, "target"),
		.to_switch = !strncmp(attribute(tag, "tclass"), "0x0680", 6),
	};
	return MQ_OK;
}

static enum mq_status take(struct reader *r, const struct tag *tag, struct mq_err *err)
{
	double speed;

	if (!strcmp(tag->name, "system")) {
		r->is_system = true;
		r->from = attribute(tag, "from");
	}
	if (!r->is_system)
		return MQ_DONE;
	if (!strcmp(tag->name, "cpu"))
		r->socket = (uint32_t)strtoul(attribute(tag, "numaid"), NULL, 10);
	if (!strcmp(tag->name, "gpu"))
		MQ_TRY(add_gpu(r, tag, err));
	if (!strcmp(tag->name, "nvlink"))
		MQ_TRY(add_nvlink(r, tag, err));
	if (!strcmp(tag->name, "net")) {
		r->machine->n_nics++;
		if (mq_parse_f64(attribute(tag, "speed"), &speed) && !(r->machine->nic_GBps > 0))
			r->machine->nic_GBps = speed / 8000;
	}
	return MQ_OK;
}

static enum mq_status read_tags(char *text, struct reader *r, struct mq_err *err)
{
	struct tag tag;
	int more;

	while ((more = next_tag(&text, &tag)) > 0) {
		if (tag.closing) {
			if (!r->depth || strcmp(r->open[--r->depth].name, tag.name) != 0)
				return mq_fail(err, MQ_EINPUT, "%s: </%s> without its beginning", r->path, tag.name);
			continue;
		}
		MQ_TRY(take(r, &tag, err));
		if (tag.empty)
			continue;
		if (r->depth == MAX_DEPTH)
			return mq_fail(err, MQ_EINPUT, "%s: nested more than %d deep", r->path, MAX_DEPTH);
		r->open[r->depth++] = (struct open_tag){
			.name = tag.name,
			.busid = attribute(&tag, "busid"),
			.GBps = pcie_GBps(&tag),
			.bridge = r->n_bridges++,
		};
	}
	if (!r->is_system)
		return MQ_DONE;
	if (more < 0 || r->depth)
		return mq_fail(err, MQ_EINPUT, "%s: the XML is cut or broken", r->path);
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
				    struct mq_machine *machine, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct reader *r = mq_arena_array(&arena, 1, struct reader);

	r->path = path;
	r->type = type;
	r->machine = machine;
	MQ_TRY(read_tags(text, r, err));
	if (!machine->n_devices)
		return mq_fail(err, MQ_EINPUT, "%s: the NCCL topology has no <gpu>", path);
	if (!type)
		return mq_fail(err, MQ_EINPUT, "%s: the dump does not say which GPUs these are; give --gpu TYPE", path);
	machine->format = *r->from ? "NVML and CUDA topology" : "NCCL topology";
	find_switches(r);
	find_nvlinks(r);
	return MQ_OK;
}

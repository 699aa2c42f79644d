/* node.c - this machine as a platform: CPU devices joined through the memory of their node (hwloc).
 *
 * Devices of one node exchange messages by copies through shared memory: each has a private port to one backbone-free
 * switch, of the bandwidth and latency that were measured for one message. SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <hwloc.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "fit/fit.h"

static void copy_model(const char *text, char *out, size_t size)
{
	size_t n = 0;

	for (; *text && n + 1 < size; text++) {
		bool good = isalnum((unsigned char)*text) || *text == '.';

		if (good)
			out[n++] = *text;
		else if (n && out[n - 1] != '-')
			out[n++] = '-';
	}
	while (n && out[n - 1] == '-')
		n--;
	out[n] = '\0';
}

enum mq_status mq_node_read(struct mq_node *node, struct mq_err *err)
{
	hwloc_topology_t topology;

	memset(node, 0, sizeof(*node));
	if (hwloc_topology_init(&topology))
		return mq_fail(err, MQ_ENODEV, "hwloc cannot start: %s", strerror(errno));
	if (hwloc_topology_load(topology)) {
		hwloc_topology_destroy(topology);
		return mq_fail(err, MQ_ENODEV, "hwloc cannot read this machine: %s", strerror(errno));
	}
	hwloc_obj_t machine = hwloc_get_root_obj(topology);
	hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
	const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
	int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
	int sockets = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE);

	copy_model(model ? model : "unknown-cpu", node->cpu, sizeof(node->cpu));
	node->cores = cores > 0 ? (uint32_t)cores : 1;
	node->sockets = sockets > 0 ? (uint32_t)sockets : 1;
	node->memory_B = (double)machine->total_memory;
	hwloc_topology_destroy(topology);
	return MQ_OK;
}

enum mq_status mq_node_save(const struct mq_node_platform *p, const char *path, struct mq_err *err)
{
	FILE *f;

	MQ_TRY(mq_file_open(path, &f, err));
	fprintf(f,
		"<?xml version='1.0'?>\n"
		"<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
		"<!-- %s: one node with %u CPU devices (%u cores, %u sockets). Bandwidth and latency:\n"
		"     one message through shared memory as measured by maquette calibrate. -->\n"
		"<platform version=\"4.1\">\n  <zone id=\"node\" routing=\"Full\">\n"
		"    <prop id=\"mq_name\" value=\"%s\"/>\n",
		p->name, p->n_devices, p->node->cores, p->node->sockets, p->name);
	for (uint32_t i = 0; i < p->n_devices; i++)
		fprintf(f,
			"    <host id=\"cpu%u\" speed=\"%.9gf\">\n"
			"      <prop id=\"mq_type\" value=\"%s\"/>\n"
			"      <prop id=\"mq_kind\" value=\"cpu\"/>\n"
			"      <prop id=\"mq_rank\" value=\"%u\"/>\n"
			"      <prop id=\"mq_node\" value=\"0\"/>\n"
			"      <prop id=\"mq_memory_B\" value=\"%.0f\"/>\n"
			"    </host>\n",
			i, p->speed_flops, p->type, i, p->memory_B);
	for (uint32_t i = 0; i < p->n_devices; i++)
		fprintf(f,
			"    <link id=\"host%u\" bandwidth=\"%.9gBps\" latency=\"%.9gs\" sharing_policy=\"SPLITDUPLEX\">\n"
			"      <prop id=\"mq_class\" value=\"host\"/>\n    </link>\n",
			i, p->bw_Bps, p->lat_s / 2);
	for (uint32_t i = 0; i < p->n_devices; i++)
		for (uint32_t j = i + 1; j < p->n_devices; j++)
			fprintf(f,
				"    <route src=\"cpu%u\" dst=\"cpu%u\">\n"
				"      <link_ctn id=\"host%u\" direction=\"UP\"/>\n"
				"      <link_ctn id=\"host%u\" direction=\"DOWN\"/>\n    </route>\n",
				i, j, i, j);
	fputs("  </zone>\n</platform>\n", f);
	return mq_file_close(f, path, err);
}

struct mq_cluster *mq_node_cluster(const struct mq_node_platform *p, struct mq_arena *arena)
{
	struct mq_cluster *c =
		mq_cluster_flat(arena, p->n_devices, p->type, p->speed_flops, p->memory_B, p->bw_Bps, p->lat_s / 2);

	c->name = mq_arena_strdup(arena, p->name);
	for (uint32_t i = 0; i < c->n_devices; i++)
		c->device[i].kind = p->kind;
	for (uint32_t i = 0; i < c->n_links; i++)
		c->link[i].class = p->class;
	return c;
}

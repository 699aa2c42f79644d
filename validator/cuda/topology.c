/* topology.c - writes the links between this machine's GPUs to a file for `maquette platform import`, in the format of
 * NCCL's topology dump, so that one reader serves both; it works with one GPU and without NCCL, too.
 *
 * From NVML: PCIe generation and width, NVLinks and their far ends, GPUs below a common PCIe switch. From the CUDA
 * runtime: pairs of GPUs with peer access. From the kernel (/sys, as hwloc does): the NUMA node. If NVML lacks a
 * function, its data are left out. SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <sched.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/parts.h"

enum { MAX_GPUS = 64, MAX_LINKS = 32, BELOW_ONE_SWITCH = 20 /* NVML: at most several switches */ };

struct gpu {
	void *nvml;
	char busid[32];
	int numa, group; /* group: the first GPU below the same PCIe switch */
	unsigned int generation, width;
};

/* Converts a bus id of NVML, "00000000:3B:00.0", to the kernel's, "0000:3b:00.0". */
static void kernel_busid(const char *text, char busid[32])
{
	size_t n = strcspn(text, ":");

	text += n > 4 ? n - 4 : 0;
	for (n = 0; text[n] && n < 31; n++)
		busid[n] = (char)tolower((unsigned char)text[n]);
	busid[n] = '\0';
}

/* Opens a file of /sys (or MAQUETTE_SYSFS) about a PCI device. */
static FILE *open_sys(const char *busid, const char *name)
{
	const char *root = getenv("MAQUETTE_SYSFS");
	char path[4096];

	snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/%s", root && *root ? root : "/sys", busid, name);
	return fopen(path, "r");
}

static int numa_node(const char *busid)
{
	int node = 0;
	FILE *file = open_sys(busid, "numa_node");

	if (file && fscanf(file, "%d", &node) != 1)
		node = 0;
	if (file)
		fclose(file);
	return node < 0 ? 0 : node;
}

/* "0-3,8" */
static bool read_cpus(FILE *file, cpu_set_t *set)
{
	char text[4096] = "", *at = text;
	long first, last;

	CPU_ZERO(set);
	if (!fgets(text, sizeof(text), file))
		return false;
	while (isdigit((unsigned char)*at)) {
		first = last = strtol(at, &at, 10);
		if (*at == '-')
			last = strtol(at + 1, &at, 10);
		for (long c = first; c <= last && c < CPU_SETSIZE; c++)
			CPU_SET((size_t)c, set);
		at += *at == ',';
	}
	return CPU_COUNT(set) > 0;
}

void cuda_pin_near(const struct cuda *c)
{
	char text[32] = "", busid[32];
	cpu_set_t allowed, near;

	if (c->kit.cudaDeviceGetPCIBusId(text, sizeof(text), c->device) != cudaSuccess ||
	    sched_getaffinity(0, sizeof(allowed), &allowed) || CPU_COUNT(&allowed) < sysconf(_SC_NPROCESSORS_ONLN))
		return;
	kernel_busid(text, busid);
	FILE *file = open_sys(busid, "local_cpulist");
	bool known = file && read_cpus(file, &near);
	if (file)
		fclose(file);
	CPU_AND(&near, &near, &allowed);
	if (known && CPU_COUNT(&near))
		sched_setaffinity(0, sizeof(near), &near);
}

static void read_gpu(struct cuda *c, int device, struct gpu *g)
{
	const struct mq_toolkit *k = &c->kit;
	char text[32] = "";

	if (k->cudaDeviceGetPCIBusId(text, sizeof(text), device) != cudaSuccess)
		snprintf(text, sizeof(text), "0000:%02x:00.0", device);
	kernel_busid(text, g->busid);
	g->numa = numa_node(g->busid);
	g->group = device;
	if (k->nvmlDeviceGetHandleByPciBusId_v2 && k->nvmlDeviceGetHandleByPciBusId_v2(text, &g->nvml))
		g->nvml = NULL;
	if (!g->nvml || !k->nvmlDeviceGetMaxPcieLinkGeneration || !k->nvmlDeviceGetCurrPcieLinkWidth)
		return;
	/* An idle GPU lowers its PCIe generation, not its width. */
	if (k->nvmlDeviceGetMaxPcieLinkGeneration(g->nvml, &g->generation) ||
	    k->nvmlDeviceGetCurrPcieLinkWidth(g->nvml, &g->width))
		g->generation = g->width = 0;
}

static bool below_one_switch(const struct cuda *c, const struct gpu *a, const struct gpu *b)
{
	int level = 0;

	return a->nvml && b->nvml && c->kit.nvmlDeviceGetTopologyCommonAncestor &&
	       !c->kit.nvmlDeviceGetTopologyCommonAncestor(a->nvml, b->nvml, &level) && level > 0 &&
	       level <= BELOW_ONE_SWITCH;
}

/* NVLinks to the same far end are one entry with a count. */
static void put_nvlinks(const struct cuda *c, const struct gpu *g, FILE *file)
{
	const struct mq_toolkit *k = &c->kit;
	char target[MAX_LINKS][32];
	unsigned int count[MAX_LINKS] = { 0 }, to_switch[MAX_LINKS], n = 0;

	if (!g->nvml || !k->nvmlDeviceGetNvLinkState || !k->nvmlDeviceGetNvLinkRemotePciInfo_v2)
		return;
	for (unsigned int l = 0; l < MAX_LINKS; l++) {
		struct mq_nvml_pci pci = { .busId = "" };
		int active = 0, type = 0;
		unsigned int i = 0;

		if (k->nvmlDeviceGetNvLinkState(g->nvml, l, &active) || !active ||
		    k->nvmlDeviceGetNvLinkRemotePciInfo_v2(g->nvml, l, &pci))
			continue;
		if (k->nvmlDeviceGetNvLinkRemoteDeviceType && k->nvmlDeviceGetNvLinkRemoteDeviceType(g->nvml, l, &type))
			type = 0;
		kernel_busid(pci.busId, target[n]);
		/* All NVSwitches count as one: the plane of a link does not matter. */
		for (i = 0; i < n; i++)
			if (to_switch[i] ? type == MQ_NVLINK_SWITCH : !strcmp(target[i], target[n]))
				break;
		to_switch[i] = type == MQ_NVLINK_SWITCH;
		count[i]++;
		n += i == n;
	}
	for (unsigned int i = 0; i < n; i++)
		fprintf(file, "<nvlink target=\"%s\" count=\"%u\" tclass=\"%s\"/>", target[i], count[i],
			to_switch[i] ? "0x068000" : "0x030200");
}

static void put_gpu(const struct cuda *c, const struct gpu *g, int device, int n, FILE *file)
{
	static const char *const speed[] = { "", "2.5", "5.0", "8.0", "16.0", "32.0", "64.0" };
	int major = 0, minor = 0, reaches_all = 1;

	for (int other = 0; other < n; other++) {
		int can = 1;

		if (other != device && (c->kit.cudaDeviceCanAccessPeer(&can, device, other) != cudaSuccess || !can))
			reaches_all = 0;
	}
	c->kit.cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
	c->kit.cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
	fprintf(file, "    <pci busid=\"%s\" class=\"0x030200\"", g->busid);
	if (g->generation && g->generation < sizeof(speed) / sizeof(speed[0]))
		fprintf(file, " link_speed=\"%s GT/s PCIe\" link_width=\"%u\"", speed[g->generation], g->width);
	fprintf(file, "><gpu dev=\"%d\" sm=\"%d\" p2p=\"%d\">", device, 10 * major + minor, reaches_all);
	put_nvlinks(c, g, file);
	fputs("</gpu></pci>\n", file);
}

/* Writes the GPUs of a NUMA node, grouped by PCIe switch. */
static void put_node(const struct cuda *c, const struct gpu *g, int n, int numa, FILE *file)
{
	fprintf(file, "  <cpu numaid=\"%d\">\n", numa);
	for (int i = 0; i < n; i++) {
		int below = 0;

		if (g[i].numa != numa || g[i].group != i)
			continue;
		for (int j = 0; j < n; j++)
			below += g[j].group == i;
		if (below > 1)
			fprintf(file, "   <pci busid=\"switch-of-%s\" class=\"0x060400\">\n", g[i].busid);
		for (int j = i; j < n; j++)
			if (g[j].group == i)
				put_gpu(c, &g[j], j, n, file);
		if (below > 1)
			fputs("   </pci>\n", file);
	}
	fputs("  </cpu>\n", file);
}

enum mq_status cuda_topology(void *state, const char *path, struct mq_err *err)
{
	struct cuda *c = state;
	struct gpu *g = mq_arena_array(c->session->arena, MAX_GPUS, struct gpu);
	int n = 0, most = 0;

	MQ_TRY(cuda_count(&c->kit, &n, err));
	/* Without NVML NCCL's dump has more; NCCL makes none for a single GPU. */
	if (!c->nvml && n > 1)
		return MQ_OK;
	n = n < MAX_GPUS ? n : MAX_GPUS;
	for (int i = 0; i < n; i++) {
		read_gpu(c, i, &g[i]);
		most = g[i].numa > most ? g[i].numa : most;
		for (int j = 0; j < i && g[i].group == i; j++)
			if (below_one_switch(c, &g[i], &g[j]))
				g[i].group = g[j].group;
	}
	FILE *file = fopen(path, "w");
	if (!file)
		return mq_bad(err, "%s: cannot write the topology: %s", path, strerror(errno));
	fprintf(file, "<system version=\"1\" from=\"%s\">\n", c->nvml ? "NVML and CUDA" : "CUDA");
	for (int numa = 0; numa <= most; numa++)
		put_node(c, g, n, numa, file);
	fputs("</system>\n", file);
	int bad = ferror(file);
	return fclose(file) || bad ? mq_bad(err, "%s: writing failed", path) : MQ_OK;
}

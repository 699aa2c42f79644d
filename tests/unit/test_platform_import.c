/*
 * test_platform_import.c - machines as their tools describe them become platforms: GPU matrices, NCCL
 * dumps, hwloc XML; broken ones are refused with a reason.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <simgrid/actor.h>
#include <simgrid/engine.h>

#include "hardware/platform/platform.h"
#include "hardware/platform/import.h"
#include "shipped.h"

static const char cube_mesh[] =
	"\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tmlx5_0\tmlx5_1\tCPU Affinity\x1b[0m\n"
	"GPU0\t X \tNV1\tNV1\tNV2\tNV2\tSYS\tSYS\tSYS\tPIX\tSYS\t0-19\n"
	"GPU1\tNV1\t X \tNV2\tNV1\tSYS\tNV2\tSYS\tSYS\tPIX\tSYS\t0-19\n"
	"GPU2\tNV1\tNV2\t X \tNV2\tSYS\tSYS\tNV1\tSYS\tPHB\tSYS\t0-19\n"
	"GPU3\tNV2\tNV1\tNV2\t X \tSYS\tSYS\tSYS\tNV1\tPHB\tSYS\t0-19\n"
	"GPU4\tNV2\tSYS\tSYS\tSYS\t X \tNV1\tNV1\tNV2\tSYS\tPIX\t20-39\n"
	"GPU5\tSYS\tNV2\tSYS\tSYS\tNV1\t X \tNV2\tNV1\tSYS\tPIX\t20-39\n"
	"GPU6\tSYS\tSYS\tNV1\tSYS\tNV1\tNV2\t X \tNV2\tSYS\tPHB\t20-39\n"
	"GPU7\tSYS\tSYS\tSYS\tNV1\tNV2\tNV1\tNV2\t X \tSYS\tPHB\t20-39\n"
	"mlx5_0\tPIX\tPIX\tPHB\tPHB\tSYS\tSYS\tSYS\tSYS\t X \tSYS\t\n"
	"mlx5_1\tSYS\tSYS\tSYS\tSYS\tPIX\tPIX\tPHB\tPHB\tSYS\t X \t\n"
	"\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n";

static const char switched[] = "        GPU0    GPU1    GPU2    CPU Affinity    NUMA Affinity\r\n"
			       "GPU0     X      NV18    NV18    0-51    0\r\n"
			       "GPU1    NV18     X      NV18    0-51    0\r\n"
			       "GPU2    NV18    NV18     X      52-103  1\r\n";

static const char workstation[] = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
				  "GPU0\t X \tPHB\t0-63\t0\t\tN/A\n"
				  "GPU1\tPHB\t X \t0-63\t0\t\tN/A\n";

static const char nccl_switched[] =
	"<system version=\"1\">\n"
	"  <cpu numaid=\"0\" affinity=\"00ff\" arch=\"x86_64\" vendor=\"GenuineIntel\">\n"
	"    <pci busid=\"0000:16:00.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n"
	"      <pci busid=\"0000:18:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n"
	"        <gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\">\n"
	"          <nvlink target=\"0000:05:00.0\" count=\"8\" tclass=\"0x068000\"/>\n"
	"          <nvlink target=\"0000:06:00.0\" count=\"10\" tclass=\"0x068000\"/>\n"
	"        </gpu>\n      </pci>\n"
	"      <pci busid=\"0000:19:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n"
	"        <nic><net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" port=\"1\" gdr=\"1\"/></nic>\n"
	"      </pci>\n    </pci>\n  </cpu>\n"
	"  <cpu numaid=\"1\">\n"
	"    <pci busid=\"0000:98:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"8\">\n"
	"      <gpu dev=\"1\" sm=\"90\" rank=\"1\" gdr=\"1\">\n"
	"        <nvlink target=\"0000:05:00.0\" count=\"18\" tclass=\"0x068000\"/>\n"
	"      </gpu>\n    </pci>\n  </cpu>\n</system>\n";

static const char nccl_pairs[] =
	"<system version=\"1\"><cpu numaid=\"0\">"
	"<pci busid=\"0000:10:00.0\" class=\"0x060400\" link_speed=\"8 GT/s\" link_width=\"16\">"
	"<pci busid=\"0000:11:00.0\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"16\"><gpu dev=\"0\">"
	"<nvlink target=\"0000:12:00.0\" count=\"2\" tclass=\"0x030200\"/></gpu></pci>"
	"<pci busid=\"0000:12:00.0\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"16\"><gpu dev=\"1\">"
	"<nvlink target=\"0000:11:00.0\" count=\"2\" tclass=\"0x030200\"/></gpu></pci>"
	"<pci busid=\"0000:13:00.0\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"16\"><gpu dev=\"2\"/></pci>"
	"</pci></cpu></system>";

#define HWLOC_SETS " cpuset=\"0x3\" complete_cpuset=\"0x3\" nodeset=\"0x1\" complete_nodeset=\"0x1\""
#define HWLOC_CORE(i, bit)                                                                                \
	"<object type=\"Core\" os_index=\"" i "\" cpuset=\"" bit "\" complete_cpuset=\"" bit "\""         \
	" nodeset=\"0x1\" complete_nodeset=\"0x1\" gp_index=\"1" i "\"><object type=\"PU\" os_index=\"" i \
	"\" cpuset=\"" bit "\" complete_cpuset=\"" bit "\" nodeset=\"0x1\""                               \
	" complete_nodeset=\"0x1\" gp_index=\"2" i "\"/></object>"
#define HWLOC_HEAD                                                                                \
	"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n" \
	"<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\"" HWLOC_SETS            \
	" allowed_cpuset=\"0x3\" allowed_nodeset=\"0x1\" gp_index=\"1\">"                         \
	"<object type=\"Package\" os_index=\"0\"" HWLOC_SETS " gp_index=\"2\">"                   \
	"<object type=\"NUMANode\" os_index=\"0\"" HWLOC_SETS                                     \
	" gp_index=\"3\" local_memory=\"64000000000\"/>" HWLOC_CORE("0", "0x1") HWLOC_CORE("1", "0x2") "</object>"
#define HWLOC_TAIL "</object></topology>\n"
#define HWLOC_GPU(bus, name)                                                             \
	"<object type=\"PCIDev\" gp_index=\"4" bus "\" pci_busid=\"0000:0" bus ":00.0\"" \
	" pci_type=\"0302 [10de:1db5] [10de:1249] a1\" pci_link_speed=\"15.753846\">"    \
	"<info name=\"PCIDevice\" value=\"" name "\"/></object>"

static const char hwloc_cores[] = HWLOC_HEAD HWLOC_TAIL;
static const char hwloc_gpus[] = HWLOC_HEAD
	"<object type=\"Bridge\" gp_index=\"30\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[00-09]\">"
	"<object type=\"Bridge\" gp_index=\"31\" bridge_type=\"1-1\" depth=\"1\" bridge_pci=\"0000:[01-05]\""
	" pci_busid=\"0000:00:01.0\" pci_type=\"0604 [8086:2030] [0000:0000] 04\" pci_link_speed=\"15.7\">" HWLOC_GPU(
		"2", "GV100GL [Tesla V100 SXM2 32GB]")
		HWLOC_GPU("3", "GV100GL [Tesla V100 SXM2 32GB]") "</object>" HWLOC_GPU(
			"6", "TU104GL [Tesla T4]") "</object>" HWLOC_TAIL;

static char input[] = "/tmp/mq-import-in-XXXXXX", output[] = "/tmp/mq-import-out-XXXXXX";

/* The device types there are; names in reports are theirs, so they stay. */
static const struct mq_calib *shipped(void)
{
	static struct mq_arena arena = MQ_ARENA_INIT;
	static struct mq_calib *calib;

	return calib ? calib : (calib = shipped_calib(&arena));
}

static enum mq_status import(const char *text, const char *gpu, struct mq_import_report *report, struct mq_err *err)
{
	struct mq_import_options options = { .gpu = gpu, .name = "mine", .calib = shipped() };
	FILE *file = fopen(input, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
	return mq_platform_import(input, &options, output, report, err);
}

typedef bool check_fn(const struct mq_cluster *c);

struct job {
	const struct mq_cluster *cluster;
	check_fn *check;
	bool passed;
};

static void inspect(int argc, char **argv)
{
	struct job *job = sg_actor_get_data(sg_actor_self());

	job->passed = job->check(job->cluster);
}

static void in_child(check_fn *check)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct job job = { .check = check };
	struct mq_cluster *cluster;

	alarm(240); /* whoever waits for this process does so without a limit */
	mq_platform_start("test");
	if (mq_platform_load(output, &arena, &cluster, &err) != MQ_OK) {
		fprintf(stderr, "%s\n", err.text);
		_exit(2);
	}
	job.cluster = cluster;
	sg_actor_t actor = sg_actor_init("inspect", mq_platform_host(cluster, 0));
	sg_actor_set_data(actor, &job);
	sg_actor_start_(actor, inspect, 0, NULL);
	simgrid_run();
	_exit(job.passed ? 0 : 1);
}

static void becomes(const char *text, const char *gpu, check_fn *check)
{
	struct mq_import_report report;
	struct mq_err err = MQ_ERR_INIT;
	int status;

	if (import(text, gpu, &report, &err) != MQ_OK)
		fail_msg("%s", err.text);
	pid_t child = fork();
	if (!child)
		in_child(check);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static bool way(const struct mq_cluster *c, uint32_t a, uint32_t b, uint32_t links, double GBps)
{
	struct mq_err err = MQ_ERR_INIT;
	const struct mq_route *r;

	if (mq_cluster_route(c, a, b, &r, &err) != MQ_OK)
		return false;
	if (r->n_links == links && fabs(r->bw_Bps - GBps * 1e9) <= 1e-6 * r->bw_Bps)
		return true;
	fprintf(stderr, "%u->%u: %u links, %g B/s; expected %u, %g GB/s\n", a, b, r->n_links, r->bw_Bps, links, GBps);
	return false;
}

static bool has_class(const struct mq_cluster *c, enum mq_link_class class)
{
	for (uint32_t i = 0; i < c->n_links; i++)
		if (c->link[i].class == class)
			return true;
	return false;
}

static bool is_dgx1(const struct mq_cluster *c)
{
	/* 0 and 1 share a PCIe switch with mlx5_0; 2 and 3 have none */
	return c->n_devices == 8 && c->nics_per_node == 2 && !c->nvls && c->n_nodes == 1 && way(c, 0, 3, 1, 50) &&
	       way(c, 1, 0, 1, 25) && way(c, 0, 7, 4, 15.75) && way(c, 0, 5, 5, 15.75) && way(c, 3, 6, 3, 15.75) &&
	       c->device[3].socket == 0 && c->device[4].socket == 1 && !strcmp(c->name, "mine") &&
	       !strcmp(c->device[5].type, "V100-SXM2-16GB");
}

static bool is_switched(const struct mq_cluster *c)
{
	return c->n_devices == 3 && c->nvls && way(c, 0, 2, 2, 450) && c->device[2].socket == 1;
}

static bool is_workstation(const struct mq_cluster *c)
{
	return c->n_devices == 2 && way(c, 0, 1, 3, 31.5);
}

static bool is_nccl_switched(const struct mq_cluster *c)
{
	return c->n_devices == 2 && c->nvls && c->nics_per_node == 1 && way(c, 0, 1, 2, 450) &&
	       c->device[1].socket == 1;
}

static bool is_nccl_pairs(const struct mq_cluster *c)
{
	return c->n_devices == 3 && way(c, 0, 1, 1, 50) && way(c, 2, 1, 2, 8 * 16 / 8.0 * 128 / 130);
}

static bool is_cores(const struct mq_cluster *c)
{
	return c->n_devices == 2 && c->device[0].kind == MQ_CPU && way(c, 0, 1, 1, 70.4) &&
	       c->device[1].memory_B == 32e9;
}

static bool is_hwloc_gpus(const struct mq_cluster *c)
{
	return c->n_devices == 3 && way(c, 0, 1, 2, 15.753846) && way(c, 0, 2, 4, 15.753846) &&
	       !strcmp(c->device[2].type, "T4") && !strcmp(c->device[0].type, "V100-SXM2-32GB");
}

/* RCCL's dump: xGMI between all pairs, whatever sockets they lie on. */
static const char rccl[] =
	"<system version=\"2\"><cpu numaid=\"0\"><pci busid=\"a\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">"
	"<gpu dev=\"0\"><xgmi target=\"b\" count=\"1\"/><xgmi target=\"c\" count=\"2\"/></gpu></pci>"
	"<pci busid=\"b\"><gpu dev=\"1\"><xgmi target=\"a\" count=\"1\"/></gpu></pci></cpu>"
	"<cpu numaid=\"1\"><pci busid=\"c\"><gpu dev=\"2\"><xgmi target=\"a\" count=\"2\"/></gpu><c2c/></pci></cpu></system>";

static bool is_rccl(const struct mq_cluster *c)
{
	return c->n_devices == 3 && way(c, 0, 1, 1, 64) && way(c, 0, 2, 1, 128) && c->device[2].socket == 1 &&
	       has_class(c, MQ_LINK_XGMI) && !has_class(c, MQ_LINK_NVLINK);
}

/* Rows in an order of their own, behind what mpirun and a terminal put before them. */
static const char shuffled[] = "[1,0]<stdout>:\t\033[4mGPU0\tGPU1\tGPU2\tib0\tCPU Affinity\tNUMA Affinity\033[0m\n"
			       "[1,0]<stdout>:GPU2\tSYS\tSYS\t X \tSYS\t8-15\t1\n"
			       "[1,0]<stdout>:GPU0\t X \tNV4\tSYS\tPIX\t0-7\t0\n"
			       "[1,0]<stdout>:GPU1\tNV4\t X \tSYS\tSYS\t0-7\t0\n"
			       "[1,0]<stdout>:ib0\tPIX\tSYS\tSYS\t X\n[1,0]<stdout>:Legend:\n";

static bool is_shuffled(const struct mq_cluster *c)
{
	return c->n_devices == 3 && c->nics_per_node == 1 && way(c, 0, 1, 1, 100) && c->device[2].socket == 1;
}

/* Four dies of two cards: a hop of xGMI inside a card, two between them. */
static const char rocm[] = "=== ROCm System Management Interface ===\n=== Weight between two GPUs ===\n"
			   "       GPU0         GPU1         GPU2\nGPU0   0            15           30\n"
			   "GPU1   15           0            15\nGPU2   30           15           0\n"
			   "=== Hops between two GPUs ===\n       GPU0         GPU1         GPU2\n"
			   "GPU0   0            1            2\nGPU1   1            0            1\n"
			   "GPU2   2            1            0\n=== Link Type between two GPUs ===\n"
			   "       GPU0         GPU1         GPU2\nGPU0   0            XGMI         XGMI\n"
			   "GPU1   XGMI         0            XGMI\nGPU2   XGMI         XGMI         0\n"
			   "=== Numa Nodes ===\nGPU[0]\t\t: (Topology) Numa Node: 0\n"
			   "GPU[0]\t\t: (Topology) Numa Affinity: 0\nGPU[2]\t\t: (Topology) Numa Node: 1\n";

/* The same of a newer version: a hop each, and weights. */
static const char rocm_weights[] =
	"=== Weight between two GPUs ===\n       GPU0         GPU1         GPU2\n"
	"GPU0   0            15           30\nGPU1   15           0            15\n"
	"GPU2   30           15           0\n=== Hops between two GPUs ===\n"
	"       GPU0         GPU1         GPU2\nGPU0   0            1            1\n"
	"GPU1   1            0            1\nGPU2   1            1            0\n"
	"=== Link Type between two GPUs ===\n       GPU0         GPU1         GPU2\n"
	"GPU0   0            XGMI         XGMI\nGPU1   XGMI         0            XGMI\n"
	"GPU2   XGMI         XGMI         0\n=== Numa Nodes ===\n"
	"GPU 0          : (Topology) Numa Node: 0\nGPU 2          : (Topology) Numa Node: 1\n";

static bool is_rocm(const struct mq_cluster *c)
{
	return c->n_devices == 3 && way(c, 0, 1, 1, 64) && way(c, 1, 2, 1, 64) && way(c, 0, 2, 3, 62.4) &&
	       c->device[1].socket == 0 && c->device[2].socket == 1;
}

static void formats(void **state)
{
	becomes(rccl, "MI300X", is_rccl);
	becomes(shuffled, "A100-SXM4-80GB", is_shuffled);
	becomes(rocm, "MI300X", is_rocm);
	becomes(rocm_weights, "MI300X", is_rocm);
	becomes(cube_mesh, "V100-16GB", is_dgx1);
	becomes(switched, "H100", is_switched);
	becomes(workstation, "RTX-4090", is_workstation);
	becomes(nccl_switched, "H200", is_nccl_switched);
	becomes(nccl_pairs, "V100-16GB", is_nccl_pairs);
	becomes(hwloc_cores, NULL, is_cores);
	becomes(hwloc_gpus, NULL, is_hwloc_gpus);
}

static void reports(void **state)
{
	struct mq_import_report r;

	assert_int_equal(import(nccl_switched, "H200", &r, NULL), MQ_OK);
	assert_string_equal(r.format, "NCCL topology");
	assert_string_equal(r.type, "H200-SXM-141GB");
	assert_true(r.nvswitch && r.n_devices == 2 && r.n_nics == 1 && r.n_sockets == 2);
	assert_true(r.nic_GBps == 50);
	assert_int_equal(import(cube_mesh, "V100-16GB", &r, NULL), MQ_OK);
	assert_true(!r.nvswitch && r.n_devices == 8 && r.n_nics == 2 && r.n_sockets == 2);
	assert_int_equal(import(rccl, "MI300X", &r, NULL), MQ_OK);
	assert_string_equal(r.unused, "<c2c>");
	assert_int_equal(import(shuffled, "A100-SXM4-80GB", &r, NULL), MQ_OK);
	assert_string_equal(r.unused, "NUMA columns");
	assert_int_equal(import("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNODE\t0-3\nGPU1\tNODE\t X \t0-3\n",
				"H100-SXM-80GB", &r, NULL),
			 MQ_OK);
	assert_non_null(strstr(r.unused, "topo -mp"));
	assert_int_equal(import("SwitchName=s0 Nodes=n[1-3]\nSwitchName=s1 Nodes=n4\nSwitchName=t Switches=s[0-1]\n",
				"T4x2", &r, NULL),
			 MQ_OK);
	assert_string_equal(r.format, "topology.conf");
	assert_int_equal(r.n_machines, 4);
}

static void refused(const char *text, const char *gpu, const char *word)
{
	struct mq_import_report report;
	struct mq_err err = MQ_ERR_INIT;

	unlink(output);
	assert_int_equal(import(text, gpu, &report, &err), MQ_EINPUT);
	if (!strstr(err.text, word))
		fail_msg("'%s' lacks '%s'", err.text, word);
	assert_int_not_equal(access(output, F_OK), 0);
}

static void broken(void **state)
{
	char text[4096];

	refused("", NULL, "empty");
	refused("hello\n", NULL, "neither");
	refused(cube_mesh, NULL, "--gpu");
	refused(cube_mesh, "V100-17GB", "no such device type");
	refused(nccl_pairs, NULL, "--gpu");
	refused("<system version=\"1\"></system>", "T4", "no <gpu>");
	refused("<system version=\"1\"><gpu dev=\"0\"/></system>", "T4", "outside a <pci>");
	refused("<system version=\"1\"><cpu></system>", "T4", "mismatched tag");
	refused("<!DOCTYPE s [<!ENTITY a \"b\">]><system/>", "T4", "entities of its own");
	refused("<system><cpu><pci><gpu/></pci><net speed=\"200000000\"/></cpu></system>", "T4", "no port is so fast");
	refused("\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tGNS\tX\n", "T4", "topo -p2p");
	refused("== Link Type between two GPUs ==\n GPU0 GPU1\nGPU0 0 XGMI\nGPU1 XGMI 0\n", "MI300X", "tables of hops");
	refused("Weight between two GPUs\n GPU0\nGPU0 0\nHops between two GPUs\n GPU0 GPU1\nGPU0 0 1\nGPU1 1 0\n"
		"Link Type between two GPUs\n GPU0 GPU1\nGPU0 0 XGMI\nGPU1 XGMI 0\n",
		"MI300X", "the tables have 1 and 2 GPUs");
	refused("SwitchName=s1 Nodes=n[1-8]\n", NULL, "it says how machines are joined, not what they are");
	refused("{\"instance_edges\": []}", "T4", "InfraGraph is not read");
	refused("- topology: t\n  block:\n", "T4", "give what `scontrol show topology` prints");
	refused("a1:71:75 [0] NCCL INFO Bootstrap : Using eth0\n", "T4", "NCCL_TOPO_DUMP_FILE");
	refused("<topology version=\"3.0\"><object type=\"Machine\"/></topology>", NULL, "version 3 of hwloc's XML");
	refused("\tGPU0\tGPU1\nGPU0\t X \tNV1\nGPU1\tNV2\t X \n", "T4", "other way");
	refused("\tGPU0\tGPU1\nGPU0\t X \tNV1\n", "T4", "rows");
	refused("\tGPU0\tGPU1\nGPU0\t X \tQPI\n", "T4", ":2:");
	refused("<topology version=\"2.0\"><object", NULL, "hwloc");
	for (size_t cut = 1; cut + 1 < sizeof(nccl_switched); cut += 7) {
		/* any part of a dump gives an answer, never a crash */
		struct mq_import_report report;
		struct mq_err err = MQ_ERR_INIT;

		memcpy(text, nccl_switched, cut);
		text[cut] = '\0';
		if (cut + 1 < sizeof(nccl_switched) - 10)
			assert_int_equal(import(text, "H200", &report, &err), MQ_EINPUT);
	}
}

static int make_files(void **state)
{
	int a = mkstemp(input), b = mkstemp(output);

	return a < 0 || b < 0 || close(a) || close(b);
}

static int remove_files(void **state)
{
	unlink(input);
	unlink(output);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formats),
		cmocka_unit_test(reports),
		cmocka_unit_test(broken),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}

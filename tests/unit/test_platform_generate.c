/*
 * test_platform_generate.c - generated clusters: hop counts and bisection bandwidths have the closed
 * forms of the textbook, shared ports and switches are shared, bad options are refused.
 *
 * SimGrid takes one platform per process, so each case runs in a child.
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
#include <simgrid/link.h>

#include "hardware/platform/platform.h"
#include "hardware/platform/spec.h"
#include "sanitized.h"
#include "shipped.h"

static const struct mq_calib *calib; /* what is shipped, read once: children have it too */

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

static void in_child(const char *options, check_fn *check)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_platform_spec spec;
	struct mq_cluster *cluster;
	char path[] = "/tmp/mq-generate-XXXXXX";
	struct job job = { .check = check };

	mq_platform_spec_init(&spec);
	int file = mkstemp(path);
	if (file < 0 || close(file) ||
	    mq_opt_parse(mq_platform_opts, &spec, "platform", options, &arena, &err) != MQ_OK ||
	    mq_platform_generate(&spec, calib, NULL, path, &err) != MQ_OK) {
		fprintf(stderr, "%s: %s\n", options, err.text);
		_exit(2);
	}
	alarm(240); /* whoever waits for this process does so without a limit */
	mq_platform_start("test");
	enum mq_status status = mq_platform_load(path, &arena, &cluster, &err);
	unlink(path);
	if (status != MQ_OK) {
		fprintf(stderr, "%s: %s\n", options, err.text);
		_exit(2);
	}
	job.cluster = cluster;
	sg_actor_t actor = sg_actor_init("inspect", mq_platform_host(cluster, 0));
	sg_actor_set_data(actor, &job);
	sg_actor_start_(actor, inspect, 0, NULL);
	simgrid_run();
	_exit(job.passed ? 0 : 1);
}

static int outcome(const char *options, check_fn *check)
{
	int status;
	pid_t child = fork();

	if (!child)
		in_child(options, check);
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static const struct mq_route *route(const struct mq_cluster *c, uint32_t a, uint32_t b)
{
	struct mq_err err = MQ_ERR_INIT;
	const struct mq_route *r;

	if (mq_cluster_route(c, a, b, &r, &err) != MQ_OK) {
		fprintf(stderr, "%s\n", err.text);
		_exit(1);
	}
	return r;
}

static uint32_t hops(const struct mq_cluster *c, uint32_t a, uint32_t b)
{
	return route(c, a, b)->n_links;
}

static bool same(double got, double want, const char *what)
{
	if (fabs(got - want) <= 1e-9 * fabs(want))
		return true;
	fprintf(stderr, "%s: %.12g, expected %.12g\n", what, got, want);
	return false;
}

/* Each device of one half sends to its partner in the other, both ways at once: bytes per second and
 * direction, limited by the link that has most to carry for its width. */
static double bisection(const struct mq_cluster *c)
{
	double *load = calloc(c->n_links, sizeof(*load)), worst = 0;
	uint32_t n = c->n_devices;

	for (uint32_t i = 0; i < n; i++) {
		const struct mq_route *r = route(c, i, (i + n / 2) % n);

		for (uint32_t j = 0; j < r->n_links; j++)
			load[r->link[j]]++;
	}
	for (uint32_t i = 0; i < c->n_links; i++)
		worst = fmax(worst, load[i] / c->link[i].bw_Bps);
	free(load);
	return n / 2 / worst;
}

static bool switch_16(const struct mq_cluster *c)
{
	return c->n_devices == 16 && c->n_nodes == 2 && c->nvls && c->nics_per_node == 8 && hops(c, 0, 7) == 2 &&
	       hops(c, 0, 8) == 2 && same(route(c, 0, 7)->bw_Bps, 450e9, "NVLink") &&
	       same(route(c, 0, 15)->bw_Bps, 50e9, "port") && same(bisection(c), 8 * 50e9, "bisection") &&
	       c->device[9].node == 1 && c->device[9].local == 1 && c->device[13].socket == 1 &&
	       !strcmp(c->device[9].type, "H100-SXM-80GB");
}

/* 16 machines in leaves of 2: 2 hops in a leaf, 4 beyond; half of all ports / 2. */
static bool fat_tree(const struct mq_cluster *c)
{
	return hops(c, 0, 8) == 2 && hops(c, 8, 16) == 4 && hops(c, 0, 127) == 4 &&
	       same(bisection(c), 64 * 50e9 / 2, "bisection");
}

/* The same in pods of two leaves, which lose another factor of 4. */
static bool three_levels(const struct mq_cluster *c)
{
	return hops(c, 0, 8) == 2 && hops(c, 0, 16) == 4 && hops(c, 0, 32) == 6 &&
	       same(bisection(c), 64 * 50e9 / 8, "bisection");
}

static bool rails(const struct mq_cluster *c)
{
	return hops(c, 0, 8) == 2 && hops(c, 0, 32) == 4 && same(bisection(c), 32 * 50e9, "bisection");
}

/* 9 groups of 4 routers with 2 machines of one GPU: at most local, global, local between two ports, and
 * all-to-all traffic puts (8 machines)^2 flows on each global link and direction. */
static bool dragonfly(const struct mq_cluster *c)
{
	uint32_t n = c->n_devices, globals = 0;
	double *load = calloc(c->n_links, sizeof(*load));

	for (uint32_t a = 0; a < n; a++)
		for (uint32_t b = 0; b < n; b++) {
			uint32_t most = a / 2 == b / 2 ? 2 : a / 8 == b / 8 ? 3 : 5;

			if (a == b)
				continue;
			if (hops(c, a, b) > most || (a / 8 == b / 8 && hops(c, a, b) != most))
				return same(hops(c, a, b), most, "hops");
			for (uint32_t j = 0; j < hops(c, a, b); j++)
				load[route(c, a, b)->link[j]]++;
		}
	for (uint32_t i = 0; i < c->n_links; i++)
		if (!strncmp(c->link[i].name, "global", 6)) {
			globals++;
			if (!same(load[i], 64, "flows on a global link") ||
			    !same(c->link[i].bw_Bps, 50e9, "global link"))
				return false;
		}
	free(load);
	return n == 72 && same(globals, 2 * 36, "directed global links");
}

/* 4-ary 3-cube: the distances from one vertex sum to N n k/4; n N pairs are neighbours. */
static bool torus(const struct mq_cluster *c)
{
	uint32_t n = c->n_devices, near = 0;

	for (uint32_t a = 0; a < n; a++) {
		uint32_t sum = 0;

		for (uint32_t b = 0; b < n; b++)
			if (a != b) {
				sum += hops(c, a, b) - 2;
				near += hops(c, a, b) == 3;
			}
		if (!same(sum, n * 3, "sum of distances"))
			return false;
	}
	return n == 64 && same(near, 2 * 3 * n, "neighbours");
}

static bool scale_up(const struct mq_cluster *c)
{
	return c->n_devices == 288 && c->n_nodes == 4 && c->nvls && hops(c, 0, 71) == 2 && c->device[71].node == 0 &&
	       c->device[72].node == 1 && same(route(c, 0, 71)->bw_Bps, 900e9, "NVLink") &&
	       same(route(c, 0, 72)->bw_Bps, 50e9, "port") && same(bisection(c), 144 * 50e9 / 2, "bisection");
}

/* Four T4 share one port and, in pairs, a PCIe switch; what one sends to the other goes through the host. */
static bool shared_port(const struct mq_cluster *c)
{
	const struct mq_route *r = route(c, 0, 4), *s = route(c, 3, 7);
	uint32_t common = 0;

	for (uint32_t i = 0; i < r->n_links; i++)
		for (uint32_t j = 0; j < s->n_links; j++)
			common += r->link[i] == s->link[j];
	/* port and ports of either side */
	return same(common, 4, "common links") && same(bisection(c), 6.25e9, "bisection") && hops(c, 0, 1) == 5 &&
	       hops(c, 0, 2) == 5;
}

static bool cube_mesh(const struct mq_cluster *c)
{
	double sum = 0;

	for (uint32_t b = 1; b < 8; b++)
		if (hops(c, 0, b) == 1)
			sum += route(c, 0, b)->bw_Bps;
	return same(sum, 150e9, "NVLink of a GPU") && hops(c, 0, 7) == 5 &&
	       same(route(c, 0, 3)->bw_Bps, 50e9, "double link") && same(route(c, 0, 7)->bw_Bps, 15.75e9, "PCIe");
}

/* GPUs 0 to 3 of the same mesh. */
static bool half_mesh(const struct mq_cluster *c)
{
	return same(route(c, 0, 1)->bw_Bps, 25e9, "single link") && same(route(c, 0, 3)->bw_Bps, 50e9, "double link") &&
	       same(route(c, 0, 1)->bw_Bps + route(c, 0, 2)->bw_Bps + route(c, 0, 3)->bw_Bps, 100e9,
		    "links of GPU 0") &&
	       same(route(c, 2, 0)->bw_Bps + route(c, 2, 1)->bw_Bps + route(c, 2, 3)->bw_Bps, 125e9, "links of GPU 2");
}

static bool mixed(const struct mq_cluster *c)
{
	return c->n_devices == 16 && c->n_nodes == 4 && !strcmp(c->device[7].type, "V100-SXM2-16GB") &&
	       !strcmp(c->device[8].type, "T4") && c->device[8].node == 2 &&
	       same(route(c, 0, 4)->bw_Bps, 1.25e9, "V100 port") && same(route(c, 8, 12)->bw_Bps, 6.25e9, "T4 port") &&
	       same(route(c, 0, 12)->bw_Bps, 1.25e9, "between");
}

static bool bonded(const struct mq_cluster *c)
{
	return c->n_devices == 4 && same(route(c, 0, 2)->bw_Bps, 25e9, "bonded port") &&
	       same(route(c, 1, 3)->bw_Bps, 25e9, "bonded port") && same(bisection(c), 50e9, "bisection");
}

static bool one_device(const struct mq_cluster *c)
{
	return c->n_devices == 1 && c->n_nodes == 1;
}

static bool pairs(const struct mq_cluster *c)
{
	for (uint32_t a = 0; a < c->n_devices; a++)
		for (uint32_t b = 0; b < c->n_devices; b++)
			if (a != b && hops(c, a, b) < 1)
				return false;
	return true;
}

static void closed_forms(void **state)
{
	assert_int_equal(outcome("nodes=2", switch_16), 0);
	assert_int_equal(outcome("nodes=16,fabric=fat-tree,leaf=2,oversub=2", fat_tree), 0);
	assert_int_equal(outcome("nodes=16,fabric=fat-tree,leaf=2,oversub=2,pod=2,pod_oversub=4", three_levels), 0);
	assert_int_equal(
		outcome("nodes=16,fabric=fat-tree,leaves=2x2/2x2/2+2/2x2,oversub=2,pod_oversub=4", three_levels), 0);
	assert_int_equal(outcome("nodes=8,fabric=rail,leaf=4", rails), 0);
	assert_int_equal(outcome("nodes=72,gpus=1,fabric=dragonfly,routers=4,leaf=2", dragonfly), 0);
	assert_int_equal(outcome("nodes=64,gpus=1,fabric=torus,dims=4x4x4", torus), 0);
	assert_int_equal(outcome("nodes=72,gpus=4,gpu=GB200,fabric=nvl72,oversub=2", scale_up), 0);
	/* ports are those of a tray of four */
	assert_int_equal(outcome("nodes=72,gpus=4,nics=4,gpu=GB200,fabric=nvl72,oversub=2", scale_up), 0);
}

static void templates(void **state)
{
	assert_int_equal(outcome("nodes=2,gpus=4,gpu=T4", shared_port), 0);
	assert_int_equal(outcome("gpu=V100-16GB", cube_mesh), 0);
	assert_int_equal(outcome("gpu=V100-16GB,gpus=4,board=8", half_mesh), 0);
	assert_int_equal(outcome("gpu=V100-16GB*2x4@1.25+T4*2x4,nics=1,fabric=ethernet", mixed), 0);
	/* ports beyond one per GPU are bonded */
	assert_int_equal(outcome("nodes=2,gpus=2,gpu=V100-32GB,intra=nvlink-mesh,nics=4,nic_GBps=12.5", bonded), 0);
	assert_int_equal(outcome("gpus=1,gpu=T4", one_device), 0);
	assert_int_equal(outcome("gpus=1,gpu=H100", one_device), 0);
}

static void every_type_in_every_fabric(void **state)
{
	static const char *const fabric[] = {
		"switch", "rail,leaf=2",     "fat-tree,leaf=2,pod=1", "dragonfly,routers=2,leaf=1",
		"torus",  "ethernet,leaf=3",
	};

	for (uint32_t i = 0; i < calib->n_devices; i += SANITIZED ? 5 : 1) {
		char options[200];

		snprintf(options, sizeof(options), "gpu=%s,nodes=4,gpus=3,fabric=%s", calib->device[i].name,
			 fabric[i % 6]);
		assert_int_equal(outcome(options, pairs), 0);
	}
}

static void refused(const char *options, const char *word)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_platform_spec spec;
	FILE *nowhere = fopen("/dev/null", "w");
	enum mq_status status;

	mq_platform_spec_init(&spec);
	status = mq_opt_parse(mq_platform_opts, &spec, "platform", options, &arena, &err);
	if (status == MQ_OK)
		status = mq_platform_generate_to(&spec, calib, nowhere, &err);
	assert_int_equal(status, MQ_EINPUT);
	if (!strstr(err.text, word))
		fail_msg("'%s' lacks '%s'", err.text, word);
	fclose(nowhere);
	mq_arena_fini(&arena);
}

static void bad_options(void **state)
{
	refused("gpu=V100-SXM2-16G", "did you mean");
	refused("gpu=", "gpu=");
	refused("gpu=T4*0", "gpu=");
	refused("gpu=T4*2x", "gpu=");
	refused("gpu=T4@-1", "gpu=");
	refused("gpu=T4,intra=nvswitch", "NVLink");
	refused("gpu=A100-SXM4-80GB,gpus=4,board=8", "board=8");
	refused("gpu=V100-16GB,gpus=4,board=6", "board=6");
	refused("gpu=V100-16GB,gpus=4,board=4", "board=4");
	refused("gpu=A100-SXM4-80GB,gpus=8,board=8", "board=8");
	refused("nodes=131073", "more than the 1048576");
	refused("nodes=7,fabric=dragonfly", "multiple of 8");
	refused("nodes=800,fabric=dragonfly,routers=2,leaf=1", "groups");
	refused("nodes=8,fabric=torus,dims=3x3", "dims=");
	refused("nodes=8,fabric=torus,dims=2x-4", "dims=");
	refused("nodes=1000,fabric=torus", "512");
	refused("nodes=19,gpus=4,fabric=nvl72", "domain");
	refused("nodes=2048,fabric=fat-tree,leaf=1", "pod=");
	refused("nodes=8,fabric=fat-tree,leaves=4+3", "not the 8 machines");
	refused("nodes=8,fabric=fat-tree,leaves=4x3", "not the 8 machines");
	refused("nodes=8,fabric=fat-tree,leaves=4+-4", "write the machines of each leaf");
	refused("nodes=8,fabric=fat-tree,leaves=4x", "write the machines of each leaf");
	refused("nodes=8,fabric=fat-tree,leaves=4x2,leaf=4", "leave them out");
	refused("nodes=8,fabric=torus,leaves=4x2", "leave them out");
	refused("name=a<b", "letters");
	refused("oversub=0.5", "range");
	refused("noodles=2", "did you mean");
}

static void a_full_disk_is_an_error(void **state)
{
	struct mq_platform_spec spec;
	struct mq_err err = MQ_ERR_INIT;

	mq_platform_spec_init(&spec);
	assert_int_equal(mq_platform_generate(&spec, calib, NULL, "/nowhere/x.xml", &err), MQ_EINPUT);
	assert_int_equal(mq_platform_generate(&spec, calib, NULL, "/dev/full", &err), MQ_EINPUT);
	FILE *full = fopen("/dev/full", "w");
	assert_non_null(full);
	assert_int_equal(mq_platform_generate_to(&spec, calib, full, &err), MQ_EINPUT);
	fclose(full);
}

static void names_and_aliases(void **state)
{
	static const char *const pairs_of[][2] = {
		{ "A100-80GB", "A100-SXM4-80GB" }, { "a100", "A100-SXM4-80GB" }, { "H100-80GB", "H100-SXM-80GB" },
		{ "V100-32GB", "V100-SXM2-32GB" }, { "V100", "V100-SXM2-32GB" }, { "V100-16GB", "V100-SXM2-16GB" },
		{ "A800", "A800-SXM4-80GB" },      { "h800", "H800-SXM-80GB" },
	};

	for (size_t i = 0; i < sizeof(pairs_of) / sizeof(*pairs_of); i++)
		assert_string_equal(mq_calib_type(calib, pairs_of[i][0])->name, pairs_of[i][1]);
	assert_null(mq_calib_type(calib, "V100-SXM2-16"));
	for (uint32_t i = 0; i < calib->n_devices; i++)
		assert_ptr_equal(mq_calib_type(calib, calib->device[i].name), &calib->device[i]);
}

static struct mq_platform_spec parsed(const char *text, struct mq_arena *arena)
{
	struct mq_platform_spec spec;
	struct mq_err err = MQ_ERR_INIT;

	mq_platform_spec_init(&spec);
	if (mq_platform_spec_parse(text, &spec, arena, &err) != MQ_OK)
		fail_msg("%s: %s", text, err.text);
	return spec;
}

static void keys_in_one_text(void **state)
{
	static const char *const same[] = {
		"gpu=A100*2x8+V100*2x8@3.125 nics=4 nic_GBps=12.5 dims=4x4x4 sharp",
		" gpu=A100*2x8,V100*2x8@3.125;nics=4;  nic_GBps=12.5,dims=4x4x4,sharp=true",
		"sharp,gpu=A100*2x8 V100*2x8@3.125,nics=4\tnic_GBps=12.5\ndims=4x4x4",
	};
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "gpu=A100 noodles=2", "did you mean 'nodes'" },
		{ "nodes", "KEY=VALUE" },
		{ "nodes=2 A100", "'A100'" },
		{ "nodes=two", "not a number" },
		{ "=4", "no option" },
	};
	struct mq_arena arena = MQ_ARENA_INIT;

	for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++) {
		struct mq_platform_spec spec = parsed(same[i], &arena);

		assert_string_equal(spec.gpu, "A100*2x8+V100*2x8@3.125");
		assert_string_equal(spec.dims, "4x4x4");
		assert_true(spec.nics == 4 && spec.nic_GBps == 12.5 && spec.sharp && spec.nodes == 1);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct mq_platform_spec spec;
		struct mq_err err = MQ_ERR_INIT;

		mq_platform_spec_init(&spec);
		assert_int_equal(mq_platform_spec_parse(bad[i].text, &spec, &arena, &err), MQ_EINPUT);
		if (!strstr(err.text, bad[i].says))
			fail_msg("'%s' lacks '%s'", err.text, bad[i].says);
	}
	assert_true(mq_platform_spec_is("gpu=A100") && mq_platform_spec_is(" nodes=2,gpu=x/y"));
	assert_false(mq_platform_spec_is("dgx_a100") || mq_platform_spec_is("runs/lr=3/a.xml"));
	char text[] = " gpu=A100;, nodes=2 ,";
	assert_string_equal(mq_platform_spec_plain(text), "gpu=A100 nodes=2 ");
	mq_arena_fini(&arena);
}

/* A type without calibration says itself what no file does; known ones leave that to their file. */
static void a_type_without_calibration(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_platform_spec spec = parsed("gpu=Gaudi3+T4,tflops=1000,gpus=1", &arena);
	struct mq_err err = MQ_ERR_INIT;
	char *text;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	static const struct {
		const char *keys, *assumed;
	} cases[] = {
		/* 1e15 / 200 = 5 TB/s, 30 ms of it are 150 GB */
		{ "gpu=Gaudi3+T4,tflops=1000",
		  "all; 150 GB of memory (memory_GB=); 5 TB/s to it (bw_TBps=); no NVLink (nvlink_GBps=); PCIe of 31.5 GB/s "
		  "(pcie_GBps=); 1 port of 25 GB/s a machine (nics=, nic_GBps=); no price (price_per_h=); no power (power_W=)" },
		/* as beside A100, and beside H100 */
		{ "gpu=Gaudi3,tflops=400,nvlink_GBps=300,memory_GB=192,bw_TBps=5.3,pcie_GBps=31,power_W=600",
		  "all; 8 ports of 25 GB/s a machine (nics=, nic_GBps=); no price (price_per_h=)" },
		{ "gpu=Gaudi3,tflops=1000,nvlink_GBps=300,memory_GB=192,bw_TBps=5.3,nics=4,price_per_h=2,power_W=600",
		  "all; PCIe of 63 GB/s (pcie_GBps=); 4 ports of 50 GB/s a machine (nics=, nic_GBps=)" },
		{ "gpu=Gaudi3,tflops=1000,nvlink_GBps=300,memory_GB=192,mem_GBps=5300,nics=4,nic_GBps=25,pcie_GBps=63,"
		  "price_per_h=2,power_W=600",
		  "all" },
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct mq_gen gen;

		spec = parsed(cases[i].keys, &arena);
		assert_int_equal(mq_gen_prepare(&spec, calib, &arena, &gen, &err), MQ_OK);
		assert_string_equal(mq_gen_assumed(&spec, &gen.group[0], "all", &arena), cases[i].assumed);
	}
	spec = parsed("gpu=Gaudi3+T4,tflops=1000,gpus=1,memory_GB=192,bw_TBps=5.3", &arena);
	assert_int_equal(mq_platform_generate_to(&spec, calib, file, &err), MQ_OK);
	fclose(file);
	assert_non_null(strstr(text, "\"Gaudi3\""));
	const char *memory = strstr(text, "<prop id=\"mq_memory_B\" value=\"1.92e+11\"/>");
	assert_non_null(memory);
	assert_non_null(strstr(text, "<prop id=\"mq_mem_bw_Bps\" value=\"5.3e+12\"/>"));
	assert_null(strstr(memory + 20, "mq_memory_B")); /* nothing of the T4 */
	free(text);
	mq_arena_fini(&arena);
}

/* ---- built of its keys, without a file ------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
	return !strcmp(a, b);
}

/* To the bit; NaN = not given. */
static bool same_bits(double a, double b)
{
	return !memcmp(&a, &b, sizeof(a)) || (isnan(a) && isnan(b));
}

static bool same_devices(const struct mq_cluster *a, const struct mq_cluster *b)
{
	bool same = a->n_devices == b->n_devices && a->n_nodes == b->n_nodes;

	for (uint32_t i = 0; i < a->n_devices && same; i++) {
		const struct mq_device *x = &a->device[i], *y = &b->device[i];

		same = same_text(x->name, y->name) && same_text(x->type, y->type) && x->kind == y->kind &&
		       x->node == y->node && x->local == y->local && x->socket == y->socket && x->calib == y->calib &&
		       same_bits(x->memory_B, y->memory_B) && same_bits(x->mem_bw_Bps, y->mem_bw_Bps) &&
		       same_bits(x->speed_flops, y->speed_flops) && same_bits(x->price_per_h, y->price_per_h) &&
		       same_bits(x->power_W, y->power_W);
		if (!same)
			fprintf(stderr, "devices %s and %s differ\n", x->name, y->name);
	}
	return same;
}

static bool same_links(const struct mq_cluster *a, const struct mq_cluster *b)
{
	bool same = a->n_links == b->n_links;

	for (uint32_t i = 0; i < a->n_links && same; i++) {
		const struct mq_link *x = &a->link[i], *y = &b->link[i];

		same = same_text(x->name, y->name) && x->class == y->class && x->fabric == y->fabric &&
		       same_bits(x->bw_Bps, y->bw_Bps) && same_bits(x->lat_s, y->lat_s) && x->fatpipe == y->fatpipe;
		if (!same)
			fprintf(stderr, "links %s and %s differ\n", x->name, y->name);
	}
	return same;
}

static bool same_routes(const struct mq_cluster *a, const struct mq_cluster *b)
{
	for (uint32_t i = 0; i < a->n_devices; i++)
		for (uint32_t j = 0; j < a->n_devices; j++) {
			const struct mq_route *x = i == j ? NULL : route(a, i, j), *y = i == j ? NULL : route(b, i, j);

			if (x && (x->n_links != y->n_links || memcmp(x->link, y->link, x->n_links * sizeof(*x->link)) ||
				  !same_bits(x->lat_s, y->lat_s) || !same_bits(x->bw_Bps, y->bw_Bps))) {
				fprintf(stderr, "routes from %s to %s differ\n", a->device[i].name, a->device[j].name);
				return false;
			}
		}
	return true;
}

static const char *built_of; /* the options of the case in this child */

static bool is_as_built(const struct mq_cluster *loaded)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_platform_spec spec;
	struct mq_cluster *built;

	mq_platform_spec_init(&spec);
	if (mq_opt_parse(mq_platform_opts, &spec, "platform", built_of, &arena, &err) != MQ_OK ||
	    mq_platform_build(&spec, calib, &arena, &built, &err) != MQ_OK || mq_cluster_check(built, &err) != MQ_OK) {
		fprintf(stderr, "%s\n", err.text);
		return false;
	}
	return same_text(loaded->name, built->name) && loaded->nics_per_node == built->nics_per_node &&
	       loaded->nvls == built->nvls && loaded->sharp == built->sharp && same_devices(loaded, built) &&
	       same_links(loaded, built) && same_routes(loaded, built);
}

static void built_is_what_is_loaded(void **state)
{
	static const char *const options[] = {
		"nodes=1",
		"nodes=1,gpu=L4",
		"nodes=2,nvls=0",
		"nodes=5,fabric=rail,leaf=2,oversub=1.7",
		"nodes=9,gpu=L4,gpus=2,fabric=fat-tree,leaves=2+1/3x2,oversub=1.3,pod_oversub=2",
		"nodes=9,fabric=fat-tree,leaves=2+1/3/3,nic_GBps=100",
		"nodes=12,fabric=rail,leaf=3,nics=4,sharp,price_per_h=2.385",
		"nodes=6,gpu=V100-SXM2-32GB,fabric=fat-tree,leaf=2,pod=2,pod_oversub=3",
		"nodes=6,gpu=V100-SXM2-32GB,fabric=fat-tree,leaf=2,pod=2,nic_GBps=100",
		"nodes=3,gpus=5,gpu=L4,fabric=ethernet,leaf=2,pcie_switches=4,nic_us=3.7",
		"nodes=3,gpu=T4,sockets=4,gpus=9,power_W=70",
		"nodes=18,gpus=4,gpu=GB200,fabric=nvl72,domain=12",
		"nodes=9,gpus=4,nics=3,gpu=GB200,fabric=nvl72,domain=18",
		"gpu=H100*2x8+A100-80GB*3x4+L4*1x3,fabric=fat-tree,leaf=2",
		"nodes=2,gpu=New-9,tflops=123.456,nvlink_GBps=77.7,gpus=3",
		"nodes=2,gpus=4,gpu=CPU-Xeon-28c,fabric=ethernet",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		built_of = options[i];
		if (outcome(options[i], is_as_built) != 0)
			fail_msg("%s: not as it is loaded", options[i]);
	}
}

static int read_calib(void **state)
{
	static struct mq_arena arena = MQ_ARENA_INIT;

	calib = shipped_calib(&arena);
	*state = &arena;
	return 0;
}

static int free_calib(void **state)
{
	mq_arena_fini(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(built_is_what_is_loaded),
		cmocka_unit_test(names_and_aliases),
		cmocka_unit_test(keys_in_one_text),
		cmocka_unit_test(a_type_without_calibration),
		cmocka_unit_test(bad_options),
		cmocka_unit_test(a_full_disk_is_an_error),
		cmocka_unit_test(closed_forms),
		cmocka_unit_test(templates),
		cmocka_unit_test(every_type_in_every_fabric),
	};

	return cmocka_run_group_tests(tests, read_calib, free_calib);
}

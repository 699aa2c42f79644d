/* fabrics.c - makes a cluster of the columns of a row of collective timings.
 *
 * Missing columns get values that are usual for the GPU. The cluster has one link each way per GPU port, per pair of a
 * mesh, and per NIC.
 *
 * Not modelled: switches between nodes (the tables' systems are small), PCIe trees.
 * SPDX-License-Identifier: Apache-2.0 */
#include "score/fabrics.h"

#include <math.h>
#include <stdio.h>

#define GB          1e9
#define HOST_MEMORY 200e9 /* of a server with two sockets */

static MQ_NAMES(inside_name, int, MQ_INSIDE_HOST + 1, "", "nvswitch", "cube-mesh", "quad-mesh", "nvlink-pairs", "pcie",
		"host")

const char mq_fabric_columns[] = "system gpu gpus nodes inside nvls nics nic_Gbps fabric sharp algo proto per_process "
				 "threads nccl_version";

/* A row of a table, and the destination of its errors. */
struct cells {
	const struct mq_csv *csv;
	uint32_t row;
	struct mq_err *err;
};

static const char *text_of(const struct cells *c, const char *column)
{
	return mq_csv_word(c->csv, c->row, column);
}

static enum mq_status number(const struct cells *c, const char *column, double usual, double *value)
{
	return mq_csv_range(c->csv, c->row, column, usual, 0, 1e6, value, c->err);
}

static enum mq_status word(const struct cells *c, const char *column, const char *(*name)(int), int n, int usual,
			   int *value)
{
	const char *text = text_of(c, column);

	*value = *text ? mq_enum_find(name, n, text) : usual;
	return *value < n ? MQ_OK :
			    mq_bad(c->err, "%s:%u: %s '%s' is unknown; results/README.md has the words", c->csv->path,
				   c->csv->line[c->row], column, text);
}

/* The network of the row, by default the usual one for its GPU. */
static enum mq_status read_network(const struct cells *c, const struct mq_device_calib *gpu,
				   struct mq_fabric_spec *spec)
{
	double usual = gpu->gpus_per_nic > 0 ? ceil(spec->per_node / gpu->gpus_per_nic) : 1, cards, rate;
	int fabric;

	MQ_TRY(word(c, "fabric", (const char *(*)(int))mq_fabric_name, MQ_N_FABRICS, MQ_FABRIC_IB, &fabric));
	MQ_TRY(number(c, "nics", usual, &cards));
	MQ_TRY(number(c, "nic_Gbps", gpu->nic_Bps * 8 / GB, &rate));
	if (!(cards >= 1) || !(rate > 0))
		return mq_bad(c->err, "%s:%u: %u nodes without a network; give nics and nic_Gbps", c->csv->path,
			      c->csv->line[c->row], spec->nodes);
	spec->fabric = (enum mq_fabric)fabric;
	spec->rails = (uint32_t)fmin(cards, spec->per_node);
	spec->nic_Bps = rate / 8 * GB * (cards / spec->rails);
	return MQ_OK;
}

static enum mq_status read_inside(const struct cells *c, const struct mq_device_calib *gpu, struct mq_fabric_spec *spec)
{
	/* The usual links between GPUs of a machine. */
	int inside, usual = gpu->nvlink_Bps <= 0 ? (gpu->p2p > 0 ? MQ_INSIDE_PCIE : MQ_INSIDE_HOST) :
			    gpu->cube_mesh <= 0  ? MQ_INSIDE_SWITCH :
			    spec->per_node == 4  ? MQ_INSIDE_QUAD :
						   MQ_INSIDE_CUBE;
	double nvls;

	MQ_TRY(word(c, "inside", inside_name, MQ_INSIDE_HOST + 1, usual, &inside));
	spec->inside = spec->per_node == 1 ? MQ_INSIDE_NONE : (enum mq_inside)inside;
	spec->nvlink_Bps = gpu->nvlink_Bps > 0 ? gpu->nvlink_Bps : gpu->bridge_Bps;
	spec->pcie_Bps = gpu->pcie_Bps;
	if (spec->inside >= MQ_INSIDE_SWITCH && spec->inside <= MQ_INSIDE_PAIRS && !(spec->nvlink_Bps > 0))
		return mq_bad(c->err,
			      "inside '%s' is NVLink, which %s has not; name the type that has (platforms/calib)",
			      inside_name(inside), gpu->name);
	if (spec->inside == MQ_INSIDE_CUBE && spec->per_node > 8)
		return mq_bad(c->err, "%u GPUs on a cube mesh: it has 8", spec->per_node);
	/* Across machines NVLS began with NCCL 2.18; Blackwell came later. */
	MQ_TRY(number(c, "nvls", spec->nodes == 1 || gpu->compute_capability >= 100, &nvls));
	spec->nvls = nvls > 0 && gpu->nvls > 0 && spec->inside == MQ_INSIDE_SWITCH;
	return MQ_OK;
}

static enum mq_status read_run(const struct cells *c, struct mq_fabric_spec *spec)
{
	unsigned major = 0, minor = 0, patch = 0;
	double sharp, processes, threads;
	int algo, proto;

	MQ_TRY(word(c, "algo", (const char *(*)(int))mq_algo_name, MQ_N_ALGOS, MQ_ALGO_AUTO, &algo));
	MQ_TRY(word(c, "proto", (const char *(*)(int))mq_proto_name, MQ_N_PROTOS, MQ_PROTO_AUTO, &proto));
	MQ_TRY(number(c, "sharp", 0, &sharp));
	/* nccl-tests: usually one process for all GPUs on one machine, under mpirun one per GPU. */
	MQ_TRY(number(c, "per_process", spec->nodes > 1 ? 1 : spec->per_node, &processes));
	MQ_TRY(number(c, "threads", 1, &threads));
	if (threads < 1 || (processes > 0 && threads > processes))
		return mq_bad(c->err, "%s:%u: threads '%s' is not a number from 1 to the %g GPUs of a process",
			      c->csv->path, c->csv->line[c->row], text_of(c, "threads"), processes);
	if (sscanf(text_of(c, "nccl_version"), "%u.%u.%u", &major, &minor, &patch) >= 2)
		spec->nccl_version = major * 10000 + minor * 100 + patch;
	spec->algo = (enum mq_algo)algo;
	spec->proto = (enum mq_proto)proto;
	spec->sharp = sharp > 0;
	spec->per_thread = processes / threads;
	return MQ_OK;
}

enum mq_status mq_fabric_read(const struct mq_csv *csv, uint32_t row, const struct mq_calib *calib,
			      struct mq_fabric_spec *spec, struct mq_err *err)
{
	const struct cells c = { csv, row, err };
	const struct mq_device_calib *gpu = mq_calib_type(calib, text_of(&c, "gpu"));
	double gpus, nodes;

	MQ_TRY(number(&c, "gpus", 0, &gpus));
	MQ_TRY(number(&c, "nodes", 1, &nodes));
	*spec = (struct mq_fabric_spec){ .nodes = (uint32_t)nodes };
	if (!gpu)
		return mq_bad(err, "gpu '%s' is not known; name it as in platforms/calib", text_of(&c, "gpu"));
	if (nodes < 1 || gpus < 2 || (uint32_t)gpus % (uint32_t)nodes)
		return mq_bad(err, "%g GPUs in %g nodes: need at least 2, and as many in every node", gpus, nodes);
	spec->type = gpu->name;
	spec->per_node = (uint32_t)gpus / spec->nodes;
	MQ_TRY(read_inside(&c, gpu, spec));
	if (spec->nodes > 1)
		MQ_TRY(read_network(&c, gpu, spec));
	return read_run(&c, spec);
}

/* Short name: "A100-SXM4-40GB:1x8:nvswitch". */
static const char *name_of(const struct mq_fabric_spec *spec, struct mq_arena *arena)
{
	const char *node = mq_arena_printf(arena, "%s:%ux%u%s%s", spec->type, spec->nodes, spec->per_node,
					   spec->inside ? ":" : "", inside_name((int)spec->inside));

	if (spec->nodes < 2)
		return node;
	return mq_arena_printf(arena, "%s:%ux%.0fG-%s", node, spec->rails, spec->nic_Bps * 8 / GB,
			       mq_fabric_name(spec->fabric));
}

/* Links: per GPU port up and down, per GPU and neighbour of a mesh, per NIC up and down. */
struct wiring {
	const struct mq_fabric_spec *spec;
	struct mq_cluster *cluster;
	uint32_t ports, nics, hosts, pairs; /* the first link of each kind */
};

/* NVLinks between two GPUs of a DGX-1V. */
static const uint8_t cube[8][8] = {
	{ 0, 1, 1, 2, 2, 0, 0, 0 }, { 1, 0, 2, 1, 0, 2, 0, 0 }, { 1, 2, 0, 2, 0, 0, 1, 0 }, { 2, 1, 2, 0, 0, 0, 0, 1 },
	{ 2, 0, 0, 0, 0, 1, 1, 2 }, { 0, 2, 0, 0, 1, 0, 2, 1 }, { 0, 0, 1, 0, 1, 2, 0, 2 }, { 0, 0, 0, 1, 2, 1, 2, 0 },
};

static double pair_Bps(const struct mq_fabric_spec *spec, uint32_t a, uint32_t b)
{
	if (spec->inside == MQ_INSIDE_CUBE)
		return spec->nvlink_Bps / 6 * cube[a][b];
	if (spec->inside == MQ_INSIDE_QUAD)
		return a == b ? 0 : spec->nvlink_Bps / 3;
	return spec->inside == MQ_INSIDE_PAIRS && a / 2 == b / 2 ? spec->nvlink_Bps : 0;
}

static enum mq_status resolve(void *context, uint32_t src, uint32_t dst, struct mq_route *route, struct mq_err *err)
{
	const struct wiring *w = context;
	uint32_t m = w->spec->per_node, *link = mq_arena_array(w->cluster->arena, 3, uint32_t);

	(void)err;
	route->link = link;
	route->n_links = 2;
	if (src / m != dst / m) {
		uint32_t r = w->spec->rails;

		link[0] = w->nics + 2 * (src / m * r + src % m * r / m);
		link[1] = w->nics + 2 * (dst / m * r + dst % m * r / m) + 1;
	} else if (pair_Bps(w->spec, src % m, dst % m) > 0) {
		route->n_links = 1;
		link[0] = w->pairs + src * m + dst % m;
	} else {
		link[0] = w->ports + 2 * src;
		link[1] = w->ports + 2 * dst + 1;
		if (w->spec->inside == MQ_INSIDE_HOST) {
			route->n_links = 3;
			link[2] = w->hosts + src / m;
		}
	}
	return MQ_OK;
}

static void name_link(const struct wiring *w, uint32_t at, enum mq_link_class class, double bw_Bps, const char *kind)
{
	w->cluster->link[at] = (struct mq_link){
		.name = mq_arena_printf(w->cluster->arena, "%s%u", kind, at),
		.class = class,
		.fabric = class == MQ_LINK_NIC ? w->spec->fabric : MQ_FABRIC_NONE,
		.bw_Bps = bw_Bps,
	};
}

static void make_links(const struct wiring *w)
{
	const struct mq_fabric_spec *spec = w->spec;
	uint32_t n = spec->nodes * spec->per_node;
	bool nvswitch = spec->inside == MQ_INSIDE_SWITCH;

	for (uint32_t i = 0; i < 2 * n; i++)
		name_link(w, w->ports + i, nvswitch ? MQ_LINK_NVLINK : MQ_LINK_PCIE,
			  nvswitch ? spec->nvlink_Bps : spec->pcie_Bps, "port");
	for (uint32_t i = 0; i < 2 * spec->nodes * spec->rails; i++)
		name_link(w, w->nics + i, MQ_LINK_NIC, spec->nic_Bps, "nic");
	for (uint32_t i = 0; i < spec->nodes; i++)
		name_link(w, w->hosts + i, MQ_LINK_HOST, HOST_MEMORY, "host");
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < spec->per_node; k++)
			name_link(w, w->pairs + i * spec->per_node + k, MQ_LINK_NVLINK,
				  fmax(1, pair_Bps(spec, i % spec->per_node, k)), "pair");
}

enum mq_status mq_fabric_build(const struct mq_fabric_spec *spec, struct mq_calib *calib, struct mq_arena *arena,
			       struct mq_cluster **out, struct mq_err *err)
{
	struct mq_cluster *cluster = mq_cluster_new(arena);
	struct wiring *w = mq_arena_array(arena, 1, struct wiring);
	uint32_t n = spec->nodes * spec->per_node;
	const struct mq_device_calib *known = mq_calib_device(calib, spec->type);

	if (!known)
		return mq_bad(err, "device type '%s' has no calibration; add platforms/calib/%s.json", spec->type,
			      spec->type);
	*w = (struct wiring){ .spec = spec,
			      .cluster = cluster,
			      .ports = 0,
			      .nics = 2 * n,
			      .hosts = 2 * n + 2 * spec->nodes * spec->rails };
	w->pairs = w->hosts + spec->nodes;
	cluster->name = name_of(spec, arena);
	cluster->n_devices = n;
	cluster->n_nodes = spec->nodes;
	cluster->n_links = w->pairs + n * spec->per_node;
	cluster->nics_per_node = spec->rails;
	cluster->nvls = spec->nvls;
	cluster->sharp = spec->sharp;
	cluster->device = mq_arena_array(arena, n, struct mq_device);
	cluster->link = mq_arena_array(arena, cluster->n_links, struct mq_link);
	cluster->resolve = resolve;
	cluster->context = w;
	for (uint32_t i = 0; i < n; i++)
		cluster->device[i] = (struct mq_device){
			.name = mq_arena_printf(arena, "gpu%u", i),
			.type = spec->type,
			.kind = MQ_GPU,
			.node = i / spec->per_node,
			.local = i % spec->per_node,
			.calib = MQ_NONE,
			.speed_flops = fmax(known->peak_flops[MQ_FP16], 1),
			.price_per_h = NAN,
			.power_W = NAN,
		};
	make_links(w);
	*out = cluster;
	return mq_calib_bind(calib, cluster, err);
}

/*
 * fabrics.c - from the words of a collective timing's row to a cluster.
 *
 * Published tables name a machine in words ("NVSwitch intra; 8x 400G IB inter"): GPU type (a name
 * or alias of a calibration), links inside the node, network cards and how the benchmark was driven
 * are read from them, with what is usual beside that GPU where the words are silent. The cluster has
 * one link each way per GPU port, per pair of a mesh, and per NIC.
 *
 * Not modelled: switches between nodes (the tables' systems are small), PCIe trees.
 */
#include "score/fabrics.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "score/score.h"

#define GB            1e9
#define HOST_MEMORY   200e9 /* of a server with two sockets */
#define NVLINK_DOMAIN 72    /* GPUs of an NVL72 rack */

/* The number that ends right before `at`, blanks apart; 0 if there is none. */
static double number_ending(const char *text, const char *at)
{
	const char *start;

	while (at > text && at[-1] == ' ')
		at--;
	start = at;
	while (start > text && (isdigit((unsigned char)start[-1]) || start[-1] == '.'))
		start--;
	return start < at && isdigit((unsigned char)*start) ? strtod(start, NULL) : 0;
}

/* The number right before `unit` ("200 Gb/s"); 0 if there is none. */
static double number_before(const char *text, const char *unit)
{
	double value = 0;

	for (const char *at = text; !(value > 0) && (at = strstr(at, unit)); at++)
		value = number_ending(text, at);
	return value;
}

/* N of "Nx CARD" or "NxRATE". */
static double count_of(const char *text)
{
	double value = 0;

	for (const char *at = text; !(value > 0) && (at = strchr(at, 'x')); at++)
		if (at[1] == ' ' || isdigit((unsigned char)at[1]))
			value = at > text && isdigit((unsigned char)at[-1]) ? number_ending(text, at) : 0;
	return value;
}

/* How NVLink joins the GPUs of a machine where it does. */
static enum mq_inside usual_nvlink(const struct mq_device_calib *gpu, uint32_t per_node)
{
	return gpu->cube_mesh <= 0 ? MQ_INSIDE_SWITCH : per_node == 4 ? MQ_INSIDE_QUAD : MQ_INSIDE_CUBE;
}

/* Do the words say that `what` is not there ("no NVLink", "without P2P")? */
static bool denied(const char *words, const char *what)
{
	static const char *const no[] = { "no", "without" };
	char text[64];

	for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++) {
		snprintf(text, sizeof(text), "%s %s", no[i], what);
		if (mq_contains(words, text))
			return true;
	}
	return false;
}

static bool named(const char *words, const char *what)
{
	return mq_contains(words, what) && !denied(words, what);
}

static enum mq_inside read_joined(const char *words, const struct mq_device_calib *gpu, uint32_t per_node)
{
	if (per_node == 1)
		return MQ_INSIDE_NONE;
	if (mq_contains(words, "cube mesh"))
		return MQ_INSIDE_CUBE;
	if (mq_contains(words, "pairwise") || named(words, "bridge"))
		return MQ_INSIDE_PAIRS;
	if (named(words, "NVSwitch"))
		return MQ_INSIDE_SWITCH;
	if (named(words, "NVLink"))
		return usual_nvlink(gpu, per_node);
	if (named(words, "P2P") || (mq_contains(words, "Gen") && gpu->p2p > 0 && !denied(words, "P2P")))
		return MQ_INSIDE_PCIE;
	if (mq_contains(words, "PCI") || mq_contains(words, "P2P") || mq_contains(words, "NVLink"))
		/* No word about direct access between GPUs: through the host's memory. */
		return MQ_INSIDE_HOST;
	/* Of the network alone, or of nothing. */
	return gpu->nvlink_Bps > 0 ? usual_nvlink(gpu, per_node) : gpu->p2p > 0 ? MQ_INSIDE_PCIE : MQ_INSIDE_HOST;
}

static void read_inside(const struct mq_fabric_text *text, const struct mq_device_calib *gpu,
			struct mq_fabric_spec *spec)
{
	const char *words = text->interconnect;

	spec->nvlink_Bps = gpu->nvlink_Bps > 0 ? gpu->nvlink_Bps : gpu->bridge_Bps;
	spec->pcie_Bps = gpu->pcie_Bps;
	spec->inside = read_joined(words, gpu, spec->per_node);
	/* Across machines NVLS began with NCCL 2.18, the machines of an NVLink domain need multicast
	 * between their hosts: on Hopper and in domains only where it is said. Blackwell came later. */
	spec->nvls =
		gpu->nvls > 0 && spec->inside == MQ_INSIDE_SWITCH &&
		(text->nodes == 1 || mq_contains(words, "NVLS") || (gpu->compute_capability >= 100 && spec->nodes > 1));
}

/* Do the words say that one NVLink domain joins the machines ("MNNVL", "NVL72")? */
static bool one_domain(const struct mq_fabric_text *text)
{
	return mq_contains(text->interconnect, "MNNVL") || mq_contains(text->interconnect, "NVL72") ||
	       mq_contains(text->interconnect, "NVLink domain") || mq_contains(text->system, "NVL72") ||
	       mq_contains(text->system, "NVLink domain");
}

static double rate_Gbps(const char *words)
{
	static const struct {
		const char *word;
		double Gbps;
	} grade[] = {
		{ "XDR", 800 }, { "NDR200", 200 }, { "NDR", 400 }, { "HDR100", 100 },
		{ "HDR", 200 }, { "EDR", 100 },    { "FDR", 56 },
	};
	static const char *const unit[] = { "Gb", "Gigabit", "GE", "G " };
	size_t n = strlen(words);
	double rate = n && words[n - 1] == 'G' ? number_ending(words, words + n - 1) : 0;

	for (size_t i = 0; i < sizeof(unit) / sizeof(*unit) && !(rate > 0); i++)
		rate = number_before(words, unit[i]);
	for (size_t i = 0; i < sizeof(grade) / sizeof(*grade) && !(rate > 0); i++)
		if (mq_contains(words, grade[i].word))
			rate = grade[i].Gbps;
	return rate;
}

static double usual_cards(const struct mq_device_calib *gpu, uint32_t per_node)
{
	return gpu->gpus_per_nic > 0 ? ceil(per_node / gpu->gpus_per_nic) : 1;
}

static void read_network(const struct mq_fabric_text *text, const struct mq_device_calib *gpu,
			 struct mq_fabric_spec *spec)
{
	/* "NVSwitch intra; 8x 400G IB inter": what stands after "intra" is the network. */
	const char *intra = strcasestr(text->interconnect, "intra");
	const char *semicolon = strchr(text->interconnect, ';');
	const char *words = intra ? intra : semicolon ? semicolon : text->interconnect;
	double cards = count_of(words), rate = rate_Gbps(words), total = number_before(words, "GB/s");
	bool said = rate > 0;

	if (mq_contains(text->interconnect, "EFA"))
		words = intra ? intra : text->interconnect;
	spec->fabric = mq_contains(words, "EFA")                                   ? MQ_FABRIC_EFA :
		       mq_contains(words, "TCPX") || mq_contains(words, "FasTrak") ? MQ_FABRIC_TCPXO :
		       mq_contains(words, "gIB")                                   ? MQ_FABRIC_GIB :
		       mq_contains(words, "RoCE")                                  ? MQ_FABRIC_ROCE :
		       mq_contains(words, "Ethernet") || mq_contains(words, "TCP") ? MQ_FABRIC_ETHERNET :
		       mq_contains(words, "Omni") || mq_contains(words, "OPA")     ? MQ_FABRIC_OMNIPATH :
										     MQ_FABRIC_IB;
	if (!(rate > 0))
		rate = spec->fabric == MQ_FABRIC_ETHERNET ? 10 : gpu->nic_Bps * 8 / GB;
	if (!(cards >= 1))
		cards = number_before(text->interconnect, "NIC");
	if (!(cards >= 1)) /* "100G EFA": such a rate is that of the whole machine */
		cards = spec->fabric == MQ_FABRIC_ETHERNET    ? 1 :
			said && spec->fabric == MQ_FABRIC_EFA ? 1 :
								usual_cards(gpu, spec->per_node);
	spec->rails = (uint32_t)fmin(cards, spec->per_node);
	spec->nic_Bps = rate / 8 * GB * (cards / spec->rails);
	if (total > 0 && mq_contains(words, "not stated"))
		spec->nic_Bps = total * GB / spec->rails;
}

/* What a system or a note says of a variable of NCCL: "NCCL_ALGO=Ring", the rest of the name may be anything. */
static const char *forced(const struct mq_fabric_text *text, const char *key)
{
	const char *at = strcasestr(text->note, key);

	if (!at)
		at = strcasestr(text->system, key);
	return at ? at + strlen(key) : "";
}

/* The one of 1 .. n - 1 whose whole name begins the text, the longest (NVLSTree, not NVLS); 0: none. */
static int longest(const char *text, const char *(*name)(int), int n)
{
	int best = 0;

	for (int i = 1; i < n; i++)
		if (!strncasecmp(text, name(i), strlen(name(i))) && (!best || strlen(name(i)) > strlen(name(best))))
			best = i;
	return best;
}

static const char *algo_name(int i)
{
	return mq_algo_nccl((enum mq_algo)i);
}

static const char *proto_name(int i)
{
	return mq_proto_nccl((enum mq_proto)i);
}

static void read_run(const struct mq_fabric_text *text, struct mq_fabric_spec *spec)
{
	unsigned major = 0, minor = 0, patch = 0;

	spec->algo = (enum mq_algo)longest(forced(text, "NCCL_ALGO="), algo_name, MQ_N_ALGOS);
	if (mq_contains(text->system, "ring only") || mq_contains(text->note, "ring only") ||
	    mq_contains(text->interconnect, "not stated"))
		/* A network that is not stated was estimated from the bus bandwidth, a ring's. */
		spec->algo = MQ_ALGO_RING;
	spec->proto = (enum mq_proto)longest(forced(text, "NCCL_PROTO="), proto_name, MQ_N_PROTOS);
	if (sscanf(text->version, "%u.%u.%u", &major, &minor, &patch) >= 2)
		spec->nccl_version = major * 10000 + minor * 100 + patch;
	/* nccl-tests: "-g N" (one process for all GPUs) is its usual use on one machine, one
	 * process per GPU under mpirun across machines. */
	if (mq_contains(text->note, "kernel time"))
		spec->per_process = 0;
	else if (mq_contains(text->note, "host-timed") || text->nodes > 1)
		spec->per_process = 1;
	else
		spec->per_process = text->gpus;
}

enum mq_status mq_fabric_read(const struct mq_fabric_text *text, const struct mq_calib *calib,
			      struct mq_fabric_spec *spec, struct mq_err *err)
{
	const struct mq_device_calib *gpu = mq_calib_type_in(calib, text->system, false);

	*spec = (struct mq_fabric_spec){ .nodes = text->nodes };
	if (!gpu)
		gpu = mq_calib_type_in(calib, text->interconnect, false);
	if (!gpu)
		return mq_fail(err, MQ_EINPUT,
			       "system '%s' names no GPU that is known; name it as in "
			       "platforms/calib",
			       text->system);
	if (!text->nodes || text->gpus % text->nodes || text->gpus < 2)
		return mq_fail(err, MQ_EINPUT,
			       "%u GPUs in %u nodes: need at least 2, and as many in "
			       "every node",
			       text->gpus, text->nodes);
	spec->type = gpu->name;
	if (one_domain(text) && text->gpus <= NVLINK_DOMAIN)
		spec->nodes = 1;
	spec->per_node = text->gpus / spec->nodes;
	read_inside(text, gpu, spec);
	if (spec->inside >= MQ_INSIDE_SWITCH && spec->inside <= MQ_INSIDE_PAIRS && !(spec->nvlink_Bps > 0))
		return mq_fail(
			err, MQ_EINPUT,
			"interconnect '%s' says NVLink, which %s has not; name the type that has (platforms/calib)",
			text->interconnect, gpu->name);
	if (spec->inside == MQ_INSIDE_CUBE && spec->per_node > 8)
		return mq_fail(err, MQ_EINPUT, "%u GPUs on a cube mesh: it has 8", spec->per_node);
	if (spec->nodes > 1)
		read_network(text, gpu, spec);
	spec->sharp = mq_contains(text->interconnect, "SHARP") || mq_contains(text->system, "SHARP") ||
		      mq_contains(text->note, "SHARP") || mq_contains(text->note, "CollNet");
	read_run(text, spec);
	return MQ_OK;
}

const char *mq_fabric_print(const struct mq_fabric_spec *spec, struct mq_arena *arena)
{
	static const char *const inside[] = { "",      ":nvswitch", ":cube-mesh", ":quad-mesh", ":nvlink-pairs",
					      ":pcie", ":host" };
	const char *node =
		mq_arena_printf(arena, "%s:%ux%u%s", spec->type, spec->nodes, spec->per_node, inside[spec->inside]);

	if (spec->nodes < 2)
		return node;
	return mq_arena_printf(arena, "%s:%ux%.0fG-%s", node, spec->rails, spec->nic_Bps * 8 / GB,
			       mq_fabric_name(spec->fabric));
}

/* Links: per GPU port up and down, per GPU and neighbour of a mesh, per NIC up and down. */
struct wiring {
	const struct mq_fabric_spec *spec;
	struct mq_cluster *cluster;
	uint32_t ports, nics, hosts, pairs; /* where each kind begins */
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
		return mq_fail(err, MQ_EINPUT,
			       "device type '%s' has no calibration; add "
			       "platforms/calib/%s.json",
			       spec->type, spec->type);
	*w = (struct wiring){ .spec = spec,
			      .cluster = cluster,
			      .ports = 0,
			      .nics = 2 * n,
			      .hosts = 2 * n + 2 * spec->nodes * spec->rails };
	w->pairs = w->hosts + spec->nodes;
	cluster->name = mq_fabric_print(spec, arena);
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

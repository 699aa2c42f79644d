/* spec.c - the options of generated platforms: table, mixes of node types, derived values.
 * SPDX-License-Identifier: Apache-2.0 */
#include "hardware/platform/spec.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "base/quantity.h"

#define FLOP_PER_BYTE 200 /* default for a device type without calibration */
#define MEMORY_S      .03
#define H100_CLASS    600 /* Tflop/s in 16 bit */
#define CUBE_MESH     8   /* GPUs of a DGX-1's mesh of NVLinks */

const struct mq_opt mq_platform_opts[] = {
#define MQ_KEY(kind, ...) MQ_##kind(struct mq_platform_spec, __VA_ARGS__),
#include "hardware/platform/platform_options.def"
	MQ_END
};

void mq_platform_spec_init(struct mq_platform_spec *spec)
{
	memset(spec, 0, sizeof(*spec));
	mq_opt_defaults(mq_platform_opts, spec);
}

/* The speed after '@' at the end of the text: a number in GB/s, or a quantity ("400Gb/s"). */
static bool port_speed(char **text, double *GBps)
{
	if (**text != '@')
		return true;
	if (!mq_parse_quantity(*text + 1, "GB/s", GBps) || !(*GBps > 0))
		return false;
	*text += strlen(*text);
	return true;
}

/* Reads a number after `mark` at *text and moves *text past it. False: a mark without number. */
static bool after(char **text, char mark, double *value)
{
	char *end;

	if (**text != mark)
		return true;
	*value = strtod(*text + 1, &end);
	if (end == *text + 1 || !isfinite(*value) || *value <= 0)
		return false;
	*text = end;
	return true;
}

/* TYPE[*NODES][xGPUS][@NIC_GBps]. A type's name may have an x ("RTX"): a count follows only after a '*', or if a known
 * type precedes the last x. */
static enum mq_status parse_group(char *item, const struct mq_gen *gen, struct mq_gen_group *group, struct mq_err *err)
{
	const struct mq_platform_spec *spec = gen->spec;
	double nodes = spec->nodes, gpus = spec->gpus, nic = 0;
	char *tail = item + strcspn(item, "*@"), *count = NULL;
	bool sound = true;

	for (char *x = item; x < tail; x++)
		if (x[0] == 'x' && x > item && x[1] >= '0' && x[1] <= '9' &&
		    strspn(x + 1, "0123456789") == (size_t)(tail - x - 1))
			count = x;
	const char *rest = mq_arena_strdup(group->arena, tail);
	char *at = mq_arena_strdup(group->arena, rest);
	*tail = '\0';
	if (count && !mq_calib_type(gen->calib, item)) {
		gpus = strtod(count + 1, NULL);
		*count = '\0';
	}
	sound = after(&at, '*', &nodes) && after(&at, 'x', &gpus) && port_speed(&at, &nic) && !*at;
	if (!sound || nodes != floor(nodes) || gpus != floor(gpus) || nodes < 1 || gpus < 1 || nodes > 1048576 ||
	    gpus > 1024)
		return mq_bad(err, "gpu=%s%s: write TYPE[*NODES][xGPUS][@NIC_GBps], joined by '+'", item, rest);
	MQ_TRY(mq_calib_type_ask(gen->calib, "gpu", item, err));
	group->known = mq_calib_type(gen->calib, item);
	if (!group->known && spec->tflops <= 0)
		return mq_calib_type_get(gen->calib, "gpu", item, &group->known, err);
	group->type = group->known ? group->known->name : mq_arena_strdup(group->arena, item);
	group->nodes = (uint32_t)nodes;
	group->gpus = (uint32_t)gpus;
	group->nic_GBps = nic;
	return MQ_OK;
}

static double first_positive(double a, double b, double c)
{
	return a > 0 ? a : b > 0 ? b : c;
}

/* Assumptions for a device type without calibration: bandwidth in proportion to speed as A100 and H100 (153 and 295
 * flop per byte), memory in proportion to bandwidth (theirs is read in 42 and 26 ms). */
static void describe(const struct mq_platform_spec *spec, struct mq_gen_group *g)
{
	if (g->known)
		return;
	g->mem_bw_Bps = spec->bw_TBps > 0  ? spec->bw_TBps * 1e12 :
			spec->mem_GBps > 0 ? spec->mem_GBps * 1e9 :
					     g->tflops * 1e12 / FLOP_PER_BYTE;
	g->memory_B = spec->memory_GB > 0 ? spec->memory_GB * 1e9 : g->mem_bw_Bps * MEMORY_S;
}

static enum mq_status derive_group(const struct mq_platform_spec *spec, struct mq_gen_group *g, struct mq_err *err)
{
	/* with NVLinks a class of machines that has a switch for them and a port for each GPU, of 200 Gb/s as beside
	 * A100, or of 400 Gb/s as beside H100, which are twice as fast and more; without, a port for the machine */
	static const struct mq_device_calib plain[] = {
		{ .pcie_Bps = 31.5e9, .nic_Bps = 25e9, .p2p = 1 },
		{ .pcie_Bps = 31.5e9, .nic_Bps = 25e9, .gpus_per_nic = 1, .nvswitch = 1, .p2p = 1 },
		{ .pcie_Bps = 63e9, .nic_Bps = 50e9, .gpus_per_nic = 1, .nvswitch = 1, .p2p = 1 },
	};
	const struct mq_device_calib *t = g->known ? g->known :
						     &plain[spec->nvlink_GBps <= 0    ? 0 :
							    spec->tflops < H100_CLASS ? 1 :
											2];

	g->tflops = first_positive(spec->tflops, mq_calib_peak_flops(t) / 1e12, 0);
	g->nvlink_GBps = first_positive(spec->nvlink_GBps, t->nvlink_Bps / 1e9, 0);
	g->pcie_GBps = first_positive(spec->pcie_GBps, t->pcie_Bps / 1e9, 0);
	g->port_given = g->nic_GBps > 0 || spec->nic_GBps > 0;
	g->nic_GBps = first_positive(g->nic_GBps, spec->nic_GBps, t->nic_Bps / 1e9);
	g->p2p = t->p2p > 0;
	g->cpu = t->kind == MQ_CPU;
	describe(spec, g);
	g->intra = spec->intra;
	if (g->intra == MQ_INTRA_AUTO)
		g->intra = g->nvlink_GBps <= 0 ? MQ_INTRA_PCIE : t->nvswitch > 0 ? MQ_INTRA_NVSWITCH : MQ_INTRA_MESH;
	if (g->intra != MQ_INTRA_PCIE && g->nvlink_GBps <= 0)
		return mq_bad(err, "gpu=%s has no NVLink; give intra=pcie, or nvlink_GBps=", g->type);
	if (g->intra == MQ_INTRA_MESH && g->gpus > 16)
		return mq_bad(err, "intra=nvlink-mesh joins at most 16 GPUs, gpus=%u; give intra=nvswitch", g->gpus);
	g->cube_mesh = t->cube_mesh > 0 && g->intra == MQ_INTRA_MESH &&
		       (g->gpus == CUBE_MESH || (g->gpus < CUBE_MESH && spec->board == CUBE_MESH));
	g->nvls = t->nvls > 0 && g->intra == MQ_INTRA_NVSWITCH;
	g->nics = (uint32_t)ceil((double)spec->nics * g->gpus / g->tray);
	if (!g->nics)
		g->nics = t->gpus_per_nic > 0 ? (uint32_t)ceil(g->gpus / t->gpus_per_nic) : 1;
	g->sockets = spec->sockets < g->gpus ? spec->sockets : g->gpus;
	g->switches = spec->pcie_switches ? spec->pcie_switches : g->sockets;
	if (g->switches > g->gpus)
		g->switches = g->gpus;
	if (g->switches < g->sockets)
		g->sockets = g->switches;
	g->flat = g->intra != MQ_INTRA_PCIE && g->gpus <= 16 && g->nic_GBps <= g->pcie_GBps;
	return MQ_OK;
}

bool mq_gen_is_drivers(const char *gpu)
{
	static const char *const makers[] = { "NVIDIA", "AMD", "Tesla", "GeForce", "Quadro" };
	bool found = false;

	for (size_t i = 0; i < sizeof(makers) / sizeof(*makers); i++)
		found |= !strncasecmp(gpu, makers[i], strlen(makers[i]));
	return found;
}

/* Scale-up domains are the machines of an nvl72 fabric. */
static enum mq_status gather_domains(const struct mq_platform_spec *spec, struct mq_gen *gen, struct mq_err *err)
{
	for (uint32_t i = 0; i < gen->n_groups; i++) {
		struct mq_gen_group *g = &gen->group[i];
		uint64_t total = (uint64_t)g->nodes * g->gpus;
		uint32_t domain = spec->domain ? spec->domain : total % 72 && total % 64 == 0 ? 64 : 72;

		if (spec->intra == MQ_INTRA_PCIE)
			return mq_bad(err, "fabric=nvl72 joins GPUs by NVSwitch; take intra=pcie away");
		g->tray = g->gpus;
		g->gpus = total < domain ? (uint32_t)total : domain;
		if (total % g->gpus)
			return mq_bad(err, "fabric=nvl72: %lu GPUs of %s are no multiple of domain=%u",
				      (unsigned long)total, g->type, domain);
		g->nodes = (uint32_t)(total / g->gpus);
	}
	return MQ_OK;
}

enum mq_fabric mq_platform_spec_network(const struct mq_platform_spec *spec)
{
	return spec->network                   ? (enum mq_fabric)spec->network :
	       spec->fabric == MQ_GEN_ETHERNET ? MQ_FABRIC_ETHERNET :
						 MQ_FABRIC_IB;
}

static void set_network(const struct mq_platform_spec *spec, struct mq_gen *gen)
{
	static const double nic_us[MQ_N_FABRICS] = {
		[MQ_FABRIC_IB] = 0.5,       [MQ_FABRIC_ROCE] = 0.8,  [MQ_FABRIC_ETHERNET] = 12, [MQ_FABRIC_EFA] = 7.5,
		[MQ_FABRIC_OMNIPATH] = 0.5, [MQ_FABRIC_TCPXO] = 7.5, [MQ_FABRIC_GIB] = 0.8,     [MQ_FABRIC_TCPX] = 7.5,
	};

	gen->network = mq_platform_spec_network(spec);
	gen->nic_us = spec->nic_us >= 0 ? spec->nic_us : nic_us[gen->network];
	gen->switch_us = spec->switch_us >= 0 ? spec->switch_us : gen->network == MQ_FABRIC_ETHERNET ? 1 : 0.2;
}

/* Default machines per leaf: a leaf with 32 ports down; a rail unit of 32 machines. */
static uint32_t usual_leaf(const struct mq_gen *gen, uint32_t fabric)
{
	uint32_t nics = gen->group[0].nics;

	switch ((enum mq_gen_fabric)fabric) {
	case MQ_GEN_SWITCH:
		return gen->n_nodes;
	case MQ_GEN_RAIL:
		return 32;
	case MQ_GEN_DRAGONFLY:
		return 2;
	case MQ_GEN_TORUS:
		return 1;
	case MQ_GEN_ETHERNET:
		return 16;
	case MQ_GEN_FAT_TREE:
	case MQ_GEN_NVL72:
		break;
	}
	return nics >= 32 ? 1 : 32 / nics;
}

static void add_leaf(struct mq_gen *gen, uint32_t nodes, bool new_pod)
{
	if (new_pod)
		gen->pod_first[gen->n_pods++] = gen->n_leaves;
	for (uint32_t n = gen->first[gen->n_leaves]; n < gen->first[gen->n_leaves] + nodes; n++)
		gen->leaf_of[n] = gen->n_leaves;
	gen->pod_of[gen->n_leaves] = gen->n_pods - 1;
	gen->first[gen->n_leaves + 1] = gen->first[gen->n_leaves] + nodes;
	gen->pod_first[gen->n_pods] = ++gen->n_leaves;
}

/* "16x4+8/16x3" */
static enum mq_status read_leaves(const struct mq_platform_spec *spec, struct mq_gen *gen, struct mq_err *err)
{
	bool new_pod = true;

	if (spec->leaf || spec->pod || !mq_gen_is_star(spec))
		return mq_bad(err, "leaves= says what leaf= and pod= say, of fabrics with leaves: leave them out");
	for (const char *at = spec->leaves;; at++) {
		char *end;
		unsigned long nodes = strtoul(at, &end, 10), times = 1;

		if (*end == 'x')
			times = isdigit((unsigned char)end[1]) ? strtoul(end + 1, &end, 10) : 0;
		if (!isdigit((unsigned char)*at) || !nodes || !times || (*end && *end != '+' && *end != '/'))
			return mq_bad(err, "leaves=%.200s: write the machines of each leaf, as 16x4+8/16x3",
				      spec->leaves);
		uint32_t left = gen->n_nodes - gen->first[gen->n_leaves];
		if (nodes > left || times > left / nodes || (!*end && nodes * times < left))
			return mq_bad(err, "leaves=%.200s: are not the %u machines that there are", spec->leaves,
				      gen->n_nodes);
		for (unsigned long i = 0; i < times; i++, new_pod = false)
			add_leaf(gen, (uint32_t)nodes, new_pod);
		new_pod = *end == '/';
		at = end;
		if (!*end)
			return MQ_OK;
	}
}

static enum mq_status lay_leaves(const struct mq_platform_spec *spec, struct mq_gen *gen, struct mq_err *err)
{
	gen->first = mq_arena_array(gen->arena, gen->n_nodes + 1, uint32_t);
	gen->pod_first = mq_arena_array(gen->arena, gen->n_nodes + 1, uint32_t);
	gen->leaf_of = mq_arena_array(gen->arena, gen->n_nodes, uint32_t);
	gen->pod_of = mq_arena_array(gen->arena, gen->n_nodes, uint32_t);
	if (spec->leaves)
		return read_leaves(spec, gen, err);
	gen->leaf = spec->leaf ? spec->leaf : usual_leaf(gen, spec->fabric);
	if (spec->fabric == MQ_GEN_SWITCH || gen->leaf > gen->n_nodes)
		gen->leaf = gen->n_nodes;
	if (spec->fabric == MQ_GEN_TORUS)
		gen->leaf = 1;
	for (uint32_t n = 0; n < gen->n_nodes; n += gen->leaf)
		add_leaf(gen, gen->n_nodes - n < gen->leaf ? gen->n_nodes - n : gen->leaf,
			 !n || (spec->pod && gen->n_leaves % spec->pod == 0));
	return MQ_OK;
}

enum mq_status mq_gen_prepare(const struct mq_platform_spec *spec, const struct mq_calib *calib, struct mq_arena *arena,
			      struct mq_gen *gen, struct mq_err *err)
{
	char *list = mq_arena_strdup(arena, spec->gpu ? spec->gpu : ""), *save = NULL;
	bool mesh = false; /* of some of its machines */

	memset(gen, 0, sizeof(*gen));
	gen->spec = spec;
	gen->calib = calib;
	gen->arena = arena;
	gen->flat = true;
	for (char *c = list; mq_gen_is_drivers(list) && (c = strchr(c, ' '));)
		*c = '-';
	for (char *item = strtok_r(list, "+, ", &save); item; item = strtok_r(NULL, "+, ", &save)) {
		if (gen->n_groups == MQ_GEN_MAX_GROUPS)
			return mq_bad(err, "gpu=%s: at most %d node types", spec->gpu, MQ_GEN_MAX_GROUPS);
		gen->group[gen->n_groups].arena = arena;
		MQ_TRY(parse_group(item, gen, &gen->group[gen->n_groups++], err));
	}
	if (!gen->n_groups)
		return mq_bad(err, "gpu= is empty; give a device type, as H100-80GB");
	if (spec->fabric == MQ_GEN_NVL72)
		MQ_TRY(gather_domains(spec, gen, err));
	gen->nvls = spec->nvls;
	for (uint32_t i = 0; i < gen->n_groups; i++) {
		struct mq_gen_group *g = &gen->group[i];

		g->tray = g->tray ? g->tray : g->gpus;
		MQ_TRY(derive_group(spec, g, err));
		g->first_node = gen->n_nodes;
		gen->n_nodes += g->nodes;
		gen->n_devices += (uint64_t)g->nodes * g->gpus;
		gen->flat = gen->flat && g->flat;
		gen->nvls = gen->nvls && g->nvls;
		mesh = mesh || g->cube_mesh;
	}
	if (spec->board && (spec->board != CUBE_MESH || !mesh))
		return mq_bad(err,
			      "board=%u: machines can be a part of an NVLink mesh of %d V100 only, with up to as many "
			      "GPUs; gpu=%s has gpus=%u",
			      spec->board, CUBE_MESH, gen->group[0].type, gen->group[0].gpus);
	if (gen->n_devices > MQ_GEN_MAX_DEVICES)
		return mq_bad(err, "%lu devices are more than the %d that are supported", (unsigned long)gen->n_devices,
			      MQ_GEN_MAX_DEVICES);
	set_network(spec, gen);
	return lay_leaves(spec, gen, err);
}

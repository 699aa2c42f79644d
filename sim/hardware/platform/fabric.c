/* fabric.c - the network between the leaves of a generated platform.
 *
 * - switch, rail, fat-tree, ethernet, nvl72: leaves around a core; a leaf's uplinks are one trunk of
 *   (ports below) / oversub; with pods, leaves around a pod switch and pods around the core.
 *   Hops between machines: 2 links in a leaf (port, port), 4 between leaves, 6 between pods.
 *   Bisection of an even number of leaves: half of all ports / oversub.
 * - dragonfly (Kim, Dally, Scott, Abts: ISCA 2008): groups of fully connected routers, one bundle of global
 *   links per pair of groups; minimal routes, at most local, global, local. Global ports go to the other
 *   groups in turn (consecutive arrangement).
 * - torus: machines at the vertices, shortest dimension-order routes in Floyd's tables.
 * Not modelled: adaptive and non-minimal routes. SPDX-License-Identifier: Apache-2.0 */
#include "hardware/platform/spec.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_STAR = 512, MAX_TORUS = 512, MAX_GROUPS = 256, MAX_DIMS = 6 };

struct torus {
	uint32_t n, size[MAX_DIMS];
};

/* Bandwidth of all ports of a leaf's machines. */
static double leaf_GBps(const struct mq_gen *gen, uint32_t leaf)
{
	double sum = 0;

	for (uint32_t n = gen->first[leaf]; n < gen->first[leaf + 1]; n++)
		sum += mq_gen_node_GBps(mq_gen_group_of(gen, n));
	return sum;
}

static double link_GBps(const struct mq_gen *gen)
{
	return gen->spec->link_GBps > 0 ? gen->spec->link_GBps : mq_gen_node_GBps(&gen->group[0]);
}

/* ---- star ------------------------------------------------------------------------------------- */

void mq_gen_star_links(struct mq_gen *gen)
{
	for (uint32_t l = 0; l < gen->n_leaves; l++)
		mq_gen_link(gen, leaf_GBps(gen, l) / gen->spec->oversub, gen->switch_us, "fabric", "leaf%utrunk", l);
	for (uint32_t p = 0; gen->n_pods > 1 && p < gen->n_pods; p++) {
		double sum = 0;

		for (uint32_t l = gen->pod_first[p]; l < gen->pod_first[p + 1]; l++)
			sum += leaf_GBps(gen, l);
		mq_gen_link(gen, sum / gen->spec->oversub / gen->spec->pod_oversub, gen->switch_us, "fabric",
			    "pod%utrunk", p);
	}
}

bool mq_gen_is_star(const struct mq_platform_spec *spec)
{
	return spec->fabric != MQ_GEN_DRAGONFLY && spec->fabric != MQ_GEN_TORUS;
}

static void spoke(struct mq_gen *gen, const char *kind, uint32_t i, const char *hub)
{
	fprintf(gen->file,
		"<zoneRoute src=\"%s%u\" dst=\"%sswitch\" gw_src=\"%s%ugw\" gw_dst=\"%sgw\">"
		"<link_ctn id=\"%s%utrunk\" direction=\"UP\"/></zoneRoute>\n",
		kind, i, hub, kind, i, hub, kind, i);
}

/* Between two zones, through the gateways of leaves, over the link KINDa_b. */
static void between(struct mq_gen *gen, const char *zone, const uint32_t of[2], const uint32_t leaf[2],
		    const char *kind, uint32_t a, uint32_t b)
{
	fprintf(gen->file,
		"<zoneRoute src=\"%s%u\" dst=\"%s%u\" gw_src=\"leaf%ugw\" gw_dst=\"leaf%ugw\">"
		"<link_ctn id=\"%s%u_%u\" direction=\"UP\"/></zoneRoute>\n",
		zone, of[0], zone, of[1], leaf[0], leaf[1], kind, a, b);
}

void mq_gen_hub(struct mq_gen *gen, const char *name)
{
	fprintf(gen->file, "<zone id=\"%sswitch\" routing=\"None\"><router id=\"%sgw\"/></zone>\n", name, name);
}

/* Leaves first .. end-1 around a switch. */
static void leaf_star(struct mq_gen *gen, uint32_t first, uint32_t end, const char *name)
{
	for (uint32_t l = first; l < end; l++)
		mq_gen_leaf(gen, l);
	if (strcmp(name, "core") != 0)
		mq_gen_hub(gen, name);
	for (uint32_t l = first; l < end; l++)
		spoke(gen, "leaf", l, name);
}

static void put_star(struct mq_gen *gen)
{
	char name[32];

	if (gen->n_leaves == 1) {
		mq_gen_leaf_inside(gen, 0);
		return;
	}
	mq_gen_star_links(gen);
	if (gen->n_pods == 1) {
		leaf_star(gen, 0, gen->n_leaves, "core");
		return;
	}
	for (uint32_t p = 0; p < gen->n_pods; p++) {
		snprintf(name, sizeof(name), "pod%u", p);
		fprintf(gen->file, "<zone id=\"%s\" routing=\"Floyd\">\n", name);
		leaf_star(gen, gen->pod_first[p], gen->pod_first[p + 1], name);
		fprintf(gen->file, "</zone>\n");
	}
	for (uint32_t p = 0; p < gen->n_pods; p++)
		spoke(gen, "pod", p, "core");
}

/* ---- dragonfly -------------------------------------------------------------------------------- */

static uint32_t n_fly_groups(const struct mq_gen *gen)
{
	return gen->n_leaves / gen->spec->routers;
}

static uint32_t globals(const struct mq_gen *gen)
{
	return gen->spec->global ? gen->spec->global : gen->leaf;
}

/* The router of group i with the cables to group j. */
static uint32_t fly_router(const struct mq_gen *gen, uint32_t i, uint32_t j)
{
	uint32_t groups = n_fly_groups(gen), a = gen->spec->routers;
	uint32_t port = (j + groups - i - 1) % groups; /* 0 .. groups-2 */

	return i * a + port * a / (groups - 1);
}

static enum mq_status check_dragonfly(struct mq_gen *gen, struct mq_err *err)
{
	uint32_t a = gen->spec->routers, groups = n_fly_groups(gen);

	if (gen->n_nodes % gen->leaf || gen->n_leaves % a)
		return mq_bad(err,
			      "fabric=dragonfly: %u machines do not fill groups of routers=%u x leaf=%u; "
			      "give a multiple of %u",
			      gen->n_nodes, a, gen->leaf, a * gen->leaf);
	if (groups > MAX_GROUPS || groups > a * globals(gen) + 1)
		return mq_bad(err, "fabric=dragonfly: %u groups, but routers=%u x global=%u reach %u; raise one",
			      groups, a, globals(gen), a * globals(gen) + 1);
	return MQ_OK;
}

static void fly_links(struct mq_gen *gen)
{
	uint32_t a = gen->spec->routers, groups = n_fly_groups(gen);

	for (uint32_t g = 0; g < groups; g++)
		for (uint32_t i = 0; i < a; i++)
			for (uint32_t j = i + 1; j < a; j++)
				mq_gen_link(gen, link_GBps(gen), gen->switch_us, "fabric", "local%u_%u", g * a + i,
					    g * a + j);
	for (uint32_t i = 0; i < groups; i++)
		for (uint32_t j = i + 1; j < groups; j++) {
			uint32_t cables = a * globals(gen) / (groups - 1);

			mq_gen_link(gen, cables * link_GBps(gen), gen->switch_us, "fabric", "global%u_%u", i, j);
		}
}

static void put_dragonfly(struct mq_gen *gen)
{
	uint32_t a = gen->spec->routers, groups = n_fly_groups(gen);
	FILE *f = gen->file;

	fly_links(gen);
	for (uint32_t g = 0; g < groups; g++) {
		fprintf(f, "<zone id=\"group%u\" routing=\"Full\">\n", g);
		for (uint32_t i = 0; i < a; i++)
			mq_gen_leaf(gen, g * a + i);
		for (uint32_t i = g * a; i < (g + 1) * a; i++)
			for (uint32_t j = i + 1; j < (g + 1) * a; j++)
				between(gen, "leaf", (uint32_t[]){ i, j }, (uint32_t[]){ i, j }, "local", i, j);
		fprintf(f, "</zone>\n");
	}
	for (uint32_t i = 0; i < groups; i++)
		for (uint32_t j = i + 1; j < groups; j++)
			between(gen, "group", (uint32_t[]){ i, j },
				(uint32_t[]){ fly_router(gen, i, j), fly_router(gen, j, i) }, "global", i, j);
}

/* ---- torus ------------------------------------------------------------------------------------ */

static enum mq_status read_dims(const struct mq_gen *gen, struct torus *t, struct mq_err *err)
{
	const char *text = gen->spec->dims;
	uint64_t product = 1;
	char *end;

	if (!text) { /* two factors, as close as possible, the larger first */
		uint32_t b = (uint32_t)sqrt((double)gen->n_nodes);

		while (gen->n_nodes % b)
			b--;
		*t = (struct torus){ .n = 2, .size = { gen->n_nodes / b, b } };
		return MQ_OK;
	}
	for (t->n = 0; t->n < MAX_DIMS; text = end + 1) {
		unsigned long size = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;

		if (size < 1 || size > MAX_TORUS)
			break;
		t->size[t->n++] = (uint32_t)size;
		product *= size;
		if (!*end && product == gen->n_nodes)
			return MQ_OK;
		if (*end != 'x')
			break;
	}
	return mq_bad(err, "dims=%s: write numbers joined by x whose product is the %u machines, as 4x4x2",
		      gen->spec->dims, gen->n_nodes);
}

static enum mq_status check_torus(struct mq_gen *gen, struct mq_err *err)
{
	struct torus t;

	if (gen->n_nodes > MAX_TORUS)
		return mq_bad(err,
			      "fabric=torus: %u machines, at most %d (its routes are tables); put more "
			      "devices into a machine (gpus=)",
			      gen->n_nodes, MAX_TORUS);
	return read_dims(gen, &t, err);
}

static void put_torus(struct mq_gen *gen)
{
	struct torus t;

	if (gen->n_leaves == 1) {
		mq_gen_leaf_inside(gen, 0);
		return;
	}
	if (read_dims(gen, &t, NULL) != MQ_OK)
		return; /* checked before */
	for (uint32_t pass = 0; pass < 2; pass++) {
		for (uint32_t n = 0; pass == 1 && n < gen->n_leaves; n++)
			mq_gen_leaf(gen, n);
		for (uint32_t n = 0; n < gen->n_leaves; n++)
			for (uint32_t d = 0, stride = 1; d < t.n; stride *= t.size[d++]) {
				uint32_t at = n / stride % t.size[d];
				uint32_t to = at + 1 == t.size[d] ? n - at * stride : n + stride;

				/* a ring of two has one link, a ring of one has none */
				if (t.size[d] == 1 || (t.size[d] == 2 && at == 1))
					continue;
				if (pass == 0)
					mq_gen_link(gen, link_GBps(gen), gen->switch_us, "fabric", "torus%u_%u", n, d);
				else
					between(gen, "leaf", (uint32_t[]){ n, to }, (uint32_t[]){ n, to }, "torus", n,
						d);
			}
	}
}

/* ---- all -------------------------------------------------------------------------------------- */

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

enum mq_status mq_gen_fabric_check(struct mq_gen *gen, struct mq_err *err)
{
	uint32_t most = gen->n_pods;

	if (gen->spec->fabric == MQ_GEN_DRAGONFLY)
		return check_dragonfly(gen, err);
	if (gen->spec->fabric == MQ_GEN_TORUS)
		return check_torus(gen, err);
	for (uint32_t p = 0; p < gen->n_pods; p++)
		most = larger(most, gen->pod_first[p + 1] - gen->pod_first[p]);
	for (uint32_t l = 0; l < gen->n_leaves && !gen->flat; l++)
		most = larger(most, gen->first[l + 1] - gen->first[l]);
	if (most > MAX_STAR)
		return mq_bad(err,
			      "%u leaves or machines around one switch, at most %d; give leaf= or pod= so "
			      "that each level has fewer",
			      most, MAX_STAR);
	return MQ_OK;
}

const char *mq_gen_root_routing(const struct mq_gen *gen)
{
	if (gen->spec->fabric == MQ_GEN_DRAGONFLY)
		return "Full";
	return gen->n_leaves == 1 && gen->flat ? "Cluster" : "Floyd";
}

void mq_gen_fabric(struct mq_gen *gen)
{
	switch ((enum mq_gen_fabric)gen->spec->fabric) {
	case MQ_GEN_DRAGONFLY:
		put_dragonfly(gen);
		break;
	case MQ_GEN_TORUS:
		put_torus(gen);
		break;
	case MQ_GEN_SWITCH:
	case MQ_GEN_RAIL:
	case MQ_GEN_FAT_TREE:
	case MQ_GEN_NVL72:
	case MQ_GEN_ETHERNET:
		put_star(gen);
		break;
	}
}

/* node.c - the machines and leaves of a generated platform: see generate.h for the shape.
 *
 * Every link is in the outermost zone, where SimGrid starts its look-ups, zone by zone.
 * SPDX-License-Identifier: Apache-2.0 */
#include "hardware/platform/spec.h"

/* Links between pairs of the eight V100 of a DGX-1: a hybrid cube mesh, six links per GPU. */
static const unsigned char cube_mesh[8][8] = {
	{ 0, 1, 1, 2, 2, 0, 0, 0 }, { 1, 0, 2, 1, 0, 2, 0, 0 }, { 1, 2, 0, 2, 0, 0, 1, 0 }, { 2, 1, 2, 0, 0, 0, 0, 1 },
	{ 2, 0, 0, 0, 0, 1, 1, 2 }, { 0, 2, 0, 0, 1, 0, 2, 1 }, { 0, 0, 1, 0, 1, 2, 0, 2 }, { 0, 0, 0, 1, 2, 1, 2, 0 },
};

/* Share of a GPU's NVLink bandwidth that a pair has; 0 = no direct link. */
static double pair_GBps(const struct mq_gen_group *g, uint32_t a, uint32_t b)
{
	if (g->cube_mesh)
		return g->nvlink_GBps * cube_mesh[a][b] / 6;
	return g->nvlink_GBps / (g->gpus - 1);
}

static uint32_t switch_of(const struct mq_gen_group *g, uint32_t gpu)
{
	return (uint32_t)((uint64_t)gpu * g->switches / g->gpus);
}

static uint32_t socket_of(const struct mq_gen_group *g, uint32_t switch_)
{
	return (uint32_t)((uint64_t)switch_ * g->sockets / g->switches);
}

static uint32_t n_ports(const struct mq_gen_group *g)
{
	return g->nics < g->gpus ? g->nics : g->gpus;
}

static uint32_t nic_of(const struct mq_gen_group *g, uint32_t gpu)
{
	return (uint32_t)((uint64_t)gpu * n_ports(g) / g->gpus);
}

double mq_gen_node_GBps(const struct mq_gen_group *g)
{
	return g->nics * g->nic_GBps;
}

const struct mq_gen_group *mq_gen_group_of(const struct mq_gen *gen, uint32_t node)
{
	uint32_t i = gen->n_groups - 1;

	while (gen->group[i].first_node > node)
		i--;
	return &gen->group[i];
}

void mq_gen_link(struct mq_gen *gen, double GBps, double us, const char *class, const char *name, ...)
{
	char text[64];
	va_list ap;

	va_start(ap, name);
	vsnprintf(text, sizeof(text), name, ap);
	va_end(ap);
	gen->sink->link(gen, text, GBps, us, class, true);
}

/* A link shared by both directions: memory that messages are written to and read from. */
static void put_host_memory(struct mq_gen *gen, uint32_t node, double GBps)
{
	char name[32];

	snprintf(name, sizeof(name), "n%uhost", node);
	gen->sink->link(gen, name, GBps, 0.2, "host", false);
}

static void put_pcie_links(struct mq_gen *gen, uint32_t node, const struct mq_gen_group *g)
{
	if (g->cpu) { /* processes of one machine communicate through its memory */
		put_host_memory(gen, node, g->pcie_GBps * g->sockets);
		return;
	}
	for (uint32_t i = 0; i < g->gpus; i++)
		mq_gen_link(gen, g->pcie_GBps, 0.5, "pcie", "n%upcie%u", node, i);
	for (uint32_t i = 0; i < g->switches && g->gpus > 1; i++)
		mq_gen_link(gen, g->pcie_GBps, 0.2, "pcie-switch", "n%upcie_switch%u", node, i);
	for (uint32_t i = 0; i + 1 < g->sockets; i++) {
		/* Sockets in a row; three links of 20.8 GB/s, as UPI 2.0 or xGMI-2 have. */
		mq_gen_link(gen, 62.4, 0.2, "socket", "n%usocket%u", node, i);
	}
	if (!g->p2p) /* eight channels of DDR4-3200, a write and a read */
		put_host_memory(gen, node, 102.4);
}

static const char *peer_class(const struct mq_gen_group *g)
{
	return mq_calib_is_amd(g->known) ? "xgmi" : "nvlink";
}

static void put_nvlinks(struct mq_gen *gen, uint32_t node, const struct mq_gen_group *g)
{
	if (g->intra == MQ_INTRA_NVSWITCH && g->gpus > 1)
		for (uint32_t i = 0; i < g->gpus; i++)
			mq_gen_link(gen, g->nvlink_GBps, 0.35, "nvswitch", "n%unvswitch%u", node, i);
	const char *class = peer_class(g);

	if (g->intra == MQ_INTRA_MESH)
		for (uint32_t a = 0; a < g->gpus; a++)
			for (uint32_t b = a + 1; b < g->gpus; b++) {
				if (pair_GBps(g, a, b) > 0)
					mq_gen_link(gen, pair_GBps(g, a, b), 0.7, class, "n%u%s%u_%u", node, class, a,
						    b);
			}
}

void mq_gen_node_links(struct mq_gen *gen, uint32_t node)
{
	const struct mq_gen_group *g = mq_gen_group_of(gen, node);

	put_nvlinks(gen, node, g);
	if (g->intra == MQ_INTRA_PCIE || g->cube_mesh || (!gen->flat && gen->n_nodes > 1))
		put_pcie_links(gen, node, g);
	if (gen->n_nodes == 1)
		return;
	for (uint32_t i = 0; i < n_ports(g); i++)
		/* ports beyond one per GPU are bonded with the first */
		mq_gen_link(gen, g->nic_GBps * (g->nics > g->gpus ? g->nics / g->gpus : 1), gen->nic_us, "nic",
			    "n%unic%u", node, i);
	if (!gen->flat) {
		/* As wide as all ports, so it never limits: a zone route must have a link. */
		mq_gen_link(gen, mq_gen_node_GBps(g), 0, "fabric", "n%uports", node);
	}
}

/* The host_link of a GPU in a Cluster zone: in flat nodes its port, in others its NVSwitch link. */
static void put_host_link(struct mq_gen *gen, uint32_t node, const struct mq_gen_group *g, uint32_t i)
{
	const char *kind = gen->flat ? "nic" : "nvswitch";
	uint32_t at = gen->flat ? nic_of(g, i) : i;

	if (gen->flat ? gen->n_nodes == 1 : g->intra != MQ_INTRA_NVSWITCH || g->gpus == 1)
		return;
	fprintf(gen->file, "<host_link id=\"n%ug%u\" up=\"n%u%s%u_UP\" down=\"n%u%s%u_DOWN\"/>\n", node, i, node, kind,
		at, node, kind, at);
}

void mq_gen_node_hosts(struct mq_gen *gen, uint32_t node)
{
	const struct mq_gen_group *g = mq_gen_group_of(gen, node);

	for (uint32_t i = 0; i < g->gpus; i++) {
		gen->sink->host(gen, &(struct mq_gen_host){ g, node, i, socket_of(g, switch_of(g, i)) });
		if (gen->file)
			put_host_link(gen, node, g, i);
	}
}

/* Adds the next link of a route, named as by printf. */
static __attribute__((format(printf, 2, 3))) void step(struct mq_gen *gen, const char *name, ...)
{
	char text[64];
	va_list ap;

	va_start(ap, name);
	vsnprintf(text, sizeof(text), name, ap);
	va_end(ap);
	gen->sink->step(gen, text);
}

/* From PCIe switch s to t: up, across the sockets between them, down. */
static void cross_switches(struct mq_gen *gen, uint32_t node, const struct mq_gen_group *g, uint32_t s, uint32_t t)
{
	uint32_t from = socket_of(g, s), to = socket_of(g, t);

	step(gen, "n%upcie_switch%u_UP", node, s);
	for (uint32_t i = from; i < to; i++)
		step(gen, "n%usocket%u_UP", node, i);
	for (uint32_t i = from; i > to; i--)
		step(gen, "n%usocket%u_DOWN", node, i - 1);
	step(gen, "n%upcie_switch%u_DOWN", node, t);
}

static void pcie_path(struct mq_gen *gen, uint32_t node, const struct mq_gen_group *g, uint32_t a, uint32_t b)
{
	uint32_t s = switch_of(g, a), t = switch_of(g, b);

	if (g->cpu) {
		step(gen, "n%uhost", node);
		return;
	}
	step(gen, "n%upcie%u_UP", node, a);
	if (!g->p2p) {
		step(gen, "n%upcie_switch%u_UP", node, s);
		step(gen, "n%uhost", node);
		step(gen, "n%upcie_switch%u_DOWN", node, t);
	} else if (s != t) {
		cross_switches(gen, node, g, s, t);
	}
	step(gen, "n%upcie%u_DOWN", node, b);
}

void mq_gen_path(struct mq_gen *gen, uint32_t node, uint32_t a, uint32_t b)
{
	const struct mq_gen_group *g = mq_gen_group_of(gen, node);

	if (g->intra == MQ_INTRA_NVSWITCH) {
		step(gen, "n%unvswitch%u_UP", node, a);
		step(gen, "n%unvswitch%u_DOWN", node, b);
	} else if (g->intra == MQ_INTRA_MESH && pair_GBps(g, a, b) > 0) {
		step(gen, "n%u%s%u_%u_%s", node, peer_class(g), a < b ? a : b, a < b ? b : a, a < b ? "UP" : "DOWN");
	} else {
		pcie_path(gen, node, g, a, b);
	}
}

void mq_gen_path_out(struct mq_gen *gen, uint32_t node, uint32_t i)
{
	const struct mq_gen_group *g = mq_gen_group_of(gen, node);
	uint32_t nic = nic_of(g, i), s = switch_of(g, i);
	uint32_t t = (uint32_t)((uint64_t)nic * g->switches / n_ports(g));

	if (!gen->flat && !g->cpu)
		step(gen, "n%upcie%u_UP", node, i);
	if (!gen->flat && !g->cpu && s != t)
		cross_switches(gen, node, g, s, t);
	step(gen, "n%unic%u_UP", node, nic);
}

void mq_gen_path_in(struct mq_gen *gen, uint32_t node, uint32_t i)
{
	const struct mq_gen_group *g = mq_gen_group_of(gen, node);
	uint32_t nic = nic_of(g, i), s = switch_of(g, i);
	uint32_t t = (uint32_t)((uint64_t)nic * g->switches / n_ports(g));

	step(gen, "n%unic%u_DOWN", node, nic);
	if (!gen->flat && !g->cpu && s != t)
		cross_switches(gen, node, g, t, s);
	if (!gen->flat && !g->cpu)
		step(gen, "n%upcie%u_DOWN", node, i);
}

static void put_inner_routes(struct mq_gen *gen, uint32_t node)
{
	const struct mq_gen_group *g = mq_gen_group_of(gen, node);
	bool by_host_link = !gen->flat && g->intra == MQ_INTRA_NVSWITCH;

	for (uint32_t a = 0; a < g->gpus && !by_host_link; a++)
		for (uint32_t b = 0; b < g->gpus; b++) {
			if (a == b)
				continue;
			fprintf(gen->file, "<bypassRoute src=\"n%ug%u\" dst=\"n%ug%u\">", node, a, node, b);
			mq_gen_path(gen, node, a, b);
			fprintf(gen->file, "</bypassRoute>\n");
		}
	for (uint32_t i = 0; i < g->gpus && !gen->flat && gen->n_nodes > 1; i++) { /* the routes out and in */
		fprintf(gen->file, "<bypassRoute src=\"n%ug%u\" dst=\"n%ugw\">", node, i, node);
		mq_gen_path_out(gen, node, i);
		fprintf(gen->file, "</bypassRoute>\n<bypassRoute src=\"n%ugw\" dst=\"n%ug%u\">", node, node, i);
		mq_gen_path_in(gen, node, i);
		fprintf(gen->file, "</bypassRoute>\n");
	}
}

/* The contents of a flat leaf's Cluster zone. */
static void put_flat_leaf(struct mq_gen *gen, uint32_t leaf)
{
	uint32_t first = gen->first[leaf], end = gen->first[leaf + 1];

	for (uint32_t n = first; n < end; n++)
		mq_gen_node_hosts(gen, n);
	fprintf(gen->file, "<router id=\"leaf%ugw\"/>\n", leaf);
	for (uint32_t n = first; n < end; n++)
		put_inner_routes(gen, n);
}

/* The contents of a leaf's Floyd zone: machines around the leaf switch. */
static void put_deep_leaf(struct mq_gen *gen, uint32_t leaf)
{
	uint32_t first = gen->first[leaf], end = gen->first[leaf + 1];

	for (uint32_t n = first; n < end; n++) {
		fprintf(gen->file, "<zone id=\"n%u\" routing=\"Cluster\">\n", n);
		mq_gen_node_hosts(gen, n);
		fprintf(gen->file, "<router id=\"n%ugw\"/>\n", n);
		put_inner_routes(gen, n);
		fprintf(gen->file, "</zone>\n");
	}
	fprintf(gen->file, "<zone id=\"leaf%uswitch\" routing=\"None\"><router id=\"leaf%ugw\"/></zone>\n", leaf, leaf);
	for (uint32_t n = first; n < end && gen->n_nodes > 1; n++)
		fprintf(gen->file,
			"<zoneRoute src=\"n%u\" dst=\"leaf%uswitch\" gw_src=\"n%ugw\" "
			"gw_dst=\"leaf%ugw\"><link_ctn id=\"n%uports\" direction=\"UP\"/></zoneRoute>\n",
			n, leaf, n, leaf, n);
}

void mq_gen_leaf_inside(struct mq_gen *gen, uint32_t leaf)
{
	if (gen->flat)
		put_flat_leaf(gen, leaf);
	else
		put_deep_leaf(gen, leaf);
}

void mq_gen_leaf(struct mq_gen *gen, uint32_t leaf)
{
	fprintf(gen->file, "<zone id=\"leaf%u\" routing=\"%s\">\n", leaf, gen->flat ? "Cluster" : "Floyd");
	mq_gen_leaf_inside(gen, leaf);
	fprintf(gen->file, "</zone>\n");
}

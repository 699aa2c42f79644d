/* search.c - number and speed of a communicator's channels, and their orders of the ranks of a node.
 *
 * NCCL tries channel speeds from a fixed list, highest first, and keeps the solution with the largest channels x speed
 * that fits every link; fast channels are then split in two. On a switch the port's bandwidth decides; on an NVLink
 * mesh Hamiltonian cycles are packed into the links, by depth-first search with a budget; on PCIe there is one ring,
 * and its most loaded link decides.
 *
 * Not modelled: NCCL's time-outs and its preference for NICs by PCIe distance. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "collectives/impl.h"

#define GB                 1e9
#define MAX_SEARCH         16 /* most channels before they are split */
#define SPLIT_SPEED        (25 * GB)
#define HOPPER_SPLIT_SPEED (50 * GB)
#define LOWEST_RETRY       .49    /* slower speeds than this share of the best found are not tried */
#define DFS_BUDGET         200000 /* edges that the cycle search tries */
#define CUT_BUDGET         10000  /* cuts that the search of rings between nodes tries */

static const double *speeds_of(const struct mq_topo *topo, bool inter)
{
	return inter ? topo->nccl_table->inter_speeds[topo->arch] : topo->nccl_table->intra_speeds[topo->arch];
}

/* The highest listed speed of at most `limit`; the limit itself if all are higher. */
static double snap(const double *speeds, double limit_Bps)
{
	for (; *speeds > 0; speeds++)
		if (*speeds * GB <= limit_Bps * (1 + 1e-9))
			return *speeds * GB;
	return limit_Bps;
}

static uint32_t fits(double capacity_Bps, double speed_Bps)
{
	return (uint32_t)fmin(MAX_SEARCH, floor(capacity_Bps / speed_Bps * (1 + 1e-9)));
}

static void split(const struct mq_topo *topo, struct mq_graph *graph)
{
	if (graph->inter_Bps < SPLIT_SPEED || graph->channels > MAX_SEARCH ||
	    (topo->compute_capability >= 90 && graph->inter_Bps < HOPPER_SPLIT_SPEED && graph->channels > 4))
		return;
	graph->channels *= 2;
	graph->intra_Bps /= 2;
	graph->inter_Bps /= 2;
}

/* Channels of rings over a switch or a pair, and with more nodes (nic_Bps > 0) over topo->rails NICs. */
static struct mq_graph pack(const struct mq_topo *topo, double port_Bps, double nic_Bps)
{
	const double *speeds = speeds_of(topo, nic_Bps > 0);
	struct mq_graph best = { .channels = 1 };
	double limit = fmin(port_Bps, nic_Bps > 0 ? nic_Bps * topo->rails : (double)INFINITY);

	for (; *speeds > 0; speeds++) {
		double speed = *speeds * GB;
		uint32_t channels = fits(port_Bps, speed);

		if (best.intra_Bps > 0 && speed <= LOWEST_RETRY * best.intra_Bps)
			break;
		if (nic_Bps > 0)
			channels = (uint32_t)fmin(channels, topo->rails * fits(nic_Bps, speed));
		if (channels * speed > best.channels * best.intra_Bps * (1 + 1e-9))
			best = (struct mq_graph){ channels, speed, speed };
	}
	if (!(best.intra_Bps > 0))
		best = (struct mq_graph){ 1, limit, limit };
	split(topo, &best);
	return best;
}

struct cycles {
	const struct mq_topo *topo;
	uint32_t n, found, best, goal, budget;
	uint8_t left[MQ_MAX_LOCAL][MQ_MAX_LOCAL]; /* unused links between two ranks */
	uint8_t path[MQ_MAX_RINGS / 2][MQ_MAX_LOCAL];
	uint8_t kept[MQ_MAX_RINGS / 2][MQ_MAX_LOCAL];
};

static bool next_cycle(struct cycles *c);

static bool extend(struct cycles *c, uint32_t depth, uint64_t used)
{
	uint8_t *path = c->path[c->found];
	uint32_t here = path[depth - 1];

	if (!c->budget)
		return true;
	c->budget--;
	if (depth == c->n) {
		bool done;

		if (!c->left[here][path[0]])
			return false;
		c->left[here][path[0]]--, c->left[path[0]][here]--;
		c->found++;
		done = next_cycle(c);
		c->found--;
		c->left[here][path[0]]++, c->left[path[0]][here]++;
		return done;
	}
	/* Wide edges first: the mesh that is left keeps even degrees. */
	for (uint8_t width = UINT8_MAX; width--;) {
		for (uint32_t k = 0; k < c->n; k++) {
			bool done;

			if (used >> k & 1 || c->left[here][k] != width + 1)
				continue;
			path[depth] = (uint8_t)k;
			c->left[here][k]--, c->left[k][here]--;
			done = extend(c, depth + 1, used | 1ULL << k);
			c->left[here][k]++, c->left[k][here]++;
			if (done)
				return true;
		}
	}
	return false;
}

/* Adds one more cycle to those found; true: the search ends. */
static bool next_cycle(struct cycles *c)
{
	if (c->found > c->best) {
		c->best = c->found;
		memcpy(c->kept, c->path, sizeof(c->kept));
	}
	if (c->best >= c->goal)
		return true;
	c->path[c->found][0] = 0;
	return extend(c, 1, 1);
}

/* Finds edge-disjoint Hamiltonian cycles over the NVLinks, each of 1/`parts` of the narrowest link; returns that
 * bandwidth. */
static double find_cycles(const struct mq_topo *topo, uint32_t parts, struct cycles *c)
{
	double unit = INFINITY;
	uint32_t least = UINT32_MAX;

	*c = (struct cycles){ .topo = topo, .n = topo->n_local, .budget = DFS_BUDGET };
	for (uint32_t i = 0; i < c->n; i++)
		for (uint32_t k = 0; k < c->n; k++)
			if (topo->width_Bps[i][k] > 0)
				unit = fmin(unit, topo->width_Bps[i][k]);
	for (uint32_t i = 0; i < c->n; i++) {
		uint32_t degree = 0;

		for (uint32_t k = 0; k < c->n; k++) {
			if (topo->width_Bps[i][k] > 0 && topo->width_Bps[k][i] > 0)
				c->left[i][k] =
					(uint8_t)fmin(UINT8_MAX, floor(topo->width_Bps[i][k] / unit * parts + .01));
			degree += c->left[i][k];
		}
		least = degree < least ? degree : least;
	}
	c->goal = least / 2 < MQ_MAX_RINGS / 2 ? least / 2 : MQ_MAX_RINGS / 2;
	if (c->goal)
		next_cycle(c);
	return unit / parts;
}

/* Each cycle gives two rings, one per direction. Cycles use whole links or halves, whichever carry more: with four
 * GPUs, each linked to each, two rings of whole links leave a third of the links idle, six rings of halves none. False:
 * there is no cycle over NVLinks alone. */
static bool mesh_rings(struct mq_topo *topo)
{
	struct cycles c, halves;
	double unit = find_cycles(topo, 1, &c), speed = snap(speeds_of(topo, false), unit);
	double half = find_cycles(topo, 2, &halves), slower = snap(speeds_of(topo, false), half);

	if (halves.best * slower > c.best * speed * (1 + 1e-9)) {
		c = halves;
		unit = half;
		speed = slower;
	}

	for (uint32_t r = 0; r < c.best; r++)
		for (uint32_t i = 0; i < c.n; i++) {
			topo->ring[2 * r][i] = c.kept[r][i];
			topo->ring[2 * r + 1][i] = c.kept[r][(c.n - i) % c.n];
		}
	topo->n_rings = 2 * c.best;
	topo->port_nccl_Bps = topo->n_rings * speed;
	topo->port_nominal_Bps = topo->n_rings * unit / topo->nccl_share;
	topo->ring_graph = (struct mq_graph){ topo->n_rings, speed, speed };
	return c.best > 0;
}

/* A greedy ring over NVLinks and PCIe: the rank with the widest NVLink comes next, without one the lowest. */
static void mixed_order(struct mq_topo *topo)
{
	bool used[MQ_MAX_LOCAL] = { true };

	for (uint32_t i = 1; i < topo->n_local; i++) {
		uint32_t here = topo->ring[0][i - 1], best = MQ_NONE;

		for (uint32_t k = 0; k < topo->n_local; k++)
			if (!used[k] && (best == MQ_NONE || topo->width_Bps[here][k] > topo->width_Bps[here][best]))
				best = k;
		used[best] = true;
		topo->ring[0][i] = (uint8_t)best;
	}
}

#define MAX_LOADS (MQ_MAX_LOCAL * 8)

/* A link's bandwidth for each of `flows`, as nominal bandwidth of the topology's class, whose bw_share is applied
 * later. Through host memory that share holds for a GPU's own lanes; shared links above them have their own share
 * instead, as between GPUs with direct access. */
static double link_share_Bps(const struct mq_topo *topo, const struct mq_link *link, uint32_t flows)
{
	double bw = link->bw_Bps / (link->fatpipe ? 1 : flows);

	if (topo->intra == MQ_INTRA_HOST && link->class != MQ_LINK_PCIE)
		bw *= link->share / topo->intra_calib->bw_share;
	return bw;
}

/* Bandwidth of one ring in order ring[0] whose edges may share links. */
static enum mq_status loaded_ring(const struct mq_cluster *cluster, const struct mq_topo *topo, double *bw_Bps,
				  struct mq_err *err)
{
	uint32_t link[MAX_LOADS], count[MAX_LOADS], used = 0, n = topo->n_local;

	*bw_Bps = INFINITY;
	for (uint32_t i = 0; i < n; i++) {
		const struct mq_route *route;

		MQ_TRY(mq_cluster_route(cluster, topo->local[topo->ring[0][i]], topo->local[topo->ring[0][(i + 1) % n]],
					&route, err));
		for (uint32_t k = 0; k < route->n_links; k++) {
			uint32_t at = 0;

			while (at < used && link[at] != route->link[k])
				at++;
			if (at == MAX_LOADS)
				return mq_bad(err,
					      "communicator: the routes of one node "
					      "use more than %d links; simplify the platform",
					      MAX_LOADS);
			if (at == used) {
				link[used] = route->link[k];
				count[used++] = 0;
			}
			count[at]++;
		}
	}
	for (uint32_t k = 0; k < used; k++) {
		const struct mq_link *l = &cluster->link[link[k]];

		/* Host memory carries several rings; flows share its link when they meet there. */
		if (l->class != MQ_LINK_HOST)
			*bw_Bps = fmin(*bw_Bps, link_share_Bps(topo, l, count[k]));
	}
	if (isinf(*bw_Bps))
		*bw_Bps = topo->port_nominal_Bps;
	return MQ_OK;
}

static enum mq_status search_node(const struct mq_cluster *cluster, struct mq_topo *topo, struct mq_err *err)
{
	for (uint32_t i = 0; i < topo->n_local; i++)
		topo->ring[0][i] = (uint8_t)i;
	topo->n_rings = 1;
	if (topo->intra == MQ_INTRA_NONE)
		return MQ_OK;
	if (topo->intra == MQ_INTRA_MESH && topo->n_local > 2 && mesh_rings(topo))
		return MQ_OK;
	topo->n_rings = 1;
	if (topo->intra == MQ_INTRA_MESH && topo->n_local > 2) {
		topo->intra = MQ_INTRA_MIXED;
		topo->nccl_share = topo->pcie_share;
		topo->intra_calib = topo->pcie_calib;
	}
	if (topo->intra >= MQ_INTRA_MIXED) {
		if (topo->intra == MQ_INTRA_MIXED)
			mixed_order(topo);
		MQ_TRY(loaded_ring(cluster, topo, &topo->port_nominal_Bps, err));
		topo->port_nccl_Bps = topo->port_nominal_Bps * topo->nccl_share;
	}
	topo->ring_graph = pack(topo, topo->port_nccl_Bps, 0);
	return MQ_OK;
}

/* NVLS: one channel per head, the GPU that owns a shard. */
static void search_nvls(struct mq_topo *topo, bool inter)
{
	uint32_t heads = topo->n_local < MAX_SEARCH ? topo->n_local : MAX_SEARCH;

	topo->nvls_node_Bps = snap(speeds_of(topo, false), topo->port_nccl_Bps / heads);
	topo->nvls_graph = (struct mq_graph){
		.channels = heads,
		.intra_Bps = snap(speeds_of(topo, inter), topo->port_nccl_Bps / heads),
		.inter_Bps = inter ? snap(speeds_of(topo, true), topo->nic_Bps * topo->rails / heads) : 0,
	};
}

/* Cuts the cycles found inside a node into the rings between nodes, one for each rail. */
struct cuts {
	const struct mq_topo *topo;
	uint32_t n_orders, n_rails, budget;
	uint8_t order[MQ_MAX_RINGS][MQ_MAX_LOCAL];
	uint32_t uses[MQ_MAX_RINGS];                  /* rings that each order gives */
	bool left[MQ_MAX_LOCAL];                      /* rails by which a ring leaves the node */
	uint8_t ring[MQ_MAX_RINGS], at[MQ_MAX_RINGS]; /* of each rail: its order, and the place of the cut */
};

static bool cut_from(struct cuts *c, uint32_t rail);

static bool cut_at(struct cuts *c, uint32_t rail, uint32_t order, uint32_t at, bool own)
{
	const struct mq_topo *topo = c->topo;
	uint32_t n = topo->n_local, out = topo->rail_of[c->order[order][(at + n - 1) % n]];
	bool done;

	if (topo->rail_of[c->order[order][at]] != rail || (out == rail) != own || c->left[out] || !c->budget)
		return false;
	c->budget--;
	c->ring[rail] = (uint8_t)order;
	c->at[rail] = (uint8_t)at;
	c->left[out] = true;
	c->uses[order]++;
	done = cut_from(c, rail + 1);
	c->left[out] = false;
	c->uses[order]--;
	return done;
}

/* Finds a cut for `rail` and all later ones such that one ring leaves by each rail: the ring that came in by it if two
 * ranks of the rail are neighbours (crossNic=0), else any. The least used orders come first, since rings of one order
 * share links. */
static bool cut_from(struct cuts *c, uint32_t rail)
{
	if (rail == c->n_rails)
		return true;
	for (int own = 1; own >= 0; own--)
		for (uint32_t uses = 0; uses <= rail; uses++)
			for (uint32_t k = 0; k < c->n_orders; k++)
				for (uint32_t i = 0; c->uses[k] == uses && i < c->topo->n_local; i++)
					if (cut_at(c, rail, k, i, own))
						return true;
	return false;
}

/* Sets the rings between nodes: one per rail, beginning at a rank of the rail. */
static void rail_orders(struct mq_topo *topo)
{
	struct cuts c = { .topo = topo,
			  .n_orders = topo->n_rings,
			  .n_rails = topo->rails < MQ_MAX_RINGS ? topo->rails : MQ_MAX_RINGS,
			  .budget = CUT_BUDGET };

	if (topo->rails < 2)
		return;
	memcpy(c.order, topo->ring, sizeof(c.order));
	if (!cut_from(&c, 0)) /* uneven rails: any rank of the rail */
		for (uint32_t r = 0; r < c.n_rails; r++)
			for (c.ring[r] = 0, c.at[r] = 0; topo->rail_of[c.order[0][c.at[r]]] != r;)
				c.at[r]++;
	for (uint32_t r = 0; r < c.n_rails; r++)
		for (uint32_t i = 0; i < topo->n_local; i++)
			topo->ring[r][i] = c.order[c.ring[r]][(c.at[r] + i) % topo->n_local];
	topo->n_rings = c.n_rails;
}

enum mq_status mq_topo_search(const struct mq_cluster *cluster, struct mq_topo *topo, uint32_t n_nodes,
			      struct mq_err *err)
{
	double port;

	MQ_TRY(search_node(cluster, topo, err));
	if (n_nodes == 1) {
		topo->tree_graph = topo->ring_graph;
		search_nvls(topo, false);
		return MQ_OK;
	}
	port = topo->intra == MQ_INTRA_NONE ? (double)INFINITY : topo->port_nccl_Bps;
	topo->ring_graph = pack(topo, port, topo->nic_Bps);
	topo->collnet_graph = topo->ring_graph;
	/* Inside the node CollNet and the trees of two nodes may run at up to twice the network's speed, since a vector
	 * crosses the network once each way. */
	if (topo->intra != MQ_INTRA_NONE)
		topo->collnet_graph.intra_Bps =
			fmax(topo->ring_graph.intra_Bps,
			     snap(speeds_of(topo, true),
				  fmin(2 * topo->ring_graph.inter_Bps, port / topo->ring_graph.channels)));
	/* Not over PCIe, where the port's lanes limit the tree too: 8 V100 in two machines ran rings. */
	topo->tree_graph = topo->intra <= MQ_INTRA_MESH ? topo->collnet_graph : topo->ring_graph;
	if (topo->intra != MQ_INTRA_NONE)
		search_nvls(topo, true);
	rail_orders(topo);
	return MQ_OK;
}

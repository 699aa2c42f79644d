/* tune.c - NCCL's estimate of every (algorithm, protocol), its choice, and corrections of the estimate.
 *
 * NCCL takes the pair with the least `latency + bytes / bandwidth` (NVIDIA/nccl src/graph/tuning at 2.29.7; constants
 * in platforms/calib/nccl.json). Latency = a base plus a step latency per hop, bandwidth = channels x speed x protocol
 * efficiency under caps that depend on the GPU generation. The choice uses NCCL's constants; the time (`actual`) adds
 * what these lack: the bandwidth that links of the class deliver (bw_share), the step latency of fabrics other than
 * InfiniBand (latency_scale, hop_s), and the fill of the pipeline (fill).
 *
 * Not modelled: the CPU's make (Intel's caps are used), per-NIC plug-in latencies, NUMA placement.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "collectives/impl.h"

#define GB        1e9
#define US        1e-6
#define LL128_OLD .85 /* measured / NCCL's LL128 bandwidth before Hopper (V100 on mesh and switch, A100) */

static uint32_t version_of(const struct mq_topo *topo)
{
	return topo->version ? topo->version : topo->nccl_table->newest;
}

/* The constants of a version of NCCL. */
static const struct mq_nccl_release *release_of(const struct mq_nccl *nccl, uint32_t version)
{
	uint32_t i = nccl->n_versions - 1;

	while (i && version >= nccl->before[i])
		i--;
	return &nccl->release[i];
}

double mq_tune_work_s(const struct mq_topo *topo)
{
	return release_of(topo->nccl_table, version_of(topo))->work * US;
}

static bool one_node(const struct mq_tune *t)
{
	return t->n_nodes == 1;
}

static double ppn_of(const struct mq_tune *t)
{
	return (double)t->n / t->n_nodes;
}

static bool over_nvlink(const struct mq_topo *topo)
{
	return topo->intra <= MQ_INTRA_MESH;
}

static bool gathers(enum mq_coll_kind kind)
{
	return kind == MQ_COLL_ALL_GATHER || kind == MQ_COLL_REDUCE_SCATTER;
}

static const char *nvls_refusal(const struct mq_tune *t, enum mq_algo algo)
{
	const struct mq_topo *topo = t->topo;

	if (!topo->nvls || topo->intra != MQ_INTRA_SWITCH || topo->arch < MQ_ARCH_HOPPER)
		return "needs GPUs of compute capability 9.0 or later on an NVSwitch with mq_nvls=1";
	if (version_of(topo) < 21700)
		return "came with NCCL 2.17";
	if (topo->nvls_graph.channels < 2)
		return "needs at least 2 ranks per node";
	if (algo == MQ_ALGO_NVLS_TREE) {
		if (t->kind != MQ_COLL_ALL_REDUCE)
			return "runs all_reduce only";
		return t->n_nodes < 2 ? "needs more than one node" : NULL;
	}
	if (t->kind != MQ_COLL_ALL_REDUCE && !gathers(t->kind))
		return "runs all_reduce, all_gather and reduce_scatter only";
	return t->n_nodes > 1 && !topo->sharp ? "needs a single node, or a network that reduces (mq_sharp=1)" : NULL;
}

static const char *collnet_refusal(const struct mq_tune *t, enum mq_algo algo)
{
	if (!t->topo->sharp || t->n_nodes < 2)
		return "needs at least two nodes and a network that reduces (mq_sharp=1)";
	if (t->kind == MQ_COLL_ALL_REDUCE || (algo == MQ_ALGO_COLLNET_DIRECT && gathers(t->kind)))
		return NULL;
	return algo == MQ_ALGO_COLLNET_CHAIN ? "runs all_reduce only" :
					       "runs all_reduce, all_gather and reduce_scatter only";
}

static const char *algo_refusal(const struct mq_tune *t, enum mq_algo algo)
{
	switch (algo) {
	case MQ_ALGO_RING:
		return NULL;
	case MQ_ALGO_TREE:
		return t->kind == MQ_COLL_ALL_REDUCE ? NULL : "runs all_reduce only";
	case MQ_ALGO_NVLS:
	case MQ_ALGO_NVLS_TREE:
		return nvls_refusal(t, algo);
	case MQ_ALGO_COLLNET_DIRECT:
	case MQ_ALGO_COLLNET_CHAIN:
		return collnet_refusal(t, algo);
	case MQ_ALGO_PAT:
		if (!gathers(t->kind))
			return "runs all_gather and reduce_scatter only";
		if (version_of(t->topo) < 22300)
			return "came with NCCL 2.23";
		return t->n_nodes == t->n ? NULL : "needs one GPU per node";
	default:
		return "is not an algorithm";
	}
}

const char *mq_tune_refusal(const struct mq_tune *t, enum mq_algo algo, enum mq_proto proto)
{
	const char *why = algo_refusal(t, algo);
	const struct mq_topo *topo = t->topo;

	if (why)
		return why;
	if (proto == MQ_PROTO_SIMPLE)
		return NULL;
	if (algo != MQ_ALGO_RING && algo != MQ_ALGO_TREE)
		return "runs with protocol simple only";
	if (t->n_nodes > 1 && topo->net_calib->simple_only > 0)
		return "runs with protocol simple only over this network (simple_only of its class)";
	if (proto == MQ_PROTO_LL)
		return NULL;
	if (topo->compute_capability < 70)
		return "with ll128 needs compute capability 7.0";
	if (!over_nvlink(topo))
		return "with ll128 needs NVLink between the ranks of a node";
	return t->n_nodes > 1 && !topo->gpu_direct ? "with ll128 needs a network that reads GPU memory" : NULL;
}

/* Bus bandwidth of a graph's channels: NCCL's estimate, or as links deliver. `once`: each byte crosses the network once
 * each way (trees of two nodes, networks that reduce), not twice as in a ring, for which bus bandwidth is defined. */
static double total_Bps(const struct mq_tune *t, const struct mq_graph *graph, bool once, bool actual)
{
	const struct mq_topo *topo = t->topo;
	double port =
		topo->intra == MQ_INTRA_NONE ? (double)INFINITY : topo->port_nominal_Bps * topo->intra_calib->bw_share;
	double net = topo->rails * mq_topo_port_Bps(topo);

	if (!actual)
		return graph->channels * (once ? graph->intra_Bps : graph->inter_Bps);
	if (one_node(t))
		return port;
	return fmin(port, once ? 2 * net : net);
}

/* Cap of LL on one node; up to NCCL 2.20 Hopper had Ampere's. */
static double ll_cap(const struct mq_topo *topo, bool actual)
{
	bool old = version_of(topo) < 22100;

	return topo->nccl_table->ll_max[old && !actual && topo->arch > MQ_ARCH_AMPERE ? MQ_ARCH_AMPERE : topo->arch];
}

static double ring_bus(const struct mq_tune *t, enum mq_proto proto, bool actual)
{
	const struct mq_topo *topo = t->topo;
	const struct mq_nccl_release *release =
		release_of(topo->nccl_table, actual ? topo->nccl_table->newest : version_of(topo));
	int scale = t->n_nodes > 2 ? 2 : (int)t->n_nodes - 1;
	double bus = total_Bps(t, &topo->ring_graph, !actual && t->n_nodes <= 2, actual);
	double cap = scale ? topo->nccl_table->ll_max_net[scale - 1] : ll_cap(topo, actual);

	if (proto == MQ_PROTO_LL)
		return fmin(cap * GB, bus / 2);
	if (proto == MQ_PROTO_LL128)
		return fmin(.92 * bus, topo->ring_graph.channels * release->ring_ll128_max[topo->arch][scale] * GB) *
		       (actual && topo->arch < MQ_ARCH_HOPPER ? LL128_OLD : 1);
	return bus;
}

static double tree_bus(const struct mq_tune *t, enum mq_proto proto, bool actual)
{
	const struct mq_topo *topo = t->topo;
	const struct mq_graph *graph = &topo->tree_graph;
	int scale = t->n_nodes > 2 ? 2 : (int)t->n_nodes - 1;
	double bus = total_Bps(t, graph, t->n_nodes <= 2, actual);
	double cap = scale ? topo->nccl_table->ll_max_net[scale - 1] : ll_cap(topo, actual);

	/* Between two nodes the links limit the actual bandwidth, not these caps (16 H100 on TCPXO, 16 B200 on
	 * RoCE). */
	if (!actual || t->n_nodes != 2 || proto != MQ_PROTO_SIMPLE)
		bus = fmin(.92 * bus, graph->channels * topo->nccl_table->tree_max[topo->arch][scale] * GB);
	if (proto == MQ_PROTO_LL)
		bus = fmin(bus / 3.8, cap * GB);
	if (proto == MQ_PROTO_LL128)
		bus = fmin(bus * (one_node(t) ? 7.0 / 9 : 120.0 / 128),
			   graph->channels * topo->nccl_table->tree_ll128_max[topo->arch][scale] * GB);
	if (ppn_of(t) <= 1)
		bus *= .85;
	if (!actual && t->bytes >= 64)
		bus *= topo->nccl_table->tree_factor[proto][(int)fmin(MQ_NCCL_SIZES - 1, floor(log2(t->bytes / 64)))];
	return bus;
}

/* Actual: NVLinks limit it inside a node, whatever channel speed the search chose for the network; ports between
 * two. */
static double nvls_bus(const struct mq_tune *t, enum mq_algo algo, bool actual)
{
	const struct mq_graph *graph = &t->topo->nvls_graph;
	int scale = t->n_nodes > 2 ? 2 : (int)t->n_nodes - 1;
	double c = graph->channels, ppn = ppn_of(t), share = t->topo->intra_calib->nvls_share;
	double intra = actual ? t->topo->nvls_node_Bps * share : graph->intra_Bps;
	double inter = graph->inter_Bps;

	intra *= (t->topo->arch >= MQ_ARCH_BLACKWELL ? .74 : .85) * (c - 1) / c;
	intra *= t->kind == MQ_COLL_ALL_REDUCE ? 2 : (ppn - 1) / ppn;
	if (one_node(t))
		return c * intra;
	if (actual && t->n_nodes == 2 && algo == MQ_ALGO_NVLS_TREE)
		return fmin(c * intra, 2 * t->topo->rails * mq_topo_port_Bps(t->topo));
	if (actual && algo == MQ_ALGO_NVLS)
		return c * intra; /* bandwidth() applies the network's limit, reduced_Bps */
	if (algo == MQ_ALGO_NVLS_TREE) {
		inter *= t->n_nodes == 2 ? 2 : 1;
		intra = fmin(intra, t->topo->nccl_table->nvls_tree_max[t->topo->arch][scale] * GB);
	}
	return c * fmin(intra, inter);
}

/* Bandwidth of a reduction in the network (SHARP): a vector crosses all ports to the switches and back once. */
static double reduced_Bps(const struct mq_topo *topo)
{
	return topo->rails * topo->nic_Bps * topo->net_calib->sharp_share;
}

static double collnet_bus(const struct mq_tune *t, bool actual)
{
	double bus = total_Bps(t, &t->topo->collnet_graph, true, actual);

	return actual ? fmin(bus, 2 * reduced_Bps(t->topo)) : bus;
}

static double collnet_direct_bus(const struct mq_tune *t, bool actual)
{
	const struct mq_graph *graph = &t->topo->collnet_graph;
	double ppn = ppn_of(t), f = fmax(1, ppn / graph->channels), bus;

	if (t->kind != MQ_COLL_ALL_REDUCE)
		return ppn * fmin(graph->intra_Bps, .9 * graph->inter_Bps);
	/* GPUs without their own NIC send through a neighbour's. */
	bus = collnet_bus(t, actual) / (f - (f - 1) / 2);
	return t->topo->arch >= MQ_ARCH_HOPPER ? bus * .85 : bus;
}

static double ring_steps(const struct mq_tune *t)
{
	return t->kind == MQ_COLL_ALL_REDUCE ? 2.0 * (t->n - 1) : gathers(t->kind) ? t->n - 1.0 : t->n;
}

/* Algorithm bandwidth (vector bytes per second), from the bus bandwidth and the bytes that each algorithm moves. */
static double bandwidth(const struct mq_tune *t, enum mq_algo algo, enum mq_proto proto, bool actual)
{
	double vector;

	switch (algo) {
	case MQ_ALGO_RING:
		return ring_bus(t, proto, actual) * t->n / ring_steps(t);
	case MQ_ALGO_TREE:
		return tree_bus(t, proto, actual) / 2;
	case MQ_ALGO_NVLS:
	case MQ_ALGO_NVLS_TREE:
		vector = nvls_bus(t, algo, actual) * t->n / ring_steps(t);
		return actual && algo == MQ_ALGO_NVLS && !one_node(t) ? fmin(vector, reduced_Bps(t->topo)) : vector;
	case MQ_ALGO_COLLNET_DIRECT:
		return collnet_direct_bus(t, actual) * (t->kind == MQ_COLL_ALL_REDUCE ? .5 : 1);
	case MQ_ALGO_COLLNET_CHAIN:
		return .5 * collnet_bus(t, actual);
	default: /* PAT */
		return .75 * total_Bps(t, &t->topo->ring_graph, false, actual);
	}
}

static double ring_latency(const struct mq_tune *t, const struct mq_nccl_release *c, enum mq_proto proto, bool actual)
{
	enum mq_nccl_link intra = over_nvlink(t->topo) ? MQ_NCCL_NVLINK : MQ_NCCL_PCIE;
	enum mq_nccl_link slow = one_node(t) ? intra : MQ_NCCL_NET;
	double step = c->step[intra][MQ_ALGO_RING][proto], overhead = one_node(t) ? 0 : 1;
	double net = c->step[MQ_NCCL_NET][ppn_of(t) <= 1 ? MQ_ALGO_TREE : MQ_ALGO_RING][proto];
	double all = t->kind == MQ_COLL_ALL_REDUCE ? 2 : 1, between, lat;

	if (proto == MQ_PROTO_SIMPLE)
		overhead *= 3;
	if (mq_coll_has_root(t->kind)) {
		if (actual) /* a chain from the root to the last rank */
			return c->base[MQ_ALGO_RING][proto] + (t->n - t->n_nodes) * step + (t->n_nodes - 1) * net;
		if (t->topo->n_rings == 1)
			return c->base[MQ_ALGO_RING][proto] + c->step[slow][MQ_ALGO_RING][proto];
		return c->base[MQ_ALGO_RING][proto] +
		       t->n * c->step[slow][proto == MQ_PROTO_SIMPLE ? MQ_ALGO_TREE : MQ_ALGO_RING][proto];
	}
	/* One step in ppn crosses between nodes; ceil: some of the data begins with such a step. */
	between = one_node(t) ? 0 : actual ? ceil(all * (t->n - 1) / ppn_of(t)) : all * (t->n_nodes - 1);
	lat = c->base[MQ_ALGO_RING][proto] + (all * (t->n - 1) - between) * fmax(step, overhead) + between * net;
	if (!actual && proto == MQ_PROTO_SIMPLE && !one_node(t) && t->kind == MQ_COLL_ALL_REDUCE &&
	    t->bytes / ((double)t->topo->ring_graph.channels * t->n) >= 64)
		lat *= t->topo->compute_capability < 80 ? 1.9 : 1.4;
	return lat;
}

static double hop_s(const struct mq_link_calib *link, enum mq_proto proto)
{
	double own = proto == MQ_PROTO_LL ? link->hop_ll_s : proto == MQ_PROTO_LL128 ? link->hop_ll128_s : 0;

	return own > 0 ? own : link->hop_s;
}

/* NCCL's estimate: adds the network plug-in's reported latency to each step, twice for Simple, whose messages end with
 * a flush. */
static void add_reported_latency(const struct mq_tune *t, struct mq_nccl_release *c)
{
	for (int a = 0; a < MQ_N_ALGOS; a++)
		for (int p = 0; p < MQ_N_PROTOS; p++)
			if (c->step[MQ_NCCL_NET][a][p] > 0)
				c->step[MQ_NCCL_NET][a][p] +=
					(p == MQ_PROTO_SIMPLE ? 2 : 1) * t->topo->net_calib->reported_s / US;
}

/* Actual latencies for this class of link: the measured start of a ring call that runs in rounds, and NCCL's step,
 * scaled and at least a hop's latency. */
static void correct_steps(const struct mq_tune *t, struct mq_nccl_release *c)
{
	const struct mq_link_calib *inside = t->topo->intra_calib;
	const double start_s[MQ_N_PROTOS] = {
		[MQ_PROTO_LL] = inside->start_ll_s,
		[MQ_PROTO_LL128] = inside->start_ll128_s,
		[MQ_PROTO_SIMPLE] = inside->start_s,
	};

	bool rounds = t->kind == MQ_COLL_ALL_REDUCE || gathers(t->kind);

	for (int p = 0; p < MQ_N_PROTOS; p++)
		if (rounds && start_s[p] > 0)
			c->base[MQ_ALGO_RING][p] = start_s[p] / US + c->work;
	for (int hw = 0; hw < MQ_N_NCCL_LINKS; hw++) {
		const struct mq_link_calib *link = hw == MQ_NCCL_NET ? t->topo->net_calib : t->topo->intra_calib;

		for (int a = 0; a < MQ_N_ALGOS; a++)
			for (int p = 0; p < MQ_N_PROTOS; p++)
				if (c->step[hw][a][p] > 0)
					c->step[hw][a][p] =
						fmax(c->step[hw][a][p] * link->latency_scale, hop_s(link, p) / US);
	}
}

/* Latency of a call, in us. */
static double latency(const struct mq_tune *t, enum mq_algo algo, enum mq_proto proto, bool actual)
{
	enum mq_nccl_link intra = over_nvlink(t->topo) ? MQ_NCCL_NVLINK : MQ_NCCL_PCIE;
	/* NCCL chooses by its version's constants; the newest estimate the time best, except `work`. */
	struct mq_nccl_release c =
		*release_of(t->topo->nccl_table, actual ? t->topo->nccl_table->newest : version_of(t->topo));
	double ppn = ppn_of(t), depth = floor(log2(t->n_nodes)), inside, between;

	c.work = mq_tune_work_s(t->topo) / US;
	if (actual)
		correct_steps(t, &c);
	else
		add_reported_latency(t, &c);
	inside = c.step[intra][algo][proto];
	between = c.step[MQ_NCCL_NET][algo][proto];
	switch (algo) {
	case MQ_ALGO_RING:
		return ring_latency(t, &c, proto, actual);
	case MQ_ALGO_TREE:
		return c.base[algo][proto] + 2 * ((ppn - 1) * inside + depth * between);
	case MQ_ALGO_NVLS:
		return inside + (one_node(t) ? 0 : between);
	case MQ_ALGO_NVLS_TREE:
		return inside + 2 * depth * between;
	case MQ_ALGO_COLLNET_DIRECT:
		return 2 * (fmin(1, ppn - 1) * inside + .4 * (ppn - 1)) + between;
	case MQ_ALGO_COLLNET_CHAIN:
		return 2 * (ppn - 1) * inside + between;
	default: /* PAT */
		return c.base[algo][proto] + depth * between / 3.5 + 2.8 * t->n;
	}
}

/* Channels as launched: NCCL doubles those of rings and trees when it connects them. */
static uint32_t channels_of(const struct mq_topo *topo, enum mq_algo algo)
{
	switch (algo) {
	case MQ_ALGO_NVLS:
	case MQ_ALGO_NVLS_TREE:
		return topo->nvls_graph.channels;
	default:
		return topo->ring_graph.channels * 2 < MQ_MAX_RINGS ? topo->ring_graph.channels * 2 : MQ_MAX_RINGS;
	}
}

/* Channels that a vector uses: a small one fewer, since each channel needs enough bytes for its threads. */
static double channels_used(const struct mq_tune *t, enum mq_algo algo, enum mq_proto proto)
{
	uint32_t channels = channels_of(t->topo, algo);
	double threads = proto == MQ_PROTO_LL128 ? 640 : over_nvlink(t->topo) ? 512 : 256;
	double threshold = proto == MQ_PROTO_SIMPLE ? 64 : 8;

	if (algo != MQ_ALGO_RING && algo != MQ_ALGO_TREE)
		return channels;
	if (proto == MQ_PROTO_LL && algo == MQ_ALGO_RING)
		threshold *= t->n;
	return fmin(channels, fmax(1, t->bytes / (threads * threshold)));
}

struct mq_coll_cost mq_tune_cost(const struct mq_tune *t, enum mq_algo algo, enum mq_proto proto, bool actual)
{
	struct mq_coll_cost cost = {
		.latency_s = latency(t, algo, proto, actual) * US,
		.bw_Bps = bandwidth(t, algo, proto, actual),
		.busy = channels_used(t, algo, proto),
		.most = channels_of(t->topo, algo),
	};

	cost.channels = (uint32_t)cost.busy;
	if (actual)
		mq_fill_cost(t, algo, proto, &cost);
	return cost;
}

static enum mq_status refuse(const struct mq_tune *t, enum mq_algo algo, enum mq_proto proto, struct mq_err *err)
{
	const char *why = "";

	if (algo != MQ_ALGO_AUTO)
		why = mq_tune_refusal(t, algo, proto == MQ_PROTO_AUTO ? MQ_PROTO_SIMPLE : proto);
	else
		why = mq_tune_refusal(t, MQ_ALGO_RING, proto);
	return mq_bad(err,
		      "%s over %u ranks in %u nodes cannot use algorithm %s with protocol %s: %s %s; use auto or ring",
		      mq_coll_name(t->kind), t->n, t->n_nodes, mq_algo_name(algo), mq_proto_name(proto),
		      mq_algo_name(algo == MQ_ALGO_AUTO ? MQ_ALGO_RING : algo), why ? why : "does not run");
}

enum mq_status mq_tune_choose(const struct mq_tune *t, enum mq_algo *algo, enum mq_proto *proto, struct mq_err *err)
{
	enum mq_algo best_algo = MQ_ALGO_AUTO;
	enum mq_proto best_proto = MQ_PROTO_AUTO;
	double best = INFINITY;

	for (int a = MQ_ALGO_AUTO + 1; a < MQ_N_ALGOS; a++) {
		for (int p = MQ_PROTO_AUTO + 1; p < MQ_N_PROTOS; p++) {
			struct mq_coll_cost cost;
			double time;

			if ((*algo != MQ_ALGO_AUTO && *algo != (enum mq_algo)a) ||
			    (*proto != MQ_PROTO_AUTO && *proto != (enum mq_proto)p) ||
			    mq_tune_refusal(t, (enum mq_algo)a, (enum mq_proto)p))
				continue;
			cost = mq_tune_cost(t, (enum mq_algo)a, (enum mq_proto)p, false);
			time = cost.latency_s + t->bytes / cost.bw_Bps;
			if (time < best) {
				best = time;
				best_algo = (enum mq_algo)a;
				best_proto = (enum mq_proto)p;
			}
		}
	}
	if (isinf(best))
		return refuse(t, *algo, *proto, err);
	*algo = best_algo;
	*proto = best_proto;
	return MQ_OK;
}

/* fluid.c - time of flows that start together on an idle cluster: rates of schedule/fluid.h, computed anew after each
 * completion. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/collective.h"
#include "schedule/fluid.h"

/* The flows that take time, on the links they use, numbered densely. */
struct flows {
	struct mq_fluid net;
	double *left_B; /* [net.n_flows] */
	double *load_B; /* [net.n_links] */
};

static enum mq_status add_flow(const struct mq_cluster *cluster, const struct mq_route *route,
			       const struct mq_flow *flow, uint32_t *dense, struct flows *f)
{
	struct mq_fluid *net = &f->net;
	uint32_t at = net->first[net->n_flows];
	double cap = flow->rate_Bps;

	for (uint32_t i = 0; i < route->n_links; i++) {
		const struct mq_link *link = &cluster->link[route->link[i]];
		double bw = mq_link_usable_Bps(link);

		if (link->fatpipe) {
			cap = fmin(cap, bw);
			continue;
		}
		if (!dense[route->link[i]]) {
			net->bw_Bps[net->n_links] = bw;
			dense[route->link[i]] = ++net->n_links;
		}
		net->link[at] = dense[route->link[i]] - 1;
		f->load_B[net->link[at++]] += flow->bytes;
	}
	if (isinf(cap) && at == net->first[net->n_flows])
		return MQ_OK; /* no link limits it, so it takes no time */
	f->left_B[net->n_flows] = flow->bytes;
	net->cap_Bps[net->n_flows] = cap;
	net->first[++net->n_flows] = at;
	return MQ_OK;
}

/* Builds the compact network of the flows and the links they use. */
static enum mq_status fluid_build(const struct mq_cluster *cluster, const uint32_t *rank, const struct mq_flow *flow,
				  uint32_t n_flows, struct mq_arena *scratch, struct flows *f, struct mq_err *err)
{
	static const struct mq_route nowhere = { .n_links = 0 };
	const struct mq_route **route = mq_arena_array(scratch, n_flows, const struct mq_route *);
	uint32_t *dense = mq_arena_array(scratch, cluster->n_links, uint32_t);
	size_t uses = 0;

	for (uint32_t i = 0; i < n_flows; i++) {
		uint32_t src = rank[flow[i].src], dst = rank[flow[i].dst];

		if (!(flow[i].bytes >= 0) || !(flow[i].rate_Bps > 0))
			return mq_bad(err, "flow %u: %g bytes at %g B/s: need bytes >= 0 and a rate above 0", i,
				      flow[i].bytes, flow[i].rate_Bps);
		route[i] = &nowhere;
		if (src != dst)
			MQ_TRY(mq_cluster_route(cluster, src, dst, &route[i], err));
		uses += route[i]->n_links;
	}
	f->net.first = mq_arena_array(scratch, n_flows + 1, uint32_t);
	f->net.cap_Bps = mq_arena_array(scratch, n_flows, double);
	f->net.rate_Bps = mq_arena_array(scratch, n_flows, double);
	f->net.link = mq_arena_array(scratch, uses, uint32_t);
	f->net.bw_Bps = mq_arena_array(scratch, uses, double);
	f->left_B = mq_arena_array(scratch, n_flows, double);
	f->load_B = mq_arena_array(scratch, uses, double);
	for (uint32_t i = 0; i < n_flows; i++)
		if (flow[i].bytes > 0)
			MQ_TRY(add_flow(cluster, route[i], &flow[i], dense, f));
	return MQ_OK;
}

/* Rewinds the scratch arena, unless it is the cluster's, in which new routes stay. */
static void release(const struct mq_cluster *cluster, struct mq_arena *scratch, struct mq_arena_mark mark)
{
	if (scratch != cluster->arena)
		mq_arena_rewind(scratch, mark);
}

enum mq_status mq_flows_time(const struct mq_cluster *cluster, const uint32_t *rank, const struct mq_flow *flow,
			     uint32_t n_flows, struct mq_arena *scratch, double *seconds, struct mq_err *err)
{
	struct mq_arena_mark mark = mq_arena_mark(scratch);
	struct flows f = { .left_B = NULL };

	MQ_TRY(fluid_build(cluster, rank, flow, n_flows, scratch, &f, err));
	mq_fluid_begin(&f.net, scratch);
	*seconds = mq_fluid_run(&f.net, f.left_B, scratch, mq_arena_array(scratch, f.net.n_flows, double));
	release(cluster, scratch, mark);
	return MQ_OK;
}

enum mq_status mq_flows_bound(const struct mq_cluster *cluster, const uint32_t *rank, const struct mq_flow *flow,
			      uint32_t n_flows, struct mq_arena *scratch, double *seconds, struct mq_err *err)
{
	struct mq_arena_mark mark = mq_arena_mark(scratch);
	struct flows f = { .left_B = NULL };
	const struct mq_fluid *net = &f.net;

	MQ_TRY(fluid_build(cluster, rank, flow, n_flows, scratch, &f, err));
	*seconds = 0;
	for (uint32_t i = 0; i < net->n_flows; i++) {
		double rate = net->cap_Bps[i];

		for (uint32_t k = net->first[i]; k < net->first[i + 1]; k++)
			rate = fmin(rate, net->bw_Bps[net->link[k]]);
		*seconds = fmax(*seconds, f.left_B[i] / rate);
	}
	for (uint32_t l = 0; l < net->n_links; l++)
		*seconds = fmax(*seconds, f.load_B[l] / net->bw_Bps[l]);
	release(cluster, scratch, mark);
	return MQ_OK;
}

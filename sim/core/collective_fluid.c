/*
 * collective_fluid.c - how long a set of flows takes that start together on an idle cluster.
 *
 * Max-min fair sharing by progressive filling (Bertsekas and Gallager, Data Networks,
 * section 6.5.2): all rates grow together until a link is full or a flow reaches its own cap; those
 * flows stop growing, the rest goes on. After each completion the rates are found anew. This is
 * what SimGrid's CM02 model does with equal weights, that is, with link latencies of zero.
 *
 * Not modelled: latency (paid apart), protocol windows, cross traffic of acknowledgements.
 */
#include <math.h>

#include "core/collective.h"

#define SAME 1e-12 /* relative distance below which two rates or two finish times are one */

struct fluid {
	uint32_t n_flows, n_links;  /* flows that have bytes and take time; links that they use */
	uint32_t *first, *link;     /* [n_flows + 1], dense link ids of each flow */
	double *left_B, *cap_Bps, *rate_Bps; /* [n_flows] */
	double *bw_Bps, *free_Bps, *load_B;  /* [n_links] */
	uint32_t *growing;          /* [n_links] flows whose rate is not yet fixed */
	uint32_t *state;            /* [n_flows] enum below */
};

enum { FLOW_DONE, FLOW_FIXED, FLOW_GROWING };

static enum mq_status add_flow(const struct mq_cluster *cluster, const struct mq_route *route,
			       const struct mq_flow *flow, uint32_t *dense, struct fluid *f)
{
	uint32_t at = f->first[f->n_flows];
	double cap = flow->rate_Bps;

	for (uint32_t i = 0; i < route->n_links; i++) {
		const struct mq_link *link = &cluster->link[route->link[i]];
		double bw = mq_link_usable_Bps(link);

		if (link->fatpipe) {
			cap = fmin(cap, bw);
			continue;
		}
		if (!dense[route->link[i]]) {
			f->bw_Bps[f->n_links] = bw;
			dense[route->link[i]] = ++f->n_links;
		}
		f->link[at] = dense[route->link[i]] - 1;
		f->load_B[f->link[at++]] += flow->bytes;
	}
	if (isinf(cap) && at == f->first[f->n_flows])
		return MQ_OK; /* nothing limits it: it takes no time */
	f->left_B[f->n_flows] = flow->bytes;
	f->cap_Bps[f->n_flows] = cap;
	f->state[f->n_flows] = FLOW_GROWING;
	f->first[++f->n_flows] = at;
	return MQ_OK;
}

/* Translate the flows to a compact network of the links they use. */
static enum mq_status fluid_build(const struct mq_cluster *cluster, const uint32_t *rank,
				  const struct mq_flow *flow, uint32_t n_flows,
				  struct mq_arena *scratch, struct fluid *f, struct mq_err *err)
{
	static const struct mq_route nowhere = { .n_links = 0 };
	const struct mq_route **route = mq_arena_array(scratch, n_flows, const struct mq_route *);
	uint32_t *dense = mq_arena_array(scratch, cluster->n_links, uint32_t);
	size_t uses = 0;

	for (uint32_t i = 0; i < n_flows; i++) {
		uint32_t src = rank[flow[i].src], dst = rank[flow[i].dst];

		if (!(flow[i].bytes >= 0) || !(flow[i].rate_Bps > 0))
			return mq_fail(err, MQ_EINPUT,
				       "flow %u: %g bytes at %g B/s: need bytes >= 0 "
				       "and a rate above 0",
				       i, flow[i].bytes, flow[i].rate_Bps);
		route[i] = &nowhere;
		if (src != dst)
			MQ_TRY(mq_cluster_route(cluster, src, dst, &route[i], err));
		uses += route[i]->n_links;
	}
	f->first = mq_arena_array(scratch, n_flows + 1, uint32_t);
	f->state = mq_arena_array(scratch, n_flows, uint32_t);
	f->left_B = mq_arena_array(scratch, n_flows, double);
	f->cap_Bps = mq_arena_array(scratch, n_flows, double);
	f->rate_Bps = mq_arena_array(scratch, n_flows, double);
	f->link = mq_arena_array(scratch, uses, uint32_t);
	f->bw_Bps = mq_arena_array(scratch, uses, double);
	f->free_Bps = mq_arena_array(scratch, uses, double);
	f->load_B = mq_arena_array(scratch, uses, double);
	f->growing = mq_arena_array(scratch, uses, uint32_t);
	for (uint32_t i = 0; i < n_flows; i++)
		if (flow[i].bytes > 0)
			MQ_TRY(add_flow(cluster, route[i], &flow[i], dense, f));
	return MQ_OK;
}

static void fix_rate(struct fluid *f, uint32_t i, double rate)
{
	f->rate_Bps[i] = rate;
	f->state[i] = FLOW_FIXED;
	for (uint32_t k = f->first[i]; k < f->first[i + 1]; k++) {
		uint32_t l = f->link[k];

		f->growing[l]--;
		f->free_Bps[l] = fmax(0, f->free_Bps[l] - rate);
	}
}

static bool crosses_full_link(const struct fluid *f, uint32_t i, const double *share, double level)
{
	for (uint32_t k = f->first[i]; k < f->first[i + 1]; k++)
		if (share[f->link[k]] <= level)
			return true;
	return false;
}

/* One level of the filling: the lowest rate at which a link fills up or a cap is met. */
static double next_level(const struct fluid *f, double *share)
{
	double level = INFINITY;

	for (uint32_t l = 0; l < f->n_links; l++) {
		share[l] = f->growing[l] ? f->free_Bps[l] / f->growing[l] : (double)INFINITY;
		level = fmin(level, share[l]);
	}
	for (uint32_t i = 0; i < f->n_flows; i++)
		if (f->state[i] == FLOW_GROWING)
			level = fmin(level, f->cap_Bps[i]);
	return level;
}

static void fill(struct fluid *f, double *share)
{
	uint32_t growing = 0;

	for (uint32_t l = 0; l < f->n_links; l++) {
		f->free_Bps[l] = f->bw_Bps[l];
		f->growing[l] = 0;
	}
	for (uint32_t i = 0; i < f->n_flows; i++) {
		if (f->state[i] == FLOW_DONE)
			continue;
		f->state[i] = FLOW_GROWING;
		growing++;
		for (uint32_t k = f->first[i]; k < f->first[i + 1]; k++)
			f->growing[f->link[k]]++;
	}
	while (growing) {
		double level = next_level(f, share), reach = level * (1 + SAME);

		for (uint32_t i = 0; i < f->n_flows; i++)
			if (f->state[i] == FLOW_GROWING &&
			    (f->cap_Bps[i] <= reach || crosses_full_link(f, i, share, reach))) {
				fix_rate(f, i, fmin(level, f->cap_Bps[i]));
				growing--;
			}
	}
}

/* Routes first asked for here live on in the cluster's arena, so that one cannot be rewound. */
static void release(const struct mq_cluster *cluster, struct mq_arena *scratch,
		    struct mq_arena_mark mark)
{
	if (scratch != cluster->arena)
		mq_arena_rewind(scratch, mark);
}

enum mq_status mq_flows_time(const struct mq_cluster *cluster, const uint32_t *rank,
			     const struct mq_flow *flow, uint32_t n_flows,
			     struct mq_arena *scratch, double *seconds, struct mq_err *err)
{
	struct mq_arena_mark mark = mq_arena_mark(scratch);
	struct fluid f = { 0 };
	uint32_t left;
	double *share;

	MQ_TRY(fluid_build(cluster, rank, flow, n_flows, scratch, &f, err));
	share = mq_arena_array(scratch, f.n_links, double);
	left = f.n_flows;
	*seconds = 0;
	while (left) {
		double step = INFINITY;

		fill(&f, share);
		for (uint32_t i = 0; i < f.n_flows; i++)
			if (f.state[i] != FLOW_DONE)
				step = fmin(step, f.left_B[i] / f.rate_Bps[i]);
		*seconds += step;
		for (uint32_t i = 0; i < f.n_flows; i++) {
			if (f.state[i] == FLOW_DONE)
				continue;
			if (f.left_B[i] <= step * f.rate_Bps[i] * (1 + SAME)) {
				f.state[i] = FLOW_DONE;
				left--;
			} else {
				f.left_B[i] -= step * f.rate_Bps[i];
			}
		}
	}
	release(cluster, scratch, mark);
	return MQ_OK;
}

enum mq_status mq_flows_bound(const struct mq_cluster *cluster, const uint32_t *rank,
			      const struct mq_flow *flow, uint32_t n_flows,
			      struct mq_arena *scratch, double *seconds, struct mq_err *err)
{
	struct mq_arena_mark mark = mq_arena_mark(scratch);
	struct fluid f = { 0 };

	MQ_TRY(fluid_build(cluster, rank, flow, n_flows, scratch, &f, err));
	*seconds = 0;
	for (uint32_t i = 0; i < f.n_flows; i++) {
		double rate = f.cap_Bps[i];

		for (uint32_t k = f.first[i]; k < f.first[i + 1]; k++)
			rate = fmin(rate, f.bw_Bps[f.link[k]]);
		*seconds = fmax(*seconds, f.left_B[i] / rate);
	}
	for (uint32_t l = 0; l < f.n_links; l++)
		*seconds = fmax(*seconds, f.load_B[l] / f.bw_Bps[l]);
	release(cluster, scratch, mark);
	return MQ_OK;
}

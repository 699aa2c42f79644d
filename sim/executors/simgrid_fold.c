/*
 * simgrid_fold.c - is a folded schedule's time what the whole schedule would have taken?
 *
 * A folded run gives every meeting the time it takes with nobody else on its links. That is right, for the
 * representatives and by symmetry for everybody, if no two meetings that share a link were under way at
 * the same time. Which may share one is known beforehand (simgrid_share.c); whether they did is seen from
 * the times.
 */
#include <stdlib.h>

#include "executors/simgrid_impl.h"

struct use {
	uint32_t link, event;
	double start_s, finish_s;
};

static int by_link_start(const void *a, const void *b)
{
	const struct use *x = a, *y = b;

	if (x->link != y->link)
		return x->link < y->link ? -1 : 1;
	if (x->start_s != y->start_s)
		return x->start_s < y->start_s ? -1 : 1;
	return x->event < y->event ? -1 : x->event > y->event;
}

/* Touching ends are no meeting; nor is what rounding makes of them. */
static bool overlap(const struct use *use, uint32_t n)
{
	double until_s = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (i && use[i].link == use[i - 1].link && use[i].event == use[i - 1].event)
			continue;
		if (!i || use[i].link != use[i - 1].link)
			until_s = 0;
		else if (use[i].start_s < until_s * (1 - 1e-12))
			return true;
		if (use[i].finish_s > until_s)
			until_s = use[i].finish_s;
	}
	return false;
}

enum mq_status mq_sim_fold_met(struct sim *sim, bool *met, struct mq_err *err)
{
	const struct mq_cluster *cluster = sim->request->cluster;
	struct use *use = NULL;
	uint32_t n = 0, room = 0;

	for (uint32_t e = 0; e < sim->ev.n; e++) {
		if (!sim->sharing.flows[e])
			continue;
		const struct mq_meeting *m = &sim->costing.meeting[sim->sharing.meeting[e]];
		for (uint32_t f = 0; f < m->n_flows; f++) {
			const struct mq_route *route;

			MQ_TRY(mq_cluster_route(cluster, m->rank[m->flow[f].src],
						m->rank[m->flow[f].dst], &route, err));
			for (uint32_t l = 0; l < route->n_links; l++) {
				struct use u = { route->link[l], e, sim->walk.start_s[e],
						 sim->walk.finish_s[e] };

				if (!cluster->link[u.link].fatpipe)
					MQ_PUSH(sim->arena, use, n, room, u);
			}
		}
	}
	qsort(use, n, sizeof(*use), by_link_start);
	*met = overlap(use, n);
	return MQ_OK;
}

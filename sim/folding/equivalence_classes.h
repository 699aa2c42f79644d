/* equivalence_classes.h - all flows of all replicas of some communications, as a network of few with the same rates.
 *
 * Flows and links are coloured, and the colours refined until all flows of a colour cross equally many links of each
 * colour and all links of a colour are crossed by equally many flows of each colour (an equitable partition; the
 * refinement of Weisfeiler and Leman, 1968). Max-min fair rates are then equal inside a colour, whichever
 * communications are under way: one flow per colour, one link per colour, and the number of times that flows of a
 * colour cross such a link as its weight (fluid.h), give the rates of all. The representative's time is everybody's as
 * long as all replicas of a communication end together; who runs the network must look at that.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_FOLDING_EQUIVALENCE_CLASSES_H
#define MQ_FOLDING_EQUIVALENCE_CLASSES_H

#include "schedule/fluid.h"
#include "folding/replica_flows.h"

/* The small network of some communications. */
struct mq_equivalence {
	struct mq_fluid net;     /* a flow per colour */
	double *bytes, *way_Bps; /* [net.n_flows] way: least usable bandwidth of the route */
	uint32_t n_communications;
	uint32_t *flow_first;            /* [n_communications + 1] flows of each communication: a range */
	uint32_t *set_first;             /* [n_communications + 1] kinds of its replicas: a range of sets */
	uint32_t *member_first, *member; /* CSR: flows of each set */
	uint32_t *replica_first;         /* [n_communications] */
	uint32_t *set_of;                /* of each replica of each communication */
};
enum mq_status mq_equivalence_build(struct mq_replica_flows *replicas, const struct mq_task *const *task, uint32_t n,
				    struct mq_arena *arena, struct mq_equivalence *classes, struct mq_err *err);

/* Have all replicas of a communication ended at the same time? done_s: [net.n_flows] ends of the flows, which began at
 * start_s. */
bool mq_equivalence_together(const struct mq_equivalence *classes, uint32_t communication, double start_s,
			     const double *done_s);
/* How long it took at each position, with its latency; NAN where it does not take place. */
enum mq_status mq_equivalence_positions(const struct mq_equivalence *classes, uint32_t communication,
					const struct mq_task *task, double start_s, const double *done_s,
					struct mq_replica_flows *replicas, double *position_s, struct mq_err *err);
/* Are these two lengths, the shorter first, as different as no rounding, and no clock of 1e-12 s, makes equal ones? */
static inline bool mq_equivalence_differ(double first_s, double last_s)
{
	return last_s - first_s > 1e-10 * last_s + 1e-11;
}

/* Times of a communication whose replicas alone are on the links, asked once for each distinct request. */
struct mq_replica_flow_times {
	double latency_s, alone_s;
	double bound_s; /* latency, and no flow or link can be faster */
	double own_s;   /* of a collective: the representative's, with no other replica on the links either */
	bool same;      /* all replicas have this latency and end together */
	bool any_root;  /* asked with root MQ_NONE, which closes the ring: true of every root; else they are bounds */
};
enum mq_status mq_replica_flows_times(struct mq_replica_flows *replicas, const struct mq_task *task,
				      struct mq_replica_flow_times *times, struct mq_err *err);
/* Such a communication's time at each position, as mq_equivalence_positions tells it. */
enum mq_status mq_replica_flows_positions(struct mq_replica_flows *replicas, const struct mq_task *task,
					  double *position_s, struct mq_err *err);

#endif

/* equivalence_classes.h - a small network whose rates are those of all replicas of some communications.
 *
 * Flows and links are coloured, and the colours refined until all flows of a colour cross equally many links of each
 * colour and all links of a colour are crossed by equally many flows of each colour (an equitable partition; the
 * refinement of Weisfeiler and Leman, 1968). Max-min fair rates are then equal within a colour, whichever
 * communications are active. So a network of one flow and one link per colour, weighted by how often flows of a colour
 * cross a link of a colour (fluid.h), gives the rates of all flows. The representative's time holds for all its
 * replicas as long as all replicas of a communication end together; the caller has to check that
 * (mq_equivalence_together). SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_FOLDING_EQUIVALENCE_CLASSES_H
#define MQ_FOLDING_EQUIVALENCE_CLASSES_H

#include "schedule/fluid.h"
#include "folding/replica_flows.h"

/* The reduced network of some communications. */
struct mq_equivalence {
	struct mq_fluid net;     /* a flow per colour */
	double *bytes, *way_Bps; /* [net.n_flows] the latter: least usable bandwidth of the route */
	uint32_t n_communications;
	uint32_t *flow_first; /* [n_communications + 1] each communication's range of flows */
	uint32_t *set_first;  /* [n_communications + 1] its range of sets: replicas of a set have equal flows */
	uint32_t *member_first, *member; /* CSR: flows of each set */
	uint32_t *replica_first;         /* [n_communications] */
	uint32_t *set_of;                /* [replicas of all communications] */
};
enum mq_status mq_equivalence_build(struct mq_replica_flows *replicas, const struct mq_task *const *task, uint32_t n,
				    struct mq_arena *arena, struct mq_equivalence *classes, struct mq_err *err);

/* Did all replicas of a communication end at the same time? done_s: [net.n_flows] ends of flows that began at
 * start_s. */
bool mq_equivalence_together(const struct mq_equivalence *classes, uint32_t communication, double start_s,
			     const double *done_s);
/* Fills position_s[] with the communication's time at each position, latency included; NAN: it has no member there. */
enum mq_status mq_equivalence_positions(const struct mq_equivalence *classes, uint32_t communication,
					const struct mq_task *task, double start_s, const double *done_s,
					struct mq_replica_flows *replicas, double *position_s, struct mq_err *err);
/* Do two times (first_s <= last_s) differ by more than rounding, or a clock that resolves 1e-12 s, could make them? */
static inline bool mq_equivalence_differ(double first_s, double last_s)
{
	return last_s - first_s > 1e-10 * last_s + 1e-11;
}

/* Times of a communication while only its own replicas use the links; computed once per distinct request. */
struct mq_replica_flow_times {
	double latency_s, alone_s;
	double bound_s; /* lower bound: latency, and the time of the slowest link or flow */
	double own_s;   /* of a collective: while only the representative uses the links */
	bool same;      /* all replicas have this latency and end together */
	bool any_root;  /* asked with root MQ_NONE (closed ring): the times hold for every root; else they are bounds */
};
enum mq_status mq_replica_flows_times(struct mq_replica_flows *replicas, const struct mq_task *task,
				      struct mq_replica_flow_times *times, struct mq_err *err);
/* Fills position_s[] (mq_equivalence_positions) for a communication whose replicas alone use the links. */
enum mq_status mq_replica_flows_positions(struct mq_replica_flows *replicas, const struct mq_task *task,
					  double *position_s, struct mq_err *err);

#endif

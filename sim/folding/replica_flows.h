/* replica_flows.h - the communications of ranks that a folded schedule leaves out.
 *
 * A representative's communication (a collective, or a send and its recv) has replicas: the same call among other
 * positions like its members', by translation of the device lists. All replicas happen at the same time. What they ask
 * of the links of the whole cluster is told here; what time they take, equivalence_classes.h tells.
 *
 * Links that cannot fill up, whatever happens, are left out. Where the cluster and the plan look the same from each of
 * some zones (zones.c), flows that begin in the first one, on links of the first one, are told alone: they stand for
 * the others. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_FOLDING_REPLICA_FLOWS_H
#define MQ_FOLDING_REPLICA_FLOWS_H

#include "maquette/calib.h"
#include "maquette/cluster.h"
#include "maquette/collective.h"
#include "base/index.h"
#include "folding/view.h"

struct mq_bases {
	bool known;
	uint32_t n;
	uint32_t *base; /* translations of the group, 0 first; those in the first zone */
	bool spans;     /* the group has members in every zone */
};

/* Flows that begin in the first zone, and their ways. */
struct mq_routed {
	uint32_t n;
	const struct mq_flow *flow;
	const struct mq_route **route;
};

struct mq_link_load { /* flows that cross a link */
	uint32_t n;
	double bytes;
	uint64_t roots; /* see equivalence_classes.c */
};

/* For the files of folding alone. */
struct mq_replica_flows {
	const struct mq_cluster *cluster;
	const struct mq_calib *calib;
	const struct mq_schedule *schedule;
	const struct mq_fold *fold;
	struct mq_arena *arena;
	struct mq_bases *bases;    /* [comms] */
	bool *uncontended;         /* [links] cannot fill up (uncontended.c) */
	struct mq_index *expanded; /* calls by kind and by where their members sit -> flows[] */
	uint32_t n_flows, flows_room;
	struct mq_coll_flows *flows;
	struct mq_index *routed; /* flows[] on a group's replicas -> routes[] of their flows */
	uint32_t n_routes, routes_room;
	struct mq_routed *routes;
	uint32_t zone, n_zones; /* positions of every stage in a zone */
	const uint32_t *home;   /* [links] the one in its place in the first zone; NULL = there is one zone */
	struct mq_index *known; /* requests -> times[] (equivalence_classes.c) */
	uint32_t n_times, times_room;
	struct mq_replica_flow_times *times;
	uint32_t *rank;     /* of the replica asked for last */
	struct mq_flow one; /* of the send asked for last */
	const struct mq_route *one_route;
	uint32_t chain_room; /* of chain: the flows of the broadcast or reduce asked for last */
	struct mq_flow *chain;
	const struct mq_route **chain_route;
	struct mq_link_load *load; /* [links] 0 between calls */
};

/* Borrows all of them; of the view's schedule, communicators and devices must be there, of its fold all but the
 * replicas. */
struct mq_replica_flows *mq_replica_flows_new(const struct mq_cluster *cluster, const struct mq_calib *calib,
					      const struct mq_view *view, struct mq_arena *arena);

/* Finds zones, if there are any: tells whether these tasks, and they are all there are, do the same in each. Before
 * that, and where they do not, all is one zone. */
enum mq_status mq_replica_flows_zones(struct mq_replica_flows *replicas, const struct mq_task *const *task, uint32_t n,
				      struct mq_err *err);

/* For the files of folding alone: the devices of a send, or recv, into `pair`, the sender's first. */
void mq_replica_flows_ends(const struct mq_replica_flows *replicas, const struct mq_task *task, uint32_t pair[2]);
/* The same: the members of replica i of a collective, into rank[], and its flows[]. */
enum mq_status mq_replica_flows_expand(struct mq_replica_flows *replicas, const struct mq_task *task, uint32_t i,
				       uint32_t *at, struct mq_err *err);

/* How many replicas a communication has (a send, recv or collective) that are not in later zones; 0: the group's
 * translations do not cover all that are like its members. */
uint32_t mq_replica_flows_count(struct mq_replica_flows *replicas, const struct mq_task *task);

/* Where a collective has no replicas: numbers for the places of its group moved to all that are like its first member,
 * the same where all members come to the same kinds of positions; 0: none comes there. shape: [positions] */
void mq_replica_flows_shapes(const struct mq_replica_flows *replicas, const struct mq_task *task, double *shape);

struct mq_replica_flow {
	uint32_t n;
	const uint32_t *rank; /* [n] cluster ranks; valid until the next call */
	double latency_s;
	double alone_s;    /* of a collective: nothing else, no other replica, is on the links; NAN if it has a root */
	uint32_t channels; /* of a collective, see mq_coll_flows */
	uint32_t n_all;    /* flows in all zones */
	const struct mq_flow *all;
	uint32_t n_flows; /* that begin in the first */
	/* Valid until the next call; those of no bytes are no flows. */
	const struct mq_flow *flow;
	const struct mq_route *const *route; /* [n_flows] */
};
/* Replica i of count; 0 is the representative's own. */
enum mq_status mq_replica_flows_get(struct mq_replica_flows *replicas, const struct mq_task *task, uint32_t i,
				    struct mq_replica_flow *replica, struct mq_err *err);

/* Calls `see` with every link that flows of any replica cross and, unless `all`, that can fill up (fatpipes cannot),
 * again for every crossing. */
typedef void mq_replica_flows_see(uint32_t link, double bytes, void *data);
enum mq_status mq_replica_flows_links(struct mq_replica_flows *replicas, const struct mq_task *task, bool all,
				      mq_replica_flows_see *see, void *data, struct mq_err *err);

/* Finds the links that these tasks, and they are all there are, cannot fill. Before that, every link
 * counts as one that can. */
enum mq_status mq_replica_flows_uncontended(struct mq_replica_flows *replicas, const struct mq_task *const *task,
					    uint32_t n, struct mq_err *err);

#endif

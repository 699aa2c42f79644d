/* replica_flows.h - the communications of ranks that a folded schedule leaves out.
 *
 * A representative's communication (a collective, or a send and its recv) has replicas: the same call among positions
 * of the same classes, translated along the stage's device list. All replicas run at the same time. This header gives
 * their flows on the links of the whole cluster; equivalence_classes.h gives their times.
 *
 * Links that can never fill up are left out. Where cluster and plan are the same in each of several zones (zones.c),
 * only flows that begin in the first zone are given, on its links: they stand for those of the other zones.
 * SPDX-License-Identifier: Apache-2.0 */
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
	uint32_t *base; /* translations of the group that begin in the first zone; 0 is the first */
	bool spans;     /* the group has members in every zone */
};

/* Flows that begin in the first zone, and their routes. */
struct mq_routed {
	uint32_t n;
	const struct mq_flow *flow;
	const struct mq_route **route;
};

struct mq_link_load { /* flows that cross a link */
	uint32_t n;
	double bytes;
	uint64_t roots; /* mask of the flows' roots, see struct bounds in equivalence_classes.c */
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
	struct mq_index *expanded; /* calls by kind and by their members' placement -> mq_coll_flows */
	struct mq_index *routed;   /* flows, group and replica -> mq_routed */
	uint32_t zone, n_zones;    /* positions of every stage in a zone */
	const uint32_t *home;      /* [links] the first zone's link at the same place; NULL = one zone */
	struct mq_index *known;    /* requests -> mq_replica_flow_times (equivalence_classes.c) */
	uint32_t *rank;            /* of the newest replica */
	struct mq_flow one;        /* of the newest send */
	const struct mq_route *one_route;
	uint32_t chain_room; /* of chain, the flows of the newest broadcast or reduce */
	struct mq_flow *chain;
	const struct mq_route **chain_route;
	struct mq_link_load *load; /* [links] 0 between calls */
};

/* Borrows its arguments; the view's schedule needs its communicators and devices, the fold all but replica_flows. */
struct mq_replica_flows *mq_replica_flows_new(const struct mq_cluster *cluster, const struct mq_calib *calib,
					      const struct mq_view *view, struct mq_arena *arena);

/* Finds zones in which all the plan's communications, `task`, are the same. Without such zones, and before the call,
 * the cluster is one zone. */
enum mq_status mq_replica_flows_zones(struct mq_replica_flows *replicas, const struct mq_task *const *task, uint32_t n,
				      struct mq_err *err);

/* For the files of folding alone: fills pair[] with the ranks of a send or recv, the sender first. */
void mq_replica_flows_ends(const struct mq_replica_flows *replicas, const struct mq_task *task, uint32_t pair[2]);
/* For the files of folding alone: fills rank[] with the members of replica i of a collective, and *flows with its
 * flows. */
enum mq_status mq_replica_flows_expand(struct mq_replica_flows *replicas, const struct mq_task *task, uint32_t i,
				       struct mq_coll_flows **flows, struct mq_err *err);

/* The number of replicas of a send, recv or collective that begin in the first zone; 0: the group's translations do not
 * cover all positions of its members' classes. */
uint32_t mq_replica_flows_count(struct mq_replica_flows *replicas, const struct mq_task *task);

/* For a collective without replicas: translates its group to each position like its first member, and fills
 * shape[positions] with a number that is equal where all members land on equal classes; 0: no member lands there. */
void mq_replica_flows_shapes(const struct mq_replica_flows *replicas, const struct mq_task *task, double *shape);

struct mq_replica_flow {
	uint32_t n;
	const uint32_t *rank; /* [n] cluster ranks; valid until the next call */
	double latency_s;
	double alone_s; /* of a collective while nothing else uses the links, replicas included; NAN: it has a root */
	uint32_t channels; /* of a collective, see mq_coll_flows */
	uint32_t n_all;    /* flows that begin in any zone */
	const struct mq_flow *all;
	uint32_t n_flows; /* flows that begin in the first zone */
	/* Valid until the next call. Flows of no bytes count as none. */
	const struct mq_flow *flow;
	const struct mq_route *const *route; /* [n_flows] */
};
/* Gets replica i < mq_replica_flows_count; 0 is the representative's own call. */
enum mq_status mq_replica_flows_get(struct mq_replica_flows *replicas, const struct mq_task *task, uint32_t i,
				    struct mq_replica_flow *replica, struct mq_err *err);

/* Calls `see` for every crossing of a link by a flow of any replica, one replica after the other; unless `all`, only for
 * links that can fill up. */
typedef void mq_replica_flows_see(uint32_t link, uint32_t replica, double bytes, void *data);
enum mq_status mq_replica_flows_links(struct mq_replica_flows *replicas, const struct mq_task *task, bool all,
				      mq_replica_flows_see *see, void *data, struct mq_err *err);

/* Finds the links that the plan's communications, all of `task`, can never fill. Before the call every link counts as
 * one that can fill up. */
enum mq_status mq_replica_flows_uncontended(struct mq_replica_flows *replicas, const struct mq_task *const *task,
					    uint32_t n, struct mq_err *err);

#endif

/* view_costing.h - durations of a view's events; each distinct one is computed once.
 *
 * Shared by the executors that simulate: compute time per (work, device type and clock), the flows of a communication
 * (collective or send/recv) per distinct request. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_FOLDING_VIEW_COSTING_H
#define MQ_FOLDING_VIEW_COSTING_H

#include "maquette/cost.h"
#include "schedule/events.h"
#include "schedule/jitter.h"
#include "base/index.h"
#include "schedule/timeline.h"
#include "costing/predict.h"
#include "folding/replica_flows.h"
#include "folding/view.h"

/* The caller sets the first five fields before mq_costing_init. */
struct mq_costing {
	struct mq_view view;
	const struct mq_cluster *cluster; /* bound to calib */
	const struct mq_calib *calib;
	const struct mq_jitter *jitter; /* NULL: durations do not vary */
	bool times_only;                /* the timeline needs no bytes of links */
	struct mq_arena *arena;
	uint32_t n_speeds;             /* distinct (device type, clock) pairs */
	struct mq_device_calib *speed; /* [n_speeds] */
	uint32_t *speed_of;            /* [schedule devices] */
	struct mq_cost_parts *parts;   /* [n_works * n_speeds] */
	double *alone_s;               /* [n_works * n_speeds] seconds of the parts without contention */
	bool *known;                   /* [n_works * n_speeds] both are filled */
	const struct mq_members *comm; /* [n_comms] all members, simulated or not */
	struct mq_index *asked;        /* mq_communication_key -> communication[] */
	uint32_t n_communications, room;
	struct mq_communication *communication;
	bool uneven; /* folded: replicas of a communication take different times */
};

void mq_costing_init(struct mq_costing *costing, struct mq_arena *arena);

/* Seconds of a compute or copy task; +inf where the device cannot run it. */
double mq_costing_task(struct mq_costing *costing, const struct mq_task *task);

/* The parts of a compute or copy task. Contention slows neither a copy nor a fused work (folding/fuse.c fuses none
 * where communication interferes), so their whole time is in host_s. */
struct mq_cost_parts mq_costing_parts(struct mq_costing *costing, const struct mq_task *task);

/* Can every device run its compute tasks? If not, the text of `err` names one that cannot. */
bool mq_costing_possible(struct mq_costing *costing, struct mq_err *err);

/* The communication of a send, recv or collective: index into communication[]. */
enum mq_status mq_costing_communication(struct mq_costing *costing, const struct mq_task *task, uint32_t *index,
					struct mq_err *err);

/* Fills bound_s. */
enum mq_status mq_costing_bound(struct mq_costing *costing, uint32_t index, struct mq_err *err);

/* Calls `see` for every crossing of a link by a flow, replicas included; unless `all`, of links that can fill up. */
enum mq_status mq_costing_links(struct mq_costing *costing, const struct mq_communication *communication, bool all,
				mq_replica_flows_see *see, void *data, struct mq_err *err);

/* Fills *timeline: step time, start and finish of each task from its event's, and bytes on links. */
enum mq_status mq_costing_timeline(struct mq_costing *costing, const struct mq_events *events, const double *start_s,
				   const double *finish_s, struct mq_timeline *timeline, struct mq_err *err);

#endif

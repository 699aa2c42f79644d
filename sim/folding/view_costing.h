/* view_costing.h - durations of a view's events, each distinct one asked once.
 *
 * Shared by the executors that simulate: compute time per (work, device type and clock), the flows of a communication
 * (collective or send/recv) per distinct request. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_FOLDING_VIEW_COSTING_H
#define MQ_FOLDING_VIEW_COSTING_H

#include "maquette/cost.h"
#include "schedule/events.h"
#include "schedule/jitter.h"
#include "maquette/map.h"
#include "schedule/timeline.h"
#include "costing/predict.h"
#include "folding/view.h"

/* The first five are the caller's to set before mq_costing_init. */
struct mq_costing {
	struct mq_view view;
	const struct mq_cluster *cluster; /* bound to calib */
	const struct mq_calib *calib;
	const struct mq_jitter *jitter; /* NULL: tasks do not vary */
	bool times_only;                /* the timeline tells nothing of links */
	struct mq_arena *arena;
	uint32_t n_speeds;             /* device types of the schedule, each at its clocks */
	struct mq_device_calib *speed; /* [n_speeds] */
	uint32_t *speed_of;            /* [schedule devices] */
	struct mq_cost_parts *parts;   /* [n_works * n_speeds] */
	bool *known;                   /* [n_works * n_speeds] asked for already */
	const struct mq_members *comm; /* [n_comms] everyone, simulated or not */
	uint32_t *comm_last;           /* [n_comms] communication asked for last, or MQ_NONE */
	struct mq_map map;
	uint32_t n_communications, room;
	struct mq_communication *communication;
	bool uneven; /* folded: replicas of a communication take different times */
};

void mq_costing_init(struct mq_costing *costing, struct mq_arena *arena);

/* Seconds of a compute or copy task; +inf where the device cannot run it. */
double mq_costing_task(struct mq_costing *costing, const struct mq_task *task);

/* The parts of a compute or copy task. A copy, and a work of fixed duration, have none that others could slow: all is
 * in host_s (folding/fuse.h: its collectives end when they end, and none is fused where communication interferes). */
struct mq_cost_parts mq_costing_parts(struct mq_costing *costing, const struct mq_task *task);

/* Can every device run its compute tasks? Else the message of `err` says which cannot. */
bool mq_costing_possible(struct mq_costing *costing, struct mq_err *err);

/* The communication of a send, recv or collective: index into communication[]. */
enum mq_status mq_costing_communication(struct mq_costing *costing, const struct mq_task *task, uint32_t *index,
					struct mq_err *err);

/* Fills bound_s. */
enum mq_status mq_costing_bound(struct mq_costing *costing, uint32_t index, struct mq_err *err);

/* Step time, starts and finishes of tasks from those of events; bytes on links from the communications. */
enum mq_status mq_costing_timeline(struct mq_costing *costing, const struct mq_events *events, const double *start_s,
				   const double *finish_s, struct mq_timeline *timeline, struct mq_err *err);

#endif

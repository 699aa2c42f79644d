/*
 * costing.h - durations of a view's events, each distinct one asked once.
 *
 * Shared by the executors that simulate: compute time per (work, device type), the flows of a meeting
 * (collective or send/recv) per distinct request.
 */
#ifndef MQ_COSTING_COSTING_H
#define MQ_COSTING_COSTING_H

#include "core/collective/collective.h"
#include "core/cost.h"
#include "core/events.h"
#include "core/map.h"
#include "core/calib.h"
#include "core/cluster.h"
#include "core/jitter.h"
#include "core/timeline.h"
#include "fold/view.h"

/* A distinct meeting: what its flows are and how long it takes alone. */
struct mq_meeting {
	const struct mq_task *task; /* one that asked for it */
	uint32_t n;                 /* members */
	const uint32_t *rank;       /* [n] cluster ranks */
	double latency_s, alone_s;  /* alone_s: latency and flows with nobody else about (folded: but
				       for the images of the meeting itself) */
	double bound_s;             /* latency and the bound of the flows; NaN until asked */
	uint32_t channels;          /* of a collective, see mq_coll_flows */
	double memory_Bps;          /* of a collective, through a member's memory while it runs alone */
	uint32_t n_flows;
	const struct mq_flow *flow; /* folded: NULL, see fold/images.h; so is rank */
};

/* The first four are the caller's to set before mq_costing_init. */
struct mq_costing {
	struct mq_view view;
	const struct mq_cluster *cluster; /* bound to calib */
	const struct mq_calib *calib;
	const struct mq_jitter *jitter; /* NULL: tasks do not vary */
	struct mq_arena *arena;
	uint32_t n_types;           /* device types of the calibration */
	double *work_s;             /* [n_works * n_types], NaN until asked */
	const uint32_t **comm_rank; /* [n_comms] cluster ranks of all members */
	uint32_t *comm_n;
	uint32_t *comm_last; /* [n_comms] meeting asked for last, or MQ_NONE */
	struct mq_map map;
	uint32_t n_meetings, room;
	struct mq_meeting *meeting;
	bool uneven; /* folded: images of a meeting take different times */
};

void mq_costing_init(struct mq_costing *costing, struct mq_arena *arena);

/* Seconds of a compute or copy task; +inf where the device cannot run it. */
double mq_costing_task(struct mq_costing *costing, const struct mq_task *task);

/* The parts of a compute or copy task. A copy, and a work of fixed duration, have none that others
 * could slow: all is in host_s (fold/fuse.h: its collectives end when they end, and none is fused where communication
 * interferes). */
struct mq_cost_parts mq_costing_parts(const struct mq_costing *costing, const struct mq_task *task);

/* Can every device run its compute tasks? Else the message of `err` says which cannot. */
bool mq_costing_possible(struct mq_costing *costing, struct mq_err *err);

/* The meeting of a send, recv or collective: index into meeting[]. */
enum mq_status mq_costing_meeting(struct mq_costing *costing, const struct mq_task *task, uint32_t *index,
				  struct mq_err *err) MQ_MUST_CHECK;

/* Fills bound_s. */
enum mq_status mq_costing_bound(struct mq_costing *costing, uint32_t index, struct mq_err *err) MQ_MUST_CHECK;

/* Step time, starts and finishes of tasks from those of events; bytes on links from the meetings. */
enum mq_status mq_costing_timeline(struct mq_costing *costing, const struct mq_events *events, const double *start_s,
				   const double *finish_s, struct mq_timeline *timeline,
				   struct mq_err *err) MQ_MUST_CHECK;

#endif

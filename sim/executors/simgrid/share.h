/* share.h - which events need the simulator's time: those whose flows meet others on a link, and those that may slow
 * each other on a device. All others last a time that is known beforehand.
 *
 * share.c knows who uses which links; window.c and slow.c ask it, simgrid.c calls all three in their order.
 *
 * Two ways to know who meets. Afterwards, from the times of a run (mq_sharing_contended): if no communication that was
 * taken as alone had another one's flows on its links, that run is what the simulation of every flow would have given;
 * else those who met are marked and the schedule is run again. Beforehand, from the order that the schedule imposes
 * (mq_sharing_may_contend): safe without looking again, but too many. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_EXECUTORS_SIMGRID_SHARE_H
#define MQ_EXECUTORS_SIMGRID_SHARE_H

#include "folding/view_costing.h"

struct mq_sharing {
	struct mq_costing *c;
	const struct mq_events *ev;
	struct mq_arena *arena;
	uint32_t *communication;    /* [events] index into c->communication, MQ_NONE for others */
	bool *flows;                /* [events] flows must be simulated */
	bool *slowed;               /* [events] compute or communication whose speed may change as it runs */
	uint32_t n_flows, n_slowed; /* events so marked */
	uint32_t n_neighbours;      /* events whose links have other users */

	/* Users of links: a communicator, or a pair of devices. */
	uint32_t n_users;
	uint32_t *user_of;                /* [communications] */
	bool *mixed;                      /* [users] on several streams, or in groups */
	uint32_t *link_first, *link_user; /* CSR: users of each link */
	uint32_t *device_first, *device;  /* CSR: devices of each user */
	uint32_t *event_first, *event;    /* CSR: events of each user */
	/* Windows, made when first needed (window.c). */
	uint32_t *task_first, *task_at; /* CSR: communication tasks of each device */
	int64_t *lo, *hi, *position;    /* [tasks] */
};

/* Everything lives in the costing's arena. */
enum mq_status mq_sharing_init(struct mq_sharing *sharing, struct mq_costing *costing, const struct mq_events *events,
			       struct mq_err *err);
/* Marks the events that met others on a link at these times; returns how many are new. */
uint32_t mq_sharing_contended(struct mq_sharing *sharing, const double *start_s, const double *finish_s);
/* Marks all events that may meet others, whatever the times. */
void mq_sharing_may_contend(struct mq_sharing *sharing);
/* Marks every event that has flows. */
void mq_sharing_all(struct mq_sharing *sharing);

/* Communication and compute slow each other: marks what is slowed (window.c), then as flows what of that has a pace
 * and links that others may use, in the schedule or its replicas (slow.c); the costing is uneven where that is so for
 * some replicas alone. Both, once and in this order behind init, or neither. MQ_EINPUT where there is no route. */
void mq_sharing_find_slowed(struct mq_sharing *sharing);
enum mq_status mq_sharing_mark_paced(struct mq_sharing *sharing, struct mq_err *err);

/* Is it a message or a collective? */
bool mq_task_communicates(const struct mq_task *task);
/* Does this task, while it runs, slow the compute of its device? */
bool mq_task_interferes(const struct mq_device_calib *device, const struct mq_task *task);

/* ---- for window.c and slow.c ---------------------------------------------------------------------- */

void mq_sharing_mark(struct mq_sharing *sharing, uint32_t event);
/* Calls `look` for each distinct set of two or more users that share a link (or one user that is on
 * several streams), with a link that they share; on_link[user] tells who they are. */
typedef void mq_sharing_look(struct mq_sharing *sharing, uint32_t link, const bool *on_link, void *data);
void mq_sharing_each_set(struct mq_sharing *sharing, mq_sharing_look *look, void *data);

#endif

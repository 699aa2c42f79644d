/* share.h - which events must be simulated: those whose flows meet other flows on a link, and those that may slow each
 * other on a device. All others last a time that is known beforehand.
 *
 * share.c lists the users of each link for window.c and slow.c; simgrid.c calls all three.
 *
 * Flows that meet are found in two ways. After a run, from its times (mq_sharing_contended): if no communication of
 * fixed length met another's flows on its links, the run is what a simulation of every flow would give; else those that
 * met are marked and the schedule is run again. Before a run, from its order alone (mq_sharing_may_contend): needs no
 * check, but marks too many. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_EXECUTORS_SIMGRID_SHARE_H
#define MQ_EXECUTORS_SIMGRID_SHARE_H

#include "folding/view_costing.h"

struct mq_sharing {
	struct mq_costing *c;
	const struct mq_events *ev;
	struct mq_arena *arena;
	uint32_t *communication;    /* [events] index into c->communication, MQ_NONE for others */
	bool *flows;                /* [events] flows must be simulated */
	bool *slowed;               /* [events] compute or communication whose speed may change while it runs */
	uint32_t n_flows, n_slowed; /* events marked in flows[], slowed[] */
	uint32_t n_neighbours;      /* events whose links have other users */

	/* Users of links: a communicator, or a pair of devices. */
	uint32_t n_users;
	uint32_t *user_of;                /* [communications] */
	bool *mixed;                      /* [users] tasks may overlap: several streams, or groups */
	uint32_t *link_first, *link_user; /* CSR: users of each link */
	uint32_t *device_first, *device;  /* CSR: devices of each user */
	uint32_t *event_first, *event;    /* CSR: events of each user */
	/* Windows of each task, built when first needed (window.c). */
	uint32_t *task_first, *task_at; /* CSR: communication tasks of each device */
	int64_t *lo, *hi, *position;    /* [tasks] */
};

/* Everything lives in the costing's arena. */
enum mq_status mq_sharing_init(struct mq_sharing *sharing, struct mq_costing *costing, const struct mq_events *events,
			       struct mq_err *err);
/* Marks the events that met others on a link at these times; returns the number of new marks. */
uint32_t mq_sharing_contended(struct mq_sharing *sharing, const double *start_s, const double *finish_s);
/* Marks all events that the schedule's order lets meet others on a link. */
void mq_sharing_may_contend(struct mq_sharing *sharing);
/* Marks every event that has flows. */
void mq_sharing_all(struct mq_sharing *sharing);

/* Interference of communication and compute. The first marks slowed[] (window.c); the second marks as flows the
 * communications among them that compute slows and whose links have other users, replicas included (slow.c), and sets
 * the costing's `uneven` if only some replicas have such links. Call both in this order once after init, or neither.
 * MQ_EINPUT: no route. */
void mq_sharing_find_slowed(struct mq_sharing *sharing);
enum mq_status mq_sharing_mark_paced(struct mq_sharing *sharing, struct mq_err *err);

/* Is it a message or a collective? */
bool mq_task_communicates(const struct mq_task *task);
/* Does this task slow compute on its device, or compute this task? */
bool mq_task_interferes(const struct mq_device_calib *device, const struct mq_task *task);

/* ---- for window.c and slow.c ---------------------------------------------------------------------- */

void mq_sharing_mark(struct mq_sharing *sharing, uint32_t event);
/* Calls `look` for each distinct set of two or more users (or one mixed one) of a link, with such a link; on_link[]
 * marks them. */
typedef void mq_sharing_look(struct mq_sharing *sharing, uint32_t link, const bool *on_link, void *data);
void mq_sharing_each_set(struct mq_sharing *sharing, mq_sharing_look *look, void *data);

#endif

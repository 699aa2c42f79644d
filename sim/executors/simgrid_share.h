/*
 * simgrid_share.h - which events need the simulator's time: those whose flows may meet others on a link,
 * and those that may slow each other on a device. All others last a fixed time.
 */
#ifndef MQ_EXECUTORS_SIMGRID_SHARE_H
#define MQ_EXECUTORS_SIMGRID_SHARE_H

#include "executors/costing.h"

struct mq_sharing {
	uint32_t *meeting;  /* [events] index into costing->meeting, MQ_NONE for others */
	bool *flows;        /* [events] flows must be simulated */
	bool *slowed;       /* [events] compute or communication whose speed may change as it runs */
	uint32_t n_flows, n_slowed; /* events so marked */
};

/* Everything in the costing's arena. */
enum mq_status mq_sharing_find(struct mq_costing *costing, const struct mq_events *events,
			       struct mq_sharing *sharing, struct mq_err *err) MQ_MUST_CHECK;

/* Does this task, while it runs, slow the compute of its device? */
bool mq_task_interferes(const struct mq_device_calib *device, const struct mq_task *task);

#endif

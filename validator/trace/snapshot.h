/* snapshot.h - PyTorch's memory snapshots: what one process held at the fullest moment that was recorded.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TRACE_SNAPSHOT_H
#define MQ_TRACE_SNAPSHOT_H

#include "maquette/arena.h"
#include "maquette/err.h"

/* What a tensor is for, as far as the lines of Python tell that made it. BEFORE: it was there before the recording
 * began, so nothing tells. */
enum mq_snapshot_purpose {
	MQ_SNAPSHOT_PARAMETERS,
	MQ_SNAPSHOT_GRADIENTS,
	MQ_SNAPSHOT_OPTIMIZER,
	MQ_SNAPSHOT_ACTIVATIONS, /* and buffers of the passes */
	MQ_SNAPSHOT_BEFORE,
	MQ_SNAPSHOT_OTHER,
	MQ_N_SNAPSHOT_PURPOSES
};
struct mq_snapshot {
	double of_B[MQ_N_SNAPSHOT_PURPOSES]; /* at the peak */
	double allocated_B;                  /* their sum */
	double reserved_B;                   /* of segments, at the end */
	uint32_t n_events;                   /* of the trace; 0: no trace, and what is live at the end counts */
	uint32_t device;
};
/* Of the device with most events, or else most memory. MQ_EINPUT: no such file, no pickle of plain data (base/pickle.h),
 * no snapshot. */
enum mq_status mq_snapshot_load(const char *path, struct mq_arena *arena, struct mq_snapshot *snapshot,
				struct mq_err *err);

#endif

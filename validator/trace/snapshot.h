/* snapshot.h - PyTorch's memory snapshots: the memory of one process at the recorded peak.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TRACE_SNAPSHOT_H
#define MQ_TRACE_SNAPSHOT_H

#include "maquette/arena.h"
#include "maquette/err.h"

/* Purpose of a tensor, by the Python frames that allocated it. BEFORE: it existed before the recording, so they are
 * unknown. */
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
	uint32_t n_events;                   /* of the trace; 0: no trace, and blocks live at the end are counted */
	uint32_t device;
};
/* Loads the snapshot of the device with most events, or else most memory. MQ_EINPUT: no such file, no pickle of plain
 * data (base/pickle.h), no snapshot. */
enum mq_status mq_snapshot_load(const char *path, struct mq_arena *arena, struct mq_snapshot *snapshot,
				struct mq_err *err);

#endif

/* partition.h - k-way partitioning of placement tasks with the METIS library (Karypis and Kumar, SIAM J. Sci. Comput.
 * 1998). Whoever uses it links -lmetis. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_PARTITION_H
#define MQ_STRATEGIES_LIB_PARTITION_H

#include "lib/tasks.h"

struct mq_partition {
	uint32_t parts;             /* >= 1 */
	uint32_t seed;              /* of METIS's own random choices */
	double tolerance;           /* largest part / its share, e.g. 1.03 */
	const double *share;        /* [parts] of the time, sum 1; NULL = equal */
	const double *memory_share; /* [parts] of the memory, a second weight; NULL = not weighed */
	double memory_tolerance;
};

/* Vertices weigh mean time (and memory), edges bytes. part_of[tasks->n] in 0 .. parts-1; `cut` (may be NULL) = share
 * of all bytes that crosses. False where the library refuses the graph. */
bool mq_partition_tasks(const struct mq_tasks *tasks, const struct mq_partition *how, struct mq_arena *arena,
			uint32_t *part_of, double *cut);

#endif

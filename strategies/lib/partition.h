/* partition.h - k-way partitioning of placement tasks with the METIS library (Karypis and Kumar, SIAM J. Sci. Comput.
 * 1998). Users link -lmetis. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_PARTITION_H
#define MQ_STRATEGIES_LIB_PARTITION_H

#include "lib/tasks.h"

struct mq_partition {
	uint32_t parts;             /* >= 1 */
	uint32_t seed;              /* of METIS's random choices */
	double tolerance;           /* largest part / its share of time, e.g. 1.03 */
	const double *share;        /* [parts] share of the time, sum 1; NULL = equal */
	const double *memory_share; /* [parts] share of the memory; NULL = memory is not balanced */
	double memory_tolerance;
};

/* Vertex weights: mean time (and memory); edge weights: bytes. Fills part_of[tasks->n] with 0 .. parts-1; `cut` (may be
 * NULL): share of all bytes that cross. False: the library refuses the graph. */
bool mq_partition_tasks(const struct mq_tasks *tasks, const struct mq_partition *how, struct mq_arena *arena,
			uint32_t *part_of, double *cut);

#endif

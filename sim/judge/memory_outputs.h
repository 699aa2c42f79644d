/* memory_outputs.h - memory of one device over a step: a PyTorch memory snapshot, and a timeline by purpose.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_JUDGE_MEMORY_OUTPUTS_H
#define MQ_JUDGE_MEMORY_OUTPUTS_H

#include "maquette/plan.h"
#include "maquette/question.h"

struct mq_memory_files {
	const char *snapshot; /* file for pytorch.org/memory_viz; NULL = none */
	const char *device;   /* its name; NULL = the device nearest its memory limit */
	const char *dir;      /* folder for memory_timeline.csv; NULL = none */
};
/* Lowers the plan for its memory alone and writes the files. MQ_EINPUT: no such device in the plan; a snapshot was
 * asked of inference, a CPU or a profiled model; a file cannot be written. */
enum mq_status mq_memory_outputs(const struct mq_question *q, const struct mq_plan *plan,
				 const struct mq_memory_files *outputs, struct mq_err *err);

#endif

/* fuse.h - fuses each run of a folded schedule's tasks that lasts a fixed time into one task.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_FOLDING_FUSE_H
#define MQ_FOLDING_FUSE_H

#include "folding/view.h"
#include "lowering/program.h"

/* Fuses runs in the templates of an exact fold; fold->fused holds their durations, program.whole the templates as they
 * were. `screen`: collectives that share links last a fixed time too, their bounds, and of a run only its duration is
 * filled. */
enum mq_status mq_fold_fuse(struct mq_low *low, struct mq_fold *fold, bool screen, struct mq_err *err);

#endif

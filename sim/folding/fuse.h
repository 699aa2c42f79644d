/* fuse.h - runs of a folded schedule's tasks that last a fixed time become one task each.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_FOLDING_FUSE_H
#define MQ_FOLDING_FUSE_H

#include "folding/view.h"
#include "lowering/program.h"

/* Folding is exact: fuses what can be in the templates, and tells in fold->fused how long it lasts. Keeps the templates
 * as they were in program.whole. */
enum mq_status mq_fold_fuse(struct mq_low *low, struct mq_fold *fold, struct mq_err *err);

#endif

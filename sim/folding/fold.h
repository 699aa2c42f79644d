/*
 * fold.h - the views of a plan that a simulation may run, from the smallest to the whole schedule.
 *
 * Large plans have many ranks that do the same at the same time. A fold lets one of them stand for the others, where
 * that changes no answer. Who calls whom:
 *   lowering makes tasks for the devices that it is told, and asks neither why these nor what anything costs;
 *   costing  says what their hosts add to them (costing/launch_overhead.h);
 *   fold     picks them by what the plan and the cluster say of their likeness (no seconds), and proves on the
 *            lowered parts, with costs, that the others would see the same (replica_flows.h, equivalence_classes.h).
 *            Where that is so, runs of tasks of fixed length are fused (fuse.h);
 *   who runs a view looks whether the run kept the promise (mq_timeline.inexact: who meets whom on a link is known
 *            only then, and whether micro-batches take the same time) and asks for the next view if not.
 * Only this last loop goes round. The last view, the whole schedule, needs no proof and keeps every promise.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_FOLDING_FOLD_H
#define MQ_FOLDING_FOLD_H

#include "folding/view.h"
#include "lowering/lower.h"

struct mq_fold_request {
	struct mq_lower_request lower; /* what it points to is borrowed until mq_folding_end */
	bool fold;                     /* false: there is one view, the whole schedule */
	bool steady;                   /* views may leave out micro-batches that repeat others */
	bool keep_tasks;               /* none is fused with others: reports show each */
};

struct mq_folding;

/* Lowers a plan up to its memory verdict, which `lowered` tells; its schedules are in the views. Everything lives in
 * the arena but for what mq_folding_end frees. */
struct mq_folding *mq_folding_begin(const struct mq_fold_request *request, struct mq_arena *arena,
				    struct mq_lowered *lowered);

/* The next view: all micro-batches of the last one where that left out some, or one whose classes keep apart what was
 * told, or those of smaller blocks, or the whole schedule.
 * view->schedule is NULL where the verdict forbids one, or the one before was the whole schedule. */
enum mq_status mq_folding_next(struct mq_folding *folding, struct mq_view *view, struct mq_err *err);

/* What the run of the last view found out, mq_timeline.apart_s: views that follow keep apart what differed there. */
void mq_folding_apart(struct mq_folding *folding, const double *apart_s);

void mq_folding_end(struct mq_folding *folding);

/* The whole schedule alone, as lowered->schedule: for a replay, and for who takes no view. Errors are only for broken
 * input; a plan that does not fit is a verdict. */
enum mq_status mq_lower(const struct mq_lower_request *request, struct mq_arena *arena, struct mq_lowered *lowered,
			struct mq_err *err);

#endif

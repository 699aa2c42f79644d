/*
 * fold.h - yields the views of a plan that a simulation may run, from the smallest to the whole schedule.
 *
 * Large plans have many ranks that do the same at the same time. A fold lets one of them stand for the others where
 * that changes no result. The parts:
 *   lowering makes tasks for the devices it is given, whatever the reason and the cost;
 *   costing  adds the hosts' launch overhead to the tasks (costing/launch_overhead.c);
 *   fold     picks devices that plan and cluster show to be alike, costs apart, and proves on the lowered templates,
 *            with costs, that ranks left out take the same times (replica_flows.h, equivalence_classes.h). If so, runs
 *            of tasks of fixed length are fused (fuse.c);
 *   judge    runs a view. Only a run shows which communications meet on a link, and whether micro-batches take equal
 *            times: if that makes the view inexact (mq_timeline.inexact), judge asks for the next one.
 * The last view, the whole schedule, is exact by itself. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_FOLDING_FOLD_H
#define MQ_FOLDING_FOLD_H

#include "folding/view.h"
#include "lowering/lower.h"

struct mq_fold_request {
	struct mq_lower_request lower; /* its pointers are borrowed until mq_folding_end */
	bool fold;                     /* false: the whole schedule is the only view */
	bool steady;                   /* views may leave out micro-batches that repeat others */
	bool keep_tasks;               /* fuse no tasks: reports show each */
	bool screen;                   /* only the step time by mq_execute_analytic is needed */
};

struct mq_folding;

/* Lowers a plan up to its memory verdict (`lowered`); the views hold its schedules. All lives in the arena, or until
 * mq_folding_end. */
struct mq_folding *mq_folding_begin(const struct mq_fold_request *request, struct mq_arena *arena,
				    struct mq_lowered *lowered);

/* The next view: the last one with more micro-batches where it was unsteady; else one of finer classes
 * (mq_folding_apart, or smaller blocks of positions); at last the whole schedule. view->schedule is NULL if the verdict
 * forbids a run, or after the whole schedule. */
enum mq_status mq_folding_next(struct mq_folding *folding, struct mq_view *view, struct mq_err *err);

/* Takes the last run's mq_timeline.apart_s: positions whose times differ are in different classes of later views. */
void mq_folding_apart(struct mq_folding *folding, const double *apart_s);
/* The same, mq_timeline.unsteady: the view that follows leaves out fewer micro-batches, or none. */
void mq_folding_unsteady(struct mq_folding *folding);

void mq_folding_end(struct mq_folding *folding);

/* Lowers to the whole schedule, lowered->schedule, for a replay and for executors without views. An error means broken
 * input; a plan past memory is a verdict. */
enum mq_status mq_lower(const struct mq_lower_request *request, struct mq_arena *arena, struct mq_lowered *lowered,
			struct mq_err *err);

struct mq_low;
/* Fuses runs in the templates of an exact fold; fold->fused holds their durations, program.whole the unfused
 * templates. screen: collectives that share links also last a fixed time, their bound, and only the duration of a
 * run is filled. */
enum mq_status mq_fold_fuse(struct mq_low *low, struct mq_fold *fold, bool screen, struct mq_err *err);

#endif

/*
 * view.h - what a simulating executor runs: a schedule, and what its devices and tasks stand for.
 *
 * A plain schedule is one step in which every device has its own tasks, as a replay runs it. A view may add:
 *   fold     the schedule's devices are representatives: each stands for `weight` equal ranks that have no tasks of
 *            their own. fold->comm lists the cluster ranks of all members of a group, so that a collective has its
 *            true cost and routes; flows of ranks left out load the links, too (replica_flows.h);
 *   steady   micro-batches that repeat others are left out (struct mq_steady, schedule/events.h);
 *   rounds   the tasks are several steps of one or more jobs (struct mq_rounds, schedule/events.h).
 * None of these is part of a schedule that is saved or replayed. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_FOLDING_VIEW_H
#define MQ_FOLDING_VIEW_H

#include "schedule/events.h"
#include "maquette/schedule.h"

struct mq_replica_flows;

/* All collectives of one kind and communicator inside a fused work. */
struct mq_fused_call {
	uint32_t comm;
	uint8_t coll;     /* enum mq_coll_kind */
	double exposed_s; /* their time without compute */
	double path_s;    /* their time on the work's longest path */
};

/* A work that stands for a run of compute tasks and collectives of fixed length (runs.h). */
struct mq_fused {
	double seconds; /* 0: an ordinary work, timed by the cost model */
	uint32_t n_calls;
	struct mq_fused_call *call;
};

/* A class of positions that are alike in every stage, ascending; the first represents it. */
struct mq_alike {
	uint32_t n, *position;
};

struct mq_fold {
	double *weight;                         /* [n_devices] ranks that the schedule's device stands for */
	uint32_t n_positions;                   /* devices of each stage */
	const struct mq_alike **alike;          /* [n_positions] its class */
	const uint32_t **device;                /* [pipeline ranks][n_positions] cluster ranks */
	uint32_t *position;                     /* [cluster devices] place in its stage's device list */
	const uint32_t *rank_of;                /* [cluster devices] pipeline rank, MQ_NONE = not in the plan */
	const struct mq_members *comm;          /* [n_comms] all members; mq_comm.rank lists the simulated ones */
	struct mq_fused *fused;                 /* [n_works]; NULL: no work is fused */
	struct mq_replica_flows *replica_flows; /* flows of the ranks left out (replica_flows.h) */
};

struct mq_view {
	const struct mq_schedule *schedule;
	const struct mq_fold *fold;     /* NULL: every device of the plan is simulated */
	const struct mq_rounds *rounds; /* NULL: one step */
	const struct mq_steady *steady; /* NULL: all micro-batches are there */
};

/* The run that a compute task stands for; NULL: an ordinary task. */
static inline const struct mq_fused *mq_view_fused(const struct mq_view *view, const struct mq_task *task)
{
	const struct mq_fused *fused = view->fold ? view->fold->fused : NULL;

	return fused && task->kind == MQ_TASK_COMPUTE && fused[task->work].seconds > 0 ? &fused[task->work] : NULL;
}

#endif

/*
 * view.h - what a simulating executor runs: a schedule, and how to read it.
 *
 * By itself a schedule is one step in which every device has tasks of its own, as a replay runs it. A simulating
 * executor may be told more:
 *   fold     the schedule's devices are representatives: each stands for `weight` equal ranks that have no tasks of
 *            their own. Communicators list the cluster ranks of all members, so that a collective has its true cost
 *            and its flows go to the real neighbours; flows of ranks left out count on every link (replica_flows.h);
 *   steady   micro-batches that repeat others are left out (schedule/events.h);
 *   rounds   the tasks are several steps, of one job or of several, one after another (schedule/events.h).
 * None of these is part of a schedule: what is saved or replayed has none.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_FOLDING_VIEW_H
#define MQ_FOLDING_VIEW_H

#include "schedule/events.h"
#include "maquette/schedule.h"

struct mq_replica_flows;

/* Collectives of one kind and communicator inside a fused work, together. */
struct mq_fused_call {
	uint32_t comm;
	uint8_t coll;     /* enum mq_coll_kind */
	double exposed_s; /* while nothing of the work is computed */
	double path_s;    /* of those on the longest path through it */
};

/* A work that stands for tasks on two streams, collectives of fixed length among them (fuse.h). */
struct mq_fused {
	double seconds; /* 0: it stands for itself, ask the cost model */
	uint32_t n_calls;
	struct mq_fused_call *call;
};

/* Positions that are alike in every stage, ascending; the first stands for all of them. */
struct mq_alike {
	uint32_t n, *position;
};

struct mq_fold {
	double *weight;                         /* [n_devices] ranks that the schedule's device stands for */
	uint32_t n_positions;                   /* devices of each stage */
	const struct mq_alike **alike;          /* [n_positions] those like it, itself among them */
	const uint32_t **device;                /* [pipeline ranks][n_positions] cluster ranks */
	uint32_t *position;                     /* [cluster devices] of the plan: place in its stage's device list */
	const uint32_t *rank_of;                /* [cluster devices] pipeline rank, MQ_NONE = not in the plan */
	const struct mq_members *comm;          /* [n_comms] everyone; those simulated are listed in mq_comm.rank */
	struct mq_fused *fused;                 /* [n_works], or NULL: none is */
	struct mq_replica_flows *replica_flows; /* what the ranks left out do to the links (replica_flows.h) */
};

struct mq_view {
	const struct mq_schedule *schedule;
	const struct mq_fold *fold;     /* NULL: every device of the plan is simulated */
	const struct mq_rounds *rounds; /* NULL: one step */
	const struct mq_steady *steady; /* NULL: all micro-batches are there */
};

/* What a compute task of a schedule stands for, NULL: for itself. */
static inline const struct mq_fused *mq_view_fused(const struct mq_view *view, const struct mq_task *task)
{
	const struct mq_fused *fused = view->fold ? view->fold->fused : NULL;

	return fused && task->kind == MQ_TASK_COMPUTE && fused[task->work].seconds > 0 ? &fused[task->work] : NULL;
}

#endif

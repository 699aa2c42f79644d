/*
 * fold.h - the folded view of a schedule: one representative for a set of identical ranks.
 *
 * The positions of every stage are cut in blocks of equal size, as large as they can be; the first of a
 * block stands for all of it. Exact where it applies, refused (lowering then returns the whole schedule)
 * where not even two neighbours are alike. In a folded schedule only representatives have tasks;
 * communicators list the cluster ranks of all members, so that a collective has its true cost and its flows
 * go to the real neighbours. Flows of the ranks left out count on every link (images.h).
 */
#ifndef MQ_LOWER_FOLD_H
#define MQ_LOWER_FOLD_H

#include "core/schedule.h"

struct mq_images;

/* Collectives of one kind and communicator inside a fused work, together. */
struct mq_fused_call {
	uint32_t comm;
	uint8_t coll;     /* enum mq_coll_kind */
	double exposed_s; /* while nothing of the work is computed */
	double path_s;    /* of those on the longest path through it */
};

/* A work that stands for tasks on two streams, collectives of fixed length among them (fuse.c). */
struct mq_fused {
	double seconds; /* 0: it stands for itself, ask the cost model */
	uint32_t n_calls;
	struct mq_fused_call *call;
};

struct mq_fold {
	double *weight;          /* [n_devices] ranks that the schedule's device stands for */
	uint32_t n_positions;    /* devices of each stage */
	uint32_t size;           /* positions of a block; those at its multiples are simulated */
	const uint32_t **device; /* [pipeline ranks][n_positions] cluster ranks */
	uint32_t *position;      /* [cluster devices] of the plan: place in its stage's device list */
	const uint32_t *rank_of; /* [cluster devices] pipeline rank, MQ_NONE = not in the plan */
	uint32_t n_comms;
	uint32_t *comm_n;         /* [n_comms] true number of members */
	uint32_t **comm_rank;     /* [n_comms][comm_n] cluster ranks of all members, ring order; the members
				   that are simulated are those listed in mq_comm.rank */
	struct mq_fused *fused;   /* [n_works], or NULL: none is */
	struct mq_images *images; /* what the ranks left out do to the links (images.h) */
};

/* What a compute task of a schedule stands for, NULL: for itself. */
static inline const struct mq_fused *mq_fold_fused(const struct mq_schedule *s, const struct mq_task *task)
{
	const struct mq_fused *fused = s->fold ? s->fold->fused : NULL;

	return fused && task->kind == MQ_TASK_COMPUTE && fused[task->work].seconds > 0 ? &fused[task->work] : NULL;
}

#endif

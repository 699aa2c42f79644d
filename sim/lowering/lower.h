/* lower.h - plan + model + cluster -> schedule, and the memory that it needs.
 *
 * Lowering decides everything that is not hardware: which kernels run where, in which order, with which communication
 * between them. It asks no cost and no clock, so the same schedule is simulated and replayed. Of the calibrations it
 * reads what memory needs (reserves, what a GPU's library can do).
 *
 * What one asks of a plan, and the verdict; the steps are those of program.h, which folding/fold.h calls in order.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LOWERING_LOWER_H
#define MQ_LOWERING_LOWER_H

#include "maquette/calib.h"
#include "maquette/plan.h"
#include "maquette/question.h"
#include "maquette/result.h"
#include "maquette/schedule.h"

struct mq_allocation_log;

/* What replays of allocations came to (allocator_replay.h): plans that differ in nothing that a device holds share one. */
struct mq_replays;
struct mq_replays *mq_replays_new(struct mq_arena *arena);

struct mq_lower_request {
	const struct mq_question *q; /* calib: for memory reserves */
	const struct mq_plan *plan;  /* resolved (mq_software_apply_defaults) and checked (mq_plan_check) here */
	bool past_memory;            /* go on where the plan does not fit: verdict and message stay OOM, the
					 schedule is there */
	bool any_memory;             /* nobody asks what it needs of memory, nor whether it fits */
	double max_tasks;            /* a schedule of more is REFUSED; 0 = what memory allows */
	double simulation_s;         /* and one whose simulation takes longer, as far as its size tells; 0 = no limit */
	bool memory_only;            /* stop after the memory verdict: no schedule */
	bool fits_only;              /* of the memory of a plan that fits nobody asks more than that it does */
	struct mq_allocation_log *log; /* NULL, or filled with what one device's allocator does */
	bool held;                     /* fill the schedule's `held`, for a replay */
	struct mq_replays *replays;    /* NULL, or one that is asked and filled */
	bool alike; /* ops that are alike have one work, whose kernels are of the first: nobody reads the op of one */
	/* Of each device so many tasks are looked at, its earliest: no micro-batch is left out where it has no more */
	double first_tasks;
};

struct mq_lowered {
	enum mq_verdict verdict; /* OK, OOM, INVALID or REFUSED: only OK has a schedule */
	char message[256];
	struct mq_schedule *schedule; /* of all devices of the plan */
	uint32_t n_devices;
	uint32_t *device;            /* [n_devices] cluster ranks */
	struct mq_memory *memory;    /* [n_devices] */
	uint32_t worst;              /* index of the device nearest its limit */
	double host_B, host_limit_B; /* offloaded tensors of the machine nearest its limit (0 = not known) */
	double model_flop;           /* of one step, without recomputation, all devices */
};

#endif

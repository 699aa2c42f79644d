/* lower.h - plan + model + cluster -> schedule, and the memory that it needs.
 *
 * Lowering decides everything that is not hardware: which kernels run where, in which order, with which communication
 * between them. It uses no costs and no clock, so the same schedule is simulated and replayed. From calibrations it
 * reads what memory needs (reserves, capabilities of a GPU's libraries).
 *
 * This header has the request and the result; program.h has the steps, which folding/fold.h calls in order.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LOWERING_LOWER_H
#define MQ_LOWERING_LOWER_H

#include "maquette/calib.h"
#include "maquette/plan.h"
#include "maquette/question.h"
#include "maquette/result.h"
#include "maquette/schedule.h"

struct mq_allocation_log;

struct mq_lower_request {
	const struct mq_question *q;   /* calib: for memory reserves */
	const struct mq_plan *plan;    /* resolved (mq_software_apply_defaults) and checked (mq_plan_check) here */
	bool past_memory;              /* continue if the plan does not fit: verdict and message stay OOM, the
					 schedule is there */
	bool any_memory;               /* neither compute nor judge memory */
	double max_tasks;              /* a larger schedule is REFUSED; 0 = limited by memory */
	double simulation_s;           /* one with a longer estimated simulation, s, is REFUSED; 0 = no limit */
	bool memory_only;              /* stop after the memory verdict: no schedule */
	bool fits_only;                /* a plan that fits needs no exact memory, only that verdict */
	struct mq_allocation_log *log; /* NULL, or filled with what one device's allocator does */
	bool held;                     /* fill the schedule's `held`, for a replay */
	struct mq_index *replays;      /* NULL, or a cache of allocator replays to use and fill */
	bool alike; /* equal ops share one work, that of the first: for callers that map no kernel back to its op */
	/* The caller reads only so many tasks of each device, the earliest: no micro-batch is left out of a
	 * schedule without more. */
	double first_tasks;
};

struct mq_lowered {
	enum mq_verdict verdict; /* OK, OOM, INVALID or REFUSED; only OK has a schedule */
	char message[256];
	struct mq_schedule *schedule; /* of all devices in the plan */
	uint32_t n_devices;
	uint32_t *device;            /* [n_devices] cluster ranks */
	struct mq_memory *memory;    /* [n_devices] */
	uint32_t worst;              /* index of the device nearest its limit */
	double host_B, host_limit_B; /* offloaded tensors of the machine nearest its limit (0 = not known) */
	double model_flop;           /* of one step, without recomputation, all devices */
};

#endif

/*
 * lower.h - plan + model + cluster -> schedule, and the memory that it needs.
 *
 * Lowering decides everything that is not hardware: which kernels run where, in which order, with which
 * communication between them. It asks no cost and no clock, so the same schedule is simulated and
 * replayed. Only the folded view (below) needs costs.
 */
#ifndef MQ_LOWER_LOWER_H
#define MQ_LOWER_LOWER_H

#include "core/calib.h"
#include "core/plan.h"
#include "core/question.h"
#include "core/result.h"
#include "core/schedule.h"

struct mq_lower_request {
	const struct mq_question *q; /* calib: for memory reserves and for folding */
	const struct mq_plan *plan;  /* dressed (mq_software_dress) and checked (mq_plan_check) by mq_lower */
	bool fold;                   /* allow a folded view where it is exact */
	uint32_t fold_below;         /* a representative stands for fewer ranks than this; 0 = any number */
	bool keep_tasks;             /* of its tasks none is fused with others: reports show each */
	bool past_memory;            /* go on where the plan does not fit: verdict and message stay OOM, the
					 schedule is there */
	double max_tasks;            /* a schedule of more is REFUSED; 0 = what memory allows */
	bool memory_only;            /* stop after the memory verdict: no schedule */
	bool held;                   /* fill the schedule's `held`, for a replay */
};

struct mq_lowered {
	enum mq_verdict verdict; /* OK, OOM, INVALID or REFUSED: only OK has a schedule */
	char message[256];
	struct mq_schedule *schedule;
	uint32_t n_devices;       /* devices of the plan, folded or not */
	uint32_t *device;         /* [n_devices] cluster ranks */
	struct mq_memory *memory; /* [n_devices] */
	uint32_t worst;           /* index of the device nearest its limit */
	uint32_t folded;          /* ranks that a representative stands for; 0 = all are simulated */
	char unfolded[128];       /* why folding, or that of whole stages, was refused, if it was
					 asked for */
	double model_flop;        /* of one step, without recomputation, all devices */
};

/* Errors are only for broken input; a plan that does not fit is a verdict. */
enum mq_status mq_lower(const struct mq_lower_request *request, struct mq_arena *arena, struct mq_lowered *lowered,
			struct mq_err *err) MQ_MUST_CHECK;

#endif

/* costing.h - the time of hosts that launch kernels, the clocks of devices, lower bounds on step times, and the cost
 * queries of engines. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_COSTING_COSTING_H
#define MQ_COSTING_COSTING_H

#include "lowering/program.h"
#include "maquette/cost.h"
#include "maquette/engine.h"
#include "maquette/question.h"

/* ---- launch_overhead.c: the host time that launching a pass adds to its compute tasks ------------------------------
 *
 * How much host time overlaps the kernels and collectives of a pass depends on their times, which lowering does not
 * know: this step runs between lowering's templates and the schedule made of them (lowering/program.h). */

/* Adds exposed host time (MQ_KERNEL_CALL, seconds) to the works of the compute tasks of all templates; call it once
 * after each mq_low_templates. */
void mq_launch_overhead_apply(struct mq_low *low);

/* ---- clocks.c: the clock of each device of a plan, from the power that its templates draw; a further such step --- */

/* Fills the schedule's `clock`; call it once after each mq_launch_overhead_apply. A device's clock follows from the
 * mean power of its step (mq_power_clock) and from the slowest device of the job (mq_link_calib.fleet). */
void mq_clocks_apply(struct mq_low *low);

/* The clock of a device that repeats the work of `draw`, in a job of n_devices. */
double mq_clocks_of(const struct mq_question *q, uint32_t device, uint32_t n_devices, const struct mq_draw *draw);

/* ---- bound.c: lower bounds on the step time of any plan of a model on a cluster -----------------------------------
 *
 * A search stops at them, a report says how far a plan is from them. Seconds per step; without communication, launches
 * and bubbles. */

/* Total model FLOPs (half of causal attention's) over the sum of all peaks, or of the speed measured where a device is
 * faster; profiled ops take at least their least measured time. */
double mq_peak_bound(const struct mq_question *q);

/* From calibrated speeds: some device must run every op for the whole batch, and no device runs it faster per sample
 * than its kernels at any size and split. `busy` is op_busy of engine.h. 0 in inference.
 * O(ops x device classes x batch sizes). */
double mq_busy_bound(const struct mq_question *q,
		     double (*busy)(void *context, uint32_t op, enum mq_phase phase, uint32_t device,
				    const uint32_t split[MQ_N_DIMS], double samples),
		     void *context);

/* ---- engine_costs.c: the cost queries of search engines, answered by the models that the simulation uses --------- */

/* The cost queries of engine.h without `screen`, which the caller fills in. Allocated in the arena; what the question
 * points to must outlive it. */
struct mq_costs *mq_costs_new(const struct mq_question *q, struct mq_arena *arena);

#endif

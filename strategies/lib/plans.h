/* plans.h - what several engines need to turn their answer into a plan: the devices they may use, and data-parallel
 * plans. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_PLANS_H
#define MQ_STRATEGIES_LIB_PLANS_H

#include "maquette/engine.h"

/* The training software of the question, never NULL. */
static inline const struct mq_software *mq_software_of(const struct mq_problem *problem)
{
	return mq_question_software(problem->q);
}

/* The devices an engine plans on: all accelerators, or all CPUs where there are none, in rank order; of
 * more than max_devices the fastest. */
struct mq_devices {
	uint32_t n;
	uint32_t *rank;
};
struct mq_devices mq_devices_usable(const struct mq_problem *problem, struct mq_arena *arena);

/* Keeps the fastest, as many as --max devices allows, as sets of shapes.h do. */
void mq_devices_limit(const struct mq_problem *problem, struct mq_devices *devices, struct mq_arena *arena);

/* The same devices in another order: `block` of a machine, `block` of the next and so on, in turn until all are
 * taken. A mesh has its innermost dimensions inside of a machine up to degree `block`. */
struct mq_devices mq_devices_in_blocks(const struct mq_cluster *cluster, const struct mq_devices *devices,
				       uint32_t block, struct mq_arena *arena);
/* Devices of the machine that has most of them. */
uint32_t mq_devices_per_machine(const struct mq_cluster *cluster, const struct mq_devices *devices);
/* Devices in a row that one machine has, at least. */
uint32_t mq_devices_least_per_machine(const struct mq_cluster *cluster, const uint32_t *rank, uint32_t n);

/* What --fix and --max leave to engines that cut a pipeline into stages: a stage has exactly `dp` replicas, or at
 * most `most_dp`; a tensor degree `tp`, or at most `most_tp`; 0 = free. Where the number of stages is fixed or
 * bounded, every stage has exactly `width` devices, and `devices` are used of n. */
struct mq_stage_limits {
	uint32_t dp, most_dp, tp, most_tp, width, devices;
};
struct mq_stage_limits mq_stage_limits(const struct mq_limits *limits, uint32_t n_devices);
static inline bool mq_degree_allowed(uint32_t fix, uint32_t most, uint32_t value)
{
	return (!fix || value == fix) && (!most || value <= most);
}

/* Does a split keep the limits on dp (batch and expert) and tp (head, output, input features)? The fixed degrees are
 * asked of ops that can have them, 1 of the others. */
bool mq_split_allowed(const struct mq_limits *limits, const struct mq_op *op, double samples,
		      const uint32_t split[MQ_N_DIMS]);

/* Data parallelism over the first n of `devices`: ops that cannot split the batch run whole on every one. */
void mq_plan_data_parallel(const struct mq_problem *problem, const struct mq_devices *devices, uint32_t n,
			   struct mq_arena *arena, struct mq_plan *plan);

/* Most devices that data parallelism can use: no more than samples, and what the limits allow. */
uint32_t mq_data_parallel_degree(const struct mq_problem *problem, const struct mq_devices *devices);

/* Where and how one op runs, for plans put together op by op. */
struct mq_spot {
	uint32_t n_devices;
	uint32_t *device;   /* [n_devices] in mesh order: tensor-parallel ranks are neighbours */
	uint32_t stage, tp; /* tp divides n_devices; the rest splits the batch */
	uint8_t sync, recompute;
	bool sequence_parallel; /* what tensor parallelism leaves whole is split along the sequence
	                         */
};

/* Gives an op its config, shared with ops of the same stage and split. An op that cannot be split as asked runs
 * whole on the ranks concerned. */
void mq_plan_put(struct mq_plan *plan, const struct mq_problem *problem, uint32_t op, const struct mq_spot *spot,
		 struct mq_arena *arena);

/* Drops configs that no op has. */
void mq_plan_compact(struct mq_plan *plan, struct mq_arena *arena);

/* Every device d of the plan becomes to[d]. */
void mq_plan_rename(struct mq_plan *plan, const uint32_t *to, struct mq_arena *arena);

/* Would selective recomputation change anything? */
bool mq_selective_saves(const struct mq_problem *problem);

/* Hands a finite lower bound to problem->bound, where --proof asks for it. */
void mq_show_bound(const struct mq_problem *problem, const struct mq_bound *bound);

/* Prints through problem->say. */
void mq_say(const struct mq_problem *problem, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* False: time is over. `done` in 0 .. 1, NaN = not known. */
bool mq_tick(const struct mq_problem *problem, double done, const char *what);
/* mq_tick as the callback of solvers that know no problem: `context` is the address of a pointer to it. */
bool mq_tick_hook(void *context, double done, const char *what);

/* ---- single questions to problem->costs ---------------------------------------------------------- */

/* Seconds of both passes of an op; of the forward pass alone in inference. */
double mq_passes_s(const struct mq_problem *problem, uint32_t op, uint32_t device, const uint32_t split[MQ_N_DIMS],
		   double samples);
/* The same of the whole model for one sample; +inf: the device cannot run an op. */
double mq_model_s(const struct mq_problem *problem, uint32_t device);
/* False: no route joins them. */
bool mq_collective_s(const struct mq_problem *problem, enum mq_coll_kind kind, const uint32_t *rank, uint32_t n,
		     double elems, enum mq_dtype dtype, double *seconds);
/* Seconds of an empty transfer between two devices and those of each byte, measured with `bytes`; false: no route. */
bool mq_transfer_line(const struct mq_problem *problem, uint32_t a, uint32_t b, double bytes, double *latency_s,
		      double *per_byte_s);
/* Bytes of a device for parameters and activations, what the allocator loses taken off; +inf: not known. */
double mq_room_B(const struct mq_problem *problem, uint32_t rank);
/* Verdict of a whole plan without its time: false where it does not fit or nobody can tell. */
bool mq_fits(const struct mq_problem *problem, const struct mq_plan *plan);

/* Powers of two up to `most` that divide n, rising; how many. */
uint32_t mq_powers_dividing(double n, double most, uint32_t power[24]);
/* Micro-batches of a step that are tried in turn: as many as `asked` for, else the powers of two up to `most` that
 * divide the batch; `rounds` NULL: a check alone. MQ_EINPUT: more than samples. */
enum mq_status mq_micro_batch_rounds(const struct mq_problem *problem, const char *engine, uint32_t asked, double most,
				     uint32_t rounds[24], uint32_t *n, struct mq_err *err);

/* Step time of a plan by the analytic executor; +inf: it does not fit, or cannot be judged. */
double mq_screen(const struct mq_problem *problem, const struct mq_plan *plan);

/* A point of the learning curve, where anyone keeps it. */
void mq_note(const struct mq_problem *problem, const char *quantity, double value);

#endif

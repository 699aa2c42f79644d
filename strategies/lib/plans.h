/* plans.h - shared by engines: usable devices, plan building, limits, single cost queries.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_PLANS_H
#define MQ_STRATEGIES_LIB_PLANS_H

#include "maquette/engine.h"

/* The training software of the question, never NULL. */
static inline const struct mq_software *mq_software_of(const struct mq_problem *problem)
{
	return mq_question_software(problem->q);
}

/* The devices that an engine plans on, in rank order: all accelerators, or all CPUs if there are none; the fastest ones
 * if --max devices allows fewer. */
struct mq_devices {
	uint32_t n;
	uint32_t *rank;
};
struct mq_devices mq_devices_usable(const struct mq_problem *problem, struct mq_arena *arena);

/* Keeps the fastest, at most --max devices, as the sets of shapes.h do. */
void mq_devices_limit(const struct mq_problem *problem, struct mq_devices *devices, struct mq_arena *arena);

/* The same devices reordered: `block` devices of each machine in turn until all are taken. A mesh over them has its
 * innermost dimensions inside a machine up to degree `block`. */
struct mq_devices mq_devices_in_blocks(const struct mq_cluster *cluster, const struct mq_devices *devices,
				       uint32_t block, struct mq_arena *arena);
/* The largest number of consecutive devices on one machine. */
uint32_t mq_devices_per_machine(const struct mq_cluster *cluster, const struct mq_devices *devices);
/* The least number of consecutive devices on one machine. */
uint32_t mq_devices_least_per_machine(const struct mq_cluster *cluster, const uint32_t *rank, uint32_t n);

/* What --fix and --max allow engines that cut a pipeline: a stage has exactly `dp` replicas, or at most `most_dp`;
 * tensor degree `tp`, or at most `most_tp`; 0 = free. If the number of stages is fixed or bounded, every stage has
 * exactly `width` devices; `devices` of n are used. */
struct mq_stage_limits {
	uint32_t dp, most_dp, tp, most_tp, width, devices;
};
struct mq_stage_limits mq_stage_limits(const struct mq_limits *limits, uint32_t n_devices);
static inline bool mq_degree_allowed(uint32_t fix, uint32_t most, uint32_t value)
{
	return (!fix || value == fix) && (!most || value <= most);
}

/* Does a split keep the limits on dp (batch x expert) and tp (head x output x input features)? Ops that cannot be split
 * to a fixed degree must have degree 1. */
bool mq_split_allowed(const struct mq_limits *limits, const struct mq_op *op, double samples,
		      const uint32_t split[MQ_N_DIMS]);

/* Data parallelism over the first n of `devices`: ops that cannot split the batch run unsplit on each. */
void mq_plan_data_parallel(const struct mq_problem *problem, const struct mq_devices *devices, uint32_t n,
			   struct mq_arena *arena, struct mq_plan *plan);

/* The largest data-parallel degree: at most one replica per sample, within the limits. */
uint32_t mq_data_parallel_degree(const struct mq_problem *problem, const struct mq_devices *devices);

/* Devices and choices of one op, for plans built op by op. */
struct mq_spot {
	uint32_t n_devices;
	uint32_t *device;   /* [n_devices] in mesh order: tensor-parallel ranks are neighbours */
	uint32_t stage, tp; /* tp divides n_devices; n_devices / tp splits the batch */
	uint8_t sync, recompute;
	bool sequence_parallel; /* ops without a tensor split are split along the sequence */
};

/* Gives an op its config, shared with ops of the same stage and split. Where an op cannot be split, its ranks replicate
 * it. */
void mq_plan_put(struct mq_plan *plan, const struct mq_problem *problem, uint32_t op, const struct mq_spot *spot,
		 struct mq_arena *arena);

/* Drops unused configs. */
void mq_plan_compact(struct mq_plan *plan, struct mq_arena *arena);

/* Replaces every device d by to[d]. */
void mq_plan_rename(struct mq_plan *plan, const uint32_t *to, struct mq_arena *arena);

/* Would selective recomputation save any memory? */
bool mq_selective_saves(const struct mq_problem *problem);

/* Is context parallelism worth a try: are sequences long, or does the user ask for it? */
bool mq_context_pays(const struct mq_problem *problem);

/* Passes a finite lower bound to problem->bound, if --proof asks for it. */
void mq_show_bound(const struct mq_problem *problem, const struct mq_bound *bound);

/* Prints through problem->say. */
void mq_say(const struct mq_problem *problem, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* False: the time is over. `done` in 0 .. 1, NaN = unknown. */
bool mq_tick(const struct mq_problem *problem, double done, const char *what);
/* mq_tick as a callback for solvers without an mq_problem: `context` is the address of a pointer to one. */
bool mq_tick_hook(void *context, double done, const char *what);

/* ---- single cost queries ------------------------------------------------------------------------- */

/* Seconds of an op: both passes in training, the forward pass in inference. */
double mq_passes_s(const struct mq_problem *problem, uint32_t op, uint32_t device, const uint32_t split[MQ_N_DIMS],
		   double samples);
/* Seconds of the whole model for one sample; +inf: the device cannot run some op. */
double mq_model_s(const struct mq_problem *problem, uint32_t device);
/* False: no route joins them. */
bool mq_collective_s(const struct mq_problem *problem, enum mq_coll_kind kind, const uint32_t *rank, uint32_t n,
		     double elems, enum mq_dtype dtype, double *seconds);
/* Linear cost of a transfer: latency and seconds per byte, from transfers of 0 and `bytes` bytes; false: no route. */
bool mq_transfer_line(const struct mq_problem *problem, uint32_t a, uint32_t b, double bytes, double *latency_s,
		      double *per_byte_s);
/* Bytes of a device for parameters and activations, less the reserve and fragmentation; +inf: unknown. */
double mq_room_B(const struct mq_problem *problem, uint32_t rank);
/* Does the whole plan fit? Checks memory without time; false also if it cannot be judged. */
bool mq_fits(const struct mq_problem *problem, const struct mq_plan *plan);

/* Powers of two up to `most` that divide n, ascending; returns how many. */
uint32_t mq_powers_dividing(double n, double most, uint32_t power[24]);
/* Numbers of micro-batches to try: `asked`, or if 0 the powers of two up to `most` that divide the batch; with `rounds`
 * NULL only checks. MQ_EINPUT: more than samples. */
enum mq_status mq_micro_batch_rounds(const struct mq_problem *problem, const char *engine, uint32_t asked, double most,
				     uint32_t rounds[24], uint32_t *n, struct mq_err *err);

/* Step time of a plan by the analytic executor; +inf: it does not fit or cannot be judged. */
double mq_screen(const struct mq_problem *problem, const struct mq_plan *plan);

/* Adds a point to the learning curve, if it is recorded. */
void mq_note(const struct mq_problem *problem, const char *quantity, double value);

#endif

/* model.h - the placement problem (place.h) of a question, and plans from its solutions.
 *
 * A graph that brings its own devices and times (-p model) is used as it is, in the file's unit. For any other model
 * and cluster, the cost queries give per device type the forward and backward time of one micro-batch; output costs
 * come from the slowest transfer between consecutive devices; memory is static bytes plus the activations of the
 * micro-batches in flight. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_PLACE_MODEL_H
#define MQ_LIB_PLACE_MODEL_H

#include "maquette/engine.h"
#include "lib/place/place.h"

struct mq_place_model {
	struct mq_place place;
	bool own_units;   /* times in the file's unit, one sample per micro-batch */
	const char *unit; /* unit of times, for engine_unit */
	uint32_t micro_batches;
	const char **type_name; /* [n_types] */
	uint32_t **rank;        /* [n_types][count] cluster ranks */
};

/* `micro_batches`: of the plan; `in_flight`: for how many of them a device holds activations. */
enum mq_status mq_place_from_problem(const struct mq_problem *problem, uint32_t micro_batches, uint32_t in_flight,
				     struct mq_arena *arena, struct mq_place_model *out, struct mq_err *err);

/* The plan of a placement as a pipeline of its stages, which it sorts; replicas become data parallelism inside a stage.
 * If the sets form no pipeline, as mq_place_plan_free. */
void mq_place_plan(const struct mq_place_model *model, struct mq_placement *placement, const struct mq_problem *problem,
		   struct mq_arena *arena, struct mq_plan *plan);

/* One device per op, no stages: for sets that form no pipeline. */
void mq_place_plan_free(const struct mq_place_model *model, const struct mq_placement *placement,
			const struct mq_problem *problem, struct mq_arena *arena, struct mq_plan *plan);

/* Time from the first input to the last output of one sample if every set on a device with memory of its own starts
 * when all its inputs have arrived and sends all its outputs at its end (released latency evaluation of Tarnawski et
 * al.); sets that are not contiguous are cut into contiguous pieces. CPUs are one pool with enough cores. +inf: a set's
 * type cannot run it or lacks memory. */
double mq_place_latency(const struct mq_place *place, const struct mq_placement *placement, struct mq_arena *scratch);

#endif

/* model.h - the placement problem (place.h) of a question, and plans from its answers.
 *
 * A graph that brings its own devices and times (-p model) is taken as it is, in the file's unit. For any other model
 * and cluster, times come from the cost queries: per device type the forward and the backward time of one micro-batch,
 * output costs from the slowest transfer between neighbouring devices, memory as what an op holds plus the activations
 * of the micro-batches in flight. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_PLACE_MODEL_H
#define MQ_LIB_PLACE_MODEL_H

#include "maquette/engine.h"
#include "lib/place/place.h"

struct mq_place_model {
	struct mq_place place;
	bool own_units;   /* the file's: one sample per micro-batch */
	const char *unit; /* of every time, for engine_unit */
	uint32_t micro_batches;
	const char **type_name; /* [n_types] */
	uint32_t **rank;        /* [n_types][count] cluster ranks */
};

/* `micro_batches`: of the plan; `in_flight`: how many of them a device must hold activations of. */
enum mq_status mq_place_from_problem(const struct mq_problem *problem, uint32_t micro_batches, uint32_t in_flight,
				     struct mq_arena *arena, struct mq_place_model *out, struct mq_err *err);

/* A pipeline of the placement's stages, which are sorted; replicas are data parallelism inside a stage. Where backward
 * ops do not mirror the forward graph it is no pipeline: as mq_place_plan_free. */
void mq_place_plan(const struct mq_place_model *model, struct mq_placement *placement, const struct mq_problem *problem,
		   struct mq_arena *arena, struct mq_plan *plan);

/* One device per op, no stages: for sets that form no pipeline. */
void mq_place_plan_free(const struct mq_place_model *model, const struct mq_placement *placement,
			const struct mq_problem *problem, struct mq_arena *arena, struct mq_plan *plan);

/* Time from the first input to the last output of one sample, when every set on a device of its own memory starts
 * once all its inputs are there and gives its outputs together (released latency evaluation of Tarnawski et al.);
 * sets that are not contiguous are cut into pieces that are. CPUs count as one pool of enough cores. +inf where a
 * set's type cannot run it or lacks memory. */
double mq_place_latency(const struct mq_place *place, const struct mq_placement *placement, struct mq_arena *scratch);

#endif

/* shapes.h - the space of usual plans: data x tensor x pipeline (x context x expert) parallelism on a set of devices,
 * with micro-batches, schedule, gradient sync and recomputation.
 *
 * Points are limited to what the training software runs (mq_software_runs_shape); it also decides sequence and
 * vocabulary parallelism.
 *
 * A point stands for one plan. Sets of devices: all; the fastest down to each drop in speed; the slower ones alone if
 * they have half of the total speed; one machine; one device; the largest counts that divide well (a power of two, by
 * batch and layers, by batch); as many as fixed degrees take. Speeds are per device class (classes.h). In a `balanced`
 * point, layers per stage follow the work outside the layers and, on mixed devices, layers and samples per replica
 * follow the devices' speed on this model. SPDX-License-Identifier: Apache-2.0 */
#ifndef STRATEGIES_LIB_SHAPES_H
#define STRATEGIES_LIB_SHAPES_H

#include "maquette/engine.h"
#include "lib/classes.h"
#include "lib/layers.h"

enum { SHAPES_MAX_SETS = 19 };

struct shape_set {
	uint32_t n;
	uint32_t *device;  /* [n] ranks, fastest first, then by rank */
	double *speed;     /* [n] samples per second of the whole model on this device alone */
	bool mixed;        /* speeds differ */
	uint32_t per_node; /* the least number of consecutive devices on a node */
	bool in_order;     /* the devices of each node are consecutive */
};

struct shape_point {
	uint32_t set, dp, tp, pp, cp, ep, virtual, micro_batches;
	uint32_t ulysses; /* as in mq_shape: 0, cp, or --fix ulysses */
	uint32_t etp;     /* as in mq_shape: 0 = tp, 1, or --fix etp */
	uint8_t pipeline, sync, recompute;
	bool sequence_parallel, balanced;
	bool replica_major; /* the stages of a replica have neighbouring ranks; else the replicas of a stage do */
};

struct shape_space {
	const struct mq_problem *problem;
	uint32_t n_sets;
	struct shape_set set[SHAPES_MAX_SETS];
	struct mq_layers layers; /* times on the first device of the first set */
	bool *uneven;            /* [n_layers + 1] by chunks: on equal devices, a division by work is not even */
	struct mq_classes classes;
	const struct mq_software *software; /* of the question, never NULL */
	bool host;                /* plans offload the optimizer: for engines that found no plan that fits otherwise */
	bool zero, all_schedules; /* whether shapes_each visits ZeRO-2 and 3, and interleaved, zb-h1, zbv, dualpipe-v */
};

/* Measures speeds through the cost queries. MQ_EINPUT: no device can run the model. */
enum mq_status shapes_init(struct shape_space *space, const struct mq_problem *problem, struct mq_err *err);
/* Do the model, the devices, the software and the user's constraints allow the point? */
bool shapes_valid(const struct shape_space *space, const struct shape_point *point);
/* The plan of a valid point. MQ_EINPUT: the model cannot be cut so. */
enum mq_status shapes_plan(const struct shape_space *space, const struct shape_point *point, struct mq_arena *arena,
			   struct mq_plan *plan, struct mq_err *err);
/* The same for a balanced point with `layers` per chunk, if not NULL. */
enum mq_status shapes_plan_cut(const struct shape_space *space, const struct shape_point *point, const uint32_t *layers,
			       struct mq_arena *arena, struct mq_plan *plan, struct mq_err *err);
/* Calls `visit` for every valid point, in a fixed order; stops when it returns false. */
void shapes_each(const struct shape_space *space, bool (*visit)(void *context, const struct shape_point *point),
		 void *context);

/* Index in the set of the first of the cp x tp devices of a stage's replica. */
uint32_t shapes_place(const struct shape_point *p, uint32_t stage, uint32_t replica);

/* A list of the valid points that `wanted` (or NULL) accepts, the first `most` of them; n counts all. */
struct shape_list {
	uint32_t n, room, most;
	struct shape_point *point;
};
void shapes_list(const struct shape_space *space, bool (*wanted)(void *context, const struct shape_point *point),
		 void *context, uint32_t most, struct shape_list *list);

/* Can the optimizer be offloaded with this software and question, and is it not anyway? */
bool shapes_can_host(const struct shape_space *space);

/* Does the software use sequence parallelism, and do these degrees and the model allow it? */
bool shapes_sequence(const struct shape_space *space, uint32_t tp, uint32_t cp);

/* The MQ_EINPUT message for an engine that found no valid point. */
enum mq_status shapes_none(const struct shape_space *space, struct mq_err *err);

/* Divisors of n, ascending, at most `room`; returns how many. */
uint32_t shapes_divisors(uint32_t n, uint32_t *divisor, uint32_t room);

#endif

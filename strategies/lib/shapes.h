/* shapes.h - the space of usual plans: data x tensor x pipeline (x context x expert) parallelism on a set of devices,
 * with micro-batches, schedule, gradient sync and recompute.
 *
 * The space ends where the training software's does (mq_software_runs_shape); sequence and vocabulary parallelism are
 * the software's.
 *
 * A point names one plan. Sets of devices: everything, then fewer types (fastest first), one node of the fastest type,
 * one device, the slower types alone where they are as fast as the others. Speeds are of device classes (classes.h), so
 * that a slow device of a type has sets without it. A point may be `balanced`: layers per stage follow the work outside
 * of the layers and, on mixed devices, they and the samples per replica follow the devices' measured speed on this
 * model. SPDX-License-Identifier: Apache-2.0 */
#ifndef STRATEGIES_LIB_SHAPES_H
#define STRATEGIES_LIB_SHAPES_H

#include "maquette/engine.h"
#include "lib/classes.h"
#include "lib/layers.h"

enum { SHAPES_MAX_SETS = 19 };

struct shape_set {
	uint32_t n;
	uint32_t *device;  /* [n] ranks, fastest type first, then by rank */
	double *speed;     /* [n] samples per second of the whole model on this device alone */
	bool mixed;        /* speeds differ */
	uint32_t per_node; /* the least number of these devices that a node has */
	bool in_order;     /* a node's devices follow each other: ranks can be numbered so */
};

struct shape_point {
	uint32_t set, dp, tp, pp, cp, ep, virtual, micro_batches;
	uint32_t ulysses; /* as in mq_shape: 0, or cp, or what --fix asks for */
	uint32_t etp;     /* as in mq_shape: 1, or what --fix asks for, or 0 = experts are split as all else is */
	uint8_t pipeline, sync, recompute;
	bool sequence_parallel, balanced;
	bool replica_major; /* a replica's stages are neighbours; else a stage's replicas are */
};

struct shape_space {
	const struct mq_problem *problem;
	uint32_t n_sets;
	struct shape_set set[SHAPES_MAX_SETS];
	struct mq_layers layers; /* on the first device of the first set */
	bool *uneven;            /* [n_layers + 1] of so many chunks on equal devices some would have more layers
			    * than even ones have */
	struct mq_classes classes;
	const struct mq_software *software; /* the question's, never NULL */
	bool host;                /* plans have their optimizer on the host; for who found none that fits without */
	bool zero, all_schedules; /* which values the list has: zero1-3; interleaved, zb-h1, zbv, dualpipe-v */
};

/* Measures speeds through the cost queries; no devices or no answers is MQ_EINPUT. */
enum mq_status shapes_init(struct shape_space *space, const struct mq_problem *problem, struct mq_err *err);
/* Is the point inside the rules of this model, these devices and the user's constraints? */
bool shapes_valid(const struct shape_space *space, const struct shape_point *point);
/* The plan of a valid point; MQ_EINPUT where the model cannot be cut so. */
enum mq_status shapes_plan(const struct shape_space *space, const struct shape_point *point, struct mq_arena *arena,
			   struct mq_plan *plan, struct mq_err *err);
/* The same with `layers` per chunk, where they are not NULL, of a balanced point. */
enum mq_status shapes_plan_cut(const struct shape_space *space, const struct shape_point *point, const uint32_t *layers,
			       struct mq_arena *arena, struct mq_plan *plan, struct mq_err *err);
/* Calls `visit` for every valid point, in a fixed order; stops when it returns false. */
void shapes_each(const struct shape_space *space, bool (*visit)(void *context, const struct shape_point *point),
		 void *context);

/* Position in the set of member (stage, replica) of a point; its cp x tp devices follow. */
uint32_t shapes_place(const struct shape_point *p, uint32_t stage, uint32_t replica);

/* Valid points as a list, at most `most` of them kept; `wanted` (or NULL) chooses. n counts those that were not kept,
 * too. */
struct shape_list {
	uint32_t n, room, most;
	struct shape_point *point;
};
void shapes_list(const struct shape_space *space, bool (*wanted)(void *context, const struct shape_point *point),
		 void *context, uint32_t most, struct shape_list *list);

/* Has the software, and the question, an optimizer that can go to the host? */
bool shapes_can_host(const struct shape_space *space);

/* Sequence parallelism as the software has it, where these degrees and the model allow it. */
bool shapes_sequence(const struct shape_space *space, uint32_t tp, uint32_t cp);

/* MQ_EINPUT in words, for an engine that found no point at all. */
enum mq_status shapes_none(const struct shape_space *space, struct mq_err *err);

/* Divisors of n in rising order, at most `room`; returns how many. */
uint32_t shapes_divisors(uint32_t n, uint32_t *divisor, uint32_t room);

#endif

/* space.h - TAG's search space: for each op group a set of device groups and all-reduce, parameter server or model
 * parallelism; and the network's features of ops, devices, links and actions.
 *
 * Features are relative, so that a network transfers to other models and topologies: times relative to the time of the
 * whole model on all devices, bytes to what the slowest link moves in that time, speeds and memory to the largest;
 * quantities over several powers of ten as logarithms. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TAG_SPACE_H
#define MQ_TAG_SPACE_H

#include "lib/coarse.h"

enum mq_tag_how { MQ_TAG_ALL_REDUCE, MQ_TAG_SERVER, MQ_TAG_MODEL, MQ_TAG_N_HOWS };

enum {
	MQ_TAG_MAX_GROUPS = 8,
	MQ_TAG_OP_FEATURES = 6,     /* time, memory, gradient and output bytes, shares of these bytes */
	MQ_TAG_DEVICE_FEATURES = 6, /* count, memory, speed, share of total speed, internal link, gradients over it */
	MQ_TAG_ACTION_FEATURES = 9, /* `how` one-hot, shares of devices and speed, slowest, rate, link, memory */
};

struct mq_tag_options {
	uint32_t groups; /* op groups */
	bool heterog;    /* only HeteroG's actions */
};

struct mq_tag_devices { /* a device group: equal devices, used together */
	uint32_t n;
	uint32_t *rank;          /* [n] */
	double speed;            /* relative to the fastest group, on this model */
	double memory_B, bw_Bps; /* of one device; within the group */
};

struct mq_tag_action {
	uint32_t mask; /* device groups */
	uint8_t how;   /* enum mq_tag_how */
	uint32_t n_devices;
};

struct mq_tag_space {
	struct mq_coarse coarse; /* op groups */
	uint32_t n, *order;      /* [n] op groups in order of decision: largest compute time first */
	uint32_t n_devices;      /* device groups */
	struct mq_tag_devices device[MQ_TAG_MAX_GROUPS];
	uint32_t n_actions;
	struct mq_tag_action *action;
	uint32_t model;               /* the first model-parallel action, over all devices if allowed */
	double *bw;                   /* [device groups squared] Bps between them */
	double slowest_Bps;           /* the least of these */
	double whole_s;               /* compute time of a step on all devices, ideally divided */
	double *op_feature;           /* [n * MQ_TAG_OP_FEATURES] */
	double *device_feature;       /* [groups * MQ_TAG_DEVICE_FEATURES] */
	double *action_feature;       /* [n_actions * MQ_TAG_ACTION_FEATURES] */
	double *place;                /* [n * groups] time of the op group on that device group, scaled */
	uint32_t n_edges, *src, *dst; /* between op groups */
	double *edge;                 /* [n_edges] tensor size, scaled */
	bool **duplicate;             /* [n_actions][n_ops] gather sufficient factors; NULL = nowhere */
	struct mq_fit fit;            /* micro-batches and recomputation of every plan */
};

/* Makes the space of a problem. MQ_EINPUT: more than MQ_TAG_MAX_GROUPS kinds of devices, or no action is possible with
 * the batch. If neither all-reduce nor model parallelism on all devices fits with the whole batch, every plan gets the
 * micro-batches and recomputation of `fit`. */
enum mq_status mq_tag_space_make(const struct mq_problem *problem, const struct mq_tag_options *options,
				 struct mq_tag_space *space, struct mq_err *err);
/* Fills the action's n_devices ranks. */
void mq_tag_devices_of(const struct mq_tag_space *space, const struct mq_tag_action *action, uint32_t *rank);
/* The plan of one action per op group. */
enum mq_status mq_tag_plan(const struct mq_tag_space *space, const uint32_t *action, const struct mq_problem *problem,
			   struct mq_arena *arena, struct mq_plan *plan, struct mq_err *err);

#endif

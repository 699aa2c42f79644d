/*
 * tag_space.h - what TAG decides: for each op group a set of device groups and how its gradients are kept
 * equal (all-reduce, parameter server), or model parallelism; and the features of both for its network.
 */
#ifndef MQ_STRATEGIES_LIB_TAG_SPACE_H
#define MQ_STRATEGIES_LIB_TAG_SPACE_H

#include "lib/coarse.h"

enum mq_tag_how { MQ_TAG_ALL_REDUCE, MQ_TAG_SERVER, MQ_TAG_MODEL, MQ_TAG_N_HOWS };

enum { MQ_TAG_MAX_GROUPS = 8, MQ_TAG_OP_FEATURES = 6, MQ_TAG_DEVICE_FEATURES = 3 };

struct mq_tag_devices {          /* devices of one type, taken or left together */
	uint32_t n;
	uint32_t *rank;          /* [n] */
	double speed;            /* relative to the fastest group, on this model */
	double memory_B, bw_Bps; /* of one device; inside the group */
};

struct mq_tag_action {
	uint32_t mask;           /* device groups */
	uint8_t how;             /* enum mq_tag_how */
	uint32_t n_devices;
};

struct mq_tag_space {
	struct mq_coarse coarse; /* op groups, largest compute time first: see `order` */
	uint32_t n, *order;      /* [n] decided in this order */
	uint32_t n_devices;      /* device groups */
	struct mq_tag_devices device[MQ_TAG_MAX_GROUPS];
	uint32_t n_actions;
	struct mq_tag_action *action;
	double *bw;              /* [device groups squared] Bps between them */
	double *op_feature;      /* [n * MQ_TAG_OP_FEATURES] */
	double *device_feature;  /* [groups * MQ_TAG_DEVICE_FEATURES] */
	uint32_t n_edges, *src, *dst; /* between op groups */
	double *edge;            /* [n_edges] tensor size, scaled */
	bool *duplicate;         /* [n_ops] sufficient factors pay off (minimum cut), or NULL */
};

/* MQ_EINPUT: more than MQ_TAG_MAX_GROUPS kinds of devices, a batch smaller than the devices. */
enum mq_status mq_tag_space_make(const struct mq_problem *problem, uint32_t groups,
				 struct mq_tag_space *space, struct mq_err *err) MQ_MUST_CHECK;
/* The plan of one action per op group. */
enum mq_status mq_tag_plan(const struct mq_tag_space *space, const uint32_t *action,
			   const struct mq_problem *problem, struct mq_arena *arena,
			   struct mq_plan *plan, struct mq_err *err) MQ_MUST_CHECK;

#endif

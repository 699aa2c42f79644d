/* cost.h - estimates the step time and memory of a pipeline of layers, by which the hybrid planner ranks hundreds of
 * thousands of candidates.
 *
 * A candidate is a list of stages; stage s runs n_s layers on d_s x t_s devices of one class, or of several that share
 * the samples by speed. With f_s the time of a micro-batch in stage s, x_s that of its transfer to the next,
 *
 *   step = (M - b) max_s (f_s, x_s) + b sum_s (f_s + x_s) + max_s (exposed gradient sync + update),
 *
 * b the schedule's bubble factor, and memory_s = static + activations x micro-batches in flight. Layer times are means
 * over all layers, queried once per (type, t, samples); collectives are a latency and a slope, queried once per
 * gradient group.
 *
 * Not modelled: contention. The simulator decides. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HYBRID_COST_H
#define MQ_HYBRID_COST_H

#include "maquette/engine.h"
#include "maquette/map.h"
#include "lib/blocks.h"

enum { MQ_HYBRID_MAX_STAGES = 256, MQ_HYBRID_MAX_SHARES = 8 };

struct mq_hybrid_stage {
	uint32_t d, t;
	uint32_t n_shares; /* types of devices in the stage */
	struct {
		uint32_t type, replicas; /* type: index in cost->type */
	} share[MQ_HYBRID_MAX_SHARES];
	uint32_t last_rank; /* transfers go from it to rank[0] of the next stage */
	/* The d ranks that exchange gradients: member i is rank[i / inner * stride + i % inner * t]. */
	const uint32_t *rank; /* borrowed */
	uint32_t stride, inner;
	uint32_t ring;   /* of the `inner` ranks of a sample, the size of the ring of keys and values */
	uint32_t layers; /* filled by the estimate */
};

struct mq_hybrid_candidate {
	uint32_t n_stages, micro_batches, chunks; /* chunks per device, of an interleaved schedule */
	uint8_t pipeline, sync, recompute;
	bool even; /* layers and samples are divided evenly */
	struct mq_hybrid_stage stage[MQ_HYBRID_MAX_STAGES];
	double step_s;   /* filled by the estimate */
	double excess_B; /* of the fullest device above its memory; <= 0 fits */
	double floor_s;  /* if --proof asks, filled by the bound: compute and bubble with full overlap */
};

/* Devices of a class (classes.h), or of several classes of one device type with nearly equal speed. */
struct mq_hybrid_type {
	const char *name;     /* device type */
	double speed;         /* samples per second of the model, of the slowest */
	uint32_t n, *rank;    /* usable devices, by machine */
	uint32_t per_node;    /* least number on a machine */
	double memory_B;      /* without the reserve; +inf = unknown */
	double fragmentation; /* factor on activations */
};

struct mq_hybrid_cost {
	const struct mq_problem *problem;
	struct mq_arena *arena;  /* lifetime: the run; shared with cost queries and messages */
	struct mq_arena scratch; /* owned; not shared, so that it can be rewound */
	struct mq_blocks blocks;
	uint8_t *part; /* [blocks] 0 = a layer, 1 = head (before the layers), 2 = tail */
	uint32_t n_types, n_layers;
	bool host;                   /* candidates offload the optimizer */
	bool parts, could_part;      /* context parallelism: may ranks have less than a sample; would some */
	struct mq_hybrid_type *type; /* [n_types] */
	uint32_t *type_of;           /* [cluster devices] index into `type`; MQ_NONE: not usable */
	double boundary_elems;       /* elements of the tensor between layers, per sample */
	struct mq_map asked;         /* cached queries; index into answer */
	double **answer;
	uint32_t answer_room;
};

/* MQ_EINPUT: the model has no repeated layers. */
enum mq_status mq_hybrid_cost_init(struct mq_hybrid_cost *cost, const struct mq_problem *problem, struct mq_err *err);
void mq_hybrid_cost_fini(struct mq_hybrid_cost *cost);
/* Fills layers, step_s and excess_B. False: not possible (too few layers or samples, no route). */
bool mq_hybrid_estimate(struct mq_hybrid_cost *cost, struct mq_hybrid_candidate *candidate);
/* Seconds per step of a stage of d x t devices of the first type, with its gradient sync, without bubble and transfers:
 * time_s[l] with l layers, l from 1 to `layers`; +inf: not possible. Micro-batches, sync and recomputation are the
 * candidate's. */
void mq_hybrid_stage_times(struct mq_hybrid_cost *cost, const struct mq_hybrid_candidate *candidate, bool first,
			   bool last, uint32_t d, uint32_t t, uint32_t layers, double *time_s);
/* Lower bound of the estimate for any division of the layers, cheaper than the estimate; +inf: not possible. Fills
 * floor_s, a lower bound of the step time of these stages; overwrites layers. */
double mq_hybrid_bound(struct mq_hybrid_cost *cost, struct mq_hybrid_candidate *candidate);

#endif

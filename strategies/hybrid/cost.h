/* cost.h - how long a step of a pipeline of layers takes, and what it holds: the estimate by which the hybrid planner
 * ranks hundreds of thousands of candidates.
 *
 * A candidate is a list of stages; stage s runs n_s layers on d_s x t_s devices of one class, or of several that share
 * the samples by speed. With f_s the time of a micro-batch in stage s,
 *
 *   step = (M - 1) max_s f_s + sum_s f_s + transfers + max_s (gradient sync + update),
 *
 * where gradients are reduced beside the last backward pass as far as the software does it, and memory_s = static +
 * activations x min(M, stages after s, itself included). Layer times are means over all layers, asked once per (type,
 * t, samples) from the cost queries; collectives are a latency and a slope, measured once per (first device, t, d).
 *
 * Not modelled: contention. The simulator has the last word. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HYBRID_COST_H
#define MQ_HYBRID_COST_H

#include "maquette/engine.h"
#include "maquette/map.h"
#include "lib/blocks.h"

enum { MQ_HYBRID_MAX_STAGES = 256, MQ_HYBRID_MAX_SHARES = 8 };

struct mq_hybrid_stage {
	uint32_t d, t;
	uint32_t n_shares; /* kinds of devices in the stage */
	struct {
		uint32_t type, replicas; /* type: index in cost->type */
	} share[MQ_HYBRID_MAX_SHARES];
	uint32_t last_rank; /* for the transfers between stages, which go on to rank[0] of the next */
	/* The d ranks that exchange gradients: member i is rank[i / inner * stride + i % inner * t]. */
	const uint32_t *rank; /* borrowed */
	uint32_t stride, inner;
	uint32_t ring;   /* of the `inner` ranks that share a sample, those around which keys and values go */
	uint32_t layers; /* filled by the estimate */
};

struct mq_hybrid_candidate {
	uint32_t n_stages, micro_batches, chunks; /* chunks: per device, of an interleaved schedule */
	uint8_t pipeline, sync, recompute;
	bool even; /* layers dealt out evenly, samples too */
	struct mq_hybrid_stage stage[MQ_HYBRID_MAX_STAGES];
	double step_s;   /* filled by the estimate */
	double excess_B; /* of the fullest device over its memory; <= 0 fits */
	double floor_s;  /* filled by the bound where --proof asks: compute and bubble alone, whatever
			    overlaps with them */
};

/* Devices of a class (classes.h), or of several of one type whose speeds hardly differ. */
struct mq_hybrid_type {
	const char *name;     /* device type */
	double speed;         /* layers per second, of the slowest */
	uint32_t n, *rank;    /* usable devices, machine after machine */
	uint32_t per_node;    /* least number in a machine */
	double memory_B;      /* beyond the reserve; +inf = not known */
	double fragmentation; /* factor on what comes and goes */
};

struct mq_hybrid_cost {
	const struct mq_problem *problem;
	struct mq_arena *arena;  /* lifetime: the run; cost queries and messages use it too */
	struct mq_arena scratch; /* owned; only ours, so that it can be rewound */
	struct mq_blocks blocks;
	uint8_t *part; /* [blocks] a layer 0, before the first one 1, after the last one 2 */
	uint32_t n_types, n_layers;
	bool host;                   /* every candidate's optimizer is on the host */
	bool parts, could_part;      /* may ranks have parts of a sample (context parallelism)? Some could */
	struct mq_hybrid_type *type; /* [n_types] */
	uint32_t *type_of;           /* [cluster devices] index into `type`; MQ_NONE: not usable */
	double boundary_elems;       /* of the tensor between layers, per sample */
	struct mq_map asked;         /* questions; index into answer */
	double **answer;
	uint32_t answer_room;
};

/* MQ_EINPUT: not a model of repeated layers. */
enum mq_status mq_hybrid_cost_init(struct mq_hybrid_cost *cost, const struct mq_problem *problem, struct mq_err *err);
void mq_hybrid_cost_fini(struct mq_hybrid_cost *cost);
/* Fills layers, step_s and excess_B. False: it cannot be (too few layers, samples, no route). */
bool mq_hybrid_estimate(struct mq_hybrid_cost *cost, struct mq_hybrid_candidate *candidate);
/* Seconds of a step in a stage of d x t devices of the first type, its exchange of gradients included, bubble and
 * transfers apart: time_s[l] of l layers, for l from 1 to `layers`; +inf where it cannot be. Micro-batches, sync and
 * recomputation are the candidate's. */
void mq_hybrid_stage_times(struct mq_hybrid_cost *cost, const struct mq_hybrid_candidate *candidate, bool first,
			   bool last, uint32_t d, uint32_t t, uint32_t layers, double *time_s);
/* No estimate of these stages is shorter, however the layers are dealt: cheaper than the estimate. Fills floor_s,
 * which no step of these stages is below; overwrites layers; +inf where it cannot be. */
double mq_hybrid_bound(struct mq_hybrid_cost *cost, struct mq_hybrid_candidate *candidate);

#endif

/* dp.h - Piper: pipeline, data and tensor parallelism with recomputation, by dynamic programming over downsets
 * (Tarnawski, Narayanan, Phanishayee, NeurIPS 2021).
 *
 * A stage is a set S of layers on d x t devices (d data-parallel, t tensor-parallel), each layer in one of its
 * configurations for t. Time per micro-batch:
 *
 *   sum of times / d + [ sum over cut edges of 2 (c + sync) / d + sum of 4 (d - 1) w / (d N) ] / B
 *
 * and memory sum (a ceil(s / d) + b) <= M, where s, the sum of the data-parallel degrees of this and all later stages,
 * is the number of micro-batches in flight. d divides the number N of micro-batches. dp[D][k][s] = least slowest-stage
 * time of the downset D (closed under successors) on at most k devices with data-parallel degrees that sum to at most
 * s.
 *
 * The choice of configurations inside a stage is a knapsack, solved as published: all fastest, then the least time per
 * byte saved until it fits; so the result is not strictly optimal. Equal devices, one bandwidth, no bubbles.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_PIPER_DP_H
#define MQ_PIPER_DP_H

#include <stdbool.h>
#include <stdint.h>

#include "maquette/arena.h"
#include "maquette/err.h"

struct mq_piper_choice {
	double time;       /* per micro-batch, s */
	double parameters; /* w, bytes */
	double memory_a, memory_b;
	const double *sync; /* [n_edges of the node] extra bytes if the edge is cut */
};

struct mq_piper_node {
	const char *name;
	uint32_t n_edges;
	const uint32_t *edge;            /* [n_edges] all edges of the node */
	uint32_t *n_choices;             /* [n_degrees]; 0 = tensor degree not supported */
	struct mq_piper_choice **choice; /* [n_degrees][n_choices] */
};

struct mq_piper_edge {
	uint32_t src, dst;
	double bytes;
};

struct mq_piper {
	uint32_t n_nodes, n_edges, n_degrees;
	struct mq_piper_node *node;
	struct mq_piper_edge *edge;
	uint32_t *degree; /* [n_degrees] tensor degrees, ascending */
	uint32_t devices; /* K */
	double memory, bandwidth;
	uint32_t micro_batches;         /* N */
	uint32_t only_d, most_d, width; /* of a stage: exact and largest data-parallel degree, devices; 0 = free */
	uint32_t max_ideals;            /* 0 = 40,000 */
	bool (*tick)(void *context, double done, const char *what); /* may be NULL */
	void *tick_context;
};

struct mq_piper_stage {
	uint32_t n_nodes, *node; /* sorted */
	uint32_t *choice;        /* [n_nodes] */
	uint32_t t, d;           /* degrees */
	double time;
};

struct mq_piper_result {
	double time; /* s per micro-batch of the slowest stage; +inf = nothing fits */
	uint32_t n_stages;
	struct mq_piper_stage *stage; /* in pipeline order */
	uint32_t n_ideals;
	double pairs;
	bool stopped; /* by tick: no result */
};

enum mq_status mq_piper_solve(const struct mq_piper *problem, struct mq_arena *arena, struct mq_piper_result *result,
			      struct mq_err *err);

/* The baseline: equal d, t and recomputation in all stages, repeated layers divided evenly, other nodes in the first
 * and last stage or in stages of their own. Returns the least time of the slowest stage; +inf: nothing fits. */
double mq_piper_equal_split(const struct mq_piper *problem, struct mq_arena *arena);

/* Time of one stage, `s` as above; +inf: it does not fit. */
double mq_piper_stage_time(const struct mq_piper *problem, const struct mq_piper_stage *stage, uint32_t s,
			   struct mq_arena *scratch);

/* Reads the published JSON: nodes with TMPCs (configurations per tensor degree), edges, maxDevices,
 * maxMemoryPerDevice, bandwidth, mbsInBatch. */
enum mq_status mq_piper_load(const char *path, struct mq_arena *arena, struct mq_piper *problem, struct mq_err *err);
bool mq_piper_probe(const char *path);

#endif

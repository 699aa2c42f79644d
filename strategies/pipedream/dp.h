/* dp.h - PipeDream's optimizer: replicated pipeline stages on one or two levels of bandwidth (Narayanan et al., SOSP
 * 2019).
 *
 * States are the ideals of the layer graph (for a chain: its prefixes). On m machines with bandwidth B, the time per
 * minibatch of the layers between ideals S and J as one replicated stage is
 *
 *   T(S, J, m) = (C(S, J) + 4 (m - 1) W / (m B g)) / m
 *
 * C the time on one machine, W the bytes of weights, g the devices per machine; and
 *
 *   A(S, J, m) = min of T(S, J, m) and, over S < K < J and r < m, of
 *                max(A(S, K, m - r), T(K, J, r) [, 2 a_K / (B r), the transfer into the stage]).
 *
 * With two levels, C of the outer one is A of the inner one on all its machines. The released optimizer counts
 * transfers only when given a compression ratio; here it is a switch. All machines must be used (as released); equal
 * machines, no memory limit.
 *
 * Complexity O(states^3 machines^2) for two levels, O(states^2 machines^2) for one.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_PIPEDREAM_DP_H
#define MQ_PIPEDREAM_DP_H

#include <stdbool.h>
#include <stdint.h>

#include "maquette/arena.h"
#include "maquette/err.h"
#include "lib/place/ideals.h"

enum { MQ_PIPEDREAM_MAX_LEVELS = 2 };

struct mq_pipedream_level {
	uint32_t machines;
	double bandwidth; /* bytes/s */
};

struct mq_pipedream_layer {
	const char *name;
	double time;               /* forward and backward, s per minibatch */
	double output, parameters; /* bytes */
};

struct mq_pipedream {
	uint32_t n_layers, n_edges;
	const struct mq_pipedream_layer *layer;
	const uint32_t *src, *dst; /* [n_edges] */
	uint32_t n_levels;         /* 1 or 2, innermost first */
	struct mq_pipedream_level level[MQ_PIPEDREAM_MAX_LEVELS];
	uint32_t only, most; /* replicas of a stage on the innermost level, exact and largest; 0 = free */
	bool transfers;      /* count 2 a / (B r) */
	uint32_t max_ideals; /* 0 = 3,000 */
};

struct mq_pipedream_stage {
	uint32_t n_layers, *layer; /* sorted */
	uint32_t inner, outer;     /* replicas per machine, and machines; 1 without that level */
};

struct mq_pipedream_result {
	double time;          /* s per minibatch */
	double data_parallel; /* s per minibatch with one stage on all devices */
	uint32_t n_stages;
	struct mq_pipedream_stage *stage;
};

enum mq_status mq_pipedream_solve(const struct mq_pipedream *problem, struct mq_arena *arena,
				  struct mq_pipedream_result *result, struct mq_err *err);

/* The released optimizer's profile (graph.txt), without inputs and unused outputs. MQ_EINPUT: it is none. */
enum mq_status mq_pipedream_load(const char *path, struct mq_arena *arena, struct mq_pipedream *problem,
				 struct mq_err *err);
bool mq_pipedream_probe(const char *path);

#endif

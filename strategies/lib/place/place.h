/* place.h - placing an operator graph on devices: the problem, its contraction to units, loads.
 *
 * Model of Tarnawski et al. (NeurIPS 2020): a full pipeline's time per sample is the largest load of a device. The load
 * of a device with the set S is the sum of its ops' times and, if the device has memory of its own (an accelerator),
 * the sum of the output costs c_u over all ops u with an edge that crosses the border of S, counted once per u,
 * whichever side u is on. Generalized here to any number of device types, each with its own times, count and memory,
 * and to replicated sets: r devices that share the samples of S have load(S) / r + 2 (r - 1)/r * sum of the sync costs
 * of S.
 *
 * Values are in any unit that the caller uses. Not modelled: fill and drain of the pipeline, memory of several samples
 * in flight, contention. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_PLACE_PLACE_H
#define MQ_LIB_PLACE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "maquette/arena.h"
#include "maquette/err.h"
#include "maquette/types.h"

struct mq_place_type {
	uint32_t count;
	double memory;   /* bound on the sum of a set's sizes; +inf = none */
	bool own_memory; /* its sets pay for tensors that cross their border */
};

struct mq_place_edge {
	uint32_t src, dst;
};

struct mq_place {
	uint32_t n_nodes, n_edges, n_types;
	const struct mq_place_type *type; /* [n_types] */
	const double *time;               /* [n_nodes * n_types]; +inf = not supported there */
	const double *size;               /* [n_nodes] memory */
	const double *out_cost;           /* [n_nodes] c_u */
	const double *sync;               /* [n_nodes], or NULL = 0 */
	const uint32_t *color;            /* [n_nodes] nodes of one colour share a device; MQ_NONE = free */
	const bool *backward;             /* [n_nodes], or NULL = none is */
	const struct mq_place_edge *edge; /* a directed acyclic graph */
};

/* Units: nodes that any contiguous placement keeps together: nodes of one colour (forward and backward), colours on a
 * cycle of the forward graph, idle nodes with a single neighbour. */
struct mq_units {
	uint32_t n, n_types;
	uint32_t *of_node;           /* [n_nodes] */
	uint32_t *node_first, *node; /* CSR: nodes of unit i */
	double *time, *time_back;    /* [n * n_types], forward and backward together; backward alone */
	double *size, *sync;         /* [n] */
	/* precedence between units, which are numbered topologically: CSR of predecessors and successors */
	uint32_t *pred_first, *pred, *succ_first, *succ;
	/* a signal: all that one unit sends to the same set of other units */
	uint32_t n_signals;
	uint32_t *home;              /* [n_signals] unit that sends */
	uint32_t *dst_first, *dst;   /* CSR: units that receive */
	double *cost, *cost_back;    /* [n_signals] > 0; the part that the backward pass sends */
	uint32_t *sent_first, *sent; /* CSR: signals that each unit sends */
	uint32_t *got_first, *got;   /* CSR: signals that each unit receives */
	uint32_t *line;              /* [n] units in linearised order */
};

enum mq_units_kind {
	MQ_UNITS_COLORS, /* merge by colour only, as for any placement; no precedence, no line */
	MQ_UNITS_CYCLES, /* also cycles of the forward graph, as for any pipeline */
	MQ_UNITS_IDLE,   /* also idle nodes, as the released solver does */
};

/* MQ_EINPUT: an edge from a backward node to a forward one. */
enum mq_status mq_units_make(const struct mq_place *place, enum mq_units_kind kind, struct mq_arena *arena,
			     struct mq_units *units, struct mq_err *err);

struct mq_place_stage {
	uint32_t type, replicas;
	uint32_t device; /* first of the replicas, numbered from 0 within the type */
	double load;
	uint32_t n_nodes;
	uint32_t *node; /* sorted */
};

/* A placement: sets of nodes, in pipeline order if they are contiguous. */
struct mq_placement {
	double max_load;
	uint32_t n_stages;
	struct mq_place_stage *stage;
};

/* An empty stage for every device, type by type. */
struct mq_placement mq_placement_empty(const struct mq_place *place, struct mq_arena *arena);
/* Assigns the nodes of each unit to stage set[unit]; drops empty stages. */
void mq_placement_fill(const struct mq_units *units, uint32_t n_nodes, const uint32_t *set, struct mq_arena *arena,
		       struct mq_placement *placement);
/* Fills the load of every stage, +inf if it does not fit, and max_load. */
void mq_placement_loads(const struct mq_place *place, struct mq_placement *placement, struct mq_arena *scratch);

/* The largest load of forward ops and their outputs plus that of backward ops: the time per sample of a pipeline that
 * finishes the forward pass before the backward pass, as GPipe does. +inf: a set does not fit. */
double mq_place_phases(const struct mq_place *place, const struct mq_placement *placement, struct mq_arena *scratch);

/* Sorts the sets so that none feeds an earlier one (backward nodes: a later one); false: there is no such order, or two
 * sets share a device, so it is no pipeline. */
bool mq_placement_sort(const struct mq_place *place, struct mq_placement *placement, struct mq_arena *scratch);

#endif

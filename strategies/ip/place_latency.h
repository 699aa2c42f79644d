/* place_latency.h - upper and lower bounds on the latency of one sample (model.h: mq_place_latency).
 *
 * Upper: sets in sequence along a topological order. For a given order, a dynamic program over prefixes and devices
 * finds the best intervals on accelerators, with the rest on the pool of CPUs; local search over orders moves single
 * units, judged by latency with overlapping sets.
 *
 * Lower: sets along any path of the graph wait for each other, and a contiguous set meets the path in one interval [i,
 * j]. Such a set holds all nodes between its nodes (and those that share a colour), none of the ancestors of node i - 1
 * or descendants of node j + 1, and so pays at least the minimum cut between the two (lib/sfb.h). The bound is the
 * least sum over all ways to cut the path into intervals, at most as many as there are sets and within the memory, and
 * nodes on CPUs. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_IP_PLACE_LATENCY_H
#define MQ_IP_PLACE_LATENCY_H

#include "maquette/rng.h"
#include "lib/place/place.h"

/* Tries `orders` orders; no stages: no interval fits. MQ_EINPUT: as mq_units_make. */
enum mq_status mq_place_line(const struct mq_place *place, uint32_t orders, struct mq_rng *rng, struct mq_arena *arena,
			     struct mq_placement *out, struct mq_err *err);

/* Lower bound over placements with at most `pieces` contiguous sets per accelerator; 0 = none found. */
enum mq_status mq_place_latency_bound(const struct mq_place *place, uint32_t pieces, struct mq_arena *arena,
				      double *bound, struct mq_err *err);

#endif

/* place_latency.h - short latencies of one sample (model.h: mq_place_latency), from above and from below.
 *
 * Above: sets that follow each other along one topological order. For a given order the best intervals on accelerators,
 * the rest on the pool of CPUs, are a dynamic programme over prefixes and devices in turn; the order itself is searched
 * by moving single units in it, judged by the latency, which sees sets that overlap.
 *
 * Below: along any path of the graph the sets that it visits wait for each other, and a set without a hole meets a path
 * in one interval [i, j]. Such a set holds all that lies between its nodes (and shares a colour with them), none of
 * what comes before node i - 1 or after node j + 1, and so pays at least the least cut between the two (lib/sfb.h). The
 * least sum over all ways to cut the path into intervals, of at most as many sets as there are, within the memory, and
 * nodes on CPUs is a bound. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_IP_PLACE_LATENCY_H
#define MQ_IP_PLACE_LATENCY_H

#include "maquette/rng.h"
#include "lib/place/place.h"

/* Tries `orders` orders; no stages where no interval fits. MQ_EINPUT: as mq_units_make. */
enum mq_status mq_place_line(const struct mq_place *place, uint32_t orders, struct mq_rng *rng, struct mq_arena *arena,
			     struct mq_placement *out, struct mq_err *err);

/* No placement with at most `pieces` contiguous sets per accelerator is below; 0 = no bound found. */
enum mq_status mq_place_latency_bound(const struct mq_place *place, uint32_t pieces, struct mq_arena *arena,
				      double *bound, struct mq_err *err);

#endif

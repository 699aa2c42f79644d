/* place_ip.h - placement as an integer program (Tarnawski et al., NeurIPS 2020, sections 4 and 5).
 *
 * Binary x_vi: unit v runs on device i. For devices with memory of their own, y_si >= |x_home,i - x_receiver,i| for
 * each signal s (place.h) means that it crosses the border of device i.
 *
 * Max-load: every device's load is at most MaxLoad. Contiguous: z_vi >= x_vi, z_vi <= z_ui and z_vi <= x_vi - x_ui + 1
 * for each precedence u -> v (z marks the ancestors of the device's set), on all devices. Phases: one maximum over
 * forward ops, one over backward ops, and their sum (mq_place_phases). Latency, of inference graphs: one pool of CPUs,
 * `pieces` successive sets per accelerator; a set starts when all its inputs are there and ends after its compute and
 * transfers (big-M); precedence between nodes, not units.
 *
 * Equal devices are ordered by the lowest unit that they hold. Differs from the published program: variables are units
 * instead of nodes, signals instead of nodes with in and out communication. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_IP_PLACE_IP_H
#define MQ_IP_PLACE_IP_H

#include "lib/mip.h"
#include "lib/place/place.h"

enum mq_place_objective { MQ_PLACE_MAX_LOAD, MQ_PLACE_PHASES, MQ_PLACE_LATENCY };

struct mq_place_ip_options {
	enum mq_place_objective objective;
	bool contiguous;                  /* max-load and phases only; latency sets always are, per piece */
	bool use_all;                     /* every device gets a set: --fix pp */
	uint32_t pieces;                  /* latency: sets per accelerator; 0 = 1 */
	double seconds, gap;              /* see mip.h */
	const struct mq_placement *start; /* start solution, or NULL */
	bool (*tick)(void *context, double done, const char *what);
	void *tick_context;
};

struct mq_place_ip_result {
	struct mq_placement placement; /* no stages if nothing was found */
	double value;                  /* its objective; +inf = infeasible or none found */
	double bound;                  /* lower bound over these placements */
	bool optimal;                  /* proven (within `gap`) */
	bool infeasible;               /* proven */
};

/* MQ_EINPUT: latency of a graph with backward nodes. */
enum mq_status mq_place_ip(const struct mq_place *place, const struct mq_place_ip_options *options,
			   struct mq_arena *arena, struct mq_place_ip_result *result, struct mq_err *err);

#endif

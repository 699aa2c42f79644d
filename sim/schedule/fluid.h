/* fluid.h - max-min fair rates of flows on links, where a flow may count several times on a link.
 *
 * Progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2): all rates grow together until a link is
 * full or a flow reaches its own cap; those flows stop growing, the rest goes on. With all weights 1 this is what
 * SimGrid's CM02 model does with equal weights, that is, with link latencies of zero. A weight of w is what w flows do
 * that cross the link and have the same rate.
 *
 * Not modelled: latency (paid apart), protocol windows, cross traffic of acknowledgements.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCHEDULE_FLUID_H
#define MQ_SCHEDULE_FLUID_H

#include "maquette/arena.h"
#include "maquette/types.h"

/* Plain arrays that the caller fills; rate_Bps is the answer. */
struct mq_fluid {
	uint32_t n_flows, n_links;
	uint32_t *first, *link;     /* CSR: links of each flow, first[n_flows + 1] */
	double *weight;             /* beside link[]: times that the flow counts there; NULL = once */
	double *cap_Bps, *rate_Bps; /* [n_flows] +inf = no cap */
	double *bw_Bps;             /* [n_links] */
	/* made by mq_fluid_begin */
	double *free_Bps, *share_Bps, *growing; /* [n_links] growing: weight of rates not yet fixed */
	uint32_t *touched;                      /* links of the running flows */
	bool *fixed;                            /* [n_flows] */
};

/* Makes the solver's own arrays for n_flows and n_links. */
MQ_API void mq_fluid_begin(struct mq_fluid *fluid, struct mq_arena *arena);

/* Rates of the `n` flows listed in running[]; the others are taken as absent. A flow without links needs
 * a cap. O(levels x (links + flows) of those running). */
MQ_API void mq_fluid_rates(struct mq_fluid *fluid, const uint32_t *running, uint32_t n);

/* All flows run from 0 s until what is left of them, left_B, has gone; done_s: [n_flows] when each has ended. Returns
 * when all have. Ends within 1e-12 of each other are one. */
MQ_API double mq_fluid_run(struct mq_fluid *fluid, double *left_B, struct mq_arena *scratch, double *done_s);

#endif

/* fluid.h - max-min fair rates of flows on links; a flow may count several times on a link.
 *
 * Progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2): all rates grow together until a link is
 * full or a flow reaches its cap; the flows concerned stop growing, the others go on. With all weights 1 this is what
 * SimGrid's CM02 model does with equal weights, that is, with link latencies of zero. A flow of weight w on a link
 * loads it like w flows of its rate.
 *
 * Not modelled: latency (added by callers), protocol windows, cross traffic of acknowledgements.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCHEDULE_FLUID_H
#define MQ_SCHEDULE_FLUID_H

#include "maquette/arena.h"
#include "maquette/types.h"

/* The caller fills the arrays; rate_Bps is the result. */
struct mq_fluid {
	uint32_t n_flows, n_links;
	uint32_t *first, *link;     /* CSR: links of each flow, first[n_flows + 1] */
	double *weight;             /* parallel to link[]: times that the flow counts there; NULL = once */
	double *cap_Bps, *rate_Bps; /* [n_flows] +inf = no cap */
	double *bw_Bps;             /* [n_links] */
	/* allocated by mq_fluid_begin */
	double *free_Bps, *share_Bps, *growing; /* [n_links] growing: sum of weights of flows whose rates still grow */
	uint32_t *touched;                      /* links of the running flows */
	bool *fixed;                            /* [n_flows] */
};

/* Allocates the solver's own arrays for n_flows and n_links. */
MQ_API void mq_fluid_begin(struct mq_fluid *fluid, struct mq_arena *arena);

/* Computes the rates of the `n` flows in running[] as if there were no others. A flow without links needs a cap.
 * O(levels x (links + flows) of those running). */
MQ_API void mq_fluid_rates(struct mq_fluid *fluid, const uint32_t *running, uint32_t n);

/* Runs all flows from 0 s until their left_B bytes have moved (left_B is consumed); done_s: [n_flows] end of each.
 * Returns the last end. Ends within a relative 1e-12 are merged. */
MQ_API double mq_fluid_run(struct mq_fluid *fluid, double *left_B, struct mq_arena *scratch, double *done_s);

#endif

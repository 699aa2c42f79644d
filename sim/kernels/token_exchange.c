/* token_exchange.c - see token_exchange.h.
 *
 * A token goes once to each rank that has one of its experts, with balanced routing to R (1 - (1 - 1/R)^k) of R ranks,
 * and once over the network to each other machine. Low-latency kernels (`each`) send it to every expert, one SM per
 * expert. In other kernels, warps of all SMs inspect every token, whatever its destination. This and the bytes copied
 * add as the root of the sum of squares; between machines a copy passes two SMs, for NVLink and for the network. The
 * NVLink port and the network port bound the rate. Added is `fixed` for layout and handshakes, more across machines.
 *
 * platforms/kernels/exchange.csv has the timings. Not modelled: uneven routing, ranks that start late.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/token_exchange.h"

#include <math.h>

#define USUAL_MULTIPROCESSORS 24

/* How many of `places` a token with k experts visits. */
static double visited(double places, double k)
{
	return places * (1 - pow(1 - 1 / places, k));
}

double mq_token_exchange_time(const struct mq_device_calib *d, const char *library, const struct mq_token_exchange *x)
{
	const struct mq_library_row *row =
		mq_library_row(d->libraries, MQ_ROWS_EXCHANGE, library, x->combine, d->compute_capability);
	double held = x->multiprocessors > 0 ? x->multiprocessors : USUAL_MULTIPROCESSORS, copies, away, time, net = 0;

	if (!row || row->generation > mq_generation_of(d->libraries, d->compute_capability) || !(d->nvlink_Bps > 0) ||
	    (x->nodes > 1 && !(d->nic_Bps > 0)))
		return NAN;
	const struct mq_exchange_kernels *k = &row->exchange;
	copies = x->tokens * (k->each > 0 ? x->top_k : visited(x->ranks, x->top_k));
	away = x->tokens * (x->nodes - 1) *
	       (k->each > 0 ? x->top_k / x->nodes : visited(x->nodes, x->top_k) / x->nodes);
	double handled = k->each > 0 ? copies / x->experts : x->tokens / held;
	double sent = k->each > 0 ? 0 : copies * x->token_B * (x->nodes > 1 ? 2 : 1) / (k->multiprocessor_Bps * held);
	time = fmax(hypot(handled * k->token_s, sent), copies * x->token_B / (d->nvlink_Bps * k->link_share));
	if (x->nodes > 1)
		net = away * x->token_B /
		      fmin(d->nic_Bps * k->net_share,
			   k->each > 0 ? (double)INFINITY : k->net_multiprocessor_Bps * held);
	return k->fixed_s * (1 + k->fixed_nodes * log2(x->nodes)) + fmax(time, net);
}

/* token_exchange.h - dispatch and combine of MoE tokens by libraries with their own kernels, as DeepEP.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_KERNELS_TOKEN_EXCHANGE_H
#define MQ_KERNELS_TOKEN_EXCHANGE_H

#include "maquette/calib.h"
#include "hardware/libraries.h"

struct mq_token_exchange {
	double nodes, ranks;    /* machines (an NVLink domain is one); ranks, spread evenly over them */
	double tokens;          /* per rank */
	double token_B;         /* bytes of a token on the wire, scales included */
	double top_k, experts;  /* experts per token; experts of all ranks together */
	double multiprocessors; /* SMs that the kernels occupy; 0 = as timed */
	bool combine;
};

/* Seconds of one direction with balanced routing. NaN: the table lacks the library on this and older GPUs. */
double mq_token_exchange_time(const struct mq_device_calib *device, const char *library,
			      const struct mq_token_exchange *exchange);

#endif

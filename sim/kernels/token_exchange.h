/* token_exchange.h - tokens on their way to experts and back, by libraries with kernels of their own.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_KERNELS_TOKEN_EXCHANGE_H
#define MQ_KERNELS_TOKEN_EXCHANGE_H

#include "maquette/calib.h"
#include "hardware/libraries.h"

struct mq_token_exchange {
	double nodes, ranks;    /* machines (an NVLink domain is one); ranks of all, evenly on them */
	double tokens;          /* of each rank */
	double token_B;         /* one as it travels, with its scales */
	double top_k, experts;  /* that a token visits; that all ranks have */
	double multiprocessors; /* that the kernels hold; 0 = as timed */
	bool combine;
};

/* Seconds of one direction with balanced routing. NaN: nobody has timed the library on this generation or an older one. */
double mq_token_exchange_time(const struct mq_device_calib *device, const char *library,
			      const struct mq_token_exchange *exchange);

#endif

/* expert_layer.h - one MoE layer on one GPU, as inference libraries run it, and the exchange of its tokens.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_KERNELS_EXPERT_LAYER_H
#define MQ_KERNELS_EXPERT_LAYER_H

#include "maquette/calib.h"
#include "hardware/libraries.h"

struct mq_expert_layer {
	double tokens, top_k;   /* tokens of all ranks that share the experts; experts per token */
	double copies, experts; /* routed token copies and experts on this GPU */
	double hidden, width;   /* elements of a token; intermediate size of an expert on this GPU */
	double skew;            /* exponent of the power law of the experts' loads; 0 = equal loads */
	bool gated;             /* three matrices per expert instead of two */
	enum mq_experts_type type;
};

/* Seconds of routing, permutation, both grouped GEMMs, activation and weighted sum, and the casts that the type needs.
 * NaN: no timing of this implementation in this type is known. O(experts). */
double mq_expert_layer_time(const struct mq_device_calib *device, const char *implementation,
			    const struct mq_expert_layer *layer);

/* Dispatch and combine of MoE tokens by libraries with their own kernels, as DeepEP. */
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

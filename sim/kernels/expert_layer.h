/* expert_layer.h - a layer of experts on one GPU, as implementations of inference run it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_KERNELS_EXPERT_LAYER_H
#define MQ_KERNELS_EXPERT_LAYER_H

#include "maquette/calib.h"
#include "hardware/libraries.h"

struct mq_expert_layer {
	double tokens, top_k;   /* of all ranks that share the experts; experts that each visits */
	double copies, experts; /* of tokens, and experts, that this GPU has */
	double hidden, width;   /* of a token; of an expert here */
	double skew;            /* exponent of the power law that the experts' loads follow; 0 = all alike */
	bool gated;             /* three matrices, not two */
	enum mq_experts_type type;
};

/* Seconds of routing, permutation, both grouped GEMMs, activation and weighted sum, with the casts of the type. NaN:
 * nobody has timed this implementation in this type. O(experts). */
double mq_expert_layer_time(const struct mq_device_calib *device, const char *implementation,
			    const struct mq_expert_layer *layer);

#endif

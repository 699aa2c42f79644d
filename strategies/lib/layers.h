/* layers.h - times of the model's layers on a device, and a cut of the layers by these.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_LAYERS_H
#define MQ_STRATEGIES_LIB_LAYERS_H

#include "maquette/engine.h"

/* Seconds of both passes for one sample. */
struct mq_layers {
	uint32_t n;
	double *layer_s;       /* [n] */
	double head_s, tail_s; /* before the first and after the last layer */
};
void mq_layers_measure(const struct mq_problem *problem, uint32_t device, struct mq_layers *layers);

/* Layers of each of `chunks` parts, added to count[] (zeroes), so that each one's work follows its speed: the cut
 * nearest to the running target, one layer at least, but none for a last one that has the head to itself. The work
 * outside the layers counts for the first and the last one. */
void mq_layers_cut(const struct mq_layers *layers, const double *speed, uint32_t chunks, uint32_t *count);

#endif

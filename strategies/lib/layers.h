/* layers.h - the layers' times on a device, and their division into chunks by time.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_LAYERS_H
#define MQ_STRATEGIES_LIB_LAYERS_H

#include "maquette/engine.h"

/* Seconds of both passes (inference: forward) for one sample. */
struct mq_layers {
	uint32_t n;
	double *layer_s;       /* [n] */
	double head_s, tail_s; /* ops before the first and after the last layer */
};
void mq_layers_measure(const struct mq_problem *problem, uint32_t device, struct mq_layers *layers);

/* Divides the layers into `chunks` so that each one's work follows its speed, head and tail counted in the first and
 * last; adds to count[], zero before. Each cut is the nearest to the running target; each chunk gets a layer, except a
 * last one that has the tail. */
void mq_layers_cut(const struct mq_layers *layers, const double *speed, uint32_t chunks, uint32_t *count);

#endif

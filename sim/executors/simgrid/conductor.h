/* conductor.h - the actor from which schedules are simulated and routes are asked.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_EXECUTORS_SIMGRID_CONDUCTOR_H
#define MQ_EXECUTORS_SIMGRID_CONDUCTOR_H

#include "maquette/cluster.h"

/* Run `body` inside an actor of the loaded platform until it returns; once per process, because SimGrid does not start
 * twice. The actor has a stack of ordinary size, unlike the many that a simulation makes. */
void mq_conduct(const struct mq_cluster *cluster, void (*body)(void *data), void *data);

/* Give SimGrid's links the bandwidth that software can use, after mq_calib_bind. Inside the body or before. */
void mq_conduct_bind(const struct mq_cluster *cluster);

#endif

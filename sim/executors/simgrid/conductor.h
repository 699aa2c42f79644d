/* conductor.h - the SimGrid actor that simulates schedules and asks for routes. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_EXECUTORS_SIMGRID_CONDUCTOR_H
#define MQ_EXECUTORS_SIMGRID_CONDUCTOR_H

#include "maquette/cluster.h"

/* Runs `body` inside an actor of the loaded platform until it returns; once per process, because SimGrid does not start
 * twice. The actor's stack has the usual size, those of a simulation's actors are smaller. */
void mq_conduct(const struct mq_cluster *cluster, void (*body)(void *data), void *data);

/* Sets SimGrid's links to their usable bandwidth; call after mq_calib_bind, inside `body` or before mq_conduct. */
void mq_conduct_bind(const struct mq_cluster *cluster);

#endif

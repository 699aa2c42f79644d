/* against.h - a node's health: its probes beside those of a calibration that is known to be good.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_CMD_CALIBRATE_AGAINST_H
#define MQ_CMD_CALIBRATE_AGAINST_H

#include "maquette/arena.h"
#include "maquette/err.h"

/* Prints a line per probe: calls of one kind, on one device where they have one. The change is the median over its
 * calls of time now over time then; slower by more than SuperBench's 5 % fails, as much faster or badly measured warns.
 * `samples`, `baseline`: folders of probes; one that only one of them has is named. MQ_ETHRESHOLD: one fails; MQ_EINPUT:
 * those of the same name have other calls, or there are none. */
enum mq_status mq_probes_against(const char *samples, const char *baseline, struct mq_arena *arena, struct mq_err *err);

#endif

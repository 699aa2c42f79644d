/* against.h - checks a node's health: compares its probes with those of a good calibration.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_CMD_CALIBRATE_AGAINST_H
#define MQ_CMD_CALIBRATE_AGAINST_H

#include "maquette/arena.h"
#include "maquette/err.h"

/* Prints a line per probe: calls of one kind, on one device if they have one. The change is the median over its calls
 * of the time now over the time then; more than SuperBench's 5 % slower fails; that much faster, or badly measured,
 * warns. samples, baseline: folders of probes; probes in only one of them are listed. MQ_ETHRESHOLD: a probe fails;
 * MQ_EINPUT: probes of one name have different calls, or there are no probes. */
enum mq_status mq_probes_against(const char *samples, const char *baseline, struct mq_arena *arena, struct mq_err *err);

#endif

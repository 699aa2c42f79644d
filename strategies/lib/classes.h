/* classes.h - devices that no plan can tell apart by what they are: same calibration, same memory, same links. What
 * engines ask speeds of, in place of type names: one device of a type may run at half its clock (`--change
 * rank.5.clock=0.5`), hold less, or hang on a slower link. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_CLASSES_H
#define MQ_STRATEGIES_LIB_CLASSES_H

#include <string.h>

#include "maquette/engine.h"

struct mq_classes {
	uint32_t n;
	uint32_t *of;    /* [cluster devices] class of each, numbered in order of first sight */
	uint32_t *first; /* [n] lowest rank of each */
};

/* Of one type, speed and memory, whatever they hang on? */
static inline bool mq_devices_alike(const struct mq_device *a, const struct mq_device *b)
{
	return a->calib == b->calib && a->memory_B == b->memory_B && !strcmp(a->type, b->type);
}

/* Of one kind, speed and latency? */
bool mq_links_alike(const struct mq_link *a, const struct mq_link *b);

/* Links: the widest way to another device of the machine (the next 16 are looked at), and the way to the next
 * machine. O(devices), routes are cached by the cluster. */
void mq_classes_make(const struct mq_cluster *cluster, struct mq_arena *arena, struct mq_classes *classes);
/* May two devices change places: of one class, price and power? */
bool mq_classes_exchange(const struct mq_cluster *cluster, const struct mq_classes *classes, uint32_t a, uint32_t b);

#endif
